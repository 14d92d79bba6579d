"""Pages of docs/ that people write, with parts that `make docs` generates between two marks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def with_part(page: str, name: str, part: str) -> str:
    """Replace the part of a page between its two marks.

    Raises:
        ValueError: the page lacks a mark.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise ValueError(f"there is no {begin} with its end")
    return f"{before}{begin}\n\n{part.strip()}\n\n{end}{after}"


def row(cells: Iterable[str]) -> str:
    """A row of a table. Characters that would end a cell are escaped."""
    tidy = (cell.replace("|", "\\|").replace("\n", " ").strip() for cell in cells)
    return f"| {' | '.join(tidy)} |"


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with its header."""
    head = list(titles)
    return "\n".join([row(head), "|" + "---|" * len(head), *map(row, rows)])


def prose(text: str) -> str:
    """A paragraph in lines of at most 116 characters."""
    return _wrapped(text, "")


def bullet(text: str) -> str:
    """An item of a list, in lines of at most 116 characters."""
    return _wrapped(text, "- ")


def _wrapped(text: str, lead: str) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        116,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
