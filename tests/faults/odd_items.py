"""Items of the table that nobody can read or clean up, and the hourly sweep that meets them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from tests.faults.scene import Scene

#: What the runs and campaigns of these items are called, and the arm with a lease of no form.
NAME = "odd-item-of-a-test"


def sweep_now(scene: Scene, *handlers: str) -> None:
    """Invoke the functions of the hourly sweep that have these handlers."""
    client = scene.lab.aws("lambda")
    names = {
        each["Handler"]: each["FunctionName"]
        for page in client.get_paginator("list_functions").paginate()
        for each in page["Functions"]
    }
    event = json.dumps({"detail-type": "Scheduled Event"}).encode()
    for handler in handlers:
        response = client.invoke(FunctionName=names[f"handlers.{handler}.handler"], Payload=event)
        assert "FunctionError" not in response, f"{handler}: {response['Payload'].read()}"


@contextlib.contextmanager
def garbage_swept(scene: Scene) -> Iterator[None]:
    """The table has items that nobody can read or clean up while the sweep comes."""
    dynamodb, table = scene.lab.aws("dynamodb"), scene.lab.outputs["TableName"]
    listed = {"status": {"S": "running"}, "gsi1sk": {"S": "2026-11-22T07:00:00.000Z"}}
    started = {"started_at": listed["gsi1sk"], "kind": {"S": "draws"}}
    odd: list[dict[str, dict[str, str]]] = [
        {"execution_arn": {"S": "nonsense"}, **started},
        {"execution_arn": {"S": "arn:aws:states:us-east-1:999999999999:execution:a:b"}, **started},
        {"started_at": {"S": "yesterday"}, "expected_seconds": {"N": "9.9e125"}},
        {},
    ]
    keys: list[dict[str, dict[str, str]]] = []

    def change_leases(expression: str, **values: object) -> None:
        dynamodb.update_item(
            TableName=table,
            Key={"pk": {"S": "lease"}, "sk": {"S": "nodes"}},
            UpdateExpression=expression,
            ExpressionAttributeNames={"#arm": NAME},
            **values,
        )

    try:
        for noun in ("run", "campaign"):
            for number, fields in enumerate(odd):
                key = {"pk": {"S": f"{noun}#{NAME}-{number}"}, "sk": {"S": noun}}
                keys.append(key)
                item = {**fields, **listed, **key, "gsi1pk": {"S": f"{noun}s"}}
                dynamodb.put_item(TableName=table, Item=item)
        change_leases("SET #arm = :odd", ExpressionAttributeValues={":odd": {"S": "no lease"}})
        sweep_now(scene, "teardown", "restore")
        listing = scene.lab.command(*scene.cli("list"), check=False)
        assert listing.returncode == 0, listing.stderr
        yield
    finally:
        for key in keys:
            dynamodb.delete_item(TableName=table, Key=key)
        change_leases("REMOVE #arm")
