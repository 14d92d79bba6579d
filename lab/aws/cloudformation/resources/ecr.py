"""AWS::ECR::*"""

from __future__ import annotations

from lab.aws.cloudformation.coercion import camel_case, is_true
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType


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
            "Tags",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = properties.get("RepositoryName") or context.physical_name(256, lower=True)
        settings = ("EncryptionConfiguration", "ImageScanningConfiguration", "ImageTagMutability")
        request = camel_case({key: properties[key] for key in settings if key in properties})
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
    def _policies(context: ResourceContext, properties: Properties) -> None:
        name = {"repositoryName": context.state.physical_id}
        text = (properties.get("LifecyclePolicy") or {}).get("LifecyclePolicyText")
        if text:
            context.call("ecr", "PutLifecyclePolicy", {**name, "lifecyclePolicyText": text})

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        name = {"repositoryName": context.state.physical_id}
        mutability = new.get("ImageTagMutability", "MUTABLE")
        context.call("ecr", "PutImageTagMutability", {**name, "imageTagMutability": mutability})
        scanning = new.get("ImageScanningConfiguration") or {"ScanOnPush": False}
        context.call(
            "ecr",
            "PutImageScanningConfiguration",
            {
                **name,
                "imageScanningConfiguration": camel_case(scanning),
            },
        )
        self._policies(context, new)

    def delete(self, context: ResourceContext) -> None:
        force = is_true(context.state.properties.get("EmptyOnDelete"))
        context.call(
            "ecr",
            "DeleteRepository",
            {"repositoryName": context.state.physical_id, "force": force},
        )
