"""AWS::CodeBuild::*"""

from __future__ import annotations

from typing import Any

from lab.aws.cloudformation.coercion import camel_case
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


class Project(ResourceType):
    """A build project."""

    type = "AWS::CodeBuild::Project"
    deletion = ("codebuild", "DeleteProject", "name")
    properties = frozenset(
        {
            "Artifacts",
            "Description",
            "Environment",
            "LogsConfig",
            "Name",
            "QueuedTimeoutInMinutes",
            "ServiceRole",
            "Source",
            "Tags",
            "TimeoutInMinutes",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = properties.get("Name") or context.physical_name(150)
        made = context.call(
            "codebuild", "CreateProject", {"name": name, **self._request(context, properties)}
        )["project"]
        return Created(name, {"Arn": made["arn"]})

    @staticmethod
    def _request(context: ResourceContext, properties: Properties) -> dict[str, Any]:
        request = camel_case({k: v for k, v in properties.items() if k not in ("Name", "Tags")})
        source = request.get("source", {})
        if "buildSpec" in source:
            source["buildspec"] = source.pop("buildSpec")
        tags = context.tags(properties.get("Tags"))
        return {
            **request,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        name = str(context.state.physical_id)
        context.call("codebuild", "UpdateProject", {"name": name, **self._request(context, new)})
