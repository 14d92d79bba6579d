"""The resource types that this CloudFormation supports."""

from __future__ import annotations

import importlib
import pkgutil

from lab.aws.cloudformation.engine import Engine
from lab.aws.cloudformation.resource_type import ResourceType
from lab.aws.cloudformation.resources.nested_stacks import NestedStack
from lab.aws.cloudformation.stacks import Stacks

_MODULES = (
    importlib.import_module(f"{__name__}.{module.name}")
    for module in pkgutil.iter_modules(__path__)
)
#: The types of AWS's services by name, which each module lists; others need more than an API.
TYPES: dict[str, ResourceType] = {
    resource.type: resource for module in _MODULES for resource in getattr(module, "RESOURCES", ())
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
