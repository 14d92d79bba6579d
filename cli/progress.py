"""Show a run's progress: a live line in a terminal, one line per change elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
)

from rackrate_text.units import duration
from rackrate_text.words import span

from .runs import Run


class Left(NamedTuple):
    """How many seconds a run still takes: at least, if its next look is its last, and at most."""

    least: float
    most: float


class TimeLeft:
    """Estimate a run's remaining time from the stack's estimate and the blocks so far.

    All times are seconds since the start of the run.
    """

    def __init__(self) -> None:
        self._block = 0
        self._block_began = 0.0
        self._first_block_began: float | None = None

    def estimate(self, run: Run, elapsed: float) -> Left | None:
        """How long the run still takes, at least and at most.

        None while the stack has not yet estimated its duration.
        """
        if run.expected_seconds is None:
            return None
        each = run.expected_block_seconds or 0.0
        measuring = run.blocks * each + max(0, run.blocks - 1) * run.pause_seconds
        if run.block < 1 or run.blocks < 1 or run.expected_block_seconds is None:
            skipped = (run.blocks - run.least_blocks) * (each + run.pause_seconds)
            left = run.expected_seconds - elapsed
            return Left(max(0.0, left - skipped), max(0.0, left))
        if self._first_block_began is None:
            # If the watching began in the middle of a run, assume earlier blocks were on time.
            so_far = (run.block - 1) * (each + run.pause_seconds)
            self._first_block_began = max(0.0, elapsed - so_far)
        if run.block != self._block:
            self._block, self._block_began = run.block, elapsed
        # The estimate also covers what happens before the first block and after the last one.
        around = max(0.0, run.expected_seconds - measuring)
        after = max(0.0, around - self._first_block_began)
        since = elapsed - self._block_began

        def until(last: int) -> float:
            ahead = max(0, last - run.block)
            # A block includes the pause after it, in which the run shows the block that is over.
            this = max(0.0, each + (run.pause_seconds if ahead else 0.0) - since)
            return this + ahead * each + max(0, ahead - 1) * run.pause_seconds + after

        return Left(until(run.least_blocks), until(run.most_blocks))


class Display(Protocol):
    """Shows progress. `left` is None when unknown."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, what: str, elapsed: float, left: Left | None) -> None:
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

    def show(self, what: str, elapsed: float, left: Left | None) -> None:
        """Redraw the line."""
        self._progress.update(
            self._task,
            description=what,
            total=None if left is None else elapsed + left.most,
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

    def show(self, what: str, elapsed: float, left: Left | None) -> None:
        """Print the state if it has changed."""
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


def describe(run: Run) -> str:
    """The phase, with the block if the phase does not name it."""
    phase = run.phase or run.status
    if run.block > 0 and run.blocks > 0 and "block" not in phase:
        at_most = "at most " if run.least_blocks < run.most_blocks else ""
        return f"{phase}, block {min(run.block, run.blocks)} of {at_most}{run.most_blocks}"
    return phase


def time_left(left: Left) -> str:
    """The time left in a rounded form, because it is an estimate."""
    least, most = (duration(5 * round(seconds / 5)) for seconds in left)
    if left.most < 5:
        return "seconds left"
    if left.least < 5 and least != most:
        return f"up to {most} left"
    return f"about {span(least, most)} left"
