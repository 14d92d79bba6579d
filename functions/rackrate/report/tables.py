"""The tables of the page: values for their template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from rackrate_text.units import UNKNOWN

#: The most rows of a table with which a page stays readable and loads quickly.
MOST_ROWS = 200


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        content: its content.
        kind: how it looks: `number`, `listed` for what needs some width, or `head` of its row.
        below: a second line.
        arm: the number of the arm that it names, for the arm's key.
        is_verdict: whether it is a verdict, which has a color and a sign.
    """

    content: object
    kind: str = ""
    below: str = ""
    arm: int | None = None
    is_verdict: bool = False


def number(content: object, below: str = "") -> Cell:
    """A cell with a figure."""
    return Cell(content, "number", below)


def head(content: object, below: str = "") -> Cell:
    """The header cell of a row."""
    return Cell(content, "head", below)


def link(text: str, href: str, label: str | None = None) -> Markup:
    """A link. `label` is its name for screen readers, if its text is not enough."""
    name = Markup(' aria-label="{}"').format(label) if label else ""
    return Markup('<a href="{}"{}>{}</a>').format(href, name, text)


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: its caption, also the name of the region in which it scrolls.
        rows: its rows, which all have the same columns; None is an unknown value.
        most: the most rows to show.
        rest: a phrase that says where the others are.
        style: its class in the style sheet, if it does not look as others.
    """

    caption: str
    rows: Sequence[Mapping[str, object]]
    most: int = MOST_ROWS
    rest: str = "results.json lists"
    style: str = ""

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.rows[0]) if self.rows else []

    @cached_property
    def body(self) -> list[list[Cell]]:
        """The cells of the rows to show."""
        return [[_cell(value) for value in row.values()] for row in self.rows[: self.most]]

    @property
    def left(self) -> int:
        """How many rows are not shown."""
        return max(0, len(self.rows) - self.most)


def without_unknown(rows: Iterable[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows without the columns of which no row has a value."""
    every_row = list(rows)
    with_value = {
        name
        for row in every_row
        for name, value in row.items()
        if _cell(value).content not in _NONE
    }
    return [{name: value for name, value in row.items() if name in with_value} for row in every_row]


_NONE = (None, UNKNOWN)


def _cell(value: object) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)
