"""The interface of resource types, and what a type may use while it works on a resource."""

from __future__ import annotations

import secrets
import string
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore import xform_name

from lab.aws.account import REGION
from lab.aws.clients import ClientFactory
from lab.aws.cloudformation.coercion import request
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.stacks import ResourceState, Stack

Properties = dict[str, Any]


@dataclass(frozen=True)
class Created:
    """A created resource: the value of Ref and the values of Fn::GetAtt."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class ResourceContext:
    """What a resource type may use while it works on one resource."""

    clients: ClientFactory
    stack: Stack
    state: ResourceState

    def client(self, service: str) -> Any:
        """A boto3 client of the emulated AWS, with the deployer's credentials."""
        return self.clients.get(service)

    def physical_name(self, max_length: int = 64, *, lower: bool = False) -> str:
        """A name in CloudFormation's form: stack, logical id, random suffix."""
        suffix = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(12))
        room = max_length - len(suffix) - 1
        stem = f"{self.stack.name}-{self.state.logical_id}"
        if len(stem) > room:
            stack_room = max(1, room - len(self.state.logical_id) - 1)
            stem = f"{self.stack.name[:stack_room]}-{self.state.logical_id}"[:room]
        name = f"{stem}-{suffix}"
        return name.lower() if lower else name

    def begin(self, physical_id: str) -> None:
        """Give the stack the id before the resource is complete, so that it can be cleaned up."""
        self.state.physical_id = physical_id

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Call an operation (such as CreateTable) with scalars of the types that it declares."""
        client = self.client(service)
        typed = request(client, operation, parameters)
        return getattr(client, xform_name(operation))(**typed)

    def tag_list(self, extra: Any = None) -> list[dict[str, str]]:
        """`tags` in the form that most APIs take."""
        return [{"Key": key, "Value": value} for key, value in self.tags(extra).items()]

    def tags(self, extra: Any = None) -> dict[str, str]:
        """CloudFormation's own tags, the stack's, and those of the resource."""
        own = {
            "aws:cloudformation:stack-name": self.stack.name,
            "aws:cloudformation:stack-id": self.stack.stack_id,
            "aws:cloudformation:logical-id": self.state.logical_id,
        }
        if isinstance(extra, list):
            extra = {tag["Key"]: tag["Value"] for tag in extra}
        return {**own, **self.stack.tags, **(extra or {})}


class ResourceType(ABC):
    """One CloudFormation resource type. Its methods raise an exception of any kind on failure."""

    type: ClassVar[str]
    # What deletes the resource, where the type has no `delete` of its own: service, operation,
    # and the parameter that takes the physical id.
    deletion: ClassVar[tuple[str, str, str]]
    # Properties that the type supports; None for a type whose properties are the user's own.
    properties: ClassVar[frozenset[str] | None] = frozenset()
    # The property with the resource's name, where a template may set one.
    name_property: ClassVar[str | None] = None
    # Paths of properties that only another resource can have, besides those of the type's schema.
    also_replacing: ClassVar[tuple[str, ...]] = ()
    # Whether a rollback gives the resource its old properties also if its own update failed: some
    # of the new ones may be in effect.
    reverts_failed_update: ClassVar[bool] = False

    @classmethod
    def check(cls, properties: Mapping[str, Any]) -> None:
        """Refuse properties that the type does not support. Raises ResourceFailure."""
        if cls.properties is not None:
            strange = sorted(set(properties) - cls.properties)
            if strange:
                raise ResourceFailure(
                    f"Encountered unsupported property {strange[0]}: of {cls.type} this"
                    f" CloudFormation carries out {', '.join(sorted(cls.properties)) or 'none'}"
                )

    def replaces(self, old: Properties, new: Properties) -> bool:
        """Whether only another resource can have the new properties.

        That is so for a type without an update, and for the `createOnlyProperties` of its schema in
        CloudFormation's registry, which cfn-lint has.
        """
        if type(self).update is ResourceType.update:
            return True
        # Imported here, because cfn-lint takes longer to load than the server to start.
        from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, self.type).schema
        only_created = schema.get("createOnlyProperties", ())
        paths = (
            path.removeprefix("/properties/") for path in (*only_created, *self.also_replacing)
        )
        return any(_at(path, old) != _at(path, new) for path in paths)

    @abstractmethod
    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the resource and wait until it is usable."""

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> Created | None:
        """Update the resource in place. Returns None if its id and its attributes stay."""
        raise AssertionError(f"{self.type} has no update, so {new} needs another resource")

    def revert(self, context: ResourceContext, new: Properties, old: Properties) -> Created | None:
        """Take an update from `old` to `new` back."""
        return self.update(context, new, old)

    def delete(self, context: ResourceContext) -> None:
        """Delete the resource. It is no error when the resource is already gone."""
        service, operation, parameter = self.deletion
        context.call(service, operation, {parameter: context.state.physical_id})


def _at(path: str, properties: Properties) -> Any:
    """The value of a property at a path such as `AccessConfig/AuthenticationMode`, if any."""
    value: Any = properties
    for name in path.split("/"):
        value = (value or {}).get(name)
    return value
