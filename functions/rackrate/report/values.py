"""The exact values of a figure, kept in the page so that its menu can save them as CSV. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from rackrate_text.words import inert

Value = str | float | None
#: The columns by name, all of one length. The name of a quantity includes its unit.
Columns = Mapping[str, Sequence[Value]]


def by_column(rows: Iterable[Mapping[str, Value]]) -> Columns:
    """The columns of rows that all have the same names."""
    all_rows = list(rows)
    return {name: [row[name] for row in all_rows] for name in (all_rows[0] if all_rows else ())}


def packed(columns: Columns, *, lab_scale: float | None) -> Mapping[str, object] | None:
    """The columns as JSON for `page.js`; None without rows.

    The values of a lab have a column `lab_scale`, so that they are not taken for EC2's.

    A column is a list of values, or `{"of": [...], "at": [...]}`: its distinct values and the index
    of each row's, because node names repeat. A column with one value has no `at`.
    """
    rows = max(map(len, columns.values()), default=0)
    if not rows:
        return None
    written = {name: _packed([_plain(v) for v in values]) for name, values in columns.items()}
    if lab_scale is not None:
        written["lab_scale"] = _packed([lab_scale])
    return {"rows": rows, "columns": written}


def _plain(value: Value) -> Value:
    """The value as a cell: no formula for a spreadsheet, and empty if it is no number."""
    if isinstance(value, str):
        return inert(value)
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def _packed(values: Sequence[Value]) -> object:
    distinct = {value: place for place, value in enumerate(dict.fromkeys(values))}
    if len(distinct) == 1:
        return {"of": [*distinct]}
    if any(isinstance(value, str) for value in values):
        return {"of": [*distinct], "at": [distinct[value] for value in values]}
    return values
