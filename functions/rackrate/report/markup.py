"""The few elements the page is made of. Pure; what comes in is text, what goes out is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rackrate.report.figures import si

NOTHING = "&ndash;"
#: A page stays readable, and loads, with so many rows in a table.
MOST_ROWS = 200


def text(value: object) -> str:
    """A value as text; a dash for what is not known."""
    return NOTHING if value is None or value == "" else escape(str(value), quote=True)


def quantity(value: float | None, unit: str | None) -> str:
    """A value with its unit."""
    return NOTHING if value is None else escape(si(value, unit or ""))


def percent(share: float | None) -> str:
    """A share as a percentage of three digits."""
    return NOTHING if share is None else f"{100 * share:.3g} %"


def ratio(value: float | None) -> str:
    """A ratio to three decimals."""
    return NOTHING if value is None else f"{value:.3f}"


def interval(ends: Sequence[float] | None) -> str:
    """An interval of a ratio."""
    return NOTHING if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"


def number(content: str) -> str:
    """A cell of figures."""
    return f'<td class="number">{content}</td>'


def cell(content: str) -> str:
    """A cell of words."""
    return f"<td>{content}</td>"


def table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells; of a very long one the first rows, and how many there are more.

    Args:
        heads: the columns' names, as text.
        rows: for each row its cells, as markup.
    """
    body = ["".join(row) for row in rows]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    rest = len(body) - MOST_ROWS
    more = f'<p class="quiet">And {rest} more, which results.json lists.</p>' if rest > 0 else ""
    lines = "".join(f"<tr>{row}</tr>" for row in body[:MOST_ROWS])
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'
        f"</div>{more}"
    )


def items(lines: Iterable[str]) -> str:
    """A list of markup lines, or nothing."""
    found = "".join(f"<li>{line}</li>" for line in lines if line)
    return f"<ul>{found}</ul>" if found else ""


def folded(summary: str, content: str) -> str:
    """Content that opens on demand. `summary` is text."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"
