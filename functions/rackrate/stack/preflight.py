"""The checks of a stack's parameters before it creates anything. Pure: facts in, faults out.

The facts have the shapes of boto3's responses to the Describe actions of EC2 and EKS.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rackrate.errors import Fault, lines_of
from rackrate.plan.capacity import (
    LEAST_NODES,
    SPREAD_INSTANCES,
    addresses_per_node,
    most_pods,
    strategies_of,
)
from rackrate.settings import Cni
from rackrate.stack.quotas import Quotas, network_faults, vcpu_faults
from rackrate.stack.request import Request, Zones
from rackrate_text.quotas import Vcpus, quota_code
from rackrate_text.words import listed

Json = Mapping[str, Any]

_PUBLIC_REGISTRIES = ("docker.io", "ghcr.io", "public.ecr.aws", "quay.io", "registry.k8s.io")
#: The ids of zones in which EKS places no control plane (EKS user guide, "View Amazon EKS
#: networking requirements for VPC and subnets").
ZONES_WITHOUT_CONTROL_PLANES = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
#: The longest name of a stack. Its state machines have this name with "-benchmark" and "-campaign"
#: at the end, and at most 80 characters (Step Functions API reference, CreateStateMachine).
STACK_NAME_CHARACTERS = 80 - len("-benchmark")
#: The fewest pods of a node that Preflight chooses: those of the system and of a plan.
LEAST_PODS = 11
#: Partitions of a partition group in a zone (EC2 user guide, "Placement strategies").
PARTITIONS = 7

#: AWS reserves the first four addresses and the last address of every subnet (VPC user guide).
_SUBNET_RESERVED = 5
_SUBNET_PREFIX = 20
_SECONDARY_SUBNET_PREFIX = 17
#: Addresses for EKS's interfaces, functions and VPC endpoints in the nodes' subnet.
_OTHERS_ADDRESSES = 32
# A VPC with a range in one of these cannot get a second range in another of them (VPC user guide,
# "IPv4 CIDR block association restrictions").
_PRIVATE_RANGES = tuple(
    ipaddress.ip_network(range_) for range_ in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
)

Network = ipaddress.IPv4Network


class PreflightFailed(Exception):
    """The stack's parameters cannot work; the message has a line for each of the first faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(lines_of(faults))


@dataclass(frozen=True)
class Facts:
    """The facts about the Region from EC2.

    Attributes:
        instance_type: an entry of DescribeInstanceTypes; None when the Region has no such type.
        zones: the Region's zones, as DescribeAvailabilityZones returns them.
        offered: names of the zones that offer the instance type.
        load_type: an entry of DescribeInstanceTypes for the load nodes' own type; None when they
            have none, or the Region has no such type.
        load_offered: names of the zones that offer that type.
        endpoint_type: an entry for the type of the instance outside the cluster; None when there
            is no such instance, or the Region has no such type.
        endpoint_offered: names of the zones that offer that type.
        reservations: entries of DescribeCapacityReservations by id; None for an unknown one.
        held: reservations that the stack's own nodes use already, so that all of their instances
            count as available.
        group: the existing placement group to use, as DescribePlacementGroups returns it; None when
            no group is named or EC2 does not know it.
        quotas: the account's quotas that the deployment uses.
    """

    instance_type: Json | None
    zones: Sequence[Json]
    offered: frozenset[str]
    reservations: Mapping[str, Json | None] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    group: Json | None = None
    quotas: Quotas = field(default_factory=Quotas)
    load_type: Json | None = None
    load_offered: frozenset[str] = frozenset()
    endpoint_type: Json | None = None
    endpoint_offered: frozenset[str] = frozenset()


def check_new_cluster(request: Request, facts: Facts, earlier: Zones) -> tuple[Zones, list[Fault]]:
    """Check the parameters for a new cluster, and choose its zones.

    Args:
        request: the stack's parameters.
        facts: the facts from EC2.
        earlier: the zones chosen at an earlier deployment. They are kept unless the parameters name
            others, because nodes cannot move.

    Returns:
        The zones, and every fault that was found. With faults the zones may be empty.
    """
    zones, faults = _choose_zones(request, facts, earlier)
    faults = [
        *name_faults(request),
        *image_faults(request),
        *allowed_endpoint_faults(request),
        *_public_image_faults(request),
        *alarm_faults(request),
        *faults,
    ]
    if facts.instance_type is None:
        faults.append(
            Fault(
                f"InstanceType {request.instance_type}",
                "EC2 has no such instance type in this Region",
                "choose one it has, such as c5.large",
            )
        )
    else:
        faults += _type_faults(request, facts.instance_type, facts)
    faults += _lone_arm_faults(request)
    faults += _max_pods_faults(request, facts)
    faults += _load_faults(request, facts, zones)
    faults += _endpoint_faults(request, facts, zones)
    faults += _group_faults(request)
    faults += _existing_group_faults(request, facts)
    faults += _reservation_faults(request, facts, zones)
    faults += _network_faults(request, facts.instance_type, facts.load_type)
    faults += _vcpu_faults(request, facts.quotas.vcpus)
    faults += network_faults(facts.quotas, zones.first)
    return zones, faults


def _vcpu_faults(request: Request, uses: Iterable[Vcpus]) -> Iterator[Fault]:
    """The faults of vCPUs under each quota, each at the first parameter that needs them."""
    nodes, load = request.node_count, request.load_node_count
    parameters = (
        (request.instance_type, f"NodeCount {nodes}", nodes > LEAST_NODES),
        (request.load_type, f"LoadNodeCount {load}", True),
        (request.endpoint_type, f"EndpointInstanceType {request.endpoint_type}", False),
    )
    for use in uses:
        where, has_smaller = next(
            (where, has_smaller)
            for type_, where, has_smaller in parameters
            if type_ and quota_code(type_) == use.code
        )
        yield from vcpu_faults(use, where, has_smaller=has_smaller)


def _lone_arm_faults(request: Request) -> Iterator[Fault]:
    """The parameters that need a baseline arm, which the stack does not have."""
    if request.arm_count == 1:
        given = {
            "BaselineZones": request.baseline_zones.removesuffix("one"),
            "BaselineCapacityReservationId": request.baseline_reservation,
            # Its draws compare arms.
            "CampaignSchedule": request.campaign_schedule,
        }
        for parameter, value in given.items():
            if value:
                problem = f"with Arms {request.arms} the stack has no baseline arm"
                yield Fault(f"{parameter} {value}", problem, "leave it out, or set Arms to both")


def image_faults(request: Request) -> Iterator[Fault]:
    """The fault of an image that can change, in the nodes' own network.

    A pod there can get the credentials of the node's role from the instance's metadata.
    """
    image = request.tool_image
    if request.host_network and image and image != "build" and "@sha256:" not in image:
        yield Fault(
            f"HostNetwork true with ToolImage {image}",
            "a tag can be moved to another image, and pods in the nodes' own network can get the"
            " credentials of the nodes' role",
            "name the image with its digest (@sha256:...), or set ToolImage to build",
        )


def allowed_endpoint_faults(request: Request) -> Iterator[Fault]:
    """The faults of the ranges that plans may name endpoints in."""
    for allowed in filter(None, request.allowed_endpoints.split(",")):
        try:
            ipaddress.ip_network(allowed)
        except ValueError as error:
            where = f"AllowedEndpoints {allowed}"
            yield Fault(where, f"it is no range: {error}", "write such as 10.0.3.5/32")


def _public_image_faults(request: Request) -> Iterator[Fault]:
    if request.egress == "endpoints" and request.tool_image.split("/")[0] in _PUBLIC_REGISTRIES:
        yield Fault(
            f"Egress endpoints with ToolImage {request.tool_image}",
            "nodes without a way to the Internet cannot pull a public image",
            "set ToolImage to build, or to an image in a registry of this account",
        )


def alarm_faults(request: Request) -> Iterator[Fault]:
    if request.alarm_recipient and not request.is_observed:
        yield Fault(
            f"AlarmRecipient {request.alarm_recipient}",
            "Observability is false, so there are no alarms",
            "leave it empty, or set Observability to true",
        )


def name_faults(request: Request) -> Iterator[Fault]:
    length = len(request.stack_name)
    if length > STACK_NAME_CHARACTERS:
        yield Fault(
            f"The stack's name {request.stack_name}",
            f"it has {length} characters, and the names of its state machines would be too long",
            f"deploy with a --stack-name of at most {STACK_NAME_CHARACTERS} characters",
        )


# -- zones


def _choose_zones(request: Request, facts: Facts, earlier: Zones) -> tuple[Zones, list[Fault]]:
    usable = {zone["ZoneName"]: zone for zone in facts.zones if _is_usable(zone)}
    names = sorted(usable)
    reserved = [
        reservation["AvailabilityZone"]
        for id_ in request.reservations.values()
        if (reservation := facts.reservations.get(id_))
    ]
    faults = _named_zone_faults(request, facts)
    first = request.zone or earlier.first or next(iter(reserved), "")
    if not first:
        first = next((name for name in names if name in facts.offered), "")
        if not first and facts.instance_type is not None:
            faults.append(
                Fault(
                    f"InstanceType {request.instance_type}",
                    f"none of the zones {listed(names)} offers it",
                    "choose another type or Region",
                )
            )
    elif facts.instance_type is not None and first not in facts.offered:
        offering = [name for name in names if name in facts.offered]
        faults.append(
            Fault(
                f"AvailabilityZone {first}",
                f"the zone does not offer {request.instance_type}",
                f"choose one that does ({listed(offering)}) or another InstanceType"
                if offering
                else "choose another InstanceType",
            )
        )
    other = earlier.other
    if not other or other == first:
        others = [name for name in names if name != first]
        if request.baseline_zones == "two":
            # EKS takes any zone; nodes need one that offers their type.
            others.sort(key=lambda name: name not in facts.offered)
        other = others[0] if others else ""
    if request.baseline_zones == "two" and facts.instance_type is not None:
        faults += _second_zone_faults(request, facts, other)
    return Zones(first, other), faults


def _second_zone_faults(request: Request, facts: Facts, other: str) -> Iterator[Fault]:
    """What keeps the baseline's nodes out of the second zone."""
    of_one_zone = {
        "SecondaryCidr": request.secondary_cidr,
        "BaselineCapacityReservationId": request.baseline_reservation,
    }
    for parameter, value in of_one_zone.items():
        if value:
            problem = "it is in one zone, and BaselineZones is two"
            yield Fault(
                f"{parameter} {value}", problem, "leave it empty, or set BaselineZones to one"
            )
    if other not in facts.offered:
        yield Fault(
            f"BaselineZones {request.baseline_zones}",
            f"the second zone, {other}, does not offer {request.instance_type}",
            "set BaselineZones to one, or choose another InstanceType",
        )


def _is_usable(zone: Json) -> bool:
    return (
        zone.get("State", "available") == "available"
        and zone.get("ZoneType", "availability-zone") == "availability-zone"
        and zone.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
        and zone.get("ZoneId") not in ZONES_WITHOUT_CONTROL_PLANES
    )


def _named_zone_faults(request: Request, facts: Facts) -> list[Fault]:
    known = {zone["ZoneName"]: zone for zone in facts.zones}
    usable = [name for name in sorted(known) if _is_usable(known[name])]
    name = request.zone
    if not name or name in usable:
        return []
    zone = known.get(name, {})
    if not zone:
        problem = "the Region has no such zone"
    elif zone.get("ZoneId") in ZONES_WITHOUT_CONTROL_PLANES:
        problem = f"EKS places no control plane there (zone id {zone['ZoneId']})"
    elif zone.get("ZoneType", "availability-zone") != "availability-zone":
        problem = f"EKS places no control plane in a {zone['ZoneType']}"
    else:
        problem = "the zone is not available to this account"
    remedy = f"choose one of {listed(usable, 'or') or 'none'}"
    return [Fault(f"AvailabilityZone {name}", problem, remedy)]


# -- the instance type and its group


def _type_faults(request: Request, described: Json, facts: Facts) -> Iterator[Fault]:
    name = request.instance_type
    strategies = strategies_of(described)
    others = {request.strategy: f"set TreatmentStrategy to {listed([*strategies, 'none'], 'or')}"}
    if (facts.group or {}).get("ParentGroupId"):
        others["precision-time"] = "take a placement group without a parent"
    for strategy, other in others.items():
        if strategy not in ("none", *strategies):
            example = "m7i.large" if strategy == "precision-time" else "c5.large"
            yield Fault(
                f"InstanceType {name}",
                f"it cannot be in a {strategy} placement group",
                f"choose another type, such as {example}, or {other}",
            )
    if request.ena_express != "none" and not described["NetworkInfo"].get("EnaSrdSupported"):
        yield Fault(
            f"EnaExpress {request.ena_express}",
            f"{name} does not support ENA Express",
            "set EnaExpress to none, or choose a type that does, such as c6in.8xlarge",
        )
    weighting = request.bandwidth_weighting
    weightings = described["NetworkInfo"].get("BandwidthWeightings") or ["default"]
    if weighting not in weightings:
        yield Fault(
            f"BandwidthWeighting {weighting}",
            f"{name} can have {listed(weightings, 'or')} only",
            "set BandwidthWeighting to default, or choose a type that has it, such as m8g.large",
        )
    yield from _architecture_faults(request, described)


def _architecture_faults(request: Request, described: Json) -> Iterator[Fault]:
    """The fault of an image that is not for the type's processors."""
    name = described["InstanceType"]
    architecture = "arm64" if "ARM_64" in request.ami_type else "x86_64"
    supported = described["ProcessorInfo"]["SupportedArchitectures"]
    if architecture not in supported:
        fitting = "ARM_64" if "arm64" in supported else "x86_64"
        yield Fault(
            f"AmiType {request.ami_type}",
            f"the image is for {architecture} and {name} is {listed(supported)}",
            f"choose an AmiType with {fitting} in its name, or a type of the other architecture",
        )


def max_pods(request: Request, described: Json | None, load_type: Json | None) -> tuple[str, str]:
    """The kubelet's maxPods on the arms' nodes and on load nodes; empty leaves it to EKS.

    EKS derives it from all interfaces of the type, whatever the VPC CNI's MAX_ENI is, so pods would
    be scheduled that get no address (EKS best practices guide, on MAX_ENI and max-pods). With
    prefixes one interface has addresses for more pods than EKS allows.

    Args:
        request: the stack's parameters.
        described: the arms' instance type, as DescribeInstanceTypes returns it; None if EC2 has no
            such type.
        load_type: the same of the load nodes' own type; None if they have none.
    """
    types = (described, load_type or described)
    if request.max_pods or described is None:
        pods = [request.max_pods] * 2
    elif request.cni == Cni(False, True):
        pods = [most_pods(each, request.cni) for each in types if each is not None]
    else:
        pods = [pods_that_fit(request, described, load_type)] * 2
    arms, load = (str(number or "") for number in pods)
    return arms, load


def pods_that_fit(request: Request, described: Json, load_type: Json | None) -> int | None:
    """The most pods of a node for which the subnet has addresses; None if EKS's default fits.

    It is `LEAST_PODS` if the subnet is too small for that.
    """
    usable, _ = _usable_addresses(request)
    if _needed_addresses(request, described, load_type, None) <= usable:
        return None
    numbers = range(most_pods(described, request.cni), LEAST_PODS, -1)
    fitting = (n for n in numbers if _needed_addresses(request, described, load_type, n) <= usable)
    return next(fitting, LEAST_PODS)


def _max_pods_faults(request: Request, facts: Facts) -> Iterator[Fault]:
    """The faults of more pods than one interface has addresses for."""
    for described in filter(None, (facts.instance_type, facts.load_type)):
        most = most_pods(described, request.cni)
        if request.cni.one_interface and (request.max_pods or 0) > most:
            yield Fault(
                f"MaxPods {request.max_pods}",
                f"with EnaExpress {request.ena_express} nodes use one network interface, and that"
                f" of {described['InstanceType']} has addresses for {most} pods",
                f"set MaxPods to {most} or less, or leave it empty",
            )


def _load_faults(request: Request, facts: Facts, zones: Zones) -> Iterator[Fault]:
    """The faults of the load nodes' own instance type."""
    if request.load_type:
        where = f"LoadInstanceType {request.load_type}"
        yield from _offer_faults(request, zones, where, facts.load_type, facts.load_offered)
        if facts.load_type is not None:
            yield from _architecture_faults(request, facts.load_type)


def _endpoint_faults(request: Request, facts: Facts, zones: Zones) -> Iterator[Fault]:
    """The faults of the instance outside the cluster. Those of the arms' type are the arms'."""
    if request.endpoint == "in-group" and request.strategy == "none":
        problem = "TreatmentStrategy is none, which uses no placement group"
        yield Fault(
            "EndpointInstance in-group", problem, "set it to outside, or choose a TreatmentStrategy"
        )
    if request.endpoint_type in ("", request.instance_type):
        return
    where, described = f"EndpointInstanceType {request.endpoint_type}", facts.endpoint_type
    yield from _offer_faults(request, zones, where, described, facts.endpoint_offered)
    fitting = ["none", *strategies_of(described)] if described is not None else [request.strategy]
    if request.endpoint == "in-group" and request.strategy not in fitting:
        problem = f"it cannot be in a {request.strategy} placement group"
        yield Fault(where, problem, "choose another type, or set EndpointInstance to outside")


def _offer_faults(
    request: Request, zones: Zones, where: str, described: Json | None, offered: frozenset[str]
) -> Iterator[Fault]:
    """The faults of another type than the arms' that the Region or the nodes' zone lacks."""
    remedy = f"leave it empty for {request.instance_type}, or choose one"
    if described is None:
        yield Fault(where, "EC2 has no such instance type in this Region", f"{remedy} it has")
    elif zones.first and zones.first not in offered:
        problem = f"the zone {zones.first} does not offer it, and the arms are there"
        yield Fault(where, problem, f"{remedy} that the zone offers")


def _group_faults(request: Request) -> Iterator[Fault]:
    most = SPREAD_INSTANCES - (request.endpoint == "in-group")
    if request.strategy == "spread" and request.node_count > most:
        yield Fault(
            f"NodeCount {request.node_count}",
            f"a spread placement group holds at most {SPREAD_INSTANCES} instances in a zone",
            f"set NodeCount to {most} or less, or choose another TreatmentStrategy",
        )
    if request.strategy == "partition" and request.partition_count > PARTITIONS:
        yield Fault(
            f"PartitionCount {request.partition_count}",
            f"a placement group has at most {PARTITIONS} partitions in a zone",
            f"set PartitionCount to {PARTITIONS} or less",
        )


def _existing_group_faults(request: Request, facts: Facts) -> Iterator[Fault]:
    """The faults of a group that is named."""
    if not request.existing_group:
        return
    where, group = f"ExistingPlacementGroup {request.existing_group}", facts.group
    if request.strategy == "none":
        yield Fault(
            where,
            "TreatmentStrategy is none, which uses no placement group",
            "leave it empty, or name the group's strategy",
        )
    elif group is None:
        yield Fault(
            where,
            "this Region has no such placement group",
            "check the name and the Region; name a group that another account shares by its id",
        )
    elif group.get("State", "available") != "available":
        yield Fault(where, f"the placement group is {group['State']}", "name another")
    elif group["Strategy"] != request.strategy:
        yield Fault(
            where,
            f"its strategy is {group['Strategy']}, and it must be {request.strategy}",
            "name another group or another TreatmentStrategy",
        )


# -- capacity reservations


def _reservation_faults(request: Request, facts: Facts, zones: Zones) -> Iterator[Fault]:
    requested = request.reservations
    if request.treatment_reservation and request.strategy in ("spread", "partition"):
        yield Fault(
            f"TreatmentCapacityReservationId {request.treatment_reservation}",
            f"capacity cannot be reserved in a {request.strategy} placement group",
            "leave it empty, or choose another TreatmentStrategy",
        )
        requested = {
            name: id_ for name, id_ in requested.items() if not name.startswith("Treatment")
        }
    for parameter, id_ in requested.items():
        where = f"{parameter} {id_}"
        reservation = facts.reservations.get(id_)
        if reservation is None:
            yield Fault(where, "there is no such capacity reservation", "check the id and Region")
            continue
        if reservation["State"] != "active":
            yield Fault(where, f"the reservation is {reservation['State']}", "name an active one")
            continue
        if reservation["InstanceType"] != request.instance_type:
            yield Fault(
                where,
                f"it reserves {reservation['InstanceType']}, not {request.instance_type}",
                f"set InstanceType to {reservation['InstanceType']}, or name another reservation",
            )
        if reservation.get("InstancePlatform", "Linux/UNIX") != "Linux/UNIX":
            yield Fault(
                where,
                f"it reserves {reservation['InstancePlatform']}",
                "name a reservation of the platform Linux/UNIX",
            )
        if zones.first and reservation["AvailabilityZone"] != zones.first:
            yield Fault(
                where,
                f"it is in {reservation['AvailabilityZone']} and the nodes are in {zones.first}",
                "name a reservation of that zone, or choose its zone when the stack is created;"
                " both arms share one",
            )
        if fault := _reserved_group_fault(request, parameter, reservation, facts.group):
            yield fault
        needed = request.node_count * list(requested.values()).count(id_)
        free = reservation["TotalInstanceCount" if id_ in facts.held else "AvailableInstanceCount"]
        if free < needed:
            yield Fault(
                where,
                f"{free} instances are free in it and {needed} nodes are to use it",
                "enlarge the reservation, or lower NodeCount",
            )


def _reserved_group_fault(
    request: Request, parameter: str, reservation: Json, group: Json | None
) -> Fault | None:
    """The fault of a reservation that does not fit the placement group, or None.

    A cluster or precision-time group takes only reservations that were created in it, and such a
    reservation serves only that group. Source: EC2 user guide, "Use Capacity Reservations with
    cluster placement groups".
    """
    where = f"{parameter} {request.reservations[parameter]}"
    arn = reservation.get("PlacementGroupArn", "")
    actual = arn.rpartition("/")[2]
    takes_its_own = request.strategy in ("cluster", "precision-time")
    if parameter == "TreatmentCapacityReservationId" and takes_its_own:
        # Groups of two accounts may have the same name.
        if group is not None and group.get("GroupArn") == arn:
            return None
        made_in = f"the placement group {actual}" if actual else "no placement group"
        return Fault(
            where,
            f"it was made in {made_in}, and a {request.strategy} placement group takes only"
            " reservations made in it",
            f"set ExistingPlacementGroup to {actual}, or to its id if it is another account's"
            if actual
            else "name one that was, and set ExistingPlacementGroup to its group",
        )
    if actual:
        return Fault(
            where,
            f"it was made in the placement group {actual}, and is only for instances there",
            "name a reservation that was made in none",
        )
    return None


# -- addresses


def _network_faults(
    request: Request, described: Json | None, load_type: Json | None
) -> Iterator[Fault]:
    vpc = _network(request.vpc_cidr)
    if vpc is None:
        yield Fault(
            f"VpcCidr {request.vpc_cidr}", "it is not an IPv4 range", "give one like 10.0.0.0/16"
        )
        return
    if request.secondary_cidr:
        secondary = _network(request.secondary_cidr)
        where = f"SecondaryCidr {request.secondary_cidr}"
        if secondary is None:
            yield Fault(where, "it is not an IPv4 range", "give one like 100.64.0.0/16")
            return
        if secondary.overlaps(vpc):
            yield Fault(where, f"it overlaps VpcCidr {vpc}", "give one like 100.64.0.0/16")
        elif _are_different_private_ranges(vpc, secondary):
            yield Fault(
                where,
                f"a VPC of {vpc} takes no second range from another private range",
                "give one like 100.64.0.0/16",
            )
    if described is None:
        return
    pods = request.max_pods or pods_that_fit(request, described, load_type)
    each, because = addresses_per_node(described, request.cni, max_pods=pods)
    needed = _needed_addresses(request, described, load_type, pods)
    usable, subnet = _usable_addresses(request)
    if needed > usable:
        nodes, load = request.arm_count * request.node_count, request.load_node_count
        remedies = ["lower NodeCount"]
        if request.max_pods:
            remedies.append("set a smaller MaxPods")
        if not request.secondary_cidr:
            remedies.append("set SecondaryCidr to a /16, such as 100.64.0.0/16")
        yield Fault(
            f"NodeCount {request.node_count}",
            f"the {nodes} nodes of the arms{f' and {load} load nodes' if load else ''} can take"
            f" {needed} addresses, {each} each ({because}), and {subnet} has {usable} for them",
            listed(remedies, "or"),
        )


def _usable_addresses(request: Request) -> tuple[int, str]:
    """The addresses that nodes and pods can have, and the subnet in words."""
    if request.secondary_cidr:
        size, others, where = _SECONDARY_SUBNET_PREFIX, 0, "SecondaryCidr"
    else:
        size, others, where = _SUBNET_PREFIX, _OTHERS_ADDRESSES, "VpcCidr"
    return 2 ** (32 - size) - _SUBNET_RESERVED - others, f"a subnet of {where}, a /{size},"


def _needed_addresses(
    request: Request, described: Json, load_type: Json | None, pods: int | None
) -> int:
    """The addresses that all nodes can take with so many pods each, None for EKS's default, and
    that of the instance outside the cluster."""
    taken = functools.partial(addresses_per_node, cni=request.cni, max_pods=pods)
    arms = request.arm_count * request.node_count * taken(described)[0]
    load = request.load_node_count * taken(load_type or described)[0]
    return arms + load + bool(request.endpoint_type)


def _network(cidr: str) -> Network | None:
    try:
        return ipaddress.IPv4Network(cidr, strict=False)
    except ValueError:
        return None


def _are_different_private_ranges(one: Network, two: Network) -> bool:
    homes = [[r for r in _PRIVATE_RANGES if network.overlaps(r)] for network in (one, two)]
    return all(homes) and homes[0] != homes[1]
