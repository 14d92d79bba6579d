"""The matrix of nodes: the median between each client and each server, as a heat map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rackrate.report.charts import canvas
from rackrate.report.charts.canvas import INK, PAPER, QUIET, Chart
from rackrate_text.units import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Up to this many nodes, each node has a label; with more nodes, only some.
MOST_LABELS = 60
#: Up to this many cells are drawn as vectors with tips; more cells as an image.
_MOST_CELLS = 240
_NUMBERED = 7
_LINES = 48
#: Longer names show only their end. The figure's table has the whole names.
_LONGEST = 10


@dataclass(frozen=True)
class Matrix:
    """The medians of an arm's pairs.

    Attributes:
        nodes: the names of its nodes, in the order of rows and columns.
        medians: medians by the indexes of client and server.
        unit: the values' SI unit.
        best: the indexes of nodes that may be the best.
        worse: those of nodes that are worse than the rest.
    """

    nodes: tuple[str, ...]
    medians: Mapping[tuple[int, int], float]
    unit: str
    best: tuple[int, ...] = ()
    worse: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shades:
    """The color scale that all matrices share."""

    low: float
    high: float

    def of(self, value: float) -> float:
        """The position of a value on the scale, from 0 to 1."""
        return 0.5 if self.high == self.low else (value - self.low) / (self.high - self.low)


def width_of(nodes: int) -> float:
    """The chart's width in units, which grows with the number of labeled nodes."""
    return canvas.WIDTH if nodes <= 24 or nodes > MOST_LABELS else 110 + 11.5 * nodes


def short_names(names: Sequence[str]) -> list[str]:
    """The names without their common prefix and suffix, which are cut at a separator."""
    if len(names) < 2:
        return list(names)
    start = _shared(names)
    end = _shared([name[::-1] for name in names])
    shortest = min(map(len, names))
    if start + end >= shortest:
        end = 0
    return [name[start : len(name) - end] or name for name in names]


def _shared(names: Sequence[str]) -> int:
    """The length of the common prefix, up to its last separator."""
    first, last = min(names), max(names)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return max((first.rfind(sign, 0, same) + 1 for sign in "-._"), default=0)


def heatmap_chart(matrix: Matrix, shades: Shades) -> Chart:
    """Draw a cell for each client (row) and server (column); unmeasured cells are hatched."""
    count = len(matrix.nodes)
    width = width_of(count)
    labels = short_names(matrix.nodes)
    left = 22 + 6.4 * min(_LONGEST, max(map(len, labels), default=1))
    size = width - left - 10
    bottom_of_names = left - 14
    height = bottom_of_names + size + 56

    def draw(figure: Figure) -> canvas.Tips:
        ax = canvas.axes(figure, left=left, right=10, top=bottom_of_names, bottom=56)
        ax.set(xlim=(-0.5, count - 0.5), ylim=(count - 0.5, -0.5))
        _unmeasured(ax, count)
        tips = _cells(ax, matrix, shades, size / count)
        _names(ax, labels)
        _marks(ax, matrix, count - 0.5 + 5 * count / size)
        _scale(figure, shades, matrix.unit, left=left, height=height)
        return tips

    return Chart(draw, width, height)


def colours(values: Sequence[float], shades: Shades) -> Any:
    """The colors of values from a perceptually uniform map, in which lightness shows the order."""
    from matplotlib import colormaps

    return colormaps["viridis"]([shades.of(value) for value in values])


def _ink_on(colour: Sequence[float]) -> str:
    """White or black, whichever has more contrast (WCAG's relative luminance)."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour[:3]]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def _unmeasured(ax: Axes, nodes: int) -> None:
    """Draw thin diagonals behind the cells, which remain visible where nothing was measured."""
    from matplotlib.collections import LineCollection

    # The lines cross every cell on the matrix' diagonal, because those are never measured.
    each = max(1, _LINES // nodes)
    lines = min(nodes, 2 * _LINES) * each
    shifts = [(2 * line + 1) / lines - 1 for line in range(lines)]
    segments = [
        [(max(0.0, shift), max(0.0, -shift)), (min(1.0, 1 + shift), min(1.0, 1 - shift))]
        for shift in shifts
    ]
    ax.add_collection(
        LineCollection(
            segments,
            transform=ax.transAxes,
            colors=QUIET,
            alpha=0.45,
            linewidths=0.7,
            zorder=0,
        )
    )


def _cells(ax: Axes, matrix: Matrix, shades: Shades, cell: float) -> dict[str, list[str]]:
    places = sorted(matrix.medians)
    values = [matrix.medians[place] for place in places]
    if len(places) > _MOST_CELLS:
        # A cell less than three units wide would be hard to see where few cells are measured.
        ax.scatter(
            [server for _, server in places],
            [client for client, _ in places],
            s=max(cell, 3.0) ** 2,
            marker="s",
            c=colours(values, shades),
            linewidths=0,
            rasterized=True,
        )
        return {}
    from matplotlib.collections import PolyCollection

    corners = [
        [(x - 0.5, y - 0.5), (x + 0.5, y - 0.5), (x + 0.5, y + 0.5), (x - 0.5, y + 0.5)]
        for y, x in places
    ]
    ax.add_collection(
        PolyCollection(
            corners,
            facecolors=colours(values, shades),
            edgecolors=PAPER,
            linewidths=1,
            gid="cells",
        )
    )
    if len(matrix.nodes) <= _NUMBERED:
        for (y, x), value in zip(places, values, strict=True):
            number = quantity(value, matrix.unit).split(" ")[0]
            ink = _ink_on(colours([value], shades)[0])
            ax.text(x, y, number, ha="center", va="center", color=ink)
    return {
        "cells": [
            f"{matrix.nodes[client]} to {matrix.nodes[server]}:"
            f" {quantity(matrix.medians[client, server], matrix.unit)}"
            for client, server in places
        ]
    }


def _names(ax: Axes, labels: Sequence[str]) -> None:
    every = 1 if len(labels) <= MOST_LABELS else -(-len(labels) // 12)
    places = range(0, len(labels), every)
    names = [labels[place][-_LONGEST:] for place in places]
    ax.set_yticks(places, names)
    ax.set_xticks(places, names, rotation=90)
    ax.xaxis.set_ticks_position("top")
    ax.tick_params(length=0, pad=3)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.text(0, -0.02, "row: client, column: server", color=QUIET, transform=ax.transAxes, va="top")


def _marks(ax: Axes, matrix: Matrix, x: float) -> None:
    """Mark the nodes that may be the best, and those that are worse, at the end of their rows."""
    for nodes, sign in ((matrix.best, "^"), (matrix.worse, "v")):
        as_image = len(matrix.nodes) > MOST_LABELS
        colour = canvas.fixed_colour(5) if as_image else INK
        ax.plot([x] * len(nodes), nodes, sign, color=colour, markersize=4, rasterized=as_image)


def _scale(figure: Figure, shades: Shades, unit: str, *, left: float, height: float) -> None:
    """Draw the color scale with its values below the matrix."""
    import numpy

    ax = canvas.axes(figure, left=left, right=10, top=height - 28, bottom=18)
    steps = 48
    values = numpy.linspace(shades.low, shades.high, steps)
    ax.set(xlim=(0, steps), ylim=(0, 1))
    ax.set_axis_off()
    ax.bar(
        numpy.arange(steps),
        1,
        width=1.05,
        align="edge",
        color=colours(list(values), shades),
        lw=0,
    )
    for at, value, side in ((0, shades.low, "left"), (steps, shades.high, "right")):
        ax.text(at, -0.3, quantity(value, unit), ha=side, va="top", color=INK)
