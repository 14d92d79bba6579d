"""The chart of a sweep: each arm's values at each step, with what is known of their ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.report.charts import canvas
from rackrate.report.charts.axis import ValueAxis, value_axis
from rackrate.report.charts.canvas import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 240
_TOP, _BOTTOM, _LEFT, _RIGHT = 30, 48, 48, 14
#: The most characters of a step's name in one line.
_LONGEST = 12
#: A documented limit is shown if it is at most so many times the largest value.
_NEAR = 1.6


@dataclass(frozen=True)
class Tier:
    """An arm's value at one step of a sweep.

    Attributes:
        arm: the number of its arm.
        place: the step, from 0.
        value: its value in the chart's unit.
        ends: the interval of its ratio to the first step, times the first value; or None.
        tip: its description.
    """

    arm: int
    place: int
    value: float
    ends: tuple[float, float] | None
    tip: str


@dataclass(frozen=True)
class Tiers:
    """The data of a chart of a sweep.

    Attributes:
        names: the steps' names, in order.
        swept: what is swept, such as `nodes`.
        label: the name of the values.
        unit: their SI unit.
        tiers: the values, at least one.
        nominal: the documented limit, or None.
    """

    names: tuple[str, ...]
    swept: str
    label: str
    unit: str
    tiers: tuple[Tier, ...]
    nominal: float | None = None

    @property
    def limit(self) -> float | None:
        """The documented limit if it is close to the values; another would compress them."""
        most = max(tier.value for tier in self.tiers)
        return self.nominal if self.nominal and self.nominal <= _NEAR * most else None

    @property
    def axis(self) -> ValueAxis:
        """The axis, which includes all values, their intervals, and a limit that is close."""
        values = [tier.value for tier in self.tiers]
        ends = [end for tier in self.tiers for end in tier.ends or ()]
        anchors = [*ends, *([self.limit] if self.limit else [])]
        return value_axis(values, self.unit, anchors=anchors)


def tiers_chart(shown: Tiers) -> Chart:
    """Draw each arm's values from step to step, side by side, with the intervals of the ratios."""

    def draw(figure: Figure) -> canvas.Tips:
        ax = canvas.axes(figure, left=_LEFT, right=_RIGHT, top=_TOP, bottom=_BOTTOM)
        axis = shown.axis
        axis.set_on(ax)
        ax.grid(axis="y")
        canvas.heading(figure, f"{shown.label}, {axis.unit}")
        ax.set_xlim(-0.5, len(shown.names) - 0.5)
        ax.set_xticks(range(len(shown.names)), [_wrapped(name) for name in shown.names])
        ax.set_xlabel(shown.swept, labelpad=3)
        if shown.limit is not None:
            ax.axhline(shown.limit, color=canvas.QUIET, linestyle=(0, (5, 4)), lw=1.1)
        arms = sorted({tier.arm for tier in shown.tiers})
        tips: dict[str, list[str]] = {}
        for rank, arm in enumerate(arms):
            points = sorted(
                (tier for tier in shown.tiers if tier.arm == arm), key=lambda tier: tier.place
            )
            shift = 0.3 / len(arms) * (rank - (len(arms) - 1) / 2)
            tips[f"tiers-{arm}"] = _arm(ax, arm, points, shift)
        return tips

    return Chart(draw, canvas.WIDTH, _HEIGHT)


def _wrapped(name: str) -> str:
    """A step's name; a long one in two lines."""
    return name.replace("-", "-\n", 1) if len(name) > _LONGEST else name


def _arm(ax: Axes, arm: int, tiers: Sequence[Tier], shift: float) -> list[str]:
    ink = canvas.colour(arm)
    places = [tier.place + shift for tier in tiers]
    ax.plot(
        places,
        [tier.value for tier in tiers],
        color=ink,
        linestyle=canvas.dashes(arm),
        lw=1.2,
        zorder=2,
    )
    for place, tier in zip(places, tiers, strict=True):
        if tier.ends is not None:
            ax.plot([place, place], tier.ends, color=ink, lw=2, zorder=3)
    ax.scatter(
        places,
        [tier.value for tier in tiers],
        s=46,
        marker=canvas.marker(arm),
        facecolors=ink,
        edgecolors=canvas.PAPER,
        linewidths=1,
        zorder=4,
        gid=f"tiers-{arm}",
    )
    return [tier.tip for tier in tiers]
