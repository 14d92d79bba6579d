"""The chart of draws: each draw's ratio in order, their average, and what the next one will get."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.report.charts import canvas
from rackrate.report.charts.axis import whole_ticks
from rackrate.report.charts.canvas import BAND, INK, PAPER, QUIET, Chart
from rackrate.report.charts.intervals import tick_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 230
_TOP, _BOTTOM, _LEFT, _SIDE = 30, 36, 48, 104
#: How far the axis extends beyond the draws for an interval, as a multiple of the draws' own reach.
#: With few draws the intervals are so wide that the draws could not be told apart.
_FURTHER = 3.0
#: The least reach of the axis around its middle, as a logarithm.
_NEAREST = math.log(1.02)
_AVERAGE, _NEXT = 0.0, 1.0
#: The ratio with its interval: lower and upper end.
_Ends = tuple[float, float]


@dataclass(frozen=True)
class Draw:
    """A draw in a chart.

    Attributes:
        ratio: its ratio, more than 0.
        ends: the interval that its run found, or None.
        tip: its description.
    """

    ratio: float
    ends: _Ends | None
    tip: str


@dataclass(frozen=True)
class Draws:
    """The data of a chart of draws.

    Attributes:
        arm: the number of the compared arm, which determines the color.
        draws: the draws in their order, at least one.
        average: the average ratio, or None.
        interval: the interval of the average, or None.
        prediction: the interval of the next draw, or None.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        changed: whether the newest draw differs from those before it.
    """

    arm: int
    draws: tuple[Draw, ...]
    average: float | None
    interval: _Ends | None
    prediction: _Ends | None
    threshold: float
    changed: bool = False

    @property
    def axis(self) -> _Ends:
        """The ends of the axis, as ratios; it has room for the intervals unless they are huge."""
        own = [math.log(value) for value in self._values_of_draws() if value > 0]
        low, high = min(own), max(own)
        reach = max(high - low, 2 * _NEAREST)
        others = [math.log(v) for v in self._values_of_intervals() if v > 0]
        low = max(min([low, *others]), low - _FURTHER * reach)
        high = min(max([high, *others]), high + _FURTHER * reach)
        half = math.log(1 + self.threshold)
        if min(abs(low), abs(high)) < 2 * max(high - low, half) or low < 0 < high:
            low, high = min(low, -half), max(high, half)
        margin = max(0.06 * (high - low), _NEAREST / 4)
        return math.exp(low - margin), math.exp(high + margin)

    @property
    def shows_one(self) -> bool:
        """Whether the axis has room for 1, which is no difference, and the threshold around it."""
        low, high = self.axis
        return low < 1 < high

    @property
    def cut(self) -> bool:
        """Whether an interval extends beyond the axis."""
        low, high = self.axis
        return any(not low <= value <= high for value in self._values_of_intervals())

    def _values_of_draws(self) -> Iterator[float]:
        for draw in self.draws:
            yield from (draw.ratio, *(draw.ends or ()))

    def _values_of_intervals(self) -> Iterator[float]:
        yield from (*(self.interval or ()), *(self.prediction or ()))


def draws_chart(shown: Draws) -> Chart:
    """Draw each draw's ratio with its run's own interval, in order, on a logarithmic axis.

    A band is the interval of the average, and dashed lines enclose what the next draw will get.
    Both are drawn again at the right, with their ends. Another band is the threshold.
    """

    def draw(figure: Figure) -> canvas.Tips:
        main, side = canvas.with_side(figure, _SIDE, left=_LEFT, top=_TOP, bottom=_BOTTOM)
        _scale(main, shown)
        for ax in (main, side):
            _threshold(ax, shown)
        canvas.heading(figure, "change against the baseline")
        _bands(main, shown)
        _summaries(side, shown)
        return _dots(main, shown)

    return Chart(draw, canvas.WIDTH, _HEIGHT)


def _scale(ax: Axes, shown: Draws) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    low, high = shown.axis
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    if high / low > 8:
        steps = (1, 2, 5) if high / low < 100 else (1,)
        ticks = [step * 10.0**power for power in range(-9, 10) for step in steps]
    else:
        ticks = list(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    ax.yaxis.set_major_locator(FixedLocator([t for t in ticks if low <= t <= high]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value)))
    count = len(shown.draws)
    ax.set_xlim(0.5, count + 0.5)
    ax.set_xticks(whole_ticks(1, count))
    ax.set_xlabel("draw, in order of time", labelpad=3)


def _inside(shown: Draws, ends: _Ends) -> _Ends | None:
    """The part of an interval within the axis; None if there is none."""
    low, high = shown.axis
    inside = max(low, ends[0]), min(high, ends[1])
    return inside if inside[0] < inside[1] else None


def _threshold(ax: Axes, shown: Draws) -> None:
    band = _inside(shown, (1 / (1 + shown.threshold), 1 + shown.threshold))
    if band is not None:
        ax.axhspan(*band, color=BAND, linewidth=0, zorder=0.5)
    if shown.shows_one:
        ax.axhline(1, color=QUIET, lw=1, zorder=1)


def _bands(ax: Axes, shown: Draws) -> None:
    ink = canvas.colour(shown.arm)
    if shown.interval is not None and (band := _inside(shown, shown.interval)):
        ax.axhspan(*band, color=ink, alpha=0.22, linewidth=0, zorder=1.5)
    if shown.average is not None:
        ax.axhline(shown.average, color=ink, lw=1.6, zorder=2)
    low, high = shown.axis
    for end in shown.prediction or ():
        if low <= end <= high:
            ax.axhline(end, color=ink, lw=1.1, linestyle=(0, (4, 2.5)), zorder=2)


def _dots(ax: Axes, shown: Draws) -> canvas.Tips:
    """Draw the draws; a newest one that differs from those before it is hollow and larger."""
    size = max(3.0, min(7.0, 130 / len(shown.draws)))
    for place, draw in enumerate(shown.draws, 1):
        if draw.ends is not None and (ends := _inside(shown, draw.ends)):
            ax.plot([place, place], ends, color=INK, lw=max(1, 0.3 * size), zorder=3)
    last = len(shown.draws)
    groups = {
        "draws": [(n, draw) for n, draw in enumerate(shown.draws, 1) if n < last],
        "newest": [(last, shown.draws[-1])],
    }
    tips = {}
    for gid, members in groups.items():
        if not members:
            continue
        hollow = gid == "newest" and shown.changed
        ax.scatter(
            [place for place, _ in members],
            [draw.ratio for _, draw in members],
            s=(1.5 * size if hollow else size) ** 2,
            marker=canvas.marker(shown.arm),
            facecolors=PAPER if hollow else canvas.colour(shown.arm),
            edgecolors=canvas.colour(shown.arm) if hollow else PAPER,
            linewidths=1.8 if hollow else 0.8,
            zorder=4,
            gid=gid,
        )
        tips[gid] = [draw.tip for _, draw in members]
    return tips


def _summaries(ax: Axes, shown: Draws) -> None:
    """Draw the average and the next draw as intervals, side by side."""
    ax.set_xlim(-0.6, 1.6)
    ax.tick_params(labelleft=False, left=False)
    ax.set_xticks([_AVERAGE, _NEXT], ["average", "next"])
    ink = canvas.colour(shown.arm)
    for at, ends, width in ((_AVERAGE, shown.interval, 4.5), (_NEXT, shown.prediction, 1.6)):
        if ends is not None:
            _span(ax, at, ends, width, shown)
    if shown.average is not None:
        marker = canvas.marker(shown.arm)
        ax.plot(
            [_AVERAGE],
            [shown.average],
            marker,
            color=ink,
            markeredgecolor=PAPER,
            markersize=8,
            zorder=4,
        )


def _span(ax: Axes, at: float, ends: _Ends, width: float, shown: Draws) -> None:
    """Draw an interval as a vertical line with bars at its ends; an arrow where it goes on."""
    low, high = shown.axis
    inside = _inside(shown, ends)
    if inside is None:
        return
    ink = canvas.colour(shown.arm)
    ax.plot([at, at], inside, color=ink, lw=width, zorder=3)
    for end, limit, arrow in ((ends[0], low, "v"), (ends[1], high, "^")):
        if low <= end <= high:
            ax.plot([at - 0.16, at + 0.16], [end, end], color=ink, lw=1.6, zorder=3)
        else:
            ax.plot([at], [limit], arrow, color=ink, markersize=7, zorder=3)
