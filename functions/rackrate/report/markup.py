"""The HTML elements of the page. Pure: text in, markup out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rackrate_text.units import UNKNOWN

#: The most rows of a table with which a page stays readable and loads quickly.
MOST_ROWS = 200
#: Where the rows are that a table leaves out.
REST = "results.json lists"


def text(value: object) -> str:
    """A value as escaped text; a dash for an unknown value."""
    return UNKNOWN if value is None or value == "" else escape(str(value), quote=True)


def number(content: str) -> str:
    """A table cell with a figure."""
    return f'<td class="number">{content}</td>'


def cell(content: str) -> str:
    """A table cell with text."""
    return f"<td>{content}</td>"


def listed_cell(content: str) -> str:
    """A table cell with a list or a sentence, which needs some width."""
    return f'<td class="listed">{content}</td>'


def row_head(content: str) -> str:
    """The header cell of a row."""
    return f'<th scope="row">{content}</th>'


def table(
    heads: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    caption: str,
    most: int = MOST_ROWS,
    rest: str = REST,
) -> str:
    """A table; if it is too long, its first rows and the number of the others.

    Args:
        heads: the columns' names, as text.
        rows: the cells of each row, as markup.
        caption: its caption, as text; also the name of its scrolling region.
        most: the most rows to show.
        rest: a phrase that says where the other rows are.
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
    """Content that may be wider than the page, in its own region that also scrolls by keyboard."""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label, quote=True)}">'
        f"{content}</div>"
    )


def items(lines: Iterable[str]) -> str:
    """A list of lines, which are markup; empty without lines."""
    found = "".join(f"<li>{line}</li>" for line in lines if line)
    return f"<ul>{found}</ul>" if found else ""


def folded(summary: str, content: str, *, opened: bool = False) -> str:
    """Content that is folded until the reader opens it. `summary` is text."""
    state = " open" if opened else ""
    return f"<details{state}><summary>{escape(summary)}</summary>{content}</details>"


def section(anchor: str, heading: str, content: str) -> str:
    """A section of the page. `heading` is text; `anchor` is its id, for links."""
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-h">'
        f'<h2 id="{anchor}-h">{escape(heading)}</h2>{content}</section>'
    )


def paragraph(content: str, kind: str = "") -> str:
    """A paragraph of markup; empty without content."""
    classes = f' class="{kind}"' if kind else ""
    return f"<p{classes}>{content}</p>" if content else ""
