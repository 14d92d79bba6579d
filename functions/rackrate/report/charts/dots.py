"""The chart of trials: a dot for each trial over its block, and each arm's distribution."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.report.charts import canvas
from rackrate.report.charts.axis import ValueAxis, value_axis, whole_ticks
from rackrate.report.charts.canvas import BAND, INK, PAPER, Chart
from rackrate_text.grouping import grouped_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 250
_SIDE = 74
_TOP, _BOTTOM, _LEFT = 30, 34, 48
#: An arm with at least this many trials gets a histogram with its box.
_SHAPED = 40
_BINS = 24


@dataclass(frozen=True)
class Dot:
    """A trial in a chart.

    Attributes:
        arm: the number of its arm.
        block: its block, from 1.
        value: its value in the chart's unit.
        tip: its description.
        marked: whether the trial has a mark.
    """

    arm: int
    block: int
    value: float
    tip: str
    marked: bool = False


@dataclass(frozen=True)
class Loss:
    """A failed trial, which has a block but no value."""

    arm: int
    block: int
    tip: str


@dataclass(frozen=True)
class Trials:
    """The data of a chart of trials.

    Attributes:
        arms: the number of arms.
        unit: the values' SI unit.
        label: the name of the values.
        dots: the measured trials.
        losses: the failed trials.
        ceilings: the documented limits, each with its arm's number.
        reference: the baseline's median and the threshold, where known.
    """

    arms: int
    unit: str
    label: str
    dots: tuple[Dot, ...]
    losses: tuple[Loss, ...] = ()
    ceilings: tuple[tuple[int, float], ...] = ()
    reference: tuple[float, float] | None = None

    @property
    def axis(self) -> ValueAxis:
        """The axis, which includes all trials, and limits that are close to them."""
        values = [dot.value for dot in self.dots]
        return value_axis(values, self.unit, anchors=[*self.band, *self.limits().values()])

    def limits(self) -> dict[int, float]:
        """The ceilings close to the trials; showing others would compress the trials."""
        most = max((dot.value for dot in self.dots), default=0.0)
        return {arm: limit for arm, limit in self.ceilings if limit <= 1.6 * most}

    @property
    def band(self) -> tuple[float, ...]:
        """The values around the reference that do not matter; empty without one."""
        if self.reference is None:
            return ()
        median, threshold = self.reference
        return (median / (1 + threshold), median * (1 + threshold))


def trials_chart(trials: Trials, *, vectors: int = canvas.MOST_VECTORS) -> Chart:
    """Draw every trial over its block. Each arm has its own column, marker and color.

    A marked trial is a larger hollow marker. A failed trial is a cross above the values. Dashed
    lines are documented limits. The band shows differences that do not matter. More dots than
    `vectors` are drawn as an image, without tips.
    """

    def draw(figure: Figure) -> canvas.Tips:
        main, side = canvas.with_side(figure, _SIDE, left=_LEFT, top=_TOP, bottom=_BOTTOM)
        axis = trials.axis
        axis.set_on(main)
        # Above the ticks the label takes no width and does not have to be rotated.
        canvas.heading(figure, f"{trials.label}, {axis.unit}")
        for ax in (main, side):
            if trials.band:
                ax.axhspan(*trials.band, color=BAND, linewidth=0)
            _ceilings(ax, trials)
        tips = _dots(main, trials, as_image=len(trials.dots) > vectors)
        tips |= _losses(main, trials)
        _blocks(main, trials)
        _distributions(side, trials)
        return tips

    return Chart(draw, canvas.WIDTH, _HEIGHT)


def _ceilings(ax: Axes, trials: Trials) -> None:
    for arm, limit in trials.limits().items():
        ax.axhline(limit, color=canvas.colour(arm), linestyle=(arm * 3, (5, 4)), lw=1.1)


def _columns(trials: Trials) -> tuple[float, float]:
    """The width of an arm's column within a block, and the size of its dots."""
    width = 0.84 / trials.arms
    blocks = max((dot.block for dot in trials.dots), default=1)
    room = (canvas.WIDTH - _LEFT - _SIDE - 14) / blocks * width
    return width, max(2.4, min(6.0, 0.8 * room))


def _dots(ax: Axes, trials: Trials, *, as_image: bool) -> dict[str, list[str]]:
    """Draw the trials; trials of the same arm and block lie side by side, in their order."""
    width, size = _columns(trials)
    tips: dict[str, list[str]] = {}
    placed: dict[tuple[int, bool], list[tuple[float, Dot]]] = {}
    ordered = sorted(trials.dots, key=lambda dot: (dot.arm, dot.block))
    for (arm, block), dots in grouped_by(ordered, lambda dot: (dot.arm, dot.block)).items():
        middle = block + width * (arm - (trials.arms - 1) / 2)
        for index, dot in enumerate(dots):
            shift = 0.8 * width * ((index + 0.5) / len(dots) - 0.5)
            placed.setdefault((arm, dot.marked), []).append((middle + shift, dot))
    for (arm, marked), dots_of_arm in placed.items():
        ink = canvas.fixed_colour(arm) if as_image else canvas.colour(arm)
        # Many dots in one column are smaller and transparent, so that hidden dots show through.
        most = max(len(dots_of_arm) / max(1, len({dot.block for _, dot in dots_of_arm})), 1)
        each = size * min(1.0, (6 / most) ** 0.25) * (1.35 if marked else 1)
        gid = f"dots-{arm}-{int(marked)}"
        drawn = ax.scatter(
            [x for x, _ in dots_of_arm],
            [dot.value for _, dot in dots_of_arm],
            s=each**2,
            marker=canvas.marker(arm),
            facecolors="none" if marked and as_image else PAPER if marked else ink,
            edgecolors=ink,
            linewidths=min(1.5, 0.28 * each) if marked else 0,
            alpha=None if marked or most < 4 else max(0.2, min(0.5, 30 / most)),
            rasterized=as_image,
            zorder=4 if marked else 3,
        )
        if not as_image:
            drawn.set_gid(gid)
            tips[gid] = [dot.tip for _, dot in dots_of_arm]
    return tips


def _losses(ax: Axes, trials: Trials) -> dict[str, list[str]]:
    """Draw failed trials above the values, because they have none."""
    width, _ = _columns(trials)
    tips: dict[str, list[str]] = {}
    for arm, losses in sorted(grouped_by(trials.losses, lambda loss: loss.arm).items()):
        # One cross for each block, because the crosses of a block would cover each other.
        by_block = grouped_by(losses, lambda loss: loss.block)
        drawn = ax.scatter(
            [block + width * (arm - (trials.arms - 1) / 2) for block in by_block],
            [1.035] * len(by_block),
            s=38,
            marker="x",
            color=canvas.colour(arm),
            linewidths=1.8,
            transform=ax.get_xaxis_transform(),
            zorder=5,
        )
        gid = f"losses-{arm}"
        drawn.set_gid(gid)
        tips[gid] = [
            group[0].tip if len(group) == 1 else f"{len(group)} failed; {group[0].tip}"
            for group in by_block.values()
        ]
    return tips


def _blocks(ax: Axes, trials: Trials) -> None:
    places = [dot.block for dot in trials.dots] + [loss.block for loss in trials.losses]
    first, last = min(places, default=1), max(places, default=1)
    ax.set_xlim(first - 0.5, last + 0.5)
    ax.set_xticks(whole_ticks(first, last))
    ax.set_xlabel("block", labelpad=3)


def _distributions(ax: Axes, trials: Trials) -> None:
    """Draw for each arm a box of the quartiles, the median, the range, and maybe a histogram."""
    ax.set_xlim(-0.6, trials.arms - 0.4)
    ax.tick_params(labelleft=False, left=False)
    ax.set_xticks([])
    ax.set_xlabel("all blocks", labelpad=8)
    for arm, dots in sorted(grouped_by(trials.dots, lambda dot: dot.arm).items()):
        _box(ax, arm, sorted(dot.value for dot in dots), trials.axis)


def _box(ax: Axes, arm: int, values: Sequence[float], axis: ValueAxis) -> None:
    from matplotlib.patches import Rectangle

    ink = canvas.colour(arm)
    half = 0.36
    if len(values) >= _SHAPED:
        half = 0.12
        _shape(ax, arm, values, axis)
    ax.plot([arm, arm], [values[0], values[-1]], color=ink, lw=1.2, zorder=3)
    if len(values) > 1:
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    else:
        low = middle = high = values[0]
    ax.add_patch(
        Rectangle(
            (arm - half, low),
            2 * half,
            high - low,
            facecolor=PAPER,
            edgecolor=ink,
            linewidth=1.4,
            zorder=4,
        )
    )
    ax.plot([arm - half, arm + half], [middle, middle], color=INK, lw=2.2, zorder=5)


def _shape(ax: Axes, arm: int, values: Sequence[float], axis: ValueAxis) -> None:
    """Draw the trials' histogram on both sides of a vertical line."""
    import numpy

    edges = (
        numpy.geomspace(axis.low, axis.high, _BINS * 2)
        if axis.logarithmic
        else numpy.linspace(axis.low, axis.high, _BINS * 2)
    )
    counts, edges = numpy.histogram(values, bins=edges)
    widths = 0.42 * counts / max(1, int(counts.max()))
    ax.fill_betweenx(
        numpy.repeat(edges, 2)[1:-1],
        arm - numpy.repeat(widths, 2),
        arm + numpy.repeat(widths, 2),
        color=canvas.colour(arm),
        alpha=0.35,
        linewidth=0,
        zorder=2,
    )
