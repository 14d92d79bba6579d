"""AWS::CodeBuild::*"""

from __future__ import annotations

from lab.aws.cloudformation.api_resource import ApiResource, Call, names
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging


def _prepare(context: ResourceContext, properties: Properties) -> Properties:
    """Spell the build's specification as the API does."""
    source = {
        "buildspec" if key == "BuildSpec" else key: value
        for key, value in properties["Source"].items()
    }
    return {**properties, "Source": source}


RESOURCES = (
    ApiResource(
        type="AWS::CodeBuild::Project",
        properties=names(
            "Artifacts Description Environment LogsConfig Name QueuedTimeoutInMinutes ServiceRole"
            " Source Tags TimeoutInMinutes"
        ),
        name=("Name", 150),
        camel=True,
        prepare=_prepare,
        creation=Call("CreateProject"),
        result="project",
        id="{name}",
        attributes={"Arn": "{arn}"},
        change=Call("UpdateProject", name="{id}"),
        deletion=Call("DeleteProject", name="{id}"),
        tagging=Tagging("codebuild", "UpdateProject", "name", "tags", ("key", "value"), "{id}"),
    ),
)
