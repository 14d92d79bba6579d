"""AWS::Logs::*"""

from __future__ import annotations

from moto.logs.models import logs_backends

from lab.aws.account import ACCOUNT_ID, REGION, arn
from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging
from lab.aws.kms import key_policy_allows

# The actions that the key's own policy must allow CloudWatch Logs.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
_KEY_ACTIONS = (
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncryptFrom",
    "kms:GenerateDataKey",
    "kms:DescribeKey",
)


def _check_key(context: ResourceContext, key_id: str, group: str) -> None:
    """Refuse a key that CloudWatch Logs may not use, as AWS does when it creates the group."""
    group_arn = arn("logs", f"log-group:{group}")
    policy = context.client("kms").get_key_policy(KeyId=key_id, PolicyName="default")["Policy"]
    conditions = {"kms:encryptioncontext:aws:logs:arn": [group_arn]}
    principals = {f"logs.{REGION}.amazonaws.com"}
    for action in _KEY_ACTIONS:
        if not key_policy_allows(policy, action, "Service", principals, conditions):
            raise ResourceFailure(
                f"The specified KMS key does not exist or is not allowed to be used with Arn"
                f" '{group_arn}': its policy does not let"
                f" {min(principals)} {action}"
            )


def _prepare(context: ResourceContext, properties: Properties) -> Properties:
    if "KmsKeyId" in properties:
        _check_key(context, properties["KmsKeyId"], properties["LogGroupName"])
    return properties


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    name = str(context.state.physical_id)
    if old:
        if "KmsKeyId" in new:
            _check_key(context, new["KmsKeyId"], name)
        # moto has neither AssociateKmsKey nor DisassociateKmsKey.
        logs_backends[ACCOUNT_ID][REGION].groups[name].kms_key_id = new.get("KmsKeyId")
    if "RetentionInDays" in new:
        retention = {"logGroupName": name, "retentionInDays": new["RetentionInDays"]}
        context.call("logs", "PutRetentionPolicy", retention)
    elif "RetentionInDays" in old:
        context.call("logs", "DeleteRetentionPolicy", {"logGroupName": name})


RESOURCES = (
    ApiResource(
        type="AWS::Logs::LogGroup",
        properties=names("KmsKeyId LogGroupName RetentionInDays Tags"),
        name=("LogGroupName", 512),
        camel=True,
        later=("RetentionInDays",),
        prepare=_prepare,
        creation=Call("CreateLogGroup"),
        id="{LogGroupName}",
        attributes={"Arn": arn("logs", "log-group:{id}:*")},
        configure=_configure,
        deletion=Call("DeleteLogGroup", logGroupName="{id}"),
        tagging=Tagging("logs", "TagLogGroup", "logGroupName", "tags", None, "{id}"),
    ),
)
