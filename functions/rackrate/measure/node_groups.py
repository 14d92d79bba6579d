"""EKS managed node groups: their status and health issues, and their desired size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from rackrate.errors import NodesUnavailable, translated

#: Statuses from which a node group does not recover by itself.
LOST = frozenset({"CREATE_FAILED", "DELETING", "DELETE_FAILED"})


@dataclass(frozen=True)
class NodeGroup:
    """A node group as EKS describes it.

    Attributes:
        name: its name.
        status: EKS's status, such as ACTIVE, UPDATING or DEGRADED.
        desired: its desired number of nodes.
        instance_type: the first of its instance types, or None when the launch template sets it.
        issues: its health issues, each `<code>: <message>`.
    """

    name: str
    status: str
    desired: int
    instance_type: str | None
    issues: tuple[str, ...]

    @property
    def complaints(self) -> tuple[str, ...]:
        """Its problems, each with the group's name; empty while it is healthy."""
        found = [f"node group {self.name}: {issue}" for issue in self.issues]
        if self.status == "DEGRADED" or self.status in LOST:
            found.append(f"node group {self.name} is {self.status}")
        return tuple(found)


def describe(eks: Any, cluster_name: str, name: str) -> NodeGroup | None:
    """A node group, or None when no group has that name or the name is empty.

    Raises:
        Throttled: EKS throttled the request.
    """
    if not name:
        return None
    try:
        with translated():
            answer = eks.describe_nodegroup(clusterName=cluster_name, nodegroupName=name)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise
    found = answer["nodegroup"]
    issues = found.get("health", {}).get("issues", [])
    return NodeGroup(
        name=name,
        status=found.get("status", "UNKNOWN"),
        desired=int(found.get("scalingConfig", {}).get("desiredSize", 0)),
        instance_type=next(iter(found.get("instanceTypes") or []), None),
        issues=tuple(f"{issue.get('code')}: {issue.get('message')}" for issue in issues),
    )


def health_issues(eks: Any, cluster_name: str, names: Iterable[str]) -> list[str]:
    """The health issues that EKS reports for node groups, each with the group's name.

    Node groups that EKS does not know, such as self-managed nodes, have no issues.
    """
    groups = (describe(eks, cluster_name, name) for name in names)
    return [
        f"node group {group.name}: {issue}"
        for group in groups
        if group is not None
        for issue in group.issues
    ]


def resize(eks: Any, cluster_name: str, name: str, *, desired: int, maximum: int) -> bool:
    """Set a node group's desired number of nodes, with a minimum of zero and a maximum.

    Returns:
        Whether EKS accepted it. EKS refuses while another update of the node group is in progress.

    Raises:
        NodesUnavailable: EKS reports that the node group cannot be resized in its state.
        Throttled: EKS throttled the request.
    """
    sizes = {"minSize": 0, "desiredSize": desired, "maxSize": maximum}
    try:
        with translated():
            eks.update_nodegroup_config(
                clusterName=cluster_name, nodegroupName=name, scalingConfig=sizes
            )
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceInUseException":
            return False
        if code == "InvalidRequestException":
            message = error.response["Error"].get("Message", code)
            raise NodesUnavailable(f"node group {name} cannot be resized: {message}") from error
        raise
    return True
