"""Whoever has the policy of docs/security.md for callers can write baselines, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from rackrate_cli.reading.baselines import Baseline
from rackrate_cli.reading.stack import Stack

from lab.aws.iam.identity import assume_role
from lab.tests.aws.region import Lab, allow, key_schema
from tests.docs.blocks import ROOT, blocks_of

KEYS = ("pk", "sk", "gsi1pk", "gsi1sk")
LEASE = {"pk": {"S": "lease"}, "sk": {"S": "nodes"}}
VERDICT = {"pk": {"S": "run#r"}, "sk": {"S": "verdict#throughput#treatment"}}
MINE = {"pk": {"S": "baseline#main"}, "sk": {"S": "baseline"}}
#: A run in the index that the sweep reads, in the place of a baseline.
RUN = {
    **{name: {"S": "x"} for name in ("run_id", "status", "started_at")},
    "gsi1pk": {"S": "runs"},
    "gsi1sk": {"S": "2026"},
}


def statements(table: str) -> list[dict[str, Any]]:
    """The documented policy for callers."""
    (text,) = (
        block.text for block in blocks_of(ROOT / "docs/security.md") if block.title == "caller"
    )
    names = {"REGION": "us-east-1", "ACCOUNT": "123456789012", "TABLE": table, "BUCKET": "b"}
    for name, value in names.items():
        text = text.replace(name, value)
    result: list[dict[str, Any]] = json.loads(text)["Statement"]
    return result


def new_table(lab: Lab) -> str:
    """A table with the stack's keys and its index."""
    index = {
        "IndexName": "runs",
        "KeySchema": key_schema("gsi1pk", "gsi1sk"),
        "Projection": {"ProjectionType": "ALL"},
    }
    return lab.table(*KEYS, KeySchema=key_schema("pk", "sk"), GlobalSecondaryIndexes=[index])


@pytest.fixture(scope="module")
def table(lab: Lab) -> str:
    return new_table(lab)


@pytest.fixture(scope="module")
def caller(lab: Lab, table: str) -> str:
    """The ARN of a role with exactly the documented policy."""
    return lab.role("lambda.amazonaws.com", *statements(table))


def test_a_caller_sets_changes_reads_and_removes_baselines(
    lab: Lab, table: str, caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = assume_role(caller, "test")
    session = boto3.Session(
        keys.access_key_id, keys.secret_access_key, keys.session_token, "us-east-1"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", lab.region.endpoint_url)
    outputs = {"TableName": table, "BucketName": "b", "StateMachineArn": "arn:x"}
    stack = Stack("rackrate", outputs, session)
    first, second = (Baseline("main", runs, "2026-11-28T00:00:00Z") for runs in (("a",), ("b",)))
    assert stack.set_baseline(first, None)
    assert not stack.set_baseline(second, None), "somebody else has set it"
    assert stack.set_baseline(second, first)
    assert stack.baselines() == [second] == [stack.baseline("main")]
    assert stack.remove_baseline("main") == second
    assert stack.baselines() == []


ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "delete the lease": ("delete_item", {"Key": LEASE}),
    "forge a verdict": ("put_item", {"Item": VERDICT}),
    "forge a verdict where one is": ("update_item", {"Key": VERDICT}),
    "put a run in a baseline's place": ("put_item", {"Item": MINE | RUN}),
    "use a name that ends as a baseline's": (
        "put_item",
        {"Item": MINE | {"pk": {"S": "run#baseline#main"}}},
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_caller_writes_no_other_item(lab: Lab, table: str, caller: str, name: str) -> None:
    operation, request = ATTACKS[name]
    with pytest.raises(ClientError, match="AccessDenied"):
        getattr(lab.as_role(caller, "dynamodb"), operation)(TableName=table, **request)


def of_table(name: str, operation: str, content: Any) -> dict[str, Any]:
    """The request of an operation on one table."""
    if operation.startswith("batch"):
        return {"RequestItems": {name: content}}
    if operation.startswith("transact"):
        parts = [{k: {"TableName": name, **v} for k, v in each.items()} for each in content]
        return {"TransactItems": parts}
    return {"TableName": name, **content}


@pytest.mark.parametrize(
    ("operation", "parts"),
    [
        ("transact_write_items", [{"Put": {"Item": VERDICT}}]),
        ("transact_write_items", [{"Delete": {"Key": LEASE}}]),
        ("transact_write_items", [{"Put": {"Item": MINE}}, {"Delete": {"Key": LEASE}}]),
        ("batch_write_item", [{"DeleteRequest": {"Key": LEASE}}]),
    ],
)
def test_no_transaction_and_no_batch_writes_another_item(
    lab: Lab, table: str, caller: str, operation: str, parts: list[dict[str, Any]]
) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        getattr(lab.as_role(caller, "dynamodb"), operation)(**of_table(table, operation, parts))


# -- the lab's condition keys

QUERY = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": MINE["pk"]}}
OF_INDEX = {
    "IndexName": "runs",
    "KeyConditionExpression": "#k = :pk and begins_with(gsi1sk, :sk)",
    "ExpressionAttributeNames": {"#k": "gsi1pk"},
    "ExpressionAttributeValues": {":pk": MINE["pk"], ":sk": {"S": "2026"}},
}
SET = {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"S": "x"}}}
OTHERS = {"ExpressionAttributeValues": {":pk": LEASE["pk"]}}


@pytest.mark.parametrize(
    ("operation", "within", "beyond"),
    [
        ("get_item", {"Key": MINE}, {"Key": LEASE}),
        ("put_item", {"Item": MINE}, {"Item": VERDICT}),
        ("update_item", {"Key": MINE, **SET}, {"Key": LEASE, **SET}),
        ("delete_item", {"Key": MINE}, {"Key": LEASE}),
        ("query", QUERY, QUERY | OTHERS),
        (
            "query",
            OF_INDEX,
            OF_INDEX | {"ExpressionAttributeValues": {":pk": LEASE["pk"], ":sk": {"S": "2026"}}},
        ),
        ("batch_get_item", {"Keys": [MINE]}, {"Keys": [MINE, LEASE]}),
        (
            "batch_write_item",
            [{"PutRequest": {"Item": MINE}}],
            [{"DeleteRequest": {"Key": MINE}}, {"PutRequest": {"Item": VERDICT}}],
        ),
        (
            "transact_write_items",
            [{"Update": {"Key": MINE, **SET}}],
            [{"Update": {"Key": LEASE, **SET}}],
        ),
        ("scan", None, {}),
    ],
)
def test_the_lab_knows_the_partition_keys_of_each_call(
    lab: Lab, operation: str, within: Any, beyond: Any
) -> None:
    name = new_table(lab)
    only = {
        "Null": {"dynamodb:LeadingKeys": "false"},
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": "baseline#*"},
    }
    role = lab.role("lambda.amazonaws.com", allow("dynamodb:*", "*", Condition=only))
    call = getattr(lab.as_role(role, "dynamodb"), operation)
    if within is not None:
        call(**of_table(name, operation, within))
    with pytest.raises(ClientError, match="AccessDenied"):
        call(**of_table(name, operation, beyond))


def test_a_transaction_s_parts_are_judged_one_by_one(lab: Lab) -> None:
    """A part that one statement allows is not refused for the key of another part."""
    name = new_table(lab)
    only = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": "baseline#*"}}
    role = lab.role(
        "lambda.amazonaws.com",
        allow("dynamodb:PutItem", "*", Condition=only),
        allow("dynamodb:ConditionCheckItem", "*"),
    )
    check = {"Key": LEASE, "ConditionExpression": "attribute_not_exists(pk)"}
    lab.as_role(role, "dynamodb").transact_write_items(
        TransactItems=[
            {"Put": {"TableName": name, "Item": MINE}},
            {"ConditionCheck": {"TableName": name, **check}},
        ]
    )
