"""Tables with typed columns, written as CSV, as Parquet, and as Glue's column lists. Pure."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import arro3.io
from arro3.core import Array, DataType, Field, Schema, Table

from rackrate_text.words import inert

#: The types by their names in Glue and Athena. A timestamp is in UTC, to the millisecond.
Type = Literal["string", "boolean", "bigint", "double", "timestamp"]
Row = Mapping[str, str | float | int | bool | None]


@dataclass(frozen=True)
class Column:
    """A column; the name of a quantity includes its unit.

    Attributes:
        name: its name in lower case, because Athena supports no other.
        type: its type; values of any type may be missing.
        text: its description.
    """

    name: str
    type: Type
    text: str


def glue_columns(columns: Sequence[Column]) -> list[dict[str, str]]:
    """The columns in the format of `AWS::Glue::Table`."""
    return [{"Name": column.name, "Type": column.type} for column in columns]


def to_csv(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """The rows as CSV with a header; missing values are empty, timestamps are ISO 8601."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    for row in rows:
        writer.writerow([_cell(_value(column, row)) for column in columns])
    return buffer.getvalue()


def to_parquet(columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    """The rows as one Parquet file, compressed with Snappy; missing values are null."""
    arrays = [_array(column, [_value(column, row) for row in rows]) for column in columns]
    schema = Schema([Field(c.name, _ARROW[c.type](), nullable=True) for c in columns])
    buffer = io.BytesIO()
    arro3.io.write_parquet(Table.from_arrays(arrays, schema=schema), buffer, compression="snappy")
    return buffer.getvalue()


def _value(column: Column, row: Row) -> Any:
    """The value in its column's type, or None."""
    value = row.get(column.name)
    return None if value is None else _PYTHON[column.type](value)


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case str():
            return inert(value)
    return value


def _whole(value: Any) -> int:
    """A whole number, such as 3 or 3.0, as an int.

    Raises:
        ValueError: the number is not whole.
    """
    if int(value) != value:
        raise ValueError(f"{value} is not a whole number")
    return int(value)


def _moment(value: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(value)
    return moment.astimezone(datetime.UTC)


def _array(column: Column, values: Sequence[Any]) -> Array:
    if column.type == "timestamp":
        # Arrays cannot be built from datetimes, so build one of milliseconds and cast it.
        counted = [None if v is None else round(v.timestamp() * 1000) for v in values]
        return Array(counted, DataType.int64()).cast(_ARROW["timestamp"]())
    return Array(values, _ARROW[column.type]())


_PYTHON: Mapping[Type, Callable[[Any], Any]] = {
    "string": str,
    "boolean": bool,
    "bigint": _whole,
    "double": float,
    "timestamp": _moment,
}
_ARROW: Mapping[Type, Callable[[], DataType]] = {
    "string": DataType.string,
    "boolean": DataType.bool,
    "bigint": DataType.int64,
    "double": DataType.float64,
    # Athena's timestamps have no zone.
    "timestamp": lambda: DataType.timestamp("ms"),
}
