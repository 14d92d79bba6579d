"""What a stack is: its resources, events, statuses; and what a resource type must offer."""

from __future__ import annotations

import datetime
import json
import secrets
import string
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from botocore import xform_name

if TYPE_CHECKING:
    from ..services import Services
    from .engine import StackBackend

STACK_TYPE = "AWS::CloudFormation::Stack"


def utcnow() -> datetime.datetime:
    """Now, with its zone."""
    return datetime.datetime.now(tz=datetime.UTC)


class ResourceFailure(Exception):
    """A resource could not be made, changed or removed; the message is the event's reason."""


@dataclass(frozen=True)
class Created:
    """What a resource type returns: Ref's value and the values of Fn::GetAtt."""

    physical_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class ResourceState:
    """A resource as its stack knows it."""

    logical_id: str
    type: str
    status: str = ""
    reason: str | None = None
    physical_id: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    timestamp: datetime.datetime = field(default_factory=utcnow)
    deletion_policy: str = "Delete"


@dataclass(frozen=True)
class StackEvent:
    """One line of describe-stack-events."""

    stack_id: str
    stack_name: str
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None
    properties: str | None
    timestamp: datetime.datetime
    event_id: str


@dataclass
class Stack:
    """A stack and its history."""

    stack_id: str
    name: str
    template_body: str
    given_parameters: dict[str, str]
    capabilities: list[str]
    tags: dict[str, str]
    disable_rollback: bool = False
    on_failure: str = "ROLLBACK"
    role_arn: str | None = None
    notification_arns: list[str] = field(default_factory=list)
    timeout_minutes: int | None = None
    parent_id: str | None = None
    root_id: str | None = None
    termination_protection: bool = False
    status: str = "REVIEW_IN_PROGRESS"
    status_reason: str | None = None
    created_at: datetime.datetime = field(default_factory=utcnow)
    updated_at: datetime.datetime | None = None
    deleted_at: datetime.datetime | None = None
    template: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, bool] = field(default_factory=dict)
    resources: dict[str, ResourceState] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[StackEvent] = field(default_factory=list)
    # Whether the update under way brings other tags than before.
    tags_changed: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def set_status(self, status: str, reason: str | None = None) -> None:
        """Change the stack's own status and record the event.

        The event comes first: whoever sees a final status then sees all its events.
        """
        self._record(self.name, self.stack_id, STACK_TYPE, status, reason, None)
        self.status, self.status_reason = status, reason

    def set_resource_status(
        self, resource: ResourceState, status: str, reason: str | None = None
    ) -> None:
        """Change a resource's status and record the event."""
        with self.lock:
            resource.status, resource.reason, resource.timestamp = status, reason, utcnow()
        self._record(
            resource.logical_id,
            resource.physical_id or "",
            resource.type,
            status,
            reason,
            json.dumps(resource.properties, default=str),
        )

    def _record(
        self,
        logical_id: str,
        physical_id: str,
        kind: str,
        status: str,
        reason: str | None,
        properties: str | None,
    ) -> None:
        event = StackEvent(
            self.stack_id,
            self.name,
            logical_id,
            physical_id,
            kind,
            status,
            reason,
            properties,
            utcnow(),
            f"{logical_id}-{status}-{uuid.uuid4()}",
        )
        with self.lock:
            self.events.append(event)


@dataclass
class ResourceContext:
    """What a resource type may use while it works on one resource."""

    services: Services
    backend: StackBackend
    stack: Stack
    state: ResourceState

    def client(self, service: str) -> Any:
        """A boto3 client of the emulated AWS, with the deployer's credentials."""
        return self.services.clients.get(service)

    def physical_name(self, max_length: int = 64, *, lower: bool = False) -> str:
        """A name as CloudFormation makes them: stack, logical id, random suffix."""
        suffix = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(12))
        room = max_length - len(suffix) - 1
        stem = f"{self.stack.name}-{self.state.logical_id}"
        if len(stem) > room:
            stack_room = max(1, room - len(self.state.logical_id) - 1)
            stem = f"{self.stack.name[:stack_room]}-{self.state.logical_id}"[:room]
        name = f"{stem}-{suffix}"
        return name.lower() if lower else name

    def begin(self, physical_id: str) -> None:
        """Tell the stack the id before the resource is finished, so that it can be cleaned up."""
        self.state.physical_id = physical_id

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Call an operation (as CreateTable), with scalars of the types that it declares."""
        from .coercion import request

        client = self.client(service)
        typed = request(client, operation, parameters)
        return getattr(client, xform_name(operation))(**typed)

    def tag_list(self, extra: Any = None) -> list[dict[str, str]]:
        """`tags` as most APIs take them."""
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
    """One CloudFormation resource type. Failures are raised, as any exception."""

    type: ClassVar[str]
    # Properties that are carried out; None for a type whose properties are the user's own.
    properties: ClassVar[frozenset[str] | None] = frozenset()

    def check(self, properties: Mapping[str, Any]) -> None:
        """Refuse properties that would be without effect. Raises ResourceFailure."""
        if self.properties is not None:
            strange = sorted(set(properties) - self.properties)
            if strange:
                raise ResourceFailure(
                    f"Encountered unsupported property {strange[0]}: of {self.type} this"
                    f" CloudFormation carries out {', '.join(sorted(self.properties)) or 'none'}"
                )

    @abstractmethod
    def create(self, context: ResourceContext, properties: dict[str, Any]) -> Created:
        """Make the resource and wait until it is usable."""

    def update(
        self, context: ResourceContext, old: dict[str, Any], new: dict[str, Any]
    ) -> Created | None:
        """Change the resource in place; None when it must be replaced."""
        return None

    @abstractmethod
    def delete(self, context: ResourceContext) -> None:
        """Remove the resource; one that is already gone is no error."""
