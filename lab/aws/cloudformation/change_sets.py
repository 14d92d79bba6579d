"""Change sets: what CloudFormation would create, change, replace or delete."""

from __future__ import annotations

import datetime
import uuid
from dataclasses import dataclass, field
from typing import Any

from lab.aws.account import arn
from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.clock import now
from lab.aws.cloudformation.dependencies import active_resources, dependencies, walk
from lab.aws.cloudformation.engine import Engine
from lab.aws.cloudformation.parameters import UNKNOWN
from lab.aws.cloudformation.preparation import resolver_of
from lab.aws.cloudformation.resource_type import Properties
from lab.aws.cloudformation.resources.nested_stacks import update_request
from lab.aws.cloudformation.stacks import STACK_TYPE, ResourceState, Stack, Stacks
from lab.aws.cloudformation.template import TemplateError

_UNCHANGED = (
    "The submitted information didn't contain changes. Submit different information to create a"
    " change set."
)


@dataclass
class ChangeSet:
    """One change set, which would make `candidate` of `stack`; `kind` is CREATE or UPDATE.

    `parent` is that of the stack around it, of a change set that includes nested stacks.
    """

    name: str
    stack: Stack
    candidate: Stack
    kind: str = "UPDATE"
    description: str | None = None
    includes_nested: bool = False
    parent: ChangeSet | None = None
    status: str = "CREATE_IN_PROGRESS"
    reason: str | None = None
    is_executed: bool = False
    changes: list[dict[str, Any]] = field(default_factory=list)
    created_at: datetime.datetime = field(default_factory=now)

    def __post_init__(self) -> None:
        self.id = arn("cloudformation", f"changeSet/{self.name}/{uuid.uuid4()}")

    @property
    def root(self) -> ChangeSet:
        """The change set from which this one was created."""
        return self.parent.root if self.parent else self

    @property
    def execution_status(self) -> str:
        """Whether it can be executed: not once its stack was updated."""
        if self.status != "CREATE_COMPLETE":
            return "UNAVAILABLE"
        if self.is_executed:
            return "EXECUTE_COMPLETE"
        updated_at = self.stack.updated_at
        return "OBSOLETE" if updated_at and updated_at > self.created_at else "AVAILABLE"

    def add(self, action: str, state: ResourceState, **more: Any) -> None:
        """Add the change of one resource."""
        change = {
            "Action": action,
            "LogicalResourceId": state.logical_id,
            "ResourceType": state.type,
            **({} if action == "Add" else {"PhysicalResourceId": state.physical_id}),
        }
        self.changes.append({"Type": "Resource", "ResourceChange": {**change, **more}})

    def describe(self) -> dict[str, Any]:
        """The change set as DescribeChangeSet shows it."""
        after = self.candidate
        return {
            "ChangeSetName": self.name,
            "ChangeSetId": self.id,
            "StackId": self.stack.stack_id,
            "StackName": self.stack.name,
            "Description": self.description,
            "Parameters": [
                {"ParameterKey": name, "ParameterValue": value}
                for name, value in after.given_parameters.items()
            ],
            "CreationTime": self.created_at,
            "ExecutionStatus": self.execution_status,
            "Status": self.status,
            "StatusReason": self.reason,
            "Capabilities": after.capabilities,
            "Tags": [{"Key": key, "Value": value} for key, value in after.tags.items()],
            "Changes": self.changes,
            "IncludeNestedStacks": self.includes_nested,
            "ParentChangeSetId": self.parent and self.parent.id,
            "RootChangeSetId": self.root.id if self.includes_nested else None,
        }


class _Unknown(dict[str, Any]):
    """The attributes of a resource that are only known after its change."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return UNKNOWN


class ChangeSets:
    """All change sets of the Region."""

    def __init__(self, engine: Engine, stacks: Stacks, clients: ClientFactory) -> None:
        self._engine, self._stacks, self._clients = engine, stacks, clients
        self._by_id: dict[str, ChangeSet] = {}

    def add(self, change_set: ChangeSet) -> None:
        """Add a change set, which `fill` completes."""
        self._by_id[change_set.id] = change_set

    def find(self, name_or_id: str, stack: str | None) -> ChangeSet | None:
        """The change set with this id, or a stack's newest with this name."""
        for change_set in reversed(self._by_id.values()):
            if change_set.id == name_or_id or (
                change_set.name == name_or_id
                and stack in (change_set.stack.name, change_set.stack.stack_id)
            ):
                return change_set
        return None

    def of(self, stack: Stack) -> list[ChangeSet]:
        """The change sets of a stack, oldest first."""
        return [change_set for change_set in self._by_id.values() if change_set.stack is stack]

    def delete(self, change_set: ChangeSet) -> None:
        """Remove a change set and those of nested stacks. Raises ApiError."""
        if change_set.parent or change_set.status == "CREATE_IN_PROGRESS":
            raise ApiError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.id}] cannot be deleted: it is {change_set.status}"
                f" and its root is [{change_set.root.id}]",
            )
        of_root = [each.id for each in self._by_id.values() if each.root is change_set]
        for change_set_id in of_root:
            del self._by_id[change_set_id]

    def fill(self, change_set: ChangeSet) -> None:
        """Find out what a change set changes, as an update decides it."""
        before, after = change_set.stack, change_set.candidate
        failed = walk(dependencies(after), lambda name: self._foresee(change_set, name), stop=None)
        active = active_resources(after)
        for name, state in before.resources.items():
            if name not in active:
                is_retained = state.deletion_policy.startswith("Retain")
                change_set.add("Remove", state, PolicyAction="Retain" if is_retained else "Delete")
        same = after.template == before.template and after.parameters == before.parameters
        if failed:
            change_set.reason = str(next(iter(failed.values())))
        elif same and after.tags == before.tags and not change_set.changes:
            change_set.reason = _UNCHANGED
        change_set.status = "FAILED" if change_set.reason else "CREATE_COMPLETE"

    def _foresee(self, change_set: ChangeSet, name: str) -> None:
        """Add the change of one resource, and give the candidate what others refer to."""
        after = change_set.candidate
        resource = after.template["Resources"][name]
        properties = resource.get("Properties") or {}
        try:
            new = resolver_of(after).resolve(properties)
        except TemplateError:
            # A part of what is not known yet: Fn::Select fails in a nested stack only
            # (cloudformation-coverage-roadmap#759).
            if change_set.parent:
                raise
            new = dict.fromkeys(properties, UNKNOWN)
        state = ResourceState(name, resource["Type"], physical_id=UNKNOWN, attributes=_Unknown())
        old = change_set.stack.resources.get(name)
        if old is None:
            after.resources[name] = state
            change_set.add("Add", state)
            return
        more: dict[str, Any] | None = {}
        if state.type == old.type == STACK_TYPE:
            more = self._inner(change_set, old, new)
        elif new == old.properties and state.type == old.type:
            more = None
        after.resources[name] = old if more is None else state
        if more is None:
            return
        replacement = self._replacement(old, state.type, new)
        if replacement == "False":
            state.physical_id = old.physical_id
        else:
            is_retained = resource.get("UpdateReplacePolicy") == "Retain"
            more["PolicyAction"] = "ReplaceAndRetain" if is_retained else "ReplaceAndDelete"
        change_set.add("Modify", old, Replacement=replacement, **more)

    def _inner(
        self, parent: ChangeSet, old: ResourceState, properties: Properties
    ) -> dict[str, Any] | None:
        """How the change of a nested stack is described. None if nothing changes in it.

        Raises ApiError when its change set cannot be made.
        """
        if not parent.includes_nested:
            # Its template is not looked at, so it may have changed (ResourceChangeDetail).
            return {"Details": [{"ChangeSource": "Automatic", "Evaluation": "Dynamic"}]}
        stack = self._stacks.find(str(old.physical_id))
        request = update_request(parent.candidate, properties, self._clients)
        inner = ChangeSet(
            f"{parent.name}-{old.logical_id}",
            stack,
            self._engine.candidate(stack, **request),
            includes_nested=True,
            parent=parent,
        )
        self.fill(inner)
        if inner.reason == _UNCHANGED:
            return None
        self.add(inner)
        if inner.reason:
            raise ApiError(
                "ValidationError",
                f"Nested change set {inner.id} was not successfully created: Currently in FAILED.",
            )
        return {"ChangeSetId": inner.id}

    def _replacement(self, old: ResourceState, kind: str, new: Properties) -> str:
        """Whether a resource is replaced: True, False, or Conditional."""
        handler = self._engine.handler(kind)
        if kind == old.type and not handler.replaces(old.properties, new):
            return "False"
        resolved = _known(old.properties, new)
        certain = resolved != old.properties and handler.replaces(old.properties, resolved)
        return "True" if kind != old.type or certain else "Conditional"


def _known(old: Any, new: Any) -> Any:
    """`new` with the old values in place of those that are only known after the change."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: _known(old.get(name), value) for name, value in new.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_known(before, value) for before, value in zip(old, new, strict=True)]
    return old if UNKNOWN in str(new) else new
