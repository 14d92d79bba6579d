"""The time left: the stack's estimate, corrected by the finished blocks."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from rackrate_cli.progress import Left, Pace, TimeLeft, describe, pace_of, time_left
from rackrate_cli.runs import Run


def run(block: int = 0, expected: str | None = "100", **more: Any) -> Run:
    return Run.from_item(
        {
            "pk": "run#r",
            "status": "running",
            "phase": "measuring",
            "block": Decimal(block),
            "blocks": Decimal(6),
            "expected_seconds": None if expected is None else Decimal(expected),
            "expected_block_seconds": Decimal(12),
            **more,
        }
    )


def pace(*arguments: Any, **more: Any) -> Pace:
    return pace_of(run(*arguments, **more))


def just(seconds: float) -> Left:
    """The time left of a run that has a fixed number of blocks."""
    return Left(seconds, seconds)


def test_nothing_is_claimed_before_the_stack_has_an_estimate() -> None:
    assert TimeLeft().estimate(pace(expected=None), 3) is None


def test_before_the_first_block_it_is_the_estimate_less_what_has_passed() -> None:
    assert TimeLeft().estimate(pace(), 10) == just(90)


def test_a_slow_start_does_not_shorten_the_blocks() -> None:
    # Six blocks of 12 s remain, however long the start took, and no time after the blocks.
    assert TimeLeft().estimate(pace(block=1), 50) == just(72)


def test_it_falls_within_a_block_and_from_block_to_block() -> None:
    left = TimeLeft()
    assert left.estimate(pace(block=1), 20) == just(72 + 8)
    assert left.estimate(pace(block=1), 25) == just(67 + 8)
    assert left.estimate(pace(block=2), 40) == just(60 + 8)


def test_an_overdue_block_is_not_negative() -> None:
    left = TimeLeft()
    left.estimate(pace(block=6), 90)
    assert left.estimate(pace(block=6), 130) == just(0)


def test_nothing_is_claimed_while_a_block_takes_much_longer_than_it_should() -> None:
    left = TimeLeft()
    left.estimate(pace(block=3), 50)
    assert left.estimate(pace(block=3), 95) is None, "it waits for a node"
    assert left.estimate(pace(block=4), 110) == just(36 + 2)


def test_nothing_is_claimed_when_the_start_took_the_time_of_the_whole_run() -> None:
    assert TimeLeft().estimate(pace(), 500) is None


# Six blocks of 12 s each and 28 s around them; it looks after four blocks.


def test_a_run_that_may_stop_has_two_ends_before_its_first_block() -> None:
    assert TimeLeft().estimate(pace(next_look=4), 10) == Left(90 - 2 * 12, 90)


def test_a_run_that_may_stop_has_two_ends_until_it_has_decided() -> None:
    left = TimeLeft()
    assert left.estimate(pace(block=1, next_look=4), 20) == Left(48 + 8, 72 + 8)
    assert left.estimate(pace(block=5, next_look=6), 80) == just(24 + 8)


def test_a_run_that_has_stopped_has_only_the_end_left() -> None:
    left = TimeLeft()
    left.estimate(pace(block=4, next_look=4), 56)
    stopped = {"after_blocks": 4, "text": "Stopped."}
    assert left.estimate(pace(block=4, next_look=4, stopped=stopped), 70) == just(8)


def test_pauses_lie_between_the_blocks_that_are_left() -> None:
    left = TimeLeft()
    around = {"expected": "400", "pause_seconds": 60}  # 72 s of blocks, 300 s of pauses, 28 s
    assert left.estimate(pace(block=1, **around), 20) == just(72 + 300 + 8)
    # The pause after a block shows the block that is over.
    assert left.estimate(pace(block=1, **around), 20 + 12 + 30) == just(60 + 270 + 8)
    assert left.estimate(pace(block=6, **around), 380) == just(12 + 8)


def test_the_time_left_is_told_with_both_ends_where_they_differ() -> None:
    assert time_left(Left(121, 244)) == "about 2 min 00 s to 4 min 05 s left"
    assert time_left(just(121)) == "about 2 min 00 s left"
    assert time_left(Left(3, 61)) == "up to 1 min 00 s left"
    assert time_left(Left(0, 4)) == "seconds left"


def test_a_block_is_one_of_at_most_so_many_until_the_run_has_decided() -> None:
    assert describe(run(block=3, next_look=4)) == "measuring, block 3 of at most 6"
    assert describe(run(block=5, next_look=6)) == "measuring, block 5 of 6"
    assert describe(run(block=4, stopped={"after_blocks": 4})) == "measuring, block 4 of 4"
