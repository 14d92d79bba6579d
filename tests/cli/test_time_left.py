"""The time left: the stack's estimate, corrected by the finished blocks."""

from __future__ import annotations

from decimal import Decimal

from rackrate_cli.progress import TimeLeft
from rackrate_cli.runs import Run


def run(block: int = 0, expected: str | None = "100") -> Run:
    return Run.from_item(
        {
            "pk": "run#r",
            "status": "running",
            "phase": "measuring",
            "block": Decimal(block),
            "blocks": Decimal(6),
            "expected_seconds": None if expected is None else Decimal(expected),
            "expected_block_seconds": Decimal(12),
        }
    )


def test_nothing_is_claimed_before_the_stack_has_an_estimate() -> None:
    assert TimeLeft().estimate(run(expected=None), 3) is None


def test_before_the_first_block_it_is_the_estimate_less_what_has_passed() -> None:
    assert TimeLeft().estimate(run(), 10) == 90


def test_a_slow_start_does_not_shorten_the_blocks() -> None:
    # Six blocks of 12 s remain, however long the start took, and no time after the blocks.
    assert TimeLeft().estimate(run(block=1), 50) == 72


def test_it_falls_within_a_block_and_from_block_to_block() -> None:
    left = TimeLeft()
    assert left.estimate(run(block=1), 20) == 72 + 8
    assert left.estimate(run(block=1), 25) == 67 + 8
    assert left.estimate(run(block=2), 40) == 60 + 8


def test_an_overdue_block_is_not_negative() -> None:
    left = TimeLeft()
    left.estimate(run(block=6), 90)
    assert left.estimate(run(block=6), 150) == 0


def test_an_overdue_start_is_not_negative() -> None:
    assert TimeLeft().estimate(run(), 500) == 0
