"""AWS's service quotas: their codes, and what counts against them. Pure.

The functions and the command share it. Instances and reservations have the shapes of boto3's
responses to EC2's DescribeInstances and DescribeCapacityReservations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

#: Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances, in vCPUs.
STANDARD = "L-1216C47A"
#: Nodes per managed node group, and AWS's default for it (Amazon EKS user guide, "View and manage
#: Amazon EKS and Fargate service quotas").
NODES_PER_GROUP = "L-BD136A63"
DEFAULT_NODES_PER_GROUP = 450
#: The most node groups of an arm, as in templates/nodegroup.yaml.
MOST_NODE_GROUPS = 4
#: VPCs per Region and NAT gateways per Availability Zone, of the service `vpc` (Amazon VPC user
#: guide, "Amazon VPC quotas"), and EC2-VPC Elastic IPs, of the service `ec2`.
VPCS = "L-F678F1CE"
NAT_GATEWAYS_PER_ZONE = "L-FE5A380F"
ELASTIC_ADDRESSES = "L-0263D0A3"
#: Concurrently running builds of the service `codebuild`, by the environments in which
#: `ToolImage=build` builds (AWS General Reference, "AWS CodeBuild endpoints and quotas").
IMAGE_BUILDS = {"Linux/Large": "L-4DDC4A99", "ARM/Large": "L-596BEAB4"}

# What each quota of vCPUs counts, and the prefixes of its instance types (Amazon EC2 user guide,
# "On-Demand Instance quotas"). All other types are Standard ones.
_VCPUS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    STANDARD: ("Standard (A, C, D, H, I, M, R, T, Z)", ()),
    "L-F7808C92": ("HPC", ("hpc",)),
    "L-1945791B": ("Inf", ("inf",)),
    "L-2C3B7624": ("Trn", ("trn",)),
    "L-6E869C2A": ("DL", ("dl",)),
    "L-DB2E81BA": ("G and VT", ("g", "vt")),
    "L-74FC7D96": ("F", ("f",)),
    "L-417A185B": ("P", ("p",)),
    "L-43DA4232": ("High Memory", ("u",)),
    "L-7295265B": ("X", ("x",)),
}

#: States of instances that count against a quota of vCPUs.
COUNTED_INSTANCES = ("pending", "running")
#: States of capacity reservations that count against it (EC2 user guide, "Reserve compute capacity
#: with EC2 On-Demand Capacity Reservations").
COUNTED_RESERVATIONS = ("assessing", "scheduled", "pending", "active", "delayed")


def divided(nodes: int, groups: int) -> list[int]:
    """The number of nodes of each of an arm's node groups, the larger numbers first."""
    each, more = divmod(nodes, groups)
    return [each + (number < more) for number in range(groups)]


def quota_code(instance_type: str) -> str:
    """The code of the quota that counts the vCPUs of an instance type."""
    codes = (code for code, (_, prefixes) in _VCPUS.items() if instance_type.startswith(prefixes))
    return next(codes, STANDARD)


def vcpu_quota_name(code: str) -> str:
    """The name of a quota of vCPUs, as Service Quotas shows it."""
    return f"Running On-Demand {_VCPUS[code][0]} instances"


def request_command(service: str, code: str, value: float) -> str:
    """The command that asks for a larger quota."""
    return (
        f"aws service-quotas request-service-quota-increase --service-code {service}"
        f" --quota-code {code} --desired-value {value:g}"
    )


@dataclass(frozen=True)
class Nodes:
    """The instances of a stack: its nodes, and one outside the cluster.

    Attributes:
        stack: the stack's name, the value of the nodes' tag `rackrate:stack`.
        instance_type: their type.
        in_each_arm: how many each arm has.
        reservations: the id of each arm's capacity reservation; empty for none.
        load_type: the type of the load nodes; empty for that of the arms.
        load_nodes: how many load nodes there are.
        endpoint_type: the type of the stack's instance outside the cluster; empty without one.
    """

    stack: str
    instance_type: str
    in_each_arm: int
    reservations: Sequence[str] = ("", "")
    load_type: str = ""
    load_nodes: int = 0
    endpoint_type: str = ""

    @property
    def in_all_arms(self) -> int:
        """How many the arms have together."""
        return len(self.reservations) * self.in_each_arm

    @property
    def _kinds(self) -> list[tuple[str, str, int]]:
        """Each kind in words, its type, and how many there are."""
        load_type = self.load_type or self.instance_type
        return [
            (f"{self.in_all_arms} nodes in all arms", self.instance_type, self.in_all_arms),
            (f"{self.load_nodes} load nodes", load_type, self.load_nodes),
            ("1 instance outside the cluster", self.endpoint_type, int(bool(self.endpoint_type))),
        ]

    @property
    def by_type(self) -> dict[str, int]:
        """How many there are of each type."""
        counts: Counter[str] = Counter()
        for _, name, count in self._kinds:
            counts[name] += count
        return {name: count for name, count in counts.items() if count}

    @property
    def quota_codes(self) -> list[str]:
        """The quotas that count their vCPUs, the arms' first."""
        return list(dict.fromkeys(map(quota_code, self.by_type)))

    def in_words(self, code: str, vcpus: Mapping[str, int]) -> str:
        """Those that a quota counts, with the vCPUs of each."""
        return " + ".join(
            f"{nodes} x {vcpus[type_]} vCPUs ({type_})"
            for nodes, type_, count in self._kinds
            if count and quota_code(type_) == code
        )


@dataclass(frozen=True)
class Vcpus:
    """vCPUs under one quota.

    Attributes:
        quota: the most that may be in use.
        in_use: those of instances, and those that capacity reservations hold unused.
        of_nodes: the part of `in_use` that is for the stack's nodes: they run, or their
            reservation holds them.
        needed: those of all nodes of the stack.
        code: the quota.
        nodes: the stack's nodes that it counts, in words.
    """

    quota: float
    in_use: int
    of_nodes: int
    needed: int
    code: str = STANDARD
    nodes: str = ""

    @property
    def needed_quota(self) -> int:
        """The smallest quota that has room for all nodes of the stack."""
        return self.in_use + max(0, self.needed - self.of_nodes)

    @property
    def suffices(self) -> bool:
        """Whether the quota has room for all nodes of the stack."""
        return self.needed <= self.of_nodes or self.needed_quota <= self.quota


def counted_types(
    instances: Iterable[Json], reservations: Iterable[Json], nodes: Nodes
) -> set[str]:
    """The instance types whose vCPUs `vcpu_use` needs to know."""
    used = {one["InstanceType"] for one in (*instances, *reservations)}
    return {*nodes.by_type, *(name for name in used if quota_code(name) in nodes.quota_codes)}


def vcpu_use(
    nodes: Nodes,
    code: str,
    quota: float,
    instances: Iterable[Json],
    reservations: Iterable[Json],
    vcpus: Mapping[str, int],
    account: str,
) -> Vcpus:
    """What counts against one of the quotas of the nodes' vCPUs.

    A capacity reservation counts whole, used or not, and for the account that owns it. An instance
    in a reservation is a part of it. A node takes a type's default vCPUs, whatever its CPU options
    are.

    Args:
        nodes: the stack's nodes.
        code: the quota, one of the nodes' `quota_codes`.
        quota: the account's value.
        instances: all instances in `COUNTED_INSTANCES`.
        reservations: all capacity reservations in `COUNTED_RESERVATIONS`.
        vcpus: default vCPUs of each of `counted_types`.
        account: the account's id.
    """
    counting = {name: n for name, n in nodes.by_type.items() if quota_code(name) == code}
    held = {one["CapacityReservationId"]: one for one in reservations}
    others = {id_ for id_, one in held.items() if one["OwnerId"] != account}
    counted = [
        one
        for one in instances
        if _is_on_demand(one)
        and quota_code(one["InstanceType"]) == code
        and one.get("CapacityReservationId") not in others
    ]
    unused = sum(
        _unused(one) * vcpus[one["InstanceType"]]
        for id_, one in held.items()
        if id_ not in others and quota_code(one["InstanceType"]) == code
    )
    there = Counter(one["InstanceType"] for one in counted if _is_of(one, nodes.stack))
    there[nodes.instance_type] += sum(
        min(_unused(held[id_]), nodes.in_each_arm * nodes.reservations.count(id_))
        for id_ in set(nodes.reservations) & held.keys()
    )
    return Vcpus(
        quota=quota,
        in_use=sum(vcpus[one["InstanceType"]] for one in counted) + unused,
        of_nodes=sum(min(there[name], count) * vcpus[name] for name, count in counting.items()),
        needed=sum(count * vcpus[name] for name, count in counting.items()),
        code=code,
        nodes=nodes.in_words(code, vcpus),
    )


def _is_on_demand(instance: Json) -> bool:
    """Whether quotas of On-Demand vCPUs count it: no Spot, no capacity block, no Dedicated Host."""
    tenancy = instance.get("Placement", {}).get("Tenancy", "default")
    return "InstanceLifecycle" not in instance and tenancy != "host"


def _unused(reservation: Json) -> int:
    is_active = reservation["State"] == "active"
    return int(reservation["AvailableInstanceCount" if is_active else "TotalInstanceCount"])


def _is_of(instance: Json, stack: str) -> bool:
    tags: Iterable[Mapping[str, str]] = instance.get("Tags") or ()
    return any(tag["Key"] == "rackrate:stack" and tag["Value"] == stack for tag in tags)
