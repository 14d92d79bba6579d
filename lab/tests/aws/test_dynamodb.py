"""DynamoDB's answers hold what was written, whatever the types of the values."""

from __future__ import annotations

import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import Binary, TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab

EVERY_TYPE: dict[str, Any] = {
    "pk": "one",
    "text": "S",
    "number": Decimal("0.1"),
    "flag": False,
    "nothing": None,
    "texts": {"L", "M"},
    "numbers": {Decimal(1), Decimal("2.5")},
    "empty": {"list": [], "map": {}, "text": ""},
    "bytes": Binary(b"\x00\xff"),
    "list": [{"S": "a map with the name of a type"}, [Decimal(1), "two", None]],
}


class Table:
    """A table with the item EVERY_TYPE, which a query finds."""

    def __init__(self, lab: Lab) -> None:
        self.client, self.name = lab.client("dynamodb"), lab.table()
        write = TypeSerializer().serialize
        item = {key: write(value) for key, value in EVERY_TYPE.items()}
        self.client.put_item(TableName=self.name, Item=item)

    def query(self, **request: Any) -> dict[str, Any]:
        """The item, as a query answers it."""
        (item,) = self.client.query(
            TableName=self.name,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": "one"}},
            **request,
        )["Items"]
        return plain(item)


def plain(item: dict[str, Any]) -> dict[str, Any]:
    read = TypeDeserializer().deserialize
    return {key: read(value) for key, value in item.items()}


@pytest.fixture(scope="module")
def table(lab: Lab) -> Table:
    return Table(lab)


def test_an_item_of_every_type_is_answered_as_it_was_written(table: Table) -> None:
    (scanned,) = table.client.scan(TableName=table.name)["Items"]
    got = table.client.get_item(TableName=table.name, Key={"pk": {"S": "one"}})["Item"]
    assert [table.query(), plain(scanned), plain(got)] == [EVERY_TYPE] * 3


def test_a_projection_has_what_the_item_has_of_the_named_attributes(table: Table) -> None:
    names = ("empty", "nothing", "list", "missing")
    result = table.query(
        ProjectionExpression=", ".join(f"#{name}" for name in names),
        ExpressionAttributeNames={f"#{name}": name for name in names},
    )
    assert result == {name: EVERY_TYPE[name] for name in names[:-1]}


def test_a_projection_may_name_a_part_of_an_attribute(table: Table) -> None:
    result = table.query(
        ProjectionExpression="#map.#text, flag",
        ExpressionAttributeNames={"#map": "empty", "#text": "text"},
    )
    assert result == {"empty": {"text": ""}, "flag": False}


def test_a_projection_leaves_the_stored_item_as_it_is(table: Table) -> None:
    table.query(ProjectionExpression="flag")
    assert table.query() == EVERY_TYPE


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("SET #a = :one, #b = :one, #a = :one", "Two document paths overlap"),
        ("SET a1 = :one, b1.c1 = :one, b1 = :one", "Two document paths overlap"),
        ("SET #a = :one REMOVE #b, #c REMOVE #d", "can only be used once"),
        ("SET #a = :one SET #b = :one", "can only be used once"),
    ],
)
def test_an_update_that_names_an_attribute_or_a_clause_twice_is_refused(
    table: Table, expression: str, message: str
) -> None:
    names = {name: name[1:] for name in re.findall("#[a-d]", expression)}
    with pytest.raises(ClientError, match=message) as refused:
        table.client.update_item(
            TableName=table.name,
            Key={"pk": {"S": "one"}},
            UpdateExpression=expression,
            ExpressionAttributeValues={":one": {"N": "1"}},
            **({"ExpressionAttributeNames": names} if names else {}),
        )
    assert refused.value.response["Error"]["Code"] == "ValidationException"
    assert table.query() == EVERY_TYPE


def test_an_update_writes_the_values_of_its_own_request(table: Table) -> None:
    key = {"pk": {"S": "counted"}}
    for number, name in ((1, "a"), (2, "a"), (3, "b")):
        table.client.update_item(
            TableName=table.name,
            Key=key,
            UpdateExpression="SET #name = if_not_exists(#name, :n), newest = :n ADD writes :one",
            ExpressionAttributeNames={"#name": name},
            ExpressionAttributeValues={":n": {"N": str(number)}, ":one": {"N": "1"}},
        )
    item = plain(table.client.get_item(TableName=table.name, Key=key)["Item"])
    assert item == {"pk": "counted", "a": 1, "b": 3, "newest": 3, "writes": 3}
    table.client.delete_item(TableName=table.name, Key=key)


def test_of_many_that_write_at_once_if_nobody_has_only_one_writes(table: Table) -> None:
    writers, rounds = 8, 20
    together = threading.Barrier(writers)

    def write(key: str) -> bool:
        together.wait()
        try:
            table.client.update_item(
                TableName=table.name,
                Key={"pk": {"S": key}},
                UpdateExpression="SET taken = :taken",
                ConditionExpression="attribute_not_exists(taken)",
                ExpressionAttributeValues={":taken": {"BOOL": True}},
            )
        except ClientError as error:
            assert error.response["Error"]["Code"] == "ConditionalCheckFailedException"
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        for number in range(rounds):
            assert sum(pool.map(write, [f"key-{number}"] * writers)) == 1


def test_many_can_change_an_item_at_once(table: Table) -> None:
    key = {"pk": {"S": "shared"}}
    before = sys.getswitchinterval()

    def add(number: int) -> None:
        table.client.update_item(
            TableName=table.name,
            Key=key,
            UpdateExpression="SET #name = :one",
            ExpressionAttributeNames={"#name": f"a{number}"},
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    sys.setswitchinterval(1e-6)  # threads interrupt each other within a request
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(200)))
    finally:
        sys.setswitchinterval(before)
    item = plain(table.client.get_item(TableName=table.name, Key=key)["Item"])
    table.client.delete_item(TableName=table.name, Key=key)
    assert len(item) == 1 + 200


def test_an_item_may_have_400_kb_in_all_and_no_more(table: Table) -> None:
    parts = {f"part-{number}": {"S": "x" * 39_000} for number in range(10)}
    item = {"pk": {"S": "large"}, **parts}
    table.client.put_item(TableName=table.name, Item=item)
    with pytest.raises(ClientError, match="Item size"):
        table.client.put_item(TableName=table.name, Item={**item, "more": {"S": "x" * 20_000}})
    table.client.delete_item(TableName=table.name, Key={"pk": {"S": "large"}})


def test_of_a_transaction_of_puts_all_are_written_or_none(table: Table) -> None:
    def put(key: str, value: str) -> dict[str, Any]:
        return {
            "Put": {
                "TableName": table.name,
                "Item": {"pk": {"S": key}, "value": {"S": value}},
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        }

    def values() -> dict[str, str]:
        items = table.client.scan(TableName=table.name)["Items"]
        return {each["pk"]["S"]: each["value"]["S"] for each in items if "value" in each}

    table.client.transact_write_items(TransactItems=[put("a", "1"), put("b", "1")])
    with pytest.raises(ClientError) as cancelled:
        table.client.transact_write_items(TransactItems=[put("c", "2"), put("b", "2")])
    codes = [each["Code"] for each in cancelled.value.response["CancellationReasons"]]
    assert codes == ["None", "ConditionalCheckFailed"]
    assert values() == {"a": "1", "b": "1"}
    assert table.query() == EVERY_TYPE
