"""Raw values as the share of them that a value is not above: an ECDF for each arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.report.charts import canvas
from rackrate.report.charts.axis import ValueAxis, value_axis
from rackrate.report.charts.canvas import LINE, PAPER
from rackrate_text.units import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 250
#: A curve has no more steps than this; of more values every so many-th is a step, but in the tail.
_MOST_STEPS = 240
_TAIL = 40
#: Values are written beside the marks of so many curves, each this share of the axis wide.
_MOST_LABELLED = 3
_ROOM = 0.16
#: Values that a p99 needs so that one lies beyond it, and so that ten do.
LEAST_FOR_P99, GOOD_FOR_P99 = 100, 1000


@dataclass(frozen=True)
class Curve:
    """The raw values of an arm.

    Attributes:
        arm: its number.
        values: in the chart's unit, ascending.
    """

    arm: int
    values: tuple[float, ...]

    def at(self, share: float) -> float:
        """The value that this share of the values is below, as the summaries have it."""
        place = share * (len(self.values) - 1)
        below = math.floor(place)
        above = min(below + 1, len(self.values) - 1)
        low, high = self.values[below], self.values[above]
        return low + (high - low) * (place - below)

    @property
    def marked(self) -> tuple[tuple[str, float], ...]:
        """The percentiles that there are enough values for, with their shares."""
        enough = len(self.values) >= LEAST_FOR_P99
        return (("p50", 0.5), ("p99", 0.99)) if enough else (("p50", 0.5),)

    def steps(self) -> list[tuple[float, float]]:
        """Values and shares of a curve that has no more steps than can be told apart."""
        count = len(self.values)
        if count <= _MOST_STEPS + _TAIL:
            chosen: Sequence[int] = range(count)
        else:
            body = {round(i * (count - 1) / _MOST_STEPS) for i in range(_MOST_STEPS + 1)}
            chosen = sorted(body | set(range(count - _TAIL, count)))
        return [(self.values[i], (i + 1) / count) for i in chosen]


def curves_axis(curves: Sequence[Curve], unit: str) -> ValueAxis:
    """The values that a chart shows: all of them."""
    ends = [end for curve in curves for end in (curve.values[0], curve.values[-1])]
    return value_axis(ends, unit, logarithmic_from=8, from_zero_below=0.02)


def ecdf_chart(
    curves: Sequence[Curve], unit: str, label: str, *, name: str, title: str, description: str
) -> str:
    """For each arm how large a share of its raw values is at most so large.

    p50 and p99 are marked; p99 hollow when fewer than ten values lie beyond it, and not at all when
    none need to.

    Args:
        curves: those of arms that have values.
        unit: their SI unit.
        label: what the values are.
    """

    def draw(figure: Figure) -> canvas.Tips:
        ax = canvas.axes(figure, left=48, right=14, top=30, bottom=38)
        axis = curves_axis(curves, unit)
        axis.set_on(ax, "x", most_ticks=6)
        ax.set_ylim(0, 1)
        ax.set_yticks([0, 0.25, 0.5, 0.75, 0.99], ["0", "25 %", "p50", "75 %", "p99"])
        ax.grid(axis="y", color=LINE, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.set_xlabel(f"{label}, {axis.unit}", labelpad=3)
        canvas.heading(figure, "share of the raw values up to …")
        tips: dict[str, list[str]] = {}
        for curve in curves:
            tips |= _curve(ax, curve, axis, unit)
        for share in (0.5, 0.99):
            _labels(ax, [c for c in curves if share in dict(c.marked).values()], share, unit)
        return tips

    return canvas.rendered(
        draw, name=name, size=(canvas.WIDTH, _HEIGHT), title=title, description=description
    )


def _curve(ax: Axes, curve: Curve, axis: ValueAxis, unit: str) -> dict[str, list[str]]:
    ink = canvas.colour(curve.arm)
    steps = curve.steps()
    ax.plot(
        [axis.low, steps[0][0], *(value for value, _ in steps), axis.high],
        [0, 0, *(share for _, share in steps), 1],
        drawstyle="steps-post",
        color=ink,
        linestyle=canvas.dashes(curve.arm),
        clip_on=False,
    )
    tips = {}
    for percentile, share in curve.marked:
        good = share == 0.5 or len(curve.values) >= GOOD_FOR_P99
        gid = f"{percentile}-{curve.arm}"
        ax.scatter(
            [curve.at(share)],
            [share],
            s=46,
            marker=canvas.marker(curve.arm),
            facecolors=ink if good else PAPER,
            edgecolors=ink if not good else PAPER,
            linewidths=1.5,
            clip_on=False,
            zorder=5,
            gid=gid,
        )
        tips[gid] = [f"{percentile}: {quantity(curve.at(share), unit)}"]
    return tips


def _labels(ax: Axes, curves: Sequence[Curve], share: float, unit: str) -> None:
    """Writes values beside their marks where there is room; the figure's table has them all."""
    if len(curves) > _MOST_LABELLED:
        return
    ordered = sorted(curves, key=lambda curve: curve.at(share))
    places = [_fraction(ax, curve.at(share)) for curve in ordered]
    for rank, (curve, place) in enumerate(zip(ordered, places, strict=True)):
        if share > 0.5:
            # Below the mark and right of it nothing is drawn: the curve came from the left.
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
    """How far along the axis a value lies, from 0 to 1."""
    place = ax.transData.transform((value, 0))
    return float(ax.transAxes.inverted().transform(place)[0])
