"""The resource types this CloudFormation knows."""

from __future__ import annotations

from ..model import ResourceType
from . import (
    cloudwatch,
    containers,
    custom,
    dynamodb,
    ec2,
    eks,
    events,
    functions,
    glue,
    iam,
    kms,
    logs,
    messaging,
    nested,
    s3,
    states,
)

_MODULES = (
    cloudwatch,
    containers,
    custom,
    dynamodb,
    ec2,
    eks,
    events,
    functions,
    glue,
    iam,
    kms,
    logs,
    messaging,
    nested,
    s3,
    states,
)


def resource_types() -> dict[str, ResourceType]:
    """A handler for every supported type, by its name."""
    found: dict[str, ResourceType] = {}
    for module in _MODULES:
        for item in vars(module).values():
            if (
                isinstance(item, type)
                and issubclass(item, ResourceType)
                and item.__module__ == module.__name__
                and "type" in vars(item)
            ):
                found[item.type] = item()
    return found
