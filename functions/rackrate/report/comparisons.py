"""The table of comparisons that the pages of runs and campaigns share, and its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from rackrate.report.charts import intervals
from rackrate.report.frame import key
from rackrate.report.markup import MOST_ROWS, REST, text
from rackrate.verdict.answers import Answer
from rackrate.verdict.model import Verdict, Word
from rackrate_text.units import UNKNOWN, change, changes, percent, quantity


@dataclass(frozen=True)
class Row:
    """A comparison of two arms.

    Attributes:
        anchor: the id of the section about it.
        subject: the test and the metric.
        sides: the two sides that are compared.
        word: the verdict.
        drifted: whether one arm drifted alone.
        ratio: the ratio to draw in the first cell, or None.
        intervals: the ratio and its intervals in words.
        cells: the markup of the cells after the word; the first is below the drawn ratio.
    """

    anchor: str
    subject: str
    sides: str
    word: Word
    drifted: bool = field(default=False, kw_only=True)
    ratio: intervals.Ratio | None
    intervals: str
    cells: Sequence[str]


def ratio_of(compared: Answer | Verdict) -> intervals.Ratio | None:
    """The drawable ratio of a comparison with its adjusted interval, or None."""
    if compared.ratio is None or compared.ci_simultaneous is None:
        return None
    found = intervals.Ratio(compared.ratio, compared.ci_simultaneous, compared.threshold)
    return found if found.drawable else None


def change_cell(compared: Answer | Verdict, *more: str) -> str:
    """The change, its adjusted interval, and more lines of markup."""
    if compared.ratio is None:
        return UNKNOWN
    lines = [f"<strong>{text(change(compared.ratio))}</strong>"]
    if compared.ci_simultaneous:
        lines.append(text(changes(compared.ci_simultaneous)))
    return f'<span class="figures-of">{"<br>".join([*lines, *more])}</span>'


def table(
    rows: Sequence[Row],
    *,
    heads: Sequence[str],
    name: str,
    caption: str,
    rest: str = REST,
) -> str:
    """A table with a row for each comparison; all drawn ratios have the same scale.

    A narrow screen shows each row as a card. ARIA roles keep it a table for screen readers.

    Args:
        rows: the comparisons.
        heads: the heads of the cells after the word, as text.
        name: its name within the page.
        caption: its caption, as text.
        rest: a phrase that says where the rows are that are too many.
    """
    ratios = [row.ratio for row in rows if row.ratio is not None]
    reach = intervals.common_reach(ratios)
    scale = intervals.ratio_scale(reach, name=f"scale-{name}") if ratios else ""
    head = "".join(
        f'<th scope="col" role="columnheader">{content}</th>'
        for content in (
            "comparison",
            "verdict",
            f"{escape(heads[0])}{scale}",
            *map(escape, heads[1:]),
        )
    )
    lines = "".join(
        _row(row, heads, reach, f"{name}-{index}", scale)
        for index, row in enumerate(rows[:MOST_ROWS])
    )
    left = len(rows) - MOST_ROWS
    more = f'<p class="quiet">And {left} more, which {escape(rest)}.</p>' if left > 0 else ""
    return (
        f'<table class="verdicts" role="table" id="verdicts-{name}">'
        f"<caption>{escape(caption)}</caption>"
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{lines}</tbody></table>{more}'
    )


def _row(row: Row, heads: Sequence[str], reach: float, name: str, scale: str) -> str:
    drawn = narrow = ""
    if row.ratio is not None:
        drawn = intervals.interval_row(
            row.ratio,
            reach,
            name=f"interval-{name}",
            title=f"{row.subject}, {row.sides}: ratio.",
            description=row.intervals,
        )
        # Rows shown as cards have no header, so they contain the scale themselves.
        narrow = scale.replace(f"scale-{name.rsplit('-', 1)[0]}", f"scale-{name}")
    first, *others = row.cells
    contents = (
        word(row.word, drifted=row.drifted),
        f'<div class="narrow">{narrow}</div>{drawn}{first}',
        *others,
    )
    columns = "".join(
        f'<td role="cell" data-label="{escape(label, quote=True)}">{content}</td>'
        for label, content in zip(("verdict", *heads), contents, strict=True)
    )
    return (
        f'<tr role="row"><th scope="row" role="rowheader"><a href="#{row.anchor}">'
        f"{text(row.subject)}</a>"
        f'<br><span class="quiet">{text(row.sides)}</span></th>{columns}</tr>'
    )


def word(found: Word, *, drifted: bool = False) -> str:
    """A verdict's word, with its color and sign, and whether one arm drifted alone."""
    return f'<span class="{found.split()[0]}">{found}{", drift" if drifted else ""}</span>'


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: its name.
        number: its index among the page's arms, which determines its color.
        level: its geometric mean, in the metric's unit.
        limit: its documented limit, in the same unit.
        share: the level as a share of the limit.
    """

    name: str
    number: int
    level: float | None
    limit: float | None = None
    share: float | None = None


def levels(sides: Sequence[Side], unit: str, *, name: str, title: str) -> str:
    """The levels of both sides as bars and in figures, with their documented limits."""
    said = []
    for side in sides:
        figures = text(quantity(side.level, unit))
        if side.limit is not None:
            of = f"{text(percent(side.share))} of " if side.share is not None else "limit "
            figures += f" <span class=quiet>{of}{text(quantity(side.limit, unit))}</span>"
        named = f"{key(side.number)} {text(side.name)}"
        said.append(f"{named} <span class=level>{figures}</span>")
    told = "<br>".join(said)
    found = [
        intervals.Level(side.number, side.level, side.limit)
        for side in sides
        if side.level is not None
    ]
    if len(found) < len(sides):
        return told
    words = "; ".join(
        f"{side.name}: {quantity(side.level, unit)}"
        + (f", limit {quantity(side.limit, unit)}" if side.limit is not None else "")
        for side in sides
    )
    chart = intervals.levels_row(found, name=name, title=title, description=words)
    return f"{chart}{told}"
