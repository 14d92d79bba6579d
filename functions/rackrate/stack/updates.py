"""The changes of a stack's parameters that an update cannot make. Pure: properties in, faults out.

A change is refused if CloudFormation or EKS would fail half-way, and if the results would be lost.
`docs/updates.yaml` lists what every change does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rackrate.errors import Fault
from rackrate.plan.capacity import SPREAD_INSTANCES
from rackrate.stack.preflight import Zones

Properties = Mapping[str, Any]

_SECOND_STACK = "deploy a second stack for it, with another --stack-name"

#: The properties of a node group that only another node group can have: CloudFormation makes it
#: before it deletes the old one. Source: CloudFormation template reference, "AWS::EKS::Nodegroup",
#: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
_OF_NODE_GROUPS = ("InstanceType", "AmiType", "SecondaryCidr")
#: The properties of a placement group. CloudFormation makes another group if one of them changes.
_OF_PLACEMENT_GROUPS = ("TreatmentStrategy", "SpreadLevel", "ExistingPlacementGroup")


def replaces_node_groups(old: Properties, new: Properties) -> bool:
    """Whether the update makes new node groups while the old ones exist.

    Args:
        old: the properties of the deployment before; empty when the stack is created.
        new: the properties of this one.
    """
    return bool(old) and any(_changed(old, new, name) for name in _OF_NODE_GROUPS)


def update_faults(old: Properties, new: Properties, zones: Zones) -> list[Fault]:
    """The faults of an update's changes.

    Args:
        old: the properties of the deployment before. A property that an older version of the
            template did not have is missing, and its change is not checked.
        new: the properties of this deployment.
        zones: the zones of the stack's subnets; empty with an existing cluster.
    """
    faults = [*_cluster_faults(old, new), *_result_faults(old, new)]
    if not new["ExistingClusterName"] and not old["ExistingClusterName"]:
        faults += [
            *_version_faults(old, new),
            *_control_plane_faults(old, new),
            *_network_faults(old, new, zones),
            *_group_faults(old, new),
        ]
    return faults


def changes_cluster(old: Properties, new: Properties) -> bool:
    """Whether the update would move the stack to another cluster."""
    return _changed(old, new, "ExistingClusterName")


def _changed(old: Properties, new: Properties, name: str) -> bool:
    return name in old and old[name] != new[name]


def _change(name: str, old: str, new: str) -> str:
    return f"{name} {old or '(empty)'} -> {new or '(empty)'}"


def _refusals(
    old: Properties, new: Properties, name: str, problem: str, remedy: str
) -> Iterator[Fault]:
    if _changed(old, new, name):
        yield Fault(_change(name, old[name], new[name]), problem, remedy)


def _cluster_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    yield from _refusals(
        old,
        new,
        "ExistingClusterName",
        "a stack stays with the cluster that it was created with",
        _SECOND_STACK,
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


def _control_plane_faults(old: Properties, new: Properties) -> Iterator[Fault]:
    """The faults of a control plane's properties that stay as they are.

    Sources: EKS user guide, "Change authentication mode to use access entries"; CloudFormation
    template reference, "AWS::EKS::Cluster", whose EncryptionConfig requires a replacement.
    https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-cluster.html
    """
    if new["AuthenticationMode"] != "API":
        yield from _refusals(
            old,
            new,
            "AuthenticationMode",
            "EKS does not go back from access entries to the aws-auth config map",
            f"leave it at {old.get('AuthenticationMode')}, or {_SECOND_STACK}",
        )
    yield from _refusals(
        old,
        new,
        "EncryptSecrets",
        "CloudFormation would have to replace the cluster, whose name is taken",
        f"leave it at {old.get('EncryptSecrets')}, or {_SECOND_STACK}",
    )


def _network_faults(old: Properties, new: Properties, zones: Zones) -> Iterator[Fault]:
    yield from _refusals(old, new, "VpcCidr", "a cluster cannot move to another VPC", _SECOND_STACK)
    named = ("AvailabilityZone", "OtherAvailabilityZone")
    for name, zone in zip(named, (zones.first, zones.other), strict=True):
        if zone and new[name] and new[name] != zone:
            yield Fault(
                _change(name, zone, new[name]),
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
