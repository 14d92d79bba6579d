"""AWS::KMS::*"""

from __future__ import annotations

from typing import Any

from ..model import Created, ResourceContext, ResourceType

_PENDING_DAYS = 30  # CloudFormation's default


class Key(ResourceType):
    """A customer-managed key; its deletion is scheduled, as KMS deletes nothing at once."""

    type = "AWS::KMS::Key"
    properties = frozenset(
        {
            "Description",
            "EnableKeyRotation",
            "Enabled",
            "KeyPolicy",
            "KeySpec",
            "KeyUsage",
            "MultiRegion",
            "PendingWindowInDays",
            "RotationPeriodInDays",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        request: dict[str, Any] = {
            key: properties[key]
            for key in ("Description", "KeySpec", "KeyUsage", "MultiRegion")
            if key in properties
        }
        if "KeyPolicy" in properties:
            request["Policy"] = properties["KeyPolicy"]
        tags = [
            {"TagKey": key, "TagValue": value}
            for key, value in context.tags(properties.get("Tags")).items()
        ]
        made = context.call("kms", "CreateKey", {**request, "Tags": tags})["KeyMetadata"]
        context.begin(made["KeyId"])
        self._settings(context, properties)
        return Created(made["KeyId"], {"Arn": made["Arn"], "KeyId": made["KeyId"]})

    @staticmethod
    def _settings(context: ResourceContext, properties: dict[str, Any]) -> None:
        key = {"KeyId": context.state.physical_id}
        if str(properties.get("EnableKeyRotation", "false")).lower() == "true":
            period = (
                {"RotationPeriodInDays": properties["RotationPeriodInDays"]}
                if "RotationPeriodInDays" in properties
                else {}
            )
            context.call("kms", "EnableKeyRotation", {**key, **period})
        else:
            context.call("kms", "DisableKeyRotation", key)
        if str(properties.get("Enabled", "true")).lower() == "true":
            context.call("kms", "EnableKey", key)
        else:
            context.call("kms", "DisableKey", key)

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if any(old.get(key) != new.get(key) for key in ("KeySpec", "KeyUsage", "MultiRegion")):
            return None
        key = str(context.state.physical_id)
        if "KeyPolicy" in new:
            policy = {"KeyId": key, "PolicyName": "default", "Policy": new["KeyPolicy"]}
            context.call("kms", "PutKeyPolicy", policy)
        context.call(
            "kms",
            "UpdateKeyDescription",
            {"KeyId": key, "Description": new.get("Description", "")},
        )
        self._settings(context, new)
        return Created(key, context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        days = context.state.properties.get("PendingWindowInDays", _PENDING_DAYS)
        context.call(
            "kms",
            "ScheduleKeyDeletion",
            {"KeyId": context.state.physical_id, "PendingWindowInDays": days},
        )


class Alias(ResourceType):
    """A key's other name."""

    type = "AWS::KMS::Alias"
    properties = frozenset({"AliasName", "TargetKeyId"})

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        context.call("kms", "CreateAlias", properties)
        return Created(properties["AliasName"])

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if old["AliasName"] != new["AliasName"]:
            return None
        context.call("kms", "UpdateAlias", new)
        return Created(new["AliasName"])

    def delete(self, context: ResourceContext) -> None:
        context.call("kms", "DeleteAlias", {"AliasName": context.state.physical_id})
