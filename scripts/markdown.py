"""Pages of docs/ that people write, with parts that `make docs` writes between two marks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def with_part(page: str, name: str, part: str) -> str:
    """A page with a part put between its two marks.

    Raises:
        ValueError: the page lacks a mark.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"there is no {begin} with its end")
    return f"{before}{begin}\n\n{part.strip()}\n\n{end}{after}"


def row(cells: Iterable[str]) -> str:
    """A row of a table; what would end a cell is escaped."""
    tidy = (cell.replace("|", "\\|").replace("\n", " ").strip() for cell in cells)
    return f"| {' | '.join(tidy)} |"


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with its header."""
    head = list(titles)
    return "\n".join([row(head), "|" + "---|" * len(head), *map(row, rows)])
