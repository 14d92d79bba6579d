"""The resource types that this CloudFormation supports."""

from __future__ import annotations

from lab.aws.awslambda.runtime import LambdaRuntime
from lab.aws.cloudformation.engine import Engine
from lab.aws.cloudformation.resource_type import ResourceType
from lab.aws.cloudformation.resources import (
    awslambda,
    cloudwatch,
    codebuild,
    dynamodb,
    ec2,
    ecr,
    eks,
    event_bridge,
    glue,
    iam,
    kms,
    logs,
    s3,
    scheduler,
    sns,
    step_functions,
)
from lab.aws.cloudformation.resources.custom_resources import (
    CustomResource,
    CustomResourceResponses,
)
from lab.aws.cloudformation.resources.nested_stacks import NestedStack
from lab.aws.cloudformation.stacks import Stacks

_SERVICES = (
    awslambda,
    cloudwatch,
    codebuild,
    dynamodb,
    ec2,
    ecr,
    eks,
    event_bridge,
    glue,
    iam,
    kms,
    logs,
    s3,
    scheduler,
    sns,
    step_functions,
)
#: The types of AWS's services by name; custom resources and nested stacks need the engine.
TYPES: dict[str, ResourceType] = {
    resource.type: resource for service in _SERVICES for resource in service.RESOURCES
}


def resource_types(
    engine: Engine, *, stacks: Stacks, runtime: LambdaRuntime, responses: CustomResourceResponses
) -> dict[str, ResourceType]:
    """A handler for every type, by the type's name."""
    return {
        **TYPES,
        CustomResource.type: CustomResource(runtime, responses),
        NestedStack.type: NestedStack(engine, stacks),
    }
