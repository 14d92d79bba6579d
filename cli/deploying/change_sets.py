"""What CloudFormation would do to a stack that exists, from a change set."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import uuid4

from botocore.exceptions import ClientError

from ..reading.stack import paginated

STACK_TYPE = "AWS::CloudFormation::Stack"
UNCERTAIN = "perhaps replaced"
_POLL_SECONDS = 1.0
_UNFINISHED = ("CREATE_PENDING", "CREATE_IN_PROGRESS")


class Loss(NamedTuple):
    """What an update does to a resource that exists."""

    effect: str
    stack: str  # the path of the nested stack, such as `Inner`; empty in the root
    resource: str
    type: str


class ChangeSet:
    """A change set of a stack, and of the stacks in it. Errors of AWS are botocore's."""

    def __init__(self, client: Any, stack: str) -> None:
        self._client = client
        self._key = {"StackName": stack, "ChangeSetName": f"rackrate-{uuid4().hex}"}
        self._may_exist = True

    def create(self, **request: Any) -> str:
        """Create it and wait until it is complete. Returns why it failed, or an empty text."""
        try:
            self._client.create_change_set(**self._key, **request)
        except ClientError:
            self._may_exist = False
            raise
        return self._failure()

    def _failure(self) -> str:
        while (set_ := self._client.describe_change_set(**self._key))["Status"] in _UNFINISHED:
            time.sleep(_POLL_SECONDS)
        return str(set_.get("StatusReason", "")) if set_["Status"] == "FAILED" else ""

    def losses(self, key: dict[str, str] | None = None, stack: str = "") -> Iterator[Loss]:
        """What it deletes, replaces or perhaps replaces.

        `key` names the change set of a stack within, and `stack` is that stack's path.
        """
        key = key or self._key
        for each in paginated(self._client, "describe_change_set", "Changes", **key):
            change = each["ResourceChange"]
            resource = change["LogicalResourceId"]
            if effect := _effect(change):
                yield Loss(effect, stack, resource, change["ResourceType"])
            if (inner := change.get("ChangeSetId")) and (id_ := change.get("PhysicalResourceId")):
                inner_key = {"StackName": id_, "ChangeSetName": inner}
                yield from self.losses(inner_key, f"{stack}/{resource}".lstrip("/"))

    def execute(self) -> None:
        """Begin to update the stack. CloudFormation refuses if it was changed meanwhile."""
        self._client.execute_change_set(**self._key)
        self._may_exist = False

    def delete(self) -> None:
        """Delete it, and those of the stacks within, unless it was executed."""
        if self._may_exist:
            self._failure()  # CloudFormation deletes none that it still creates
            self._client.delete_change_set(**self._key)


def _effect(change: dict[str, Any]) -> str:
    """What happens to a resource; empty if it stays what it is."""
    action, replacement = change["Action"], change.get("Replacement")
    if action == "Remove":
        return "kept outside the stack" if change.get("PolicyAction") == "Retain" else "deleted"
    if action == "Modify" and replacement == "True":
        return "replaced"
    # Without a change set of its own nobody sees what changes in a stack.
    is_opaque = change["ResourceType"] == STACK_TYPE and "ChangeSetId" not in change
    is_uncertain = replacement == "Conditional" or (action == "Modify" and is_opaque)
    return UNCERTAIN if is_uncertain or action == "Dynamic" else ""


def listed(losses: list[Loss]) -> Iterator[str]:
    """A line for each certain loss, and one for each stack whose resources are perhaps replaced.

    An update of a parameter makes CloudFormation expect a new answer from every custom resource
    that reads it. So each resource that uses one is perhaps replaced, and most never are.
    """
    uncertain = defaultdict(list)
    for effect, stack, resource, type_ in losses:
        if effect == UNCERTAIN:
            uncertain[stack or "the stack itself"].append(resource)
        else:
            yield f"{effect}: {f'{stack}/{resource}'.lstrip('/')} ({type_})"
    for stack, resources in uncertain.items():
        yield f"{UNCERTAIN} in {stack}: {', '.join(resources)}"
