"""The frame of a figure: its chart with its caption, legend, values, and how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from markupsafe import Markup

from rackrate.report.charts import canvas
from rackrate.report.charts.canvas import Chart
from rackrate.report.tables import Table
from rackrate.report.values import Columns, packed


class Page(Protocol):
    """What a figure needs of its page: the page of a run, a comparison or a campaign."""

    @property
    def scale(self) -> float | None:
        """The factor by which the lab scaled the network; None on AWS."""

    def arm_title(self, name: str) -> str:
        """What people read for an arm's name."""

    def arm_number(self, name: str) -> int:
        """An arm's index, which determines its color."""


@dataclass(frozen=True)
class Figure:
    """A figure of the page.

    Attributes:
        kind: the kind of figure, for tests and style sheets.
        name: its id, the same as the chart's.
        drawn: the chart.
        title: its title.
        text: what it shows.
        page: the page, for the numbers of the arms.
        notes: how to read it.
        arms: the arms in the chart, for the legend.
        columns: its values, for its CSV; without them, or without rows, it has none.
        data: its data as a table.
        chart_title: the title of the chart, if that is not the figure's.
    """

    kind: str
    name: str
    drawn: Chart
    title: str
    text: str
    page: Page
    notes: str = ""
    arms: Sequence[str] = ()
    columns: Columns | None = None
    data: Table | None = None
    chart_title: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether the chart is so large that it scrolls on a narrow page to stay readable."""
        return self.drawn.width > canvas.WIDTH

    @property
    def chart(self) -> Markup:
        """The chart as an element."""
        title, description = self.chart_title or self.title, f"{self.text} {self.notes}".strip()
        svg = self.drawn.svg(self.name, title, description)
        if not self.is_wide:
            return svg
        width = self.drawn.width
        size = f'style="min-width:{width:.0f}px;max-width:{1.2 * width:.0f}px" '
        return Markup(str(svg).replace("<svg ", f"<svg {size}", 1))

    @cached_property
    def values(self) -> Mapping[str, object] | None:
        """The values as `page.js` reads them."""
        return packed(self.columns or {}, lab_scale=self.page.scale)

    @property
    def legend(self) -> list[tuple[int, str]]:
        """The numbers and titles of the arms."""
        return [(self.page.arm_number(arm), self.page.arm_title(arm)) for arm in self.arms]
