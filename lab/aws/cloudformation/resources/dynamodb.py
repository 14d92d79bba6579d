"""AWS::DynamoDB::*"""

from __future__ import annotations

from typing import Any

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging

_ENCRYPTION, _RECOVERY = "SSESpecification", "PointInTimeRecoverySpecification"


def _encryption(specification: dict[str, Any]) -> dict[str, Any]:
    """The API's specification, in which the switch has another name."""
    return {
        ("Enabled" if key == "SSEEnabled" else key): value for key, value in specification.items()
    }


def _prepare(context: ResourceContext, properties: Properties) -> Properties:
    if _ENCRYPTION not in properties:
        return properties
    return {**properties, _ENCRYPTION: _encryption(properties[_ENCRYPTION])}


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    table = {"TableName": context.state.physical_id}
    if old and old.get(_ENCRYPTION) != new.get(_ENCRYPTION):
        encryption = _encryption(new.get(_ENCRYPTION) or {"SSEEnabled": False})
        context.call("dynamodb", "UpdateTable", {**table, _ENCRYPTION: encryption})
    if _RECOVERY in new and old.get(_RECOVERY) != new[_RECOVERY]:
        request = {**table, _RECOVERY: new[_RECOVERY]}
        context.call("dynamodb", "UpdateContinuousBackups", request)


RESOURCES = (
    ApiResource(
        type="AWS::DynamoDB::Table",
        properties=names(
            "AttributeDefinitions BillingMode GlobalSecondaryIndexes KeySchema"
            " PointInTimeRecoverySpecification SSESpecification TableName Tags"
        ),
        also_replacing=names("AttributeDefinitions BillingMode GlobalSecondaryIndexes KeySchema"),
        name=("TableName", 255),
        later=(_RECOVERY,),
        prepare=_prepare,
        creation=Call("CreateTable"),
        result="TableDescription",
        id="{TableName}",
        attributes={"Arn": "{TableArn}"},
        configure=_configure,
        deletion=Call("DeleteTable", TableName="{id}"),
        tagging=Tagging("dynamodb", "TagResource", "ResourceArn"),
    ),
)
