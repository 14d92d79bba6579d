"""AWS::DynamoDB::*"""

from __future__ import annotations

from typing import Any

from ..model import Created, ResourceContext, ResourceType

_CREATE = {
    "AttributeDefinitions",
    "KeySchema",
    "BillingMode",
    "DeletionProtectionEnabled",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "ProvisionedThroughput",
    "StreamSpecification",
    "TableClass",
}
_AFTERWARDS = {"PointInTimeRecoverySpecification", "TimeToLiveSpecification"}


class Table(ResourceType):
    """A table with its indexes, encryption, recovery and expiry."""

    type = "AWS::DynamoDB::Table"
    properties = frozenset(
        {
            "AttributeDefinitions",
            "BillingMode",
            "DeletionProtectionEnabled",
            "GlobalSecondaryIndexes",
            "KeySchema",
            "LocalSecondaryIndexes",
            "PointInTimeRecoverySpecification",
            "ProvisionedThroughput",
            "SSESpecification",
            "StreamSpecification",
            "TableClass",
            "TableName",
            "Tags",
            "TimeToLiveSpecification",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        dynamodb = context.client("dynamodb")
        name = properties.get("TableName") or context.physical_name(255)
        request = {key: properties[key] for key in _CREATE & set(properties)}
        if "StreamSpecification" in request:
            request["StreamSpecification"] = {
                "StreamEnabled": True,
                **request["StreamSpecification"],
            }
        if "SSESpecification" in properties:
            request["SSESpecification"] = _encryption(properties["SSESpecification"])
        table = context.call(
            "dynamodb",
            "CreateTable",
            {"TableName": name, "Tags": context.tag_list(properties.get("Tags")), **request},
        )["TableDescription"]
        context.begin(name)
        self._settings(dynamodb, name, properties)
        attributes = {"Arn": table["TableArn"]}
        if "LatestStreamArn" in table:
            attributes["StreamArn"] = table["LatestStreamArn"]
        return Created(name, attributes)

    @staticmethod
    def _settings(dynamodb: Any, name: str, properties: dict[str, Any]) -> None:
        if "TimeToLiveSpecification" in properties:
            dynamodb.update_time_to_live(
                TableName=name, TimeToLiveSpecification=properties["TimeToLiveSpecification"]
            )
        if "PointInTimeRecoverySpecification" in properties:
            dynamodb.update_continuous_backups(
                TableName=name,
                PointInTimeRecoverySpecification=properties["PointInTimeRecoverySpecification"],
            )

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        if changed - _AFTERWARDS - {"DeletionProtectionEnabled", "SSESpecification", "Tags"}:
            return None
        name = str(context.state.physical_id)
        if "DeletionProtectionEnabled" in changed:
            context.client("dynamodb").update_table(
                TableName=name,
                DeletionProtectionEnabled=bool(new.get("DeletionProtectionEnabled", False)),
            )
        if "SSESpecification" in changed:
            wanted = _encryption(new.get("SSESpecification") or {"SSEEnabled": False})
            context.call("dynamodb", "UpdateTable", {"TableName": name, "SSESpecification": wanted})
        self._settings(
            context.client("dynamodb"), name, {key: new[key] for key in changed & set(new)}
        )
        return Created(name, context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        context.client("dynamodb").delete_table(TableName=context.state.physical_id)


def _encryption(specification: dict[str, Any]) -> dict[str, Any]:
    """The API's specification, whose switch has another name."""
    return {
        ("Enabled" if key == "SSEEnabled" else key): value for key, value in specification.items()
    }
