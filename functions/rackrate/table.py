"""Items of the table: reading and writing them, and Python's values as DynamoDB's."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from rackrate.errors import Throttled, suppress_codes, translated
from rackrate.times import iso
from rackrate_contract.document import Json

#: The range of DynamoDB's numbers, rounded inward ("Naming rules and data types").
_SMALLEST, _LARGEST = 1e-130, 9.99e125
#: Above this a number is read as a float: no count is that large, and a float that large is always
#: a whole number.
_NO_COUNT = 2**63
#: The most keys of one BatchGetItem (Amazon DynamoDB API reference), how often what it left out is
#: requested, and the pause before, times the number of tries so far.
_MOST_KEYS, _TRIES, _RETRY_SECONDS = 100, 6, 0.2
_serializer = TypeSerializer()
_deserializer = TypeDeserializer()


class Table:
    """A table whose items have the keys `pk` and `sk`, with the index `runs`.

    Attributes:
        client: a client of DynamoDB.
        name: the table's name.

    Raises, from every method:
        Throttled: too many requests.
    """

    def __init__(self, dynamodb: Any, name: str) -> None:
        self.client = dynamodb
        self.name = name

    @property
    def created_at(self) -> str:
        """When the table was created. ISO 8601, UTC."""
        with translated():
            response = self.client.describe_table(TableName=self.name)
        return iso(response["Table"]["CreationDateTime"])

    def get(self, pk: str, sk: str) -> Json | None:
        """An item, or None where there is none."""
        with translated():
            response = self.client.get_item(
                TableName=self.name, Key=to_item({"pk": pk, "sk": sk}), ConsistentRead=True
            )
        return from_item(response["Item"]) if "Item" in response else None

    def put(self, item: Mapping[str, Any]) -> None:
        """Write an item in place of another."""
        with translated():
            self.client.put_item(TableName=self.name, Item=to_item(item))

    def delete(self, pk: str, sk: str) -> None:
        """Delete an item, if it is there."""
        with translated():
            self.client.delete_item(TableName=self.name, Key=to_item({"pk": pk, "sk": sk}))

    def query(self, pk: str, prefix: str, fields: Sequence[str] = ()) -> list[Json]:
        """The items whose sort key has a prefix, in its order.

        Args:
            pk: their partition key.
            prefix: of their sort keys.
            fields: the fields to read, such as `status`; all by default.
        """
        items: list[Json] = []
        request: Json = {
            "TableName": self.name,
            "KeyConditionExpression": "pk = :pk AND begins_with(sk, :prefix)",
            "ExpressionAttributeValues": to_item({":pk": pk, ":prefix": prefix}),
            "ConsistentRead": True,
        }
        if fields:
            request |= _projection(fields)
        with translated():
            for page in self.client.get_paginator("query").paginate(**request):
                items.extend(from_item(item) for item in page["Items"])
        return items

    def get_many(self, pk: str, sks: Sequence[str], fields: Sequence[str]) -> list[Json]:
        """The items with these sort keys that there are, in any order.

        Args:
            pk: their partition key.
            sks: their sort keys, each once.
            fields: the fields to read, as in `query`.
        """
        items: list[Json] = []
        for batch in itertools.batched(sks, _MOST_KEYS, strict=False):
            requested: Json = {
                self.name: {
                    "Keys": [to_item({"pk": pk, "sk": sk}) for sk in batch],
                    "ConsistentRead": True,
                    **_projection(fields),
                }
            }
            # DynamoDB leaves out what is beyond 16 MB, or beyond the table's throughput.
            for attempt in range(_TRIES):
                time.sleep(attempt * _RETRY_SECONDS)
                with translated():
                    response = self.client.batch_get_item(RequestItems=requested)
                items.extend(from_item(item) for item in response["Responses"].get(self.name, []))
                if not (requested := response.get("UnprocessedKeys", {})):
                    break
            else:
                raise Throttled(f"DynamoDB left out items of {pk} in {_TRIES} responses")
        return items

    def query_index(
        self, key: str, chosen: str, names: Mapping[str, str], values: Mapping[str, Any]
    ) -> list[Json]:
        """The items of the index `runs` that meet a condition.

        Args:
            key: the condition on the index' keys.
            chosen: the condition on other attributes.
            names: attribute names for the conditions.
            values: values for them.
        """
        items: list[Json] = []
        request: Json = {
            "TableName": self.name,
            "IndexName": "runs",
            "KeyConditionExpression": key,
            "FilterExpression": chosen,
            "ExpressionAttributeValues": to_item(values),
        }
        if names:
            request["ExpressionAttributeNames"] = names
        with translated():
            for page in self.client.get_paginator("query").paginate(**request):
                items.extend(from_item(item) for item in page["Items"])
        return items

    def update(
        self,
        pk: str,
        sk: str,
        *,
        set_: Mapping[str, Any],
        set_once: Mapping[str, Any] | None = None,
        add: Mapping[str, int] | None = None,
        append: Mapping[str, Sequence[Any]] | None = None,
        remove: Sequence[str] = (),
        condition: str | None = None,
        reads: Sequence[str] = (),
        values: Mapping[str, Any] | None = None,
    ) -> Json | None:
        """Write attributes of an item.

        Args:
            pk: its partition key.
            sk: its sort key.
            set_: attributes to overwrite.
            set_once: attributes to write where the item has none.
            add: what to add to numbers.
            append: what to append to lists.
            remove: attributes to remove.
            condition: the condition, with `#name` for the attribute with that name.
            reads: the attributes of the condition that are not written.
            values: further values for the condition, such as `:running`.

        Returns:
            The item as it is then, or None where it does not meet the condition.
        """
        set_once, add, append = set_once or {}, add or {}, append or {}
        written = {**set_, **set_once, **add, **append}
        empty_lists: Json = {f":no_{name}": [] for name in append}
        attributes = {f":{name}": value for name, value in written.items()}
        request: Json = {"ConditionExpression": condition} if condition else {}
        with suppress_codes("ConditionalCheckFailedException"), translated():
            response = self.client.update_item(
                TableName=self.name,
                Key=to_item({"pk": pk, "sk": sk}),
                UpdateExpression=_update_expression(set_, set_once, add, append, remove),
                ExpressionAttributeNames={f"#{name}": name for name in (*written, *reads, *remove)},
                ExpressionAttributeValues=to_item({**attributes, **empty_lists, **(values or {})}),
                ReturnValues="ALL_NEW",
                **request,
            )
            return from_item(response["Attributes"])
        return None


def _update_expression(
    set_: Iterable[str],
    set_once: Iterable[str],
    add: Iterable[str],
    append: Iterable[str],
    remove: Iterable[str],
) -> str:
    """The expression that writes the attributes with these names; see `Table.update`."""
    clauses = {
        "SET": [
            *(f"#{name} = :{name}" for name in set_),
            *(f"#{name} = if_not_exists(#{name}, :{name})" for name in set_once),
            *(
                f"#{name} = list_append(if_not_exists(#{name}, :no_{name}), :{name})"
                for name in append
            ),
        ],
        "ADD": [f"#{name} :{name}" for name in add],
        "REMOVE": [f"#{name}" for name in remove],
    }
    return " ".join(f"{verb} {', '.join(actions)}" for verb, actions in clauses.items() if actions)


def _projection(fields: Sequence[str]) -> Json:
    """The parts of a request that name the fields to read."""
    return {
        "ProjectionExpression": ", ".join(f"#{name}" for name in fields),
        "ExpressionAttributeNames": {f"#{name}": name for name in fields},
    }


def to_item(value: Mapping[str, Any]) -> Json:
    """Python values as DynamoDB's types; numbers keep every digit that Python prints."""
    return {name: _serializer.serialize(_decimals(entry)) for name, entry in value.items()}


def _decimals(value: Any) -> Any:
    """Floats as decimals; a number beyond DynamoDB's range is clamped to it.

    Only the ends of an uninformative interval are that large or small; `analysis.json` keeps them
    unchanged.
    """
    if isinstance(value, float):
        magnitude = abs(value)
        if magnitude != 0 and not _SMALLEST <= magnitude <= _LARGEST:
            value = math.copysign(min(max(magnitude, _SMALLEST), _LARGEST), value)
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {name: _decimals(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_decimals(entry) for entry in value]
    return value


def from_item(item: Mapping[str, Any]) -> Json:
    """DynamoDB's values as Python's; whole numbers become int unless too large, others float."""
    return {name: _plain(_deserializer.deserialize(entry)) for name, entry in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value() and abs(value) < _NO_COUNT
        return int(value) if whole else float(value)
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value
