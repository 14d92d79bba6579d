"""The changes of a stack's parameters that an update cannot make. Pure: properties in, faults out.

A change is refused if CloudFormation or EKS would fail half-way, and if the results would be lost.
`docs/updates.yaml` lists what every change does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rackrate.errors import Fault
from rackrate.plan.capacity import SPREAD_INSTANCES
from rackrate.stack.request import Request, Zones

Properties = Mapping[str, Any]

_SECOND_STACK = "deploy a second stack for it, with another --stack-name"

#: The nested stacks whose parameters have values of earlier releases that Preflight did not have.
NESTED_STACKS = ("Access", "Cluster", "Monitoring", "TreatmentNodes")
#: Parameters of earlier releases, with the value that a cluster of the stack's own now always has.
_REMOVED = {
    "AuthenticationMode": "API",
    "ControlPlaneLogs": "all",
    "KubeletConfig": "{}",
    "Namespace": "rackrate",
    "ParentPlacementGroupId": "",
    "SpreadLevel": "rack",
}
#: The properties of a node group that only another node group can have: CloudFormation makes it
#: before it deletes the old one. Source: CloudFormation template reference, "AWS::EKS::Nodegroup",
#: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
_OF_NODE_GROUPS = ("InstanceType", "AmiType", "SecondaryCidr")
#: The properties of a placement group. CloudFormation makes another group if one of them changes.
_OF_PLACEMENT_GROUPS = ("TreatmentStrategy", "ExistingPlacementGroup")


def replaces_node_groups(old: Properties, new: Properties) -> bool:
    """Whether the update makes new node groups while the old ones exist.

    Args:
        old: the properties of the deployment before; empty when the stack is created.
        new: the properties of this one.
    """
    return bool(old) and any(_changed(old, new, name) for name in _OF_NODE_GROUPS)


def is_of_earlier_release(old: Properties) -> bool:
    """Whether properties are those of a release that had parameters which are no more."""
    return "SpreadLevel" in old


def update_faults(old: Properties, new: Properties, zones: Zones) -> list[Fault]:
    """The faults of an update's changes.

    Args:
        old: the properties of the deployment before. A property that an older version of the
            template did not have is missing, and its change is not checked. For those of an earlier
            release, also the parameters of `NESTED_STACKS`.
        new: the properties of this deployment.
        zones: the zones of the stack's subnets; empty with an existing cluster.
    """
    faults = [*_cluster_faults(old, new), *_result_faults(old, new), *_alarm_faults(old, new)]
    if new.get("ExistingClusterName"):
        faults += _demand_faults(old, new)
    elif not old.get("ExistingClusterName"):
        faults += [
            *_removed_faults(old, new),
            *_version_faults(old, new),
            *_network_faults(old, new, zones),
            *_group_faults(old, new),
        ]
    return faults


def changes_cluster(old: Properties, new: Properties) -> bool:
    """Whether the update would move the stack to another cluster."""
    return bool(old.get("ExistingClusterName", "") != new.get("ExistingClusterName", ""))


def _changed(old: Properties, new: Properties, name: str) -> bool:
    return name in old and name in new and old[name] != new[name]


def _change(name: str, old: str, new: str) -> str:
    return f"{name} {old or '(empty)'} -> {new or '(empty)'}"


def _refusals(
    old: Properties, new: Properties, name: str, problem: str, remedy: str
) -> Iterator[Fault]:
    if _changed(old, new, name):
        yield Fault(_change(name, old[name], new[name]), problem, remedy)


def _cluster_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    """The fault of another cluster, and of the template for the other kind of cluster."""
    before, after = old.get("ExistingClusterName", ""), new.get("ExistingClusterName", "")
    if before == after:
        return
    remedy = _SECOND_STACK
    if not (before and after):
        remedy = f"update it with {'existing-cluster' if before else 'template'}.yaml, or {remedy}"
    yield Fault(
        _change("ExistingClusterName", before, after),
        "a stack stays with the cluster that it was created with",
        remedy,
    )


def _result_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    yield from _refusals(
        old,
        new,
        "RetainResults",
        "the stack would make another table and another bucket, without the results that it has",
        "leave it as it is; to keep results of a stack that deletes them, copy them first with"
        " aws s3 sync",
    )
    if old.get("EncryptionKey") != "aws":
        yield from _refusals(
            old,
            new,
            "EncryptionKey",
            "the stored results are encrypted with the old key, and the functions would lose the"
            " right to read them",
            "leave it as it is, or deploy a second stack",
        )


def _removed_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    """The faults of values that only an earlier release can give a cluster of the stack's own."""
    for name, value in {**_REMOVED, "NodeGroupsPerArm": _node_groups(new)}.items():
        if old.get(name, value) != value:
            yield Fault(
                f"{name} {old[name]}",
                f"this release has no such parameter and makes it {value or 'empty'}",
                f"make it so with the release that you have, or {_SECOND_STACK}",
            )
    if old.get("PublicEndpoint") == "false" and new["PublicAccessCidrs"]:
        yield Fault(
            "PublicEndpoint false",
            "this release keeps the Kubernetes API private if PublicAccessCidrs is empty",
            f"set PublicAccessCidrs to nothing instead of {new['PublicAccessCidrs']}",
        )


def _node_groups(new: Properties) -> str:
    return str(Request.from_properties(new).node_groups)


def _alarm_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    for name in ("AlarmEmail", "AlarmTopicArn"):
        if old.get(name) and old[name] != new["AlarmRecipient"]:
            yield Fault(
                f"{name} {old[name]}",
                "this release has AlarmRecipient in its place",
                "set AlarmRecipient to it",
            )


def _demand_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    nodes = old.get("NodeCount")
    if old.get("NodesOnDemand") == "true" and new["OnDemandNodeCount"] != nodes:
        yield Fault(
            "NodesOnDemand true",
            "this release has OnDemandNodeCount in its place",
            f"set OnDemandNodeCount to {nodes}",
        )


def _version_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    """The fault of a version that EKS does not go to.

    Sources: EKS user guide, "Update existing cluster to new Kubernetes version" and "Rollback
    cluster to previous Kubernetes version": nodes go back before the control plane does, and
    CloudFormation updates the control plane first.
    https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html
    https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html
    """
    if not _changed(old, new, "KubernetesVersion"):
        return
    before, after = (_minor(of["KubernetesVersion"]) for of in (old, new))
    where = _change("KubernetesVersion", old["KubernetesVersion"], new["KubernetesVersion"])
    if after < before:
        yield Fault(where, "CloudFormation cannot take a cluster's version back", _SECOND_STACK)
    elif after > before + 1:
        yield Fault(
            where,
            "EKS updates a cluster by one minor version at a time",
            f"update the stack to 1.{before + 1} first",
        )


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


def _network_faults(old: Properties, new: Properties, zones: Zones) -> Iterator[Fault]:
    yield from _refusals(old, new, "VpcCidr", "a cluster cannot move to another VPC", _SECOND_STACK)
    zone, named = zones.first, new["AvailabilityZone"]
    if zone and named and named != zone:
        yield Fault(
            _change("AvailabilityZone", zone, named),
            "the cluster's subnets cannot move to another zone",
            f"leave it empty or at {zone}, or {_SECOND_STACK}",
        )


def _group_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    """The fault of a spread group in which old and new nodes have no room together."""
    if new["TreatmentStrategy"] != "spread" or not replaces_node_groups(old, new):
        return
    if any(_changed(old, new, name) for name in _OF_PLACEMENT_GROUPS):
        return
    together = int(old["NodeCount"]) + int(new["NodeCount"])
    if together > SPREAD_INSTANCES:
        changed = [name for name in _OF_NODE_GROUPS if _changed(old, new, name)]
        yield Fault(
            "; ".join(_change(name, old[name], new[name]) for name in changed),
            f"the new nodes start before the old ones end, and {together} nodes are more than the"
            f" {SPREAD_INSTANCES} that a spread placement group holds",
            f"update NodeCount to {SPREAD_INSTANCES // 2} first, or {_SECOND_STACK}",
        )
