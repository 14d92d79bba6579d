"""Stacks: their resources, events and statuses, and a registry of them."""

from __future__ import annotations

import datetime
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.aws.account import arn
from lab.aws.api_errors import ApiError
from lab.aws.clock import now

STACK_TYPE = "AWS::CloudFormation::Stack"


def new_stack_id(name: str) -> str:
    """A stack's ARN."""
    return arn("cloudformation", f"stack/{name}/{uuid.uuid4()}")


@dataclass
class ResourceState:
    """The state of a resource in its stack."""

    logical_id: str
    type: str
    status: str = ""
    reason: str | None = None
    physical_id: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    timestamp: datetime.datetime = field(default_factory=now)
    deletion_policy: str = "Delete"


@dataclass
class Update:
    """An update of a stack that can be taken back.

    `needs` has what each resource needs, before or after the update. `reverts` has the steps that
    take the update back, in their order. `retired` has the old resources that the update replaced
    or removed, and `added` the new ones; the clean-up deletes the ones or the others.
    """

    needs: dict[str, set[str]]
    reverts: list[Callable[[], None]] = field(default_factory=list)
    retired: dict[str, ResourceState] = field(default_factory=dict)
    added: dict[str, ResourceState] = field(default_factory=dict)
    is_taken_back: bool = False


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
    parent_id: str | None = None
    root_id: str | None = None
    status: str = "REVIEW_IN_PROGRESS"
    status_reason: str | None = None
    created_at: datetime.datetime = field(default_factory=now)
    updated_at: datetime.datetime | None = None
    deleted_at: datetime.datetime | None = None
    template: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    conditions: dict[str, bool] = field(default_factory=dict)
    resources: dict[str, ResourceState] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    # As DescribeStackEvents lists them, the oldest first.
    events: list[dict[str, Any]] = field(default_factory=list)
    # Whether the current update changes the tags.
    tags_changed: bool = False
    # The current update, until it is cleaned up or rolled back.
    update: Update | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def set_status(self, status: str, reason: str | None = None) -> None:
        """Change the stack's own status and record the event.

        The event comes first, so that a reader who sees a final status sees all events too.
        """
        own = ResourceState(self.name, STACK_TYPE, status, reason, self.stack_id)
        self._record(own, None)
        self.status, self.status_reason = status, reason

    def set_resource_status(
        self, resource: ResourceState, status: str, reason: str | None = None
    ) -> None:
        """Change a resource's status and record the event."""
        with self.lock:
            resource.status, resource.reason, resource.timestamp = status, reason, now()
            self._record(resource, json.dumps(resource.properties, default=str))

    def _record(self, resource: ResourceState, properties: str | None) -> None:
        event = {
            **self.described(resource),
            "PhysicalResourceId": resource.physical_id or "",
            "EventId": f"{resource.logical_id}-{resource.status}-{uuid.uuid4()}",
            "ResourceProperties": properties,
        }
        with self.lock:
            self.events.append(event)

    def described(self, resource: ResourceState) -> dict[str, Any]:
        """A resource as the API describes it, and as its events begin."""
        return {
            "StackName": self.name,
            "StackId": self.stack_id,
            "LogicalResourceId": resource.logical_id,
            "PhysicalResourceId": resource.physical_id,
            "ResourceType": resource.type,
            "Timestamp": resource.timestamp,
            "ResourceStatus": resource.status,
            "ResourceStatusReason": resource.reason,
        }


class Stacks:
    """All stacks of the Region, including deleted ones."""

    def __init__(self) -> None:
        #: What was answered to requests with a token, by the token.
        self.answers: dict[str, Any] = {}
        self._stacks: dict[str, Stack] = {}
        self._lock = threading.RLock()

    def add(self, stack: Stack) -> None:
        """Add a stack. Raises ApiError when another live one has its name."""
        with self._lock:
            if any(s.name == stack.name and s is not stack for s in self.live()):
                raise ApiError("AlreadyExistsException", f"Stack [{stack.name}] already exists")
            self._stacks[stack.stack_id] = stack

    def find(self, name_or_id: str) -> Stack:
        """The stack with this id, or the live stack with this name. Raises ApiError."""
        with self._lock:
            if name_or_id in self._stacks:
                return self._stacks[name_or_id]
            for stack in self.live():
                if stack.name == name_or_id:
                    return stack
        raise ApiError("ValidationError", f"Stack with id {name_or_id} does not exist")

    def all(self) -> list[Stack]:
        """Every stack, newest first."""
        with self._lock:
            stacks = list(self._stacks.values())
        return sorted(stacks, key=lambda stack: stack.created_at, reverse=True)

    def live(self) -> list[Stack]:
        """Stacks that are not deleted, newest first."""
        return [stack for stack in self.all() if stack.status != "DELETE_COMPLETE"]

    def path_of_role(self, role_name: str) -> str | None:
        """A role's place in its root stack, such as Benchmark/PlanRole; None outside stacks."""
        for stack in self.live():
            for state in list(stack.resources.values()):
                if state.type == "AWS::IAM::Role" and state.physical_id == role_name:
                    return "/".join([*self._path(stack), state.logical_id])
        return None

    def _path(self, stack: Stack) -> list[str]:
        if stack.parent_id is None:
            return []
        parent = self.find(stack.parent_id)
        own = next(
            (
                state.logical_id
                for state in list(parent.resources.values())
                if state.physical_id == stack.stack_id
            ),
            stack.name,
        )
        return [*self._path(parent), own]
