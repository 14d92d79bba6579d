"""AWS::ECR::* and AWS::CodeBuild::*"""

from __future__ import annotations

import json
from typing import Any

from ..model import Created, ResourceContext, ResourceType


class Repository(ResourceType):
    """A repository of container images."""

    type = "AWS::ECR::Repository"
    properties = frozenset(
        {
            "EmptyOnDelete",
            "EncryptionConfiguration",
            "ImageScanningConfiguration",
            "ImageTagMutability",
            "LifecyclePolicy",
            "RepositoryName",
            "RepositoryPolicyText",
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        name = properties.get("RepositoryName") or context.physical_name(256, lower=True)
        request = {
            _lower(key): properties[key] for key in ("ImageTagMutability",) if key in properties
        }
        for key in ("EncryptionConfiguration", "ImageScanningConfiguration"):
            if key in properties:
                request[_lower(key)] = {_lower(k): v for k, v in properties[key].items()}
        made = context.call(
            "ecr",
            "CreateRepository",
            {
                "repositoryName": name,
                "tags": context.tag_list(properties.get("Tags")),
                **request,
            },
        )["repository"]
        context.begin(name)
        self._policies(context, properties)
        return Created(name, {"Arn": made["repositoryArn"], "RepositoryUri": made["repositoryUri"]})

    @staticmethod
    def _policies(context: ResourceContext, properties: dict[str, Any]) -> None:
        name = {"repositoryName": context.state.physical_id}
        text = (properties.get("LifecyclePolicy") or {}).get("LifecyclePolicyText")
        if text:
            context.call("ecr", "PutLifecyclePolicy", {**name, "lifecyclePolicyText": text})
        if "RepositoryPolicyText" in properties:
            policy = properties["RepositoryPolicyText"]
            context.call(
                "ecr",
                "SetRepositoryPolicy",
                {**name, "policyText": policy if isinstance(policy, str) else json.dumps(policy)},
            )

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if any(
            old.get(key) != new.get(key) for key in ("RepositoryName", "EncryptionConfiguration")
        ):
            return None
        name = {"repositoryName": context.state.physical_id}
        mutability = new.get("ImageTagMutability", "MUTABLE")
        context.call("ecr", "PutImageTagMutability", {**name, "imageTagMutability": mutability})
        scanning = new.get("ImageScanningConfiguration") or {"ScanOnPush": False}
        context.call(
            "ecr",
            "PutImageScanningConfiguration",
            {
                **name,
                "imageScanningConfiguration": {_lower(k): v for k, v in scanning.items()},
            },
        )
        self._policies(context, new)
        return Created(str(context.state.physical_id), context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        force = str(context.state.properties.get("EmptyOnDelete", "false")).lower() == "true"
        context.call(
            "ecr",
            "DeleteRepository",
            {"repositoryName": context.state.physical_id, "force": force},
        )


class Project(ResourceType):
    """A build project."""

    type = "AWS::CodeBuild::Project"
    properties = frozenset(
        {
            "Artifacts",
            "Cache",
            "ConcurrentBuildLimit",
            "Description",
            "EncryptionKey",
            "Environment",
            "LogsConfig",
            "Name",
            "QueuedTimeoutInMinutes",
            "ServiceRole",
            "Source",
            "SourceVersion",
            "Tags",
            "TimeoutInMinutes",
            "VpcConfig",
        }
    )

    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        name = properties.get("Name") or context.physical_name(150)
        made = context.call(
            "codebuild", "CreateProject", {"name": name, **self._request(context, properties)}
        )["project"]
        return Created(name, {"Arn": made["arn"]})

    @staticmethod
    def _request(context: ResourceContext, properties: dict[str, Any]) -> dict[str, Any]:
        request = {
            _lower(key): _camel(value)
            for key, value in properties.items()
            if key not in ("Name", "Tags")
        }
        source = request.get("source", {})
        if "buildSpec" in source:
            source["buildspec"] = source.pop("buildSpec")
        logs = request.get("logsConfig", {})
        if "s3Logs" in logs or "cloudWatchLogs" in logs:
            request["logsConfig"] = logs
        tags = context.tags(properties.get("Tags"))
        return {
            **request,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        if old.get("Name") != new.get("Name"):
            return None
        name = str(context.state.physical_id)
        context.call("codebuild", "UpdateProject", {"name": name, **self._request(context, new)})
        return Created(name, context.state.attributes)

    def delete(self, context: ResourceContext) -> None:
        context.call("codebuild", "DeleteProject", {"name": context.state.physical_id})


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


def _camel(value: Any) -> Any:
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if isinstance(value, dict):
        return {_lower(key): _camel(item) for key, item in value.items()}
    return value
