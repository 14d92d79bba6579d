"""The resource types that this CloudFormation supports."""

from __future__ import annotations

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
#: The types of AWS's services by name; others need more than an API.
TYPES: dict[str, ResourceType] = {
    resource.type: resource for service in _SERVICES for resource in service.RESOURCES
}


def resource_types(
    engine: Engine, stacks: Stacks, *others: ResourceType
) -> dict[str, ResourceType]:
    """A handler for every type, by the type's name; `others` are those that need more."""
    return {
        **TYPES,
        **{other.type: other for other in others},
        NestedStack.type: NestedStack(engine, stacks),
    }
