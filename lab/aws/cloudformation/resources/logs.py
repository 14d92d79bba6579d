"""AWS::Logs::*"""

from __future__ import annotations

from typing import Any

from ..model import Created, ResourceContext, ResourceType


class LogGroup(ResourceType):
    """A log group with its retention."""

    type = "AWS::Logs::LogGroup"

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        logs = context.client("logs")
        name = properties.get("LogGroupName") or context.physical_name(512)
        options = {"kmsKeyId": properties["KmsKeyId"]} if "KmsKeyId" in properties else {}
        logs.create_log_group(
            logGroupName=name, tags=context.tags(properties.get("Tags")), **options
        )
        context.begin(name)
        self._retain(logs, name, properties)
        services = context.services
        arn = f"arn:aws:logs:{services.region}:{services.account_id}:log-group:{name}:*"
        return Created(name, {"Arn": arn})

    @staticmethod
    def _retain(logs: Any, name: str, properties: dict[str, Any]) -> None:
        if "RetentionInDays" in properties:
            logs.put_retention_policy(
                logGroupName=name, retentionInDays=int(properties["RetentionInDays"])
            )

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if old.get("LogGroupName") != new.get("LogGroupName"):
            return None
        self._retain(context.client("logs"), str(context.state.physical_id), new)
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        context.client("logs").delete_log_group(logGroupName=context.state.physical_id)
