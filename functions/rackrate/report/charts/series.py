"""The rates of trials over time: small multiples with a panel for each block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.report.charts import canvas
from rackrate.report.charts.axis import ValueAxis, value_axis
from rackrate.report.charts.canvas import QUIET, Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The most panels that a reader can compare.
MOST_PANELS = 12
#: The most lines of an arm in a panel. More lines would cover each other.
MOST_LINES = 8
_COLUMNS = 3
_PANEL = 76


@dataclass(frozen=True)
class Course:
    """The rates of a trial over time.

    Attributes:
        arm: the number of its arm.
        block: its block.
        starts, ends: start and end of each interval, in seconds from the start of the first.
        rates: rate in each interval, in bit/s.
    """

    arm: int
    block: int
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Chosen:
    """The courses to draw.

    Attributes:
        panels: the shown blocks, each with its courses to draw.
        blocks: the number of blocks, shown or not.
        in_panels: the number of courses in each shown block, drawn or not.
    """

    panels: tuple[tuple[int, tuple[Course, ...]], ...]
    blocks: int
    in_panels: tuple[int, ...]

    @property
    def shown(self) -> int:
        """The number of courses to draw."""
        return sum(len(courses) for _, courses in self.panels)


def choose(courses: Sequence[Course]) -> Chosen:
    """Choose evenly spaced blocks, including the first and the last, and trials of each arm.

    In a block, an arm's trials are ordered by the sum of their rates. The choice includes the
    slowest and the fastest.
    """
    blocks = sorted({course.block for course in courses})
    panels, counts = [], []
    for block in _spread(blocks, MOST_PANELS):
        here = [course for course in courses if course.block == block]
        chosen: list[Course] = []
        for arm in sorted({course.arm for course in here}):
            of_arm = sorted((c for c in here if c.arm == arm), key=lambda c: sum(c.rates))
            chosen += _spread(of_arm, MOST_LINES)
        panels.append((block, tuple(chosen)))
        counts.append(len(here))
    return Chosen(tuple(panels), len(blocks), tuple(counts))


def _spread[T](values: Sequence[T], most: int) -> list[T]:
    """At most this many evenly spaced elements of a sequence, including the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]


def courses_axis(chosen: Chosen) -> ValueAxis:
    """The axis of rates that all panels share."""
    rates = [rate for _, courses in chosen.panels for course in courses for rate in course.rates]
    return value_axis(rates, "bit/s", logarithmic_from=math.inf, from_zero_below=math.inf)


def series_chart(chosen: Chosen) -> Chart:
    """Draw a panel for each chosen block, with the trials of all arms on the same scale."""
    columns = min(_COLUMNS, len(chosen.panels))
    rows = -(-len(chosen.panels) // columns)
    height = 34 + rows * (_PANEL + 20) + 24

    def draw(figure: Figure) -> None:
        axis = courses_axis(chosen)
        seconds = max(end for _, courses in chosen.panels for c in courses for end in c.ends)
        room = (canvas.WIDTH - 48 - 8) / columns
        for place, (block, courses) in enumerate(chosen.panels):
            row, column = divmod(place, columns)
            left, top = 48 + column * room, 34 + row * (_PANEL + 20)
            ax = canvas.axes(
                figure,
                left=left,
                right=canvas.WIDTH - left - room + 12,
                top=top,
                bottom=height - top - _PANEL,
            )
            axis.set_on(ax, most_ticks=2)
            ax.set_xlim(0, seconds)
            ax.set_xticks([0, seconds], ["0", f"{seconds:.3g}"])
            begin, end = ax.get_xticklabels()
            begin.set_horizontalalignment("left")
            end.set_horizontalalignment("right")
            ax.tick_params(labelleft=column == 0, labelbottom=place + columns >= len(chosen.panels))
            ax.grid(axis="y")
            ax.text(0, 1.04, f"block {block}", transform=ax.transAxes, color=QUIET)
            _courses(ax, courses)
        canvas.heading(figure, f"rate, {axis.unit}")
        figure.text(0.55, 4 / height, "seconds", color=QUIET, ha="center")

    return Chart(draw, canvas.WIDTH, height)


def _courses(ax: Axes, courses: Sequence[Course]) -> None:
    for course in courses:
        many = sum(each.arm == course.arm for each in courses) > 2
        ax.plot(
            [edge for pair in zip(course.starts, course.ends, strict=True) for edge in pair],
            [rate for rate in course.rates for _ in (0, 1)],
            color=canvas.colour(course.arm),
            linestyle=canvas.dashes(course.arm),
            lw=1 if many else 1.6,
            alpha=0.5 if many else None,
        )
