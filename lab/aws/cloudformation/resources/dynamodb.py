"""AWS::DynamoDB::*"""

from __future__ import annotations

from typing import Any

from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType

_CREATE = ("AttributeDefinitions", "BillingMode", "GlobalSecondaryIndexes", "KeySchema")


class DynamoDbTable(ResourceType):
    """A table with its indexes, encryption and recovery."""

    type = "AWS::DynamoDB::Table"
    deletion = ("dynamodb", "DeleteTable", "TableName")
    properties = frozenset(
        {
            "AttributeDefinitions",
            "BillingMode",
            "GlobalSecondaryIndexes",
            "KeySchema",
            "PointInTimeRecoverySpecification",
            "SSESpecification",
            "TableName",
            "Tags",
        }
    )
    also_replacing = _CREATE

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        dynamodb = context.client("dynamodb")
        name = properties.get("TableName") or context.physical_name(255)
        request = {key: properties[key] for key in _CREATE if key in properties}
        if "SSESpecification" in properties:
            request["SSESpecification"] = _encryption(properties["SSESpecification"])
        table = context.call(
            "dynamodb",
            "CreateTable",
            {"TableName": name, "Tags": context.tag_list(properties.get("Tags")), **request},
        )["TableDescription"]
        context.begin(name)
        self._recovery(dynamodb, name, properties)
        return Created(name, {"Arn": table["TableArn"]})

    @staticmethod
    def _recovery(dynamodb: Any, name: str, properties: Properties) -> None:
        if "PointInTimeRecoverySpecification" in properties:
            dynamodb.update_continuous_backups(
                TableName=name,
                PointInTimeRecoverySpecification=properties["PointInTimeRecoverySpecification"],
            )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        name = str(context.state.physical_id)
        if "SSESpecification" in changed:
            wanted = _encryption(new.get("SSESpecification") or {"SSEEnabled": False})
            context.call("dynamodb", "UpdateTable", {"TableName": name, "SSESpecification": wanted})
        self._recovery(
            context.client("dynamodb"), name, {key: new[key] for key in changed & set(new)}
        )


def _encryption(specification: dict[str, Any]) -> dict[str, Any]:
    """The API's specification, in which the switch has another name."""
    return {
        ("Enabled" if key == "SSEEnabled" else key): value for key, value in specification.items()
    }
