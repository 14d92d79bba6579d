"""Tables with typed columns, written as Parquet, and as Glue's column lists. Pure."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import arro3.io
from arro3.core import Array, DataType, Field, Schema, Table

from rackrate_contract.tables import Column, Row, Type, value_of


def glue_columns(columns: Sequence[Column]) -> list[dict[str, str]]:
    """The columns in the format of `AWS::Glue::Table`."""
    return [{"Name": column.name, "Type": column.type} for column in columns]


def to_parquet(columns: Sequence[Column], rows: Sequence[Row]) -> bytes:
    """The rows as one Parquet file, compressed with Snappy; missing values are null."""
    arrays = [_array(column, [value_of(column, row) for row in rows]) for column in columns]
    schema = Schema([Field(c.name, _ARROW[c.type](), nullable=True) for c in columns])
    buffer = io.BytesIO()
    arro3.io.write_parquet(Table.from_arrays(arrays, schema=schema), buffer, compression="snappy")
    return buffer.getvalue()


def _array(column: Column, values: Sequence[Any]) -> Array:
    if column.type == "timestamp":
        # Arrays cannot be built from datetimes, so build one of milliseconds and cast it.
        counted = [None if v is None else round(v.timestamp() * 1000) for v in values]
        return Array(counted, DataType.int64()).cast(_ARROW["timestamp"]())
    return Array(values, _ARROW[column.type]())


_ARROW: Mapping[Type, Callable[[], DataType]] = {
    "string": DataType.string,
    "boolean": DataType.bool,
    "bigint": DataType.int64,
    "double": DataType.float64,
    # Athena's timestamps have no zone.
    "timestamp": lambda: DataType.timestamp("ms"),
}
