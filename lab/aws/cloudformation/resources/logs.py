"""AWS::Logs::*"""

from __future__ import annotations

from typing import Any

from moto.logs.models import logs_backends

from lab.aws.account import ACCOUNT_ID, REGION, arn
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType
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


def _check_key(context: ResourceContext, key_id: str, group_arn: str) -> None:
    """Refuse a key that CloudWatch Logs may not use, as AWS does when it creates the group."""
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


class LogGroup(ResourceType):
    """A log group with its retention."""

    type = "AWS::Logs::LogGroup"
    deletion = ("logs", "DeleteLogGroup", "logGroupName")
    properties = frozenset({"KmsKeyId", "LogGroupName", "RetentionInDays", "Tags"})
    name_property = "LogGroupName"

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        logs = context.client("logs")
        name = properties.get("LogGroupName") or context.physical_name(512)
        group_arn = arn("logs", f"log-group:{name}")
        options = {}
        if "KmsKeyId" in properties:
            _check_key(context, properties["KmsKeyId"], group_arn)
            options = {"kmsKeyId": properties["KmsKeyId"]}
        logs.create_log_group(
            logGroupName=name, tags=context.tags(properties.get("Tags")), **options
        )
        context.begin(name)
        self._retain(logs, name, properties)
        return Created(name, {"Arn": f"{group_arn}:*"})

    @staticmethod
    def _retain(logs: Any, name: str, properties: Properties) -> None:
        if "RetentionInDays" in properties:
            logs.put_retention_policy(
                logGroupName=name, retentionInDays=int(properties["RetentionInDays"])
            )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        logs, name = context.client("logs"), str(context.state.physical_id)
        if "KmsKeyId" in new:
            group_arn = str(context.state.attributes["Arn"]).removesuffix(":*")
            _check_key(context, new["KmsKeyId"], group_arn)
        # moto has neither AssociateKmsKey nor DisassociateKmsKey.
        group = logs_backends[ACCOUNT_ID][REGION].groups[name]
        group.kms_key_id = new.get("KmsKeyId")
        if "RetentionInDays" in old and "RetentionInDays" not in new:
            logs.delete_retention_policy(logGroupName=name)
        self._retain(logs, name, new)
