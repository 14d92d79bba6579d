"""Small charts for table rows: ratios with their intervals, and medians with their limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.report.charts import canvas
from rackrate.report.charts.canvas import BAND, INK, LINE, QUIET, Chart
from rackrate_text.units import MINUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = (220, 30)
#: The width of the line of an interval.
_THIN = 1.6
_SCALE = (220, 24)
_ALONE = (canvas.WIDTH, 74)
#: The room beside an axis.
_SIDE = 14
#: The width of a character of a label, in units, at most; and of the gap between two labels.
_CHARACTER, _GAP = 7.5, 5
#: The largest reach of an axis of ratios. An interval beyond it ends in an arrow.
_FURTHEST = math.log(50)
_NEAREST = math.log(1.2)
#: Round changes to label, as ratios: those below 1, and those above.
_STEPS = (
    ((0.9,), (1.1,)),
    ((0.8,), (1.2,)),
    ((0.75,), (1.25,)),
    ((0.7,), (1.5,)),
    ((0.5,), (2,)),
    ((0.5, 0.25), (2, 4)),
    ((0.5, 0.2), (2, 5)),
    ((0.3, 0.1), (3, 10)),
    ((0.2, 0.04), (5, 25)),
)


@dataclass(frozen=True)
class Ratio:
    """A ratio of two arms with its interval.

    Attributes:
        value: the ratio; 1 means no difference.
        interval: its interval.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
    """

    value: float
    interval: tuple[float, float]
    threshold: float

    @property
    def drawable(self) -> bool:
        """Whether every value is positive, so that it has a logarithm."""
        return all(math.isfinite(value) and value > 0 for value in self._values())

    @property
    def reach(self) -> float:
        """The largest distance of the logarithms of its values from 0, the logarithm of 1."""
        return max(abs(math.log(value)) for value in self._values())

    @property
    def shows_one(self) -> bool:
        """Whether the ratio's own chart has room for 1 and the band of the threshold."""
        low, high = self.ends
        return min(abs(low), abs(high)) < 6 * (high - low) or low < 0 < high

    @property
    def ends(self) -> tuple[float, float]:
        """The logarithms of the ends of the interval."""
        low, high = self.interval
        return math.log(min(low, self.value)), math.log(max(high, self.value))

    def _values(self) -> tuple[float, ...]:
        return (self.value, *self.interval, 1 + self.threshold)


def common_reach(ratios: Iterable[Ratio]) -> float:
    """The reach of a shared axis to both sides of 1, as a logarithm."""
    return min(_FURTHEST, 1.12 * max([_NEAREST, *(ratio.reach for ratio in ratios)]))


def interval_row(ratio: Ratio, reach: float) -> Chart:
    """Draw a ratio on the axis that a table's rows share; `ratio_scale` draws the scale."""

    def draw(figure: Figure) -> None:
        ax = _log_axes(figure, (-reach, reach))
        ax.set_axis_off()
        _one(ax, ratio)

    return Chart(draw, *_ROW)


def ratio_scale(reach: float) -> Chart:
    """Draw the scale of the rows' shared axis, for the column's header."""

    def draw(figure: Figure) -> None:
        ax = _log_axes(figure, (-reach, reach))
        ax.set_axis_off()
        ticks = _ticks(reach)
        for _, at in ticks:
            ax.plot([at, at], [-0.25, 0.05], color=QUIET, lw=1)
        for value, at in _apart(ticks, (_SCALE[0] - 2 * _SIDE) / (2 * reach)):
            ax.text(at, 0.2, value, ha="center", va="bottom", color=QUIET)

    return Chart(draw, *_SCALE)


def interval_alone(ratio: Ratio) -> Chart:
    """Draw a ratio on its own axis, with its interval as large as possible."""
    low, high = ratio.ends
    half = math.log(1 + ratio.threshold)
    if ratio.shows_one:
        low, high = min(low, -half), max(high, half)
    low, high = max(low, -_FURTHEST), min(high, _FURTHEST)
    margin = max(0.12 * (high - low), 0.002)

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        ax = _log_axes(figure, (low - margin, high + margin), bottom=28, top=4)
        ax.set_axis_off()
        _one(ax, ratio)
        values = math.exp(low - margin), math.exp(high + margin)
        far = values[1] / values[0] > 8
        for value in (
            [math.exp(at) for _, at in _ticks(max(-low, high))]
            if far
            else MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(*values)
        ):
            if values[0] <= value <= values[1]:
                at = math.log(value)
                ax.plot([at, at], [-0.04, 0.04], color=QUIET, lw=1)
                ax.text(at, -0.1, tick_label(value), ha="center", va="top", color=QUIET)

    return Chart(draw, *_ALONE)


def _log_axes(
    figure: Figure, stretch: tuple[float, float], *, bottom: float = 0, top: float = 0
) -> Axes:
    ax = canvas.axes(figure, left=_SIDE, right=_SIDE, top=top, bottom=bottom)
    ax.set(xlim=stretch, ylim=(0, 1))
    return ax


def _one(ax: Axes, ratio: Ratio) -> None:
    from matplotlib.patches import Rectangle

    first, last = ax.get_xlim()
    half = math.log(1 + ratio.threshold)
    band = max(first, -half), min(last, half)
    if band[0] < band[1]:
        width = band[1] - band[0]
        ax.add_patch(Rectangle((band[0], 0), width, 1, facecolor=BAND, lw=0))
    if first < 0 < last:
        ax.plot([0, 0], [0, 1], color=QUIET, lw=1)
    _span(ax, ratio.interval)
    middle = math.log(ratio.value)
    if first <= middle <= last:
        ax.plot([middle], [0.5], "o", color=INK, markersize=6, zorder=4)


def _span(ax: Axes, interval: Sequence[float]) -> None:
    """Draw an interval as a line; an end beyond the axis is an arrow."""
    first, last = ax.get_xlim()
    low, high = (math.log(end) for end in interval)
    ends = [max(low, first), min(high, last)]
    if ends[0] <= ends[1]:
        ax.plot(ends, [0.5, 0.5], color=INK, lw=_THIN, zorder=3)
    for end, inside in ((low, low >= first), (high, high <= last)):
        if inside:
            ax.plot([end, end], [0.28, 0.72], color=INK, lw=_THIN, zorder=3)
    if low < first:
        ax.plot([first], [0.5], "<", color=INK, markersize=7)
    if high > last:
        ax.plot([last], [0.5], ">", color=INK, markersize=7)


def _apart(ticks: Iterable[tuple[str, float]], units_per_log: float) -> list[tuple[str, float]]:
    """The ticks whose labels have room beside each other: that of 0 % first, then the outermost."""
    labels: list[tuple[str, float]] = []
    for label, at in sorted(ticks, key=lambda tick: (tick[1] != 0, -abs(tick[1]))):
        if all(
            abs(at - other) * units_per_log >= _CHARACTER * (len(label) + len(beside)) / 2 + _GAP
            for beside, other in labels
        ):
            labels.append((label, at))
    return labels


def _ticks(reach: float) -> list[tuple[str, float]]:
    """Round changes on both sides of 0 %, with their positions."""
    below, above = next(
        (steps for steps in _STEPS if math.log(steps[1][-1]) > 0.5 * reach), _STEPS[-1]
    )
    places = [math.log(ratio) for ratio in (*below, 1, *above)]
    return [(tick_label(math.exp(at)), at) for at in places if abs(at) <= reach]


def tick_label(ratio: float) -> str:
    """A ratio on an axis, as a signed change with as many digits as it has."""
    size = float(f"{100 * abs(ratio - 1):.4g}")
    sign = "" if size == 0 else "+" if ratio > 1 else MINUS
    return f"{sign}{size:.6g} %"


@dataclass(frozen=True)
class Level:
    """An arm's median and limit.

    Attributes:
        arm: its number.
        median: the median of its trials.
        limit: its documented limit in the same unit, or None.
    """

    arm: int
    median: float
    limit: float | None


def levels_row(levels: Sequence[Level]) -> Chart:
    """Draw a bar for each arm's median, and a line at its documented limit."""
    most = max(max(level.median, level.limit or 0) for level in levels) or 1.0

    def draw(figure: Figure) -> None:
        ax = canvas.axes(figure, left=2, right=6, top=3, bottom=3)
        ax.set_axis_off()
        ax.set(xlim=(0, most), ylim=(len(levels) - 0.5, -0.5))
        for place, level in enumerate(levels):
            ink = canvas.colour(level.arm)
            track = level.limit or most
            ax.barh(place, track, height=0.62, color=LINE, alpha=0.7, lw=0)
            ax.barh(place, level.median, height=0.62, color=ink, lw=0)
            if level.limit is not None:
                ends = [place - 0.5, place + 0.5]
                ax.plot([level.limit] * 2, ends, color=INK, lw=2)

    return Chart(draw, 150, 30)
