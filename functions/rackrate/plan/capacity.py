"""How many nodes fit: the addresses that they take, and the limits on their number. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rackrate.errors import Fault
from rackrate.settings import Cni, Settings
from rackrate_text.quotas import NODES_PER_GROUP
from rackrate_text.words import counted

#: A pair needs two nodes.
LEAST_NODES = 2
#: Running instances of a rack-level spread group in a zone (EC2 user guide, "Placement
#: strategies").
SPREAD_INSTANCES = 7

#: The first generation of instances that precision-time groups take (EC2 user guide, "Set the time
#: reference on your EC2 instance to use the local Amazon Time Sync Service").
_PRECISION_TIME_GENERATION = 7

#: EKS's upper limits for maxPods of a managed node group, below and from 30 vCPUs on (EKS user
#: guide, "Choose an optimal Amazon EC2 node instance type").
_MANAGED_PODS_SMALL, _MANAGED_PODS_LARGE, _LARGE_VCPUS = 110, 250, 30
#: Pods that use the node's own address: aws-node and kube-proxy.
_HOST_NETWORK_PODS = 2
#: Addresses in a delegated prefix, a /28.
_PREFIX_ADDRESSES = 16


def most_pods(described: Mapping[str, Any], cni: Cni) -> int:
    """The number of pods that a node can run: those with an address of their own, and the others.

    EKS and the VPC CNI use the first network card alone (eni_max_pods.go in
    https://github.com/awslabs/amazon-eks-ami; gen_vpc_ip_limits.go in
    https://github.com/aws/amazon-vpc-cni-k8s).

    Args:
        described: the instance type, as DescribeInstanceTypes returns it.
        cni: how pods get their addresses.
    """
    network = described["NetworkInfo"]
    cards = network.get("NetworkCards") or [network]
    first = min(cards, key=lambda card: card.get("NetworkCardIndex", 0))
    interfaces = 1 if cni.one_interface else int(first["MaximumNetworkInterfaces"])
    each = _PREFIX_ADDRESSES if cni.prefix_delegation else 1
    # Each interface also has an address of its own.
    addresses = interfaces * (int(network["Ipv4AddressesPerInterface"]) - 1) * each
    return addresses + _HOST_NETWORK_PODS


def addresses_per_node(
    described: Mapping[str, Any], cni: Cni, *, max_pods: int | None
) -> tuple[int, str]:
    """The number of subnet addresses that a node with the maximum number of pods uses.

    The VPC CNI allocates the addresses of whole interfaces, and keeps one spare interface
    (WARM_ENI_TARGET = 1). With prefix delegation it allocates /28 prefixes, and keeps one spare
    prefix.

    Args:
        described: the instance type, as DescribeInstanceTypes returns it.
        cni: how pods get their addresses.
        max_pods: the kubelet's maxPods, or None for the default.

    Returns:
        The number, and an explanation in words.
    """
    per_interface = int(described["NetworkInfo"]["Ipv4AddressesPerInterface"])
    most = most_pods(described, cni)
    slots = most - _HOST_NETWORK_PODS
    if max_pods is None:
        large = described.get("VCpuInfo", {}).get("DefaultVCpus", 0) >= _LARGE_VCPUS
        max_pods = min(most, _MANAGED_PODS_LARGE if large else _MANAGED_PODS_SMALL)
    pods = min(max(max_pods - _HOST_NETWORK_PODS, 1), slots)
    if cni.prefix_delegation:
        prefixes = min(math.ceil(pods / _PREFIX_ADDRESSES) + 1, slots // _PREFIX_ADDRESSES)
        # Each interface with prefixes also has an address of its own.
        used = math.ceil(prefixes / (per_interface - 1))
        return (
            used + prefixes * _PREFIX_ADDRESSES,
            f"{used} of its own and {prefixes} prefixes of {_PREFIX_ADDRESSES} for {pods} pods",
        )
    used = min(math.ceil(pods / (per_interface - 1)) + 1, slots // (per_interface - 1))
    return (
        used * per_interface,
        f"{counted(used, 'network interface')} of {per_interface} for {pods} pods and for quick"
        " starts",
    )


def strategies_of(described: Mapping[str, Any]) -> list[str]:
    """The strategies of the placement groups that an instance type can be in.

    EC2 does not report precision-time groups, so not all types that have the strategy here work.

    Args:
        described: the instance type, as DescribeInstanceTypes returns it.
    """
    strategies = list(described.get("PlacementGroupInfo", {}).get("SupportedStrategies", []))
    generation = re.search(r"\d+", described["InstanceType"].partition(".")[0])
    if generation is not None and int(generation[0]) >= _PRECISION_TIME_GENERATION:
        strategies.append("precision-time")
    return strategies


def load_nodes_for(count: int, settings: Settings) -> int:
    """The number of load nodes for arms of `count` nodes: as many for each as the stack has.

    It is rounded up, so that the load is never less than in the whole stack.
    """
    return math.ceil(settings.load_node_count * count / settings.node_count)


def too_many_for_groups(nodes: int, groups: int, nodes_per_group: int) -> str:
    """Why an arm's node groups do not hold so many nodes; empty if they do.

    Args:
        nodes: the nodes of the arm.
        groups: its node groups.
        nodes_per_group: the account's quota `NODES_PER_GROUP`.
    """
    if nodes <= groups * nodes_per_group:
        return ""
    return (
        f"and its {counted(groups, 'node group')} can have {groups * nodes_per_group}: this account"
        f" allows {nodes_per_group} in each (the quota {NODES_PER_GROUP} of EKS)"
    )


@dataclass(frozen=True, kw_only=True)
class Machines:
    """What nodes of one type take of the account and of their subnet.

    Attributes:
        nodes: how many there are now.
        instance_type: their type.
        vcpus: vCPUs of a node.
        vcpu_quota: most vCPUs of running instances under the quota `vcpu_quota_code`; None if that
            is not known.
        vcpu_quota_code: the quota that counts their vCPUs.
        addresses: how many addresses a node takes.
        because: why so many, in words.
    """

    nodes: int
    instance_type: str
    vcpus: int
    vcpu_quota: float | None
    vcpu_quota_code: str
    addresses: int
    because: str

    def lacking_quota(self, nodes: str, vcpus: int) -> str:
        """Why the account may not run so many vCPUs; empty if it may, or if that is not known."""
        if self.vcpu_quota is None or vcpus <= self.vcpu_quota:
            return ""
        return (
            f"{nodes} need {vcpus} vCPUs, and this account allows {self.vcpu_quota:g}"
            f" (the quota {self.vcpu_quota_code} of EC2)"
        )


@dataclass(frozen=True, kw_only=True)
class LoadRoom(Machines):
    """What load nodes take. Their quota may be that of the arms' nodes.

    Attributes:
        settings: of the stack, for the number of load nodes that an arm's number needs.
    """

    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Room(Machines):
    """What limits the number of nodes of the arms that a stack made.

    Attributes:
        arms: the number of arms; they have the same number of nodes.
        groups_per_arm: the number of node groups of an arm.
        nodes_per_group: most nodes of a node group.
        subnet: id of the nodes' subnet.
        free_addresses: its free addresses.
        is_spread: whether an arm is in a rack-level spread group.
        load: what the stack's load nodes take of it; None without load nodes.
    """

    arms: int
    groups_per_arm: int
    nodes_per_group: int
    subnet: str
    free_addresses: int
    is_spread: bool = False
    load: LoadRoom | None = None

    def vcpus_beside(self, loading: int) -> int:
        """The vCPUs of so many load nodes that the quota of the arms' nodes counts too."""
        load = self.load
        if load is None or load.vcpu_quota_code != self.vcpu_quota_code:
            return 0
        return loading * load.vcpus


def faults_of_node_counts(counts: Mapping[int, int], room: Room) -> list[Fault]:
    """The numbers of nodes of an arm that cannot work, each with all of its reasons.

    Args:
        counts: the values of `sweep.nodes`, by their place there.
        room: what limits them.
    """
    return [
        Fault(f"sweep.nodes[{index}]", problem, remedy)
        for index, count in counts.items()
        for problem, remedy in _obstacles(count, room)
    ]


def _obstacles(count: int, room: Room) -> Iterator[tuple[str, str]]:
    """Why arms cannot have this many nodes: problem and remedy."""
    if count < LEAST_NODES:
        yield f"{count} in each arm; a pair needs {LEAST_NODES}", f"name {LEAST_NODES} or more"
    if room.is_spread and count > SPREAD_INSTANCES:
        yield (
            f"{count} in each arm, and a spread placement group holds at most {SPREAD_INSTANCES}"
            " instances in a zone",
            f"name {SPREAD_INSTANCES} or fewer",
        )
    if too_many := too_many_for_groups(count, room.groups_per_arm, room.nodes_per_group):
        yield (
            f"{count} in each arm, {too_many}",
            f"name {room.groups_per_arm * room.nodes_per_group} or fewer, deploy the stack with a"
            " larger NodeCount, or ask for more in the Service Quotas console",
        )
    together, load = count * room.arms, room.load
    needed, vcpus = (together - room.nodes) * room.addresses, together * room.vcpus
    nodes = f"{together} nodes in all arms"
    if load is not None:
        loading = load_nodes_for(count, load.settings)
        nodes += f" and {counted(loading, 'load node')}"
        needed += (loading - load.nodes) * load.addresses
        vcpus += room.vcpus_beside(loading)
        called = f"{counted(loading, 'load node')} ({load.instance_type})"
        lacking = load.lacking_quota(called, loading * load.vcpus)
        if lacking and load.vcpu_quota_code != room.vcpu_quota_code:
            yield (
                lacking,
                "name fewer, deploy the stack with a smaller LoadNodeCount, or ask for more in the"
                " Service Quotas console",
            )
    if needed > room.free_addresses:
        each = f"{room.addresses} each ({room.because})"
        yield (
            f"{nodes} need {needed} more addresses, {each}, and the subnet {room.subnet} has"
            f" {room.free_addresses} free",
            "name fewer, or deploy the stack with a SecondaryCidr or a smaller MaxPods",
        )
    if lacking := room.lacking_quota(f"{nodes} ({room.instance_type})", vcpus):
        yield lacking, "name fewer, or ask for more in the Service Quotas console"
