"""The few elements the page is made of. Pure; what comes in is text, what goes out is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rackrate_text.units import UNKNOWN

#: A page stays readable, and loads, with so many rows in a table.
MOST_ROWS = 200


def text(value: object) -> str:
    """A value as text; a dash for what is not known."""
    return UNKNOWN if value is None or value == "" else escape(str(value), quote=True)


def number(content: str) -> str:
    """A cell of figures."""
    return f'<td class="number">{content}</td>'


def cell(content: str) -> str:
    """A cell of words."""
    return f"<td>{content}</td>"


def row_head(content: str) -> str:
    """The cell that names its row."""
    return f'<th scope="row">{content}</th>'


def table(
    heads: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    caption: str,
    most: int = MOST_ROWS,
    rest: str = "results.json lists",
) -> str:
    """A table of cells; of a very long one the first rows, and how many there are more.

    Args:
        heads: the columns' names, as text.
        rows: for each row its cells, as markup.
        caption: what it lists, as text; also the name of the region that scrolls it.
        most: how many rows are shown.
        rest: where the others are.
    """
    body = ["".join(row) for row in rows]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    left = len(body) - most
    more = f'<p class="quiet">And {left} more, which {escape(rest)}.</p>' if left > 0 else ""
    lines = "".join(f"<tr>{row}</tr>" for row in body[:most])
    inner = (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{lines}</tbody></table>"
    )
    return f"{scrolling(inner, caption)}{more}"


def scrolling(content: str, label: str) -> str:
    """Content that may be wider than the page: it scrolls by itself, by keyboard too."""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label, quote=True)}">'
        f"{content}</div>"
    )


def items(lines: Iterable[str]) -> str:
    """A list of markup lines, or nothing."""
    found = "".join(f"<li>{line}</li>" for line in lines if line)
    return f"<ul>{found}</ul>" if found else ""


def folded(summary: str, content: str, *, opened: bool = False) -> str:
    """Content that opens on demand. `summary` is text."""
    state = " open" if opened else ""
    return f"<details{state}><summary>{escape(summary)}</summary>{content}</details>"


def section(anchor: str, heading: str, content: str) -> str:
    """A part of the page with its heading, as text. `anchor` is what links to it name."""
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-h">'
        f'<h2 id="{anchor}-h">{escape(heading)}</h2>{content}</section>'
    )


def paragraph(content: str, kind: str = "") -> str:
    """A paragraph of markup, or nothing."""
    classes = f' class="{kind}"' if kind else ""
    return f"<p{classes}>{content}</p>" if content else ""
