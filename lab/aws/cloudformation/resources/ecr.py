"""AWS::ECR::*"""

from __future__ import annotations

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.coercion import camel_case
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging


def _configure(context: ResourceContext, old: Properties, new: Properties) -> None:
    def put(operation: str, **parameters: object) -> None:
        request = {"repositoryName": context.state.physical_id, **parameters}
        context.call("ecr", operation, request)

    if old:
        mutability = new.get("ImageTagMutability", "MUTABLE")
        put("PutImageTagMutability", imageTagMutability=mutability)
        scanning = camel_case(new.get("ImageScanningConfiguration") or {"ScanOnPush": False})
        put("PutImageScanningConfiguration", imageScanningConfiguration=scanning)
    text = (new.get("LifecyclePolicy") or {}).get("LifecyclePolicyText")
    if text:
        put("PutLifecyclePolicy", lifecyclePolicyText=text)


RESOURCES = (
    ApiResource(
        type="AWS::ECR::Repository",
        properties=names(
            "EmptyOnDelete EncryptionConfiguration ImageScanningConfiguration ImageTagMutability"
            " LifecyclePolicy RepositoryName Tags"
        ),
        name=("RepositoryName", 256),
        lower_name=True,
        camel=True,
        later=("EmptyOnDelete", "LifecyclePolicy"),
        creation=Call("CreateRepository"),
        result="repository",
        id="{repositoryName}",
        attributes={"Arn": "{repositoryArn}", "RepositoryUri": "{repositoryUri}"},
        configure=_configure,
        deletion=Call("DeleteRepository", repositoryName="{id}", force="{EmptyOnDelete}"),
        tagging=Tagging("ecr", "TagResource", "resourceArn", "tags"),
    ),
)
