"""The frame of a chart: its caption, legend, and data as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Protocol

from rackrate.measure.trials import Trial
from rackrate.report import markup, values
from rackrate.report.charts import canvas
from rackrate.report.material import Material
from rackrate.results.schema import WarmUpTrial
from rackrate_text.units import UNKNOWN


class Page(Protocol):
    """What a figure needs of its page: the page of a run, a comparison or a campaign."""

    @property
    def scale(self) -> float | None:
        """The factor by which the lab scaled the network; None on AWS."""

    def arm_number(self, name: str) -> int:
        """An arm's index, which determines its color."""


def figure(
    kind: str,
    name: str,
    draw: Callable[..., str],
    *,
    title: str,
    text: str,
    page: Page,
    notes: str = "",
    legend: Sequence[str] = (),
    data: str = "",
    columns: values.Columns | None = None,
    wide: float | None = None,
) -> str:
    """A figure of the page.

    Args:
        kind: the kind of figure, for tests and style sheets.
        name: its id, the same as the chart's.
        draw: makes the chart as an `svg` from its name, title and description.
        title: its title, as text.
        text: what it shows, as text.
        page: the page, for the numbers of the arms.
        notes: how to read it, as text.
        legend: the arms in the chart.
        data: its data as a table, as markup.
        columns: its values, for its CSV; without them, or without rows, it has none.
        wide: the width that a large chart needs to be readable; on a narrower page it scrolls.
    """
    kept = values.attribute(columns or {}, lab_scale=page.scale)
    keys = "".join(f"<li>{key(page.arm_number(arm))} {escape(arm)}</li>" for arm in legend)
    chart = draw(name=name, title=title, description=f"{text} {notes}".strip())
    shown = chart
    if wide:
        size = f'style="min-width:{wide:.0f}px;max-width:{1.2 * wide:.0f}px" '
        shown = markup.scrolling(chart.replace("<svg ", f"<svg {size}", 1), title)
    return (
        f'<figure id="{name}" data-figure="{kind}"{" class=wide" if wide else ""}{kept}>'
        f"<figcaption><strong>{escape(title)}</strong> {escape(text)}</figcaption>"
        f"{f'<ul class=legend>{keys}</ul>' if keys else ''}{shown}"
        f"{markup.paragraph(escape(notes), 'quiet')}"
        f"{markup.folded('Data of this figure', data) if data else ''}</figure>"
    )


def key(arm: int) -> str:
    """An arm's line and marker, for legends and tables."""
    return f'<svg class="key" aria-hidden="true"><use href="#key-{arm}"/></svg>'


def keys(arms: int) -> str:
    """The definitions of the arms' keys, which the page contains once."""
    symbols = "".join(canvas.key(arm) for arm in range(arms))
    return f'<svg class="keys" width="0" height="0" aria-hidden="true">{symbols}</svg>'


def raw_link(page: Material, trial: Trial) -> str:
    """A link to the tool's output, as a cell's markup."""
    href = page.raw_link(trial)
    if href is None:
        return UNKNOWN
    what = f"block {trial.block}, {trial.arm}, {trial.client} to {trial.server}"
    label = escape(f"Raw output of {trial.test}, {what}", quote=True)
    return f'<a href="{escape(href, quote=True)}" aria-label="{label}">raw</a>'


def pair_of(trial: Trial | WarmUpTrial) -> str:
    """Client and server, as markup."""
    if isinstance(trial, WarmUpTrial):
        return f"{markup.text(trial.client)} → {markup.text(trial.server)}"
    return f"{markup.text(trial.client_name)} → {markup.text(trial.server_name)}"


def rows_of(
    heads: Sequence[str], rows: Iterable[Iterable[str]], caption: str, page: Material
) -> str:
    """A figure's data as a table, limited to the page's number of rows."""
    most = page.detail.rows
    return markup.table(heads, rows, caption=caption, most=most, rest="trials.csv has")
