"""Show progress: a live display in a terminal, one line per change elsewhere."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from rackrate_text.units import duration
from rackrate_text.words import listed, span

from ..reading.campaigns import Campaign
from ..reading.records import Pace
from ..reading.runs import Run

#: How much longer than expected a part may take at least before it is called late.
OVERDUE_SECONDS = 30.0
#: How much longer than expected the start, or the last part, may take before it is called late.
_LATE_SECONDS = 5.0
#: A log reports that something is late, and again each time when that has doubled since.
_FIRST_REMINDER_SECONDS = 60.0
#: How long a line below the first may be in a terminal of 80 columns, beside a bar and a duration.
_SECOND_LINE = 56
#: How many nodes a line of progress names.
_NODES_SHOWN = 2


class Left(NamedTuple):
    """How many seconds it still takes: at least, if the next look is the last, and at most."""

    least: float
    most: float


class Late(NamedTuple):
    """How many seconds longer than estimated it takes already. Nobody knows what is left."""

    seconds: float


class TimeLeft:
    """Estimate the remaining time from the stack's estimate and the parts so far.

    All times are seconds since the start.
    """

    def __init__(self) -> None:
        self._part = 0
        self._part_began = 0.0
        self._first_part_began: float | None = None

    def estimate(self, pace: Pace, elapsed: float) -> Left | Late | None:
        """How long it still takes, at least and at most, or how late it is.

        None while the stack has not yet estimated the duration.
        """
        if pace.expected_seconds is None:
            return None
        each, pause = pace.part_seconds or 0.0, pace.pause_seconds
        measuring = pace.planned * each + max(0, pace.planned - 1) * pause
        if pace.now < 1 or pace.planned < 1 or pace.part_seconds is None:
            skipped = (pace.planned - pace.least) * (each + pause)
            left = pace.expected_seconds - elapsed
            if left < -_LATE_SECONDS:
                return Late(-left)
            return Left(max(0.0, left - skipped), max(0.0, left))
        if self._first_part_began is None:
            # If the watching began in the middle, assume that earlier parts were on time.
            so_far = (pace.now - 1) * (each + pause)
            self._first_part_began = max(0.0, elapsed - so_far)
        if pace.now != self._part:
            self._part, self._part_began = pace.now, elapsed
        # The estimate also covers what happens before the first part and after the last one.
        around = max(0.0, pace.expected_seconds - measuring)
        after = max(0.0, around - self._first_part_began)
        since = elapsed - self._part_began
        through = max(pace.now, pace.through)
        together = (through - pace.now + 1) * each
        if since > together + pause + max(each, OVERDUE_SECONDS):
            return Late(since - together - pause)
        if through >= pace.most and since > together + after + _LATE_SECONDS:
            return Late(since - together - after)

        def until(last: int) -> float:
            ahead = max(0, last - through)
            # A part includes the pause after it, in which the run shows the block that is over.
            this = max(0.0, together + (pause if ahead else 0.0) - since)
            return this + ahead * each + max(0, ahead - 1) * pause + after

        return Left(until(pace.least), until(pace.most))


def pace_of(run: Run) -> Pace:
    """How far a run is in its blocks."""
    return Pace(
        run.block,
        run.least_blocks,
        run.most_blocks,
        run.blocks,
        run.expected_seconds,
        run.expected_block_seconds,
        run.pause_seconds,
        run.last_block,
    )


class Display(Protocol):
    """Shows progress. `left` is None when unknown."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...

    def show(self, what: str, elapsed: float, left: Left | Late | None) -> None:
        """Show the current state. `what` may have several lines."""

    def report(self, event: str, elapsed: float) -> None:
        """Print a line that stays, such as a loss."""


class LiveDisplay:
    """A line or two that change in place, for a terminal."""

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

    def __exit__(self, *raised: object) -> None:
        self._progress.stop()

    @property
    def renderable(self) -> RenderableType:
        """What is shown now."""
        return self._progress.get_renderable()

    def show(self, what: str, elapsed: float, left: Left | Late | None) -> None:
        """Redraw the lines."""
        remaining = "" if left is None else time_left(left)
        if remaining and ("\n" in what or isinstance(left, Late)):
            # The time left has no room beside several lines, nor a delay beside the bar.
            fits = "\n" in what and len(what.rpartition("\n")[2]) + len(remaining) < _SECOND_LINE
            what, remaining = f"{what}{', ' if fits else '\n'}{remaining}", ""
        self._progress.update(
            self._task,
            description=what,
            total=elapsed + left.most if isinstance(left, Left) else None,
            completed=elapsed,
            elapsed=duration(elapsed),
            left=remaining,
        )

    def report(self, event: str, elapsed: float) -> None:
        """Print the line above those that change."""
        self._progress.console.print(Text(event, style="red"))


class LineDisplay:
    """One line per change, for a log or a pipe."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last: tuple[str, int] = ("", 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def show(self, what: str, elapsed: float, left: Left | Late | None) -> None:
        """Print the state if it has changed, and while it is late now and then."""
        what = what.replace("\n", ", ")
        state = what, _reminder(left)
        if state == self._last:
            return
        self._last = state
        self.report(what if left is None else f"{what}, {time_left(left)}", elapsed)

    def report(self, event: str, elapsed: float) -> None:
        """Print the line."""
        self._console.print(
            f"[{duration(elapsed):>11}] {event}", markup=False, highlight=False, soft_wrap=True
        )


def _reminder(left: Left | Late | None) -> int:
    """Which reminder of a delay is due: 1 at its begin, and one more each time it has doubled."""
    if not isinstance(left, Late):
        return 0
    doublings = math.floor(math.log2(max(left.seconds, 1.0) / _FIRST_REMINDER_SECONDS))
    return 1 + max(0, 1 + doublings)


def display_for(console: Console) -> Display:
    """The display that suits the console."""
    return LiveDisplay(console) if console.is_terminal else LineDisplay(console)


def describe(run: Run) -> str:
    """The phase, with the block if the phase does not name it; below it the nodes it misses."""
    phase = run.phase or run.status
    if run.block < 1 or run.blocks < 1 or run.has_measured:
        return phase
    if "block" not in phase:
        phase = f"{phase}, {part_of('block', pace_of(run))}"
    return f"{phase}{missing_of(run, phase)}"


def missing_of(run: Run, phase: str) -> str:
    """A line on the nodes whose server is missing; empty if none is or the phase names them."""
    nodes = [node for node in run.missing_nodes if node not in phase]
    return f"\nno server on {listed(nodes, most=_NODES_SHOWN)}" if nodes else ""


def part_of(noun: str, pace: Pace) -> str:
    """Such as `block 3 of at most 12`."""
    at_most = "at most " if pace.least < pace.most else ""
    return f"{noun} {min(pace.now, pace.planned)} of {at_most}{pace.most}"


def describe_campaign(campaign: Campaign, run: str = "") -> str:
    """What a campaign does now, in one or two lines: the step or phase, then the dollars.

    `run` says what the run of the step that is going on does.
    """
    # The stack writes the step into the phase.
    first = campaign.phase or campaign.status
    if run:
        noun = "draw" if campaign.kind in ("draws", "hunt") else "step"
        first = f"{part_of(noun, campaign.pace)}, {run}"
    return f"{first}\n{campaign.spent}" if campaign.spent else first


def time_left(left: Left | Late) -> str:
    """The time left in a rounded form, because it is an estimate, or how late it is."""
    if isinstance(left, Late):
        return f"{duration(left.seconds)} longer than estimated"
    least, most = (duration(5 * round(seconds / 5)) for seconds in left)
    if left.most < 5:
        return "seconds left"
    if left.least < 5 and least != most:
        return f"up to {most} left"
    return f"about {span(least, most)} left"
