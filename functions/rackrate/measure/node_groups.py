"""EKS managed node groups: what EKS says of them, and how many nodes they are to have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from rackrate.errors import NodesUnavailable, translated

#: States a node group does not leave for the better by itself.
LOST = frozenset({"CREATE_FAILED", "DELETING", "DELETE_FAILED"})


@dataclass(frozen=True)
class NodeGroup:
    """What EKS says of a node group.

    Attributes:
        name: its name.
        status: EKS's word, such as ACTIVE, UPDATING or DEGRADED.
        desired: how many nodes it is to have.
        instance_type: the first of its instance types, or None when the launch template has it.
        issues: its health issues, each `<code>: <message>`.
    """

    name: str
    status: str
    desired: int
    instance_type: str | None
    issues: tuple[str, ...]

    @property
    def complaints(self) -> tuple[str, ...]:
        """What is wrong with it, each with its name; nothing while it is well."""
        found = [f"node group {self.name}: {issue}" for issue in self.issues]
        if self.status == "DEGRADED" or self.status in LOST:
            found.append(f"node group {self.name} is {self.status}")
        return tuple(found)


def describe(eks: Any, cluster_name: str, name: str) -> NodeGroup | None:
    """A node group, or None when there is none of that name, or no name.

    Raises:
        Throttled: EKS asks to slow down.
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
    """What EKS says is wrong with node groups, each with the group's name.

    What EKS does not know, such as nodes managed otherwise, has no issues.
    """
    groups = (describe(eks, cluster_name, name) for name in names)
    return [
        f"node group {group.name}: {issue}"
        for group in groups
        if group is not None
        for issue in group.issues
    ]


def resize(eks: Any, cluster_name: str, name: str, *, desired: int, maximum: int) -> bool:
    """Asks for a number of nodes, at least none and at most `maximum`.

    Returns:
        Did EKS accept it? It does not while another update of the node group is under way.

    Raises:
        NodesUnavailable: EKS says that the node group cannot be resized as it is.
        Throttled: EKS asks to slow down.
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
