"""Show a run's progress: a live line in a terminal, one line per change elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
)

from rackrate_text.units import duration

from .runs import Run


class TimeLeft:
    """Estimate a run's remaining time from the stack's estimate and the blocks so far.

    All times are seconds since the start of the run.
    """

    def __init__(self) -> None:
        self._block = 0
        self._block_began = 0.0
        self._first_block_began: float | None = None

    def estimate(self, run: Run, elapsed: float) -> float | None:
        """Seconds left, or None while the stack has not yet estimated the run's duration."""
        if run.expected_seconds is None:
            return None
        if run.block < 1 or run.blocks < 1 or run.expected_block_seconds is None:
            return max(0.0, run.expected_seconds - elapsed)
        if self._first_block_began is None:
            # If the watching began in the middle of a run, assume earlier blocks were on time.
            so_far = (run.block - 1) * run.expected_block_seconds
            self._first_block_began = max(0.0, elapsed - so_far)
        if run.block != self._block:
            self._block, self._block_began = run.block, elapsed
        each = run.expected_block_seconds
        # The estimate also covers what happens before the first block and after the last one.
        around = max(0.0, run.expected_seconds - run.blocks * each)
        after = max(0.0, around - self._first_block_began)
        in_this_block = max(0.0, each - (elapsed - self._block_began))
        return (max(0, run.blocks - run.block)) * each + in_this_block + after


class Display(Protocol):
    """Shows progress. `left` is in seconds, None when unknown."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, phase: str, block: int, blocks: int, elapsed: float, left: float | None) -> None:
        """Show the current state of the run."""


class LiveDisplay:
    """One line that changes in place, for a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[elapsed]}", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            expand=console.width < 100,
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None, elapsed="", left="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, phase: str, block: int, blocks: int, elapsed: float, left: float | None) -> None:
        """Redraw the line."""
        self._progress.update(
            self._task,
            description=describe(phase, block, blocks),
            total=None if left is None else elapsed + left,
            completed=elapsed,
            elapsed=duration(elapsed),
            left="" if left is None else time_left(left),
        )


class LineDisplay:
    """One line per change, for a log or a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def show(self, phase: str, block: int, blocks: int, elapsed: float, left: float | None) -> None:
        """Print the state if the phase or the block has changed."""
        what = describe(phase, block, blocks)
        if what == self._last:
            return
        self._last = what
        tail = "" if left is None else f", {time_left(left)}"
        self._console.print(
            f"[{duration(elapsed):>11}] {what}{tail}", markup=False, highlight=False, soft_wrap=True
        )


def display_for(console: Console) -> Display:
    """The display that suits the console."""
    return LiveDisplay(console) if console.is_terminal else LineDisplay(console)


def describe(phase: str, block: int, blocks: int) -> str:
    """The phase, with the block if the phase does not name it."""
    if block > 0 and blocks > 0 and "block" not in phase:
        return f"{phase}, block {min(block, blocks)} of {blocks}"
    return phase


def time_left(seconds: float) -> str:
    """The time left in a rounded form, because it is an estimate."""
    if seconds < 5:
        return "seconds left"
    return f"about {duration(5 * round(seconds / 5))} left"
