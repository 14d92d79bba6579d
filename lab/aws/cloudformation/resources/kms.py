"""AWS::KMS::*"""

from __future__ import annotations

from lab.aws.cloudformation.api_resource import ApiResource, Call, names, renamed
from lab.aws.cloudformation.coercion import is_true
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    key = {"KeyId": context.state.physical_id}
    if old:
        description = {**key, "Description": new.get("Description", "")}
        context.call("kms", "UpdateKeyDescription", description)
        if "KeyPolicy" in new:
            policy = {**key, "PolicyName": "default", "Policy": new["KeyPolicy"]}
            context.call("kms", "PutKeyPolicy", policy)
    verb = "Enable" if is_true(new.get("EnableKeyRotation")) else "Disable"
    context.call("kms", f"{verb}KeyRotation", key)


RESOURCES = (
    ApiResource(
        type="AWS::KMS::Key",
        properties=names("Description EnableKeyRotation KeyPolicy PendingWindowInDays Tags"),
        later=("EnableKeyRotation", "PendingWindowInDays"),
        prepare=renamed(KeyPolicy="Policy"),
        creation=Call("CreateKey"),
        result="KeyMetadata",
        id="{KeyId}",
        attributes={"Arn": "{Arn}", "KeyId": "{KeyId}"},
        configure=_configure,
        # KMS deletes no key immediately.
        deletion=Call(
            "ScheduleKeyDeletion", KeyId="{id}", PendingWindowInDays="{PendingWindowInDays}"
        ),
        tagging=Tagging("kms", "TagResource", "KeyId", pairs=("TagKey", "TagValue")),
    ),
    ApiResource(
        type="AWS::KMS::Alias",
        properties=names("AliasName TargetKeyId"),
        creation=Call("CreateAlias"),
        id="{AliasName}",
        change=Call("UpdateAlias"),
        deletion=Call("DeleteAlias", AliasName="{id}"),
    ),
)
