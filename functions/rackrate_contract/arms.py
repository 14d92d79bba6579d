"""The arms of a run with their nodes, and how results have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from rackrate_contract.document import Document
from rackrate_contract.selectors import Selector, SelectorField

#: The network that a pod uses: its own behind the cluster's CNI, or its node's.
Network = Literal["pod", "host"]
#: What its clients connect to: the server's own address, that of a Service in front of it, or an
#: endpoint outside the cluster.
Via = Literal["pod", "service", "endpoint"]
#: Which pairs of its nodes an arm may have.
PairZones = Literal["any", "within-zone", "across-zones"]
#: The titles of the stack's own arms.
NO_GROUP, _GROUP = "no group", " group"
#: How an instance divides its bandwidth between its network and its volumes. EC2's words.
BandwidthWeighting = Literal["default", "vpc-1", "ebs-1"]


class Endpoint(Document):
    """What the clients of an arm connect to outside the cluster, in place of server pods."""

    name: str
    """As the plan names it: `instance`, or its address and port."""
    address: str
    """Its IP address."""
    port: int | None = None
    """Its port; null: each tool's own."""
    instance_id: str | None = None
    """The stack's endpoint instance; null for others."""

    @property
    def words(self) -> str:
        """Its name, with its address where the name is not that."""
        return f"{self.name} ({self.address})" if self.instance_id else self.name


class InstanceNetwork(Document):
    """The bandwidth of an instance, in bit/s; None where EC2 does not say."""

    baseline_bits_per_second: float | None = None
    peak_bits_per_second: float | None = None
    bandwidth_weighting: BandwidthWeighting = "default"
    """The weighting that the bandwidth contains."""
    unknown_types: tuple[str, ...] = ()
    """The types, as the nodes report them, that EC2 does not know."""

    @property
    def bursts(self) -> bool:
        """Whether its peak is known to be higher than its baseline."""
        baseline, peak = self.baseline_bits_per_second, self.peak_bits_per_second
        return baseline is not None and peak is not None and baseline < peak


class Interface(Document):
    """The facts about a network interface that leaves a node; null where one is unknown."""

    driver: str | None
    driver_version: str | None
    """As `ethtool --driver` prints it: the kernel's release where the driver has no own version."""
    firmware: str | None
    bus: str | None
    """Its address on the bus."""
    mtu: int | None
    """The largest packet, in bytes."""
    queues: int | None
    """Pairs of queues in use."""
    most_queues: int | None
    """Pairs of queues that it can have."""
    unknown: str | None
    """Why some facts are unknown."""


class InstancePlacement(Document):
    """Where EC2 says that a node's instance is, how it was bought, and how it was set."""

    group: str | None = None
    """The name of its placement group, or the id if EC2 did not report the name; null if it is in
    none."""
    group_id: str | None = None
    parent_group_id: str | None = None
    """The id of the precision-time placement group that is the parent of its group."""
    strategy: str | None = None
    """The strategy of its group; null without a group, or if EC2 did not tell."""
    partition: int | None = None
    """Its partition, from 1, in a partition placement group."""
    tenancy: str | None = None
    lifecycle: str = "on-demand"
    """`on-demand`, `spot`, `capacity-block`, or another word of EC2's."""
    capacity_reservation: str | None = None
    """The id of the capacity reservation in which it runs."""
    bandwidth_weighting: BandwidthWeighting = "default"
    """How it divides its bandwidth between network and volumes."""
    ena_express: bool | None = None
    """Whether all network interfaces that pods may use have ENA Express switched on; null if EC2
    did not tell."""


class Node(Document):
    """The facts about a node; null where the node does not report one."""

    name: str
    instance_id: str | None = None
    instance_type: str | None = None
    zone: str | None = None
    """As EC2 says, or the node's label where EC2 did not tell."""
    ec2_placement: InstancePlacement | None = None
    """Null if EC2 did not report it."""
    region: str | None = None
    image: str | None = None
    """The machine image."""
    architecture: str | None = None
    node_group: str | None = None
    kernel: str | None = None
    os_image: str | None = None
    kubernetes: str | None = None
    """The kubelet's version."""
    container_runtime: str | None = None
    cpus: int | None = None
    network_scale: float | None = None
    network_layers: tuple[str, ...] | None = None
    """Its location in EC2's network, from the top; empty if EC2 reports none for it; null if EC2
    did not tell."""
    node_pool: str | None = None
    """The Karpenter node pool, as in Auto Mode too."""
    capacity_type: str | None = None
    """`on-demand`, `spot`, `reserved` or `capacity-block`, as EC2 says, or the
    node's labels where EC2 did not tell."""
    labelled_group_id: str | None = None
    """The id of the placement group that Karpenter's label names."""
    labelled_partition: str | None = None
    """The partition that Karpenter's label names."""
    cni: str | None = None
    """Image of the VPC CNI with name and tag; null if there is none, or during its update."""
    interfaces: dict[str, Interface] | None = None
    """Its network interfaces by name; null if they were not read, as the counters' note says."""

    @property
    def drivers(self) -> str | None:
        """The drivers of its interfaces with their versions, such as `ena 2.16.1g`."""
        return self._of_interfaces(
            lambda each: each.driver and f"{each.driver} {each.driver_version or ''}".rstrip()
        )

    @property
    def mtus(self) -> str | None:
        """The MTUs of its interfaces in bytes."""
        return self._of_interfaces(lambda each: each.mtu)

    @property
    def queues(self) -> str | None:
        """The numbers of queues that its interfaces use, such as `4 of 8`."""
        return self._of_interfaces(
            lambda each: each.queues and f"{each.queues} of {each.most_queues or 'unknown'}"
        )

    @property
    def is_placeholder(self) -> bool:
        """Whether it stands for a node that does not exist yet."""
        return (self.instance_id or self.kubernetes) is None

    @property
    def partition(self) -> str | None:
        """Its partition, as text; None if it is in none, or EC2 did not tell."""
        where = self.ec2_placement
        return None if where is None or where.partition is None else str(where.partition)

    @property
    def tenancy(self) -> str | None:
        """The tenancy of its instance, such as `default`; None if EC2 did not tell."""
        return None if self.ec2_placement is None else self.ec2_placement.tenancy

    def shares_partition(self, other: Node) -> bool | None:
        """Whether both are in one partition of one group; None where that has no meaning."""
        ours, theirs = self.ec2_placement, other.ec2_placement
        if ours is None or theirs is None or ours.group != theirs.group:
            return None
        if ours.partition is None or theirs.partition is None:
            return None
        # A partition of a group has racks of its own in each zone.
        return (self.zone, ours.partition) == (other.zone, theirs.partition)

    def _of_interfaces(self, fact: Callable[[Interface], str | int | None]) -> str | None:
        """A known fact of all interfaces as one text, each value once."""
        facts = map(fact, (self.interfaces or {}).values())
        return ", ".join(sorted({str(value) for value in facts if value})) or None


class EnaExpressUse(Document):
    """The packets that an arm's nodes sent during a run with ENA Express switched on."""

    eligible: int
    """Packets that could have gone by ENA Express, those that did included."""
    sent: int
    """Packets that did."""

    @property
    def share(self) -> float | None:
        """The share of the eligible packets that went by ENA Express; None if none was eligible."""
        return min(self.sent / self.eligible, 1.0) if self.eligible else None


class _ArmFacts(Document):
    """What an arm is in a plan and in results."""

    name: str
    stack_arm: str
    """The stack's arm whose nodes it uses."""
    client_network: Network
    server_network: Network
    via: Via = "pod"
    """What its clients connect to: `pod`, the server's own address, `service` or `endpoint`."""
    pairs: PairZones = "any"
    """Which of its nodes may be a pair."""
    endpoint: Endpoint | None = None
    """What each of its nodes is paired with; null: with another of its nodes."""
    placement: str
    """The placement group's strategy; `none` without a group."""
    baseline: bool
    """Whether the others are compared with it."""
    node_groups: tuple[str, ...]
    """Its EKS managed node groups; empty when only a label is known."""
    selector: SelectorField
    """The label selector of its nodes."""
    ena_express: bool
    """Whether its nodes have ENA Express switched on."""
    ena_express_use: EnaExpressUse | None = None
    """How far they used it during the run; null if it is off or was not read."""


class Arm(_ArmFacts):
    """An arm of a run with its nodes."""

    network: InstanceNetwork
    """The bandwidth of its instances, unscaled."""
    network_scale: float | None
    """Factor by which the lab scales the nodes' network; null on AWS."""
    nodes: tuple[Node, ...]

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of its nodes."""
        return tuple(node.name for node in self.nodes)

    @property
    def towards(self) -> str:
        """Which endpoint its clients measure towards, in words; empty without one."""
        return "" if self.endpoint is None else f"towards {self.endpoint.words}"

    @property
    def way(self) -> str:
        """What its pairs are, in words; empty for any two nodes."""
        return self.towards or (
            "" if self.pairs == "any" else f"pairs {self.pairs}".replace("-", " ")
        )

    @property
    def ends(self) -> frozenset[str]:
        """The names of its nodes, and the address of its endpoint: what its pairs load."""
        endpoint = () if self.endpoint is None else (self.endpoint.address,)
        return frozenset((*self.node_names, *endpoint))

    @property
    def ena_express_unused(self) -> bool:
        """Whether its nodes are known not to have used the ENA Express that they have."""
        use = self.ena_express_use
        return self.ena_express and use is not None and use.sent == 0

    @property
    def scale(self) -> float:
        """The factor by which to multiply the limits of its network."""
        return 1.0 if self.network_scale is None else self.network_scale


class ArmNetwork(Document):
    """The bandwidth of an arm's instances, unscaled, and the scale."""

    baseline_bits_per_second: float | None
    peak_bits_per_second: float | None
    bandwidth_weighting: BandwidthWeighting = "default"
    scale: float | None


class ArmOfResults(_ArmFacts):
    """An arm and its nodes."""

    selector: SelectorField = Selector(())
    """The label selector of its nodes; empty in results of the first versions."""
    nodes: tuple[str, ...]
    node_facts: tuple[Node, ...]
    network: ArmNetwork

    @classmethod
    def of(cls, arm: Arm) -> ArmOfResults:
        """The arm in the format of `rackrate.result.v1`."""
        return cls.from_fields(
            arm,
            nodes=arm.node_names,
            node_facts=arm.nodes,
            network=ArmNetwork.from_fields(arm.network, scale=arm.network_scale),
        )

    def arm(self) -> Arm:
        """The arm again."""
        return Arm.from_fields(
            self,
            network=InstanceNetwork.from_fields(self.network),
            network_scale=self.network.scale,
            nodes=self.node_facts,
        )


def arm_titles(arms: Iterable[Arm]) -> dict[str, str]:
    """What people read for each arm's name, such as `cluster group` and `no group`.

    An arm that a plan named keeps its name, and all do if two titles would be the same.
    """
    return _distinct({arm.name: _arm_title(arm) for arm in arms})


def stack_arm_titles(placements: Mapping[str, str]) -> dict[str, str]:
    """The titles of a stack's own arms, from the strategy of each."""
    return _distinct({name: _group_title(placement) for name, placement in placements.items()})


def _distinct(titles: dict[str, str]) -> dict[str, str]:
    """The titles by name, or the names if two titles are the same."""
    return titles if len(set(titles.values())) == len(titles) else {name: name for name in titles}


def _arm_title(arm: Arm) -> str:
    # In a comparison the name is followed by its run.
    if arm.name.partition(" (")[0] != arm.stack_arm:
        return arm.name
    return arm.name.replace(arm.stack_arm, _group_title(arm.placement), 1)


def _group_title(placement: str) -> str:
    return NO_GROUP if placement == "none" else f"{placement}{_GROUP}"


def in_arm(title: str) -> str:
    """Where something holds, such as `in the cluster placement group`, from an arm's title."""
    if title == NO_GROUP:
        return "without a group"
    strategy = title.removesuffix(_GROUP)
    return f"with {title}" if strategy == title else f"in the {strategy} placement group"


class _AsWritten:
    """Arms that JSON has as `ArmOfResults`."""

    written = tuple[ArmOfResults, ...]

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = handler.generate_schema(cls.written)
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(
                lambda arms: tuple(arm.arm() for arm in arms), written
            ),
            python_schema=handler.generate_schema(tuple[Arm, ...]),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda arms: tuple(map(ArmOfResults.of, arms)), return_schema=written
            ),
        )


#: The arms in results.
ArmsOfResults = Annotated[tuple[Arm, ...], _AsWritten]
