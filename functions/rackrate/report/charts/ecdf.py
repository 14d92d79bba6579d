"""The chart of raw values: an empirical distribution function (ECDF) for each arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.histograms import Histogram
from rackrate.report.charts import canvas
from rackrate.report.charts.axis import ValueAxis, value_axis
from rackrate.report.charts.canvas import PAPER, Chart
from rackrate_text.units import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 250
#: About the most steps of a curve. With more values, evenly spaced ones are used, and all values of
#: the tail.
_MOST_STEPS = 240
_TAIL = 40
#: The most curves whose marks have labels, and a label's width as a share of the axis.
_MOST_LABELLED = 3
_ROOM = 0.16


@dataclass(frozen=True)
class Curve:
    """The raw values of an arm.

    Attributes:
        arm: its number.
        values: its raw values in the chart's unit, ascending, or their histogram.
        p99: the 95 % interval of its p99, or None.
    """

    arm: int
    values: tuple[float, ...] | Histogram
    p99: tuple[float, float] | None = None

    def at(self, share: float) -> float:
        """The quantile for a share, computed as in the summaries."""
        place = share * (len(self.values) - 1)
        below = math.floor(place)
        above = min(below + 1, len(self.values) - 1)
        low, high = self.values[below], self.values[above]
        return low + (high - low) * (place - below)

    @property
    def marked(self) -> tuple[tuple[str, float], ...]:
        """The percentiles that may be compared, with their shares."""
        return (("p50", 0.5), ("p99", 0.99)) if self.p99 else (("p50", 0.5),)

    def steps(self) -> list[tuple[float, int]]:
        """Values of the curve and their ranks from 1, reduced to steps that can be told apart."""
        count = len(self.values)
        if count <= _MOST_STEPS + _TAIL:
            chosen: Sequence[int] = range(count)
        else:
            body = {round(i * (count - 1) / _MOST_STEPS) for i in range(_MOST_STEPS + 1)}
            chosen = sorted(body | set(range(count - _TAIL, count)))
        return [(self.values[i], i + 1) for i in chosen]


def curves_axis(curves: Sequence[Curve], unit: str) -> ValueAxis:
    """The axis of a chart, which includes all values."""
    ends = [end for curve in curves for end in (curve.values[0], curve.values[-1])]
    return value_axis(ends, unit, logarithmic_from=8, from_zero_below=0.02)


def ecdf_chart(curves: Sequence[Curve], unit: str, label: str) -> Chart:
    """Draw for each arm the share of its raw values up to each value.

    p50 has a mark. p99 has one with its interval; without an interval it is not comparable, and
    missing.

    Args:
        curves: the curves of the arms with values.
        unit: the values' SI unit.
        label: the name of the values.
    """

    def draw(figure: Figure) -> canvas.Tips:
        ax = canvas.axes(figure, left=48, right=14, top=30, bottom=38)
        axis = curves_axis(curves, unit)
        axis.set_on(ax, "x", most_ticks=6)
        ax.set_ylim(0, 1)
        ax.set_yticks([0, 0.25, 0.5, 0.75, 0.99], ["0", "25 %", "p50", "75 %", "p99"])
        ax.grid(axis="y")
        ax.set_xlabel(f"{label}, {axis.unit}", labelpad=3)
        canvas.heading(figure, "share of the raw values up to …")
        tips: dict[str, list[str]] = {}
        for curve in curves:
            tips |= _curve(ax, curve, axis, unit)
        for share in (0.5, 0.99):
            _labels(ax, [c for c in curves if share in dict(c.marked).values()], share, unit)
        return tips

    return Chart(draw, canvas.WIDTH, _HEIGHT)


def _curve(ax: Axes, curve: Curve, axis: ValueAxis, unit: str) -> dict[str, list[str]]:
    ink = canvas.colour(curve.arm)
    steps = curve.steps()
    ax.plot(
        [axis.low, steps[0][0], *(value for value, _ in steps), axis.high],
        [0, 0, *(rank / len(curve.values) for _, rank in steps), 1],
        drawstyle="steps-post",
        color=ink,
        linestyle=canvas.dashes(curve.arm),
    )
    tips = {}
    for percentile, share in curve.marked:
        if share > 0.5 and curve.p99:
            ax.plot(curve.p99, [share, share], color=ink, linewidth=2, zorder=4)
        gid = f"{percentile}-{curve.arm}"
        ax.scatter(
            [curve.at(share)],
            [share],
            s=46,
            marker=canvas.marker(curve.arm),
            facecolors=ink,
            edgecolors=PAPER,
            linewidths=1.5,
            zorder=5,
            gid=gid,
        )
        tips[gid] = [f"{percentile}: {quantity(curve.at(share), unit)}"]
    return tips


def _labels(ax: Axes, curves: Sequence[Curve], share: float, unit: str) -> None:
    """Write values beside their marks where there is room. The figure's table has all values."""
    if len(curves) > _MOST_LABELLED:
        return
    ordered = sorted(curves, key=lambda curve: curve.at(share))
    places = [_fraction(ax, curve.at(share)) for curve in ordered]
    for rank, (curve, place) in enumerate(zip(ordered, places, strict=True)):
        if share > 0.5:
            # The space below and to the right of a mark is free, because the curve rises from the
            # left.
            side, drop = ("left", 8) if place < 1 - _ROOM else ("right", -2), -13 - 13 * rank
            where = side[0], (side[1], drop)
        else:
            first, last = rank == 0, rank == len(ordered) - 1
            if first and place > _ROOM and len(ordered) > 1:
                where = "right", (-8, 5)
            elif last and place < 1 - _ROOM:
                where = "left", (8, -5)
            else:
                continue
        ax.annotate(
            quantity(curve.at(share), unit),
            (curve.at(share), share),
            where[1],
            textcoords="offset points",
            ha=where[0],
            va="center",
            color=canvas.colour(curve.arm),
            annotation_clip=False,
        )


def _fraction(ax: Axes, value: float) -> float:
    """The position of a value along the axis, from 0 to 1."""
    place = ax.transData.transform((value, 0))
    return float(ax.transAxes.inverted().transform(place)[0])
