"""DynamoDB's answers as moto gives them, but one request after the other and with less work.

moto checks the condition of a write and then writes. Of two that write at once, both may find that
the condition holds, which DynamoDB excludes. moto also changes an item in its place, so that a
request that copies or reads the item meanwhile fails.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html

moto converts each item several times for each attribute of an answer. A run reads the states of its
trials often, so this took most of the time of the Region in a run, and of the tests of the stages.
moto also measures a whole item again with each attribute that it writes, and copies a whole table
before each transaction. It parses an update twice, and checks its names again with each attribute.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections import defaultdict
from typing import Any

from moto.core.model import StructureShape
from moto.core.serialize import JSONSerializer
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.models.utilities import bytesize
from moto.dynamodb.parsing.expressions import UpdateExpressionParser  # type: ignore[attr-defined]
from moto.dynamodb.responses import DynamoHandler

_request = threading.Lock()
_moto_action = DynamoHandler.call_action
_moto_transaction = DynamoDBBackend.transact_write_items
_moto_structure = JSONSerializer._serialize_type_structure
_moto_project = Item.project
_moto_set = LimitedSizeDict.__setitem__
#: moto changes only copies of what it parsed. Runs write with a few updates, again and again.
parse = functools.lru_cache(maxsize=200)(UpdateExpressionParser.make)
#: moto measures items that may be larger than this; its limit is at 405,000 bytes.
_SURELY_SMALL = 400_000


def one_at_a_time(self: DynamoHandler) -> Any:
    """Answer a request, up to the text of its response, when the one before has its response."""
    with _request:
        return _moto_action(self)


def transact(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
    """Write all items or none; `one_at_a_time` lets no other request happen meanwhile.

    A put leaves the item in whose place it writes as it is. So to undo puts, it is enough to know
    which items there were.
    """
    if not all(item.keys() == {"Put"} for item in transact_items):
        _moto_transaction(self, transact_items)
        return
    Table.__deepcopy__ = _with_the_same_items  # type: ignore[attr-defined]
    try:
        _moto_transaction(self, transact_items)
    finally:
        del Table.__deepcopy__  # type: ignore[attr-defined]


def _with_the_same_items(self: Table, _: dict[int, Any]) -> Table:
    table = copy.copy(self)
    table.items = defaultdict(dict)
    table.items |= {  # a table without sort keys has an item in place of a dictionary of them
        key: dict(items) if isinstance(items, dict) else items for key, items in self.items.items()
    }
    return table


def structure(
    self: JSONSerializer, serialized: Any, value: Any, shape: StructureShape, key: str
) -> None:
    """Write an attribute as it is stored, which is already its form in JSON.

    moto looks for each of ten types by several names. Bytes are not in the form of JSON; moto still
    writes those on an item's first level.
    """
    if shape.name == "AttributeValue" and isinstance(value, dict) and not {"B", "BS"} & {*value}:
        serialized[self.get_serialized_name(shape, key)] = value
    else:
        _moto_structure(self, serialized, value, shape, key)


def set_attribute(self: LimitedSizeDict, key: str, value: Any) -> None:
    """Write an attribute of an item, and remember how large the item is at most."""
    attributes, size = vars(self).get("measured", (-1, 0))
    if attributes != len(self):
        size = sum(bytesize(name) + _size(of) for name, of in self.items())
    size += bytesize(key) + _size(value)
    if size <= _SURELY_SMALL:
        dict.__setitem__(self, key, value)
    else:
        _moto_set(self, key, value)
    vars(self)["measured"] = (len(self), size)


def _size(value: Any) -> int:
    return int(value.size() if type(value) is DynamoType else bytesize(str(value)))


def project(self: Item, projection_expressions: list[list[str]]) -> Item:
    """Keep the named attributes. moto converts the whole item again for each name.

    moto still projects on parts of attributes.
    """
    if any(len(path) > 1 or "[" in path[0] for path in projection_expressions):
        return _moto_project(self, projection_expressions)
    names = [name for (name,) in projection_expressions if name in self.attrs]
    projected = Item(self.hash_key, self.range_key, {})
    projected.attrs.update({name: self.attrs[name] for name in names})
    return projected


def check_once(self: Any, expression: Any) -> Any:
    """Check the names of a whole update. moto also checks its parts, whose names the whole has."""
    return self.process(expression)
