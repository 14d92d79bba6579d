"""The interface of resource types, and what a type may use while it works on a resource."""

from __future__ import annotations

import logging
import secrets
import string
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore import xform_name

from lab.aws.account import REGION
from lab.aws.clients import ClientFactory
from lab.aws.cloudformation.coercion import request
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.stacks import ResourceState, Stack

LOG = logging.getLogger(__name__)

Properties = dict[str, Any]


@dataclass(frozen=True)
class Created:
    """A created resource: the value of Ref and the values of Fn::GetAtt."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tagging:
    """How an API takes tags, when it creates a resource and later.

    `resource` is the operation's parameter with the resource, which the template `identity` makes
    of its attributes and its physical id (`id`). `pairs` has the names of key and value in a list
    of tags; without them, the API takes a mapping. An API without `at_creation` tags only what
    exists.
    """

    service: str
    operation: str
    resource: str
    parameter: str = "Tags"
    pairs: tuple[str, str] | None = ("Key", "Value")
    identity: str = "{Arn}"
    at_creation: bool = True
    takes_own: bool = True

    def of(self, tags: Mapping[str, str]) -> dict[str, Any]:
        """The parameter with the tags."""
        if not self.takes_own:
            tags = _without_own(tags)
        if self.pairs is None:
            return {self.parameter: dict(tags)}
        key, value = self.pairs
        return {self.parameter: [{key: name, value: text} for name, text in tags.items()]}

    def put(self, context: ResourceContext, tags: Mapping[str, str]) -> None:
        """Set tags on a resource that exists."""
        resource = self.identity.format_map(context.values())
        request = {self.resource: resource, **self.of(tags)}
        context.call(self.service, self.operation, request)


def _without_own(tags: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in tags.items() if not key.startswith("aws:")}


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

    def values(self) -> dict[str, Any]:
        """The resource's properties and attributes, and its physical id as `id`."""
        state = self.state
        return {**state.properties, **state.attributes, "id": state.physical_id}


class ResourceType(ABC):
    """One CloudFormation resource type. Its methods raise an exception of any kind on failure."""

    type: str
    # Properties that the type supports; None for a type whose properties are the user's own.
    properties: Collection[str] | None = ()
    # The property with the resource's name, where a template may set one.
    name_property: str | None = None
    # Paths of properties that only another resource can have, besides those of the type's schema.
    also_replacing: tuple[str, ...] = ()
    # Whether a rollback gives the resource its old properties also if its own update failed: some
    # of the new ones may be in effect.
    reverts_failed_update: bool = False
    # How the resource gets tags; None for a type that keeps those it has.
    tagging: Tagging | None = None

    def check(self, properties: Mapping[str, Any]) -> None:
        """Refuse properties that the type does not support. Raises ResourceFailure."""
        if self.properties is not None:
            strange = sorted(set(properties) - set(self.properties))
            if strange:
                raise ResourceFailure(
                    f"Encountered unsupported property {strange[0]}: of {self.type} this"
                    f" CloudFormation carries out {', '.join(sorted(self.properties)) or 'none'}"
                )

    @property
    def can_update(self) -> bool:
        """Whether a resource of the type can be changed at all."""
        return type(self).update is not ResourceType.update

    def replaces(self, old: Properties, new: Properties) -> bool:
        """Whether only another resource can have the new properties.

        That is so for a type without an update, and for the `createOnlyProperties` of its schema in
        CloudFormation's registry, which cfn-lint has.
        """
        if not self.can_update:
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

    @abstractmethod
    def delete(self, context: ResourceContext) -> None:
        """Delete the resource. It is no error when the resource is missing."""

    def retag(self, context: ResourceContext) -> None:
        """Set the stack's current tags on the resource, if the lab can do that."""
        if self.tagging is None:
            LOG.info("%s %s keeps the tags it has", self.type, context.state.logical_id)
            return
        tags = context.tags(context.state.properties.get("Tags"))
        self.tagging.put(context, _without_own(tags))


def _at(path: str, properties: Properties) -> Any:
    """The value of a property at a path such as `AccessConfig/AuthenticationMode`, if any."""
    value: Any = properties
    for name in path.split("/"):
        value = (value or {}).get(name)
    return value
