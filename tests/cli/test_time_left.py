"""The time left: the stack's estimate, corrected by the finished blocks."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from rackrate_cli.following.watch import FollowedRun
from rackrate_cli.printing.progress import (
    Late,
    Left,
    LineDisplay,
    LiveDisplay,
    Pace,
    TimeLeft,
    describe,
    pace_of,
    time_left,
)
from rackrate_cli.reading.runs import Run
from rich.console import Console

STOPPED = {"after_blocks": 6, "text": "Stopped."}


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


@pytest.mark.parametrize("phase", ["warm-up", "checking links"])
def test_what_comes_before_the_blocks_is_shown_as_a_phase(phase: str) -> None:
    assert describe(run(phase=phase)) == phase


def test_nothing_is_claimed_before_the_stack_has_an_estimate() -> None:
    assert TimeLeft().estimate(pace(expected=None), 3) is None


@pytest.mark.parametrize(
    ("block", "elapsed", "left"),
    [
        (None, 10, just(90)),
        (None, 500, Late(400)),
        # Six blocks of 12 s remain, however long the start took, and no time after the blocks.
        (1, 50, just(72)),
    ],
)
def test_before_the_first_block_it_is_the_estimate_less_what_has_passed(
    block: int | None, elapsed: float, left: object
) -> None:
    assert TimeLeft().estimate(pace() if block is None else pace(block=block), elapsed) == left


def test_it_falls_within_a_block_and_from_block_to_block() -> None:
    left = TimeLeft()
    assert left.estimate(pace(block=1), 20) == just(72 + 8)
    assert left.estimate(pace(block=1), 25) == just(67 + 8)
    assert left.estimate(pace(block=2), 40) == just(60 + 8)


def test_blocks_that_go_on_together_are_one_part() -> None:
    left = TimeLeft()
    assert left.estimate(pace(block=1, last_block=Decimal(4)), 20) == just(72 + 8)
    assert left.estimate(pace(block=1, last_block=Decimal(4)), 60) == just(72 + 8 - 40)
    assert left.estimate(pace(block=5, last_block=Decimal(6)), 70) == just(24 + 8)
    assert left.estimate(pace(block=5, last_block=Decimal(6)), 110) == Late(8)


def test_the_last_block_is_late_as_soon_as_nothing_would_be_left() -> None:
    left = TimeLeft()
    assert left.estimate(pace(block=6), 90) == just(12)
    assert left.estimate(pace(block=6), 104) == just(0)
    assert left.estimate(pace(block=6), 130) == Late(28)


def test_no_time_left_is_claimed_while_a_block_takes_much_longer_than_it_should() -> None:
    left = TimeLeft()
    left.estimate(pace(block=3), 50)
    assert left.estimate(pace(block=3), 95) == Late(33), "it waits for a node"
    assert left.estimate(pace(block=4), 110) == just(36 + 2)


def test_a_start_is_not_late_by_a_difference_that_rounds_to_nothing() -> None:
    for elapsed in (100.1, 104):
        left = TimeLeft().estimate(pace(), elapsed)
        assert left is not None and time_left(left) == "seconds left"


@pytest.mark.parametrize(
    "fields", [{"phase": "reporting"}, {"phase": "stopped after 6 blocks", "stopped": STOPPED}]
)
def test_no_time_is_estimated_for_what_is_left_after_the_blocks(fields: dict[str, Any]) -> None:
    # The stack's estimate does not say how much of it is for the time after the blocks.
    over = run(block=6, **fields)
    followed = FollowedRun.__new__(FollowedRun)
    followed._left = TimeLeft()
    assert followed.describe(over, 60) == (fields["phase"], None)
    assert followed.describe(run(block=6), 60)[1] is not None


def test_a_log_reports_a_delay_at_its_begin_and_each_time_it_has_doubled() -> None:
    console = Console(file=StringIO(), width=80)
    display = LineDisplay(console)
    display.show("block 6 of 6", 90, just(60))
    for late in range(6, 300):
        display.show("block 6 of 6", 150 + late, Late(late))
    lines = console.file.getvalue().splitlines()
    assert [line.partition("] ")[2] for line in lines] == [
        "block 6 of 6, about 1 min 00 s left",
        "block 6 of 6, 6 s longer than estimated",
        "block 6 of 6, 1 min 00 s longer than estimated",
        "block 6 of 6, 2 min 00 s longer than estimated",
        "block 6 of 6, 4 min 00 s longer than estimated",
    ]


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("left", [just(130), Late(130)])
def test_a_terminal_shows_a_missing_node_and_the_delay_whole(width: int, left: Any) -> None:
    console = Console(force_terminal=True, width=width, file=StringIO())
    missing = {"ip-10-0-0-4.eu-central-1.compute": "2026-11-21T07:05:12Z"}
    with LiveDisplay(console) as display:
        display.show(describe(run(block=3, missing_since=missing)), 200, left)
        lines = console.render_lines(display.renderable)
    text = " ".join("".join(part.text for part in line) for line in lines)
    assert "no server on ip-10-0-0-4.eu-central-1.compute" in text
    assert time_left(left) in text and "…" not in text


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


def test_the_time_left_is_printed_with_both_ends_where_they_differ() -> None:
    assert time_left(Left(121, 244)) == "about 2 min 00 s to 4 min 05 s left"
    assert time_left(just(121)) == "about 2 min 00 s left"
    assert time_left(Left(3, 61)) == "up to 1 min 00 s left"
    assert time_left(Left(0, 4)) == "seconds left"


def test_a_block_is_one_of_at_most_so_many_until_the_run_has_decided() -> None:
    assert describe(run(block=3, next_look=4)) == "measuring, block 3 of at most 6"
    assert describe(run(block=5, next_look=6)) == "measuring, block 5 of 6"


def test_the_node_that_a_run_waits_for_is_named_once() -> None:
    missing = {"node-b": "2026-11-21T07:05:12Z"}
    assert describe(run(block=3, missing_since=missing)).endswith("no server on node-b")
    shown = describe(run(block=3, missing_since=missing, phase="waiting for node-b"))
    assert shown == "waiting for node-b, block 3 of 6"
