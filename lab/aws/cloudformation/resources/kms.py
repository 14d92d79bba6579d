"""AWS::KMS::*"""

from __future__ import annotations

from lab.aws.cloudformation.coercion import is_true
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType

_PENDING_DAYS = 30  # CloudFormation's default


class Key(ResourceType):
    """A customer-managed key. KMS deletes no key immediately, so a deletion is scheduled."""

    type = "AWS::KMS::Key"
    properties = frozenset(
        {
            "Description",
            "EnableKeyRotation",
            "KeyPolicy",
            "PendingWindowInDays",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        request = {"Description": properties.get("Description", "")}
        if "KeyPolicy" in properties:
            request["Policy"] = properties["KeyPolicy"]
        tags = [
            {"TagKey": key, "TagValue": value}
            for key, value in context.tags(properties.get("Tags")).items()
        ]
        made = context.call("kms", "CreateKey", {**request, "Tags": tags})["KeyMetadata"]
        context.begin(made["KeyId"])
        self._rotate(context, properties)
        return Created(made["KeyId"], {"Arn": made["Arn"], "KeyId": made["KeyId"]})

    @staticmethod
    def _rotate(context: ResourceContext, properties: Properties) -> None:
        key = {"KeyId": context.state.physical_id}
        if is_true(properties.get("EnableKeyRotation")):
            context.call("kms", "EnableKeyRotation", key)
        else:
            context.call("kms", "DisableKeyRotation", key)

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        key = str(context.state.physical_id)
        if "KeyPolicy" in new:
            policy = {"KeyId": key, "PolicyName": "default", "Policy": new["KeyPolicy"]}
            context.call("kms", "PutKeyPolicy", policy)
        context.call(
            "kms",
            "UpdateKeyDescription",
            {"KeyId": key, "Description": new.get("Description", "")},
        )
        self._rotate(context, new)

    def delete(self, context: ResourceContext) -> None:
        days = context.state.properties.get("PendingWindowInDays", _PENDING_DAYS)
        context.call(
            "kms",
            "ScheduleKeyDeletion",
            {"KeyId": context.state.physical_id, "PendingWindowInDays": days},
        )


class KmsAlias(ResourceType):
    """An alias of a key."""

    type = "AWS::KMS::Alias"
    deletion = ("kms", "DeleteAlias", "AliasName")
    properties = frozenset({"AliasName", "TargetKeyId"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        context.call("kms", "CreateAlias", properties)
        return Created(properties["AliasName"])

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        context.call("kms", "UpdateAlias", new)
