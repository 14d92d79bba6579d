"""EKS managed node groups: their status and health issues, and their sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from rackrate.errors import NodesUnavailable, suppress_codes, translated
from rackrate.measure.addons import begin_update
from rackrate.settings import StackArm
from rackrate.times import iso
from rackrate_text.launches import failed_launch
from rackrate_text.quotas import divided

#: Statuses from which a node group does not recover by itself.
LOST = frozenset({"CREATE_FAILED", "DELETING", "DELETE_FAILED"})


class Sizes(NamedTuple):
    """The sizes of a node group, in nodes."""

    least: int
    desired: int
    most: int


@dataclass(frozen=True)
class NodeGroup:
    """A node group as EKS describes it.

    Attributes:
        name: its name.
        created_at: when EKS was asked for it. ISO 8601, UTC.
        status: EKS's status, such as ACTIVE, UPDATING or DEGRADED.
        sizes: its least, desired and most nodes.
        instance_type: the first of its instance types, or None when the launch template sets it
            (`launch_templates.instance_type_of`).
        subnets: the ids of its subnets.
        release: the release version of its image; None for an image that is not EKS's.
        ami_type: EKS's name of the kind of its image.
        kubernetes: the minor version of its Kubernetes, such as `1.36`.
        issues: its health issues, each `<code>: <message>`.
        scaling_groups: the names of its Auto Scaling groups.
        template_id: the id of its launch template; None without one.
        template_version: the number of that version which it has.
    """

    name: str
    created_at: str
    status: str
    sizes: Sizes
    instance_type: str | None
    issues: tuple[str, ...]
    scaling_groups: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    release: str | None = None
    ami_type: str = ""
    kubernetes: str = ""
    template_id: str | None = None
    template_version: int | None = None

    @property
    def desired(self) -> int:
        """Its desired number of nodes."""
        return self.sizes.desired

    @property
    def is_updating(self) -> bool:
        """Whether EKS has not applied the last change of it yet."""
        return self.status == "UPDATING"

    @property
    def complaints(self) -> tuple[str, ...]:
        """Its problems, each with the group's name; empty while it is healthy."""
        complaints = [f"node group {self.name}: {issue}" for issue in self.issues]
        if self.status == "DEGRADED" or self.status in LOST:
            complaints.append(f"node group {self.name} is {self.status}")
        return tuple(complaints)


def sizes_of(counts: Mapping[StackArm, int]) -> dict[str, int]:
    """The number of nodes of each node group, by its name, when arms have so many nodes."""
    return {
        name: size
        for arm, count in counts.items()
        if arm.node_groups
        for name, size in zip(arm.node_groups, divided(count, len(arm.node_groups)), strict=True)
    }


def describe(eks: Any, cluster_name: str, name: str) -> NodeGroup | None:
    """A node group, or None when no group has that name.

    Raises:
        Throttled: EKS throttled the request.
    """
    with suppress_codes("ResourceNotFoundException"), translated():
        response = eks.describe_nodegroup(clusterName=cluster_name, nodegroupName=name)
        description = response["nodegroup"]
        issues = description.get("health", {}).get("issues", [])
        scaling = description.get("scalingConfig", {})
        template = description.get("launchTemplate") or {}
        return NodeGroup(
            name=name,
            created_at=iso(description["createdAt"]),
            status=description.get("status", "UNKNOWN"),
            sizes=Sizes(*(int(scaling.get(f"{of}Size", 0)) for of in ("min", "desired", "max"))),
            instance_type=next(iter(description.get("instanceTypes") or []), None),
            issues=tuple(f"{issue.get('code')}: {issue.get('message')}" for issue in issues),
            scaling_groups=tuple(
                each["name"]
                for each in (description.get("resources") or {}).get("autoScalingGroups", ())
            ),
            subnets=tuple(description.get("subnets") or ()),
            release=description.get("releaseVersion"),
            ami_type=description.get("amiType") or "",
            kubernetes=description.get("version") or "",
            template_id=template.get("id"),
            template_version=int(template["version"]) if template.get("version") else None,
        )
    return None


def groups_of(eks: Any, cluster_name: str, arms: Iterable[StackArm]) -> list[NodeGroup]:
    """All node groups of arms, in the same order.

    Raises:
        NodesUnavailable: a node group of an arm is missing, or an arm has none that is known.
        Throttled: EKS throttled the request.
    """
    groups: list[NodeGroup] = []
    for arm in arms:
        if not arm.node_groups:
            raise NodesUnavailable(f"arm {arm.name}: the stack knows no node group of it")
        for name in arm.node_groups:
            group = describe(eks, cluster_name, name)
            if group is None:
                raise NodesUnavailable(f"arm {arm.name}: there is no node group {name!r}")
            groups.append(group)
    return groups


class Reasons(NamedTuple):
    """Why node groups lack nodes.

    Attributes:
        known: the reasons of EKS and of Auto Scaling, each with the node group's name.
        unread: what EKS or Auto Scaling did not answer, and why.
    """

    known: list[str]
    unread: list[str]

    def lines(self, none_known: str = "EKS reports no health issue") -> list[str]:
        """All of them, with `none_known` in place of reasons if there is none."""
        return [*(self.known or [none_known]), *self.unread]


def reasons_of(groups: Iterable[NodeGroup], complaints: list[str], autoscaling: Any) -> Reasons:
    """The complaints about node groups, and why their latest launches failed.

    EKS has no health issue for the first half hour of failed launches (`rackrate_text.launches`).
    In a VPC without a way to Auto Scaling the complaints are all that is known.
    """
    known = list(complaints)
    try:
        for group in groups:
            for name in group.scaling_groups:
                response = autoscaling.describe_scaling_activities(AutoScalingGroupName=name)
                failure = failed_launch(response["Activities"], "".join(group.issues))
                known += [f"node group {group.name}: {failure}"] if failure else []
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        return Reasons(known, [f"the activities of its Auto Scaling group were not read ({error})"])
    return Reasons(known, [])


def why_lacking(eks: Any, autoscaling: Any, cluster_name: str, names: Iterable[str]) -> Reasons:
    """Why node groups lack nodes.

    Node groups that EKS does not know, such as self-managed nodes, have no reasons. Nodes may label
    themselves with a name that EKS refuses, or that a function may not ask for.
    """
    groups: list[NodeGroup] = []
    unread: list[str] = []
    for name in names:
        try:
            groups += filter(None, [describe(eks, cluster_name, name)])
        except ClientError as error:
            unread.append(f"the node group {name} was not read ({error})")
    complaints = [line for group in groups for line in group.complaints]
    known, of_scaling = reasons_of(groups, complaints, autoscaling)
    return Reasons(known, [*unread, *of_scaling])


def new_complaints(groups: Sequence[NodeGroup], before: Collection[str]) -> list[str]:
    """The complaints of node groups that make it senseless to wait for their nodes.

    Args:
        groups: the node groups.
        before: their complaints before they were resized. A node group that failed to grow stays
            DEGRADED until it grows, even at zero nodes (aws/containers-roadmap#2326). So only new
            complaints count, unless a node group is lost.
    """
    complaints = [complaint for group in groups for complaint in group.complaints]
    is_lost = any(group.status in LOST for group in groups)
    return [each for each in complaints if each not in before] or (complaints if is_lost else [])


def update_release(eks: Any, cluster_name: str, name: str, release: str) -> str | None:
    """Give the nodes of a node group another release of their image; EKS replaces them.

    Returns:
        The update's id; None while EKS refuses because another update is in progress.

    Raises:
        ChangeFailed: EKS refuses it; the message has EKS's words.
        Throttled: EKS throttled the request.
    """
    return begin_update(
        lambda: eks.update_nodegroup_version(
            clusterName=cluster_name, nodegroupName=name, releaseVersion=release
        ),
        f"the node group {name} cannot be updated to {release}",
    )


def update_template(eks: Any, cluster_name: str, group: NodeGroup, version: int) -> str | None:
    """Give a node group another version of its launch template; EKS replaces its nodes.

    The release of its image stays, which EKS would otherwise update to the latest.

    Returns:
        The update's id; None while EKS refuses because another update is in progress.

    Raises:
        ChangeFailed: EKS refuses it; the message has EKS's words.
        Throttled: EKS throttled the request.
    """
    release = {} if group.release is None else {"releaseVersion": group.release}
    return begin_update(
        lambda: eks.update_nodegroup_version(
            clusterName=cluster_name,
            nodegroupName=group.name,
            launchTemplate={"id": group.template_id, "version": str(version)},
            **release,
        ),
        f"the node group {group.name} cannot take version {version} of its launch template",
    )


def resize(eks: Any, cluster_name: str, name: str, sizes: Sizes) -> bool:
    """Set the sizes of a node group.

    Returns:
        Whether EKS accepted it. EKS refuses while another update of the node group is in progress.

    Raises:
        NodesUnavailable: EKS reports that the node group cannot be resized in its state.
        Throttled: EKS throttled the request.
    """
    try:
        with translated():
            eks.update_nodegroup_config(
                clusterName=cluster_name,
                nodegroupName=name,
                scalingConfig={
                    "minSize": sizes.least,
                    "desiredSize": sizes.desired,
                    "maxSize": sizes.most,
                },
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
