"""Change sets: what CloudFormation would create or update."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from lab.aws.api_errors import ApiError
from lab.aws.clock import now
from lab.aws.cloudformation.stacks import Stack


@dataclass
class ChangeSet:
    """One change set; `kind` is CREATE or UPDATE."""

    id: str
    name: str
    stack: Stack
    kind: str
    body: str
    parameters: dict[str, str]
    capabilities: list[str]
    tags: dict[str, str]
    description: str | None
    status: str
    execution_status: str
    reason: str | None = None
    changes: list[dict[str, Any]] = field(default_factory=list)
    created_at: datetime.datetime = field(default_factory=now)

    def describe(self) -> dict[str, Any]:
        """The change set as DescribeChangeSet shows it."""
        return {
            "ChangeSetName": self.name,
            "ChangeSetId": self.id,
            "StackId": self.stack.stack_id,
            "StackName": self.stack.name,
            "Description": self.description,
            "Parameters": [
                {"ParameterKey": name, "ParameterValue": value}
                for name, value in self.parameters.items()
            ],
            "CreationTime": self.created_at,
            "ExecutionStatus": self.execution_status,
            "Status": self.status,
            "StatusReason": self.reason,
            "Capabilities": self.capabilities,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
            "Changes": self.changes,
        }


class ChangeSets:
    """All change sets of the Region."""

    def __init__(self) -> None:
        self._by_id: dict[str, ChangeSet] = {}

    def add(self, change_set: ChangeSet) -> None:
        """Add a change set."""
        self._by_id[change_set.id] = change_set

    def find(self, name_or_id: str, stack: str | None) -> ChangeSet:
        """The change set with this id, or a stack's newest with this name. Raises ApiError."""
        for change_set in reversed(self._by_id.values()):
            if change_set.id == name_or_id or (
                change_set.name == name_or_id
                and stack in (change_set.stack.name, change_set.stack.stack_id)
            ):
                return change_set
        raise ApiError("ChangeSetNotFound", f"ChangeSet [{name_or_id}] does not exist")

    def of(self, stack: Stack) -> list[ChangeSet]:
        """The change sets of a stack, oldest first."""
        return [found for found in self._by_id.values() if found.stack is stack]

    def delete(self, change_set: ChangeSet) -> None:
        """Remove a change set."""
        del self._by_id[change_set.id]


def changes_between(stack: Stack, template: dict[str, Any]) -> list[dict[str, Any]]:
    """What another template would change, as DescribeChangeSet lists it."""
    old = stack.template.get("Resources", {})
    new = template["Resources"]
    actions = [("Add", name) for name in new if name not in old]
    actions += [("Modify", name) for name in new if name in old and new[name] != old[name]]
    actions += [("Remove", name) for name in old if name not in new]
    return [
        {
            "Type": "Resource",
            "ResourceChange": {
                "Action": action,
                "LogicalResourceId": name,
                "ResourceType": (new if name in new else old)[name]["Type"],
            },
        }
        for action, name in actions
    ]
