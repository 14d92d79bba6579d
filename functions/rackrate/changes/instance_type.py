"""A sweep over the instance types of the arms' nodes.

EKS never changes the instance types of a node group, but it takes another version of the launch
template, and the stack's launch templates carry the type (Amazon EKS user guide, "Customize managed
nodes with launch templates"). So a step makes a version of each arm's launch template with its
type, and gives it to the node groups, on new nodes. Undoing gives them the version of the stack's
again, and deletes those that the sweep made: the latest version is then the stack's, as
CloudFormation left it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rackrate.changes.base import Made, Value
from rackrate.changes.draws import NewNodes
from rackrate.changes.nodes import room
from rackrate.changes.renewal import RENEWAL_SECONDS, Renewal, all_groups, renew, update_groups
from rackrate.changes.scaling import put_back
from rackrate.errors import Fault, NodesUnavailable, translated
from rackrate.measure.instance_types import instance_types
from rackrate.measure.launch_templates import Version, delete_versions, make_version, versions
from rackrate.measure.node_groups import NodeGroup, update_template
from rackrate.plan.capacity import load_nodes_for, strategies_of
from rackrate.resources import Resources
from rackrate_contract.document import Json
from rackrate_text.words import listed

_OTHER = "choose another type"


class InstanceType(NewNodes):
    """Another instance type in all arms, on new nodes."""

    name = "instance_type"
    seconds = RENEWAL_SECONDS

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Types that the arms' zone, image, placement, settings, quota or subnet do not take."""
        groups = all_groups(resources)
        known = _versions(groups, resources)
        if any(version.is_reserved for version in _current(groups, known).values()):
            return [
                Fault(
                    "sweep.instance_type",
                    "the stack's nodes are in a capacity reservation, which is of one type",
                    "deploy the stack without capacity reservations",
                )
            ]
        names = [value for value in values if isinstance(value, str)]
        described, zones = instance_types(resources.ec2, names), _zones(groups, resources)
        offering = {zone: _offered(names, zone, resources) for zone in zones}
        faults: list[Fault] = []
        for index, value in enumerate(values):
            path, entry = f"sweep.instance_type[{index}]", described.get(str(value))
            if entry is None:
                problem = f"EC2 has no instance type {value} in this Region"
                faults.append(Fault(path, problem, "write one that it has, such as c5.large"))
                continue
            lacking = [zone for zone in zones if value not in offering[zone]]
            if lacking:
                problem = f"{listed(lacking)} {'does' if len(lacking) == 1 else 'do'} not offer"
                faults.append(Fault(path, f"{problem} {value}", _OTHER))
            obstacles = [*_misfits(entry, groups[0], resources), *_limits(entry, resources)]
            faults += [Fault(path, problem, remedy) for problem, remedy in obstacles]
        return faults

    def title(self, value: Value | None) -> str:
        """The type."""
        return f"instance type {value}"

    def instance_type(self, value: Value | None) -> str | None:
        """The step's value."""
        return None if value is None else str(value)

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Empty all node groups, give them the type, then fill them again; see `renew`."""

        def renewal() -> Renewal[int]:
            return _to_type(str(value), resources)

        return renew(progress, resources, renewal=renewal)

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the launch templates' versions and the sizes of the node groups back.

        A node group to which an update of the stack gave another version meanwhile keeps that.

        Raises:
            ChangeFailed: EKS refuses the version.
            NodesUnavailable: EKS refuses a size.
        """
        groups = all_groups(resources)
        all_versions = _versions(groups, resources)
        original = {
            name: version.made_of for name, version in _current(groups, all_versions).items()
        }
        updated = update_groups(_to(original, resources), {}, resources)
        if not updated.done:
            return updated
        for template_id, of_template in all_versions.items():
            created = [each.number for each in of_template.values() if each.made_of is not None]
            if created:
                delete_versions(resources.ec2, template_id, created)
        return put_back(before, resources)


# -- versions of launch templates


def _versions(groups: Sequence[NodeGroup], resources: Resources) -> dict[str, dict[int, Version]]:
    """All versions of the node groups' launch templates, by the template's id and their number.

    Raises:
        NodesUnavailable: a node group has no launch template.
    """
    by_template: dict[str, dict[int, Version]] = {}
    for group in groups:
        if group.template_id is None or group.template_version is None:
            raise NodesUnavailable(f"the node group {group.name} has no launch template")
        if group.template_id not in by_template:
            by_template[group.template_id] = versions(resources.ec2, group.template_id)
    return by_template


def _current(
    groups: Sequence[NodeGroup], all_versions: Mapping[str, Mapping[int, Version]]
) -> dict[str, Version]:
    """The version of each node group, by the group's name; `known` are all versions."""
    return {
        group.name: all_versions[group.template_id][group.template_version]
        for group in groups
        if group.template_id is not None and group.template_version is not None
    }


def _to_type(instance_type: str, resources: Resources) -> Renewal[int]:
    """Versions with a type for all node groups. It makes those that are not there yet."""
    groups = all_groups(resources)
    all_versions = _versions(groups, resources)
    current = _current(groups, all_versions)
    chosen: dict[tuple[str, int], int] = {}
    target: dict[str, int | None] = {}
    for group in groups:
        now_there = current[group.name]
        source = all_versions[now_there.template_id][now_there.made_of or now_there.number]
        key = (source.template_id, source.number)
        if key not in chosen:
            of_type = [
                each.number
                for each in all_versions[source.template_id].values()
                if each.instance_type == instance_type
                and source.number in (each.number, each.made_of)
            ]
            chosen[key] = min(of_type, default=0) or make_version(
                resources.ec2, source, instance_type
            )
        target[group.name] = chosen[key]
    return _to(target, resources)


def _to(target: Mapping[str, int | None], resources: Resources) -> Renewal[int]:
    """Versions of launch templates for node groups, by their names."""
    return Renewal(
        "the instance type",
        target,
        lambda group: group.template_version,
        lambda group, version: update_template(
            resources.eks, resources.settings.cluster_name, group, version
        ),
    )


# -- what does not work


def _zones(groups: Sequence[NodeGroup], resources: Resources) -> list[str]:
    """The zones of the node groups."""
    subnets = sorted({subnet for group in groups for subnet in group.subnets})
    with translated():
        response = resources.ec2.describe_subnets(SubnetIds=subnets)
    return sorted({each["AvailabilityZone"] for each in response["Subnets"]})


def _offered(names: Sequence[str], zone: str, resources: Resources) -> set[str]:
    """Those of the types that a zone offers."""
    with translated():
        response = resources.ec2.describe_instance_type_offerings(
            LocationType="availability-zone",
            Filters=[
                {"Name": "location", "Values": [zone]},
                {"Name": "instance-type", "Values": list(names)},
            ],
        )
    return {each["InstanceType"] for each in response["InstanceTypeOfferings"]}


def _misfits(
    described: Mapping[str, Any], group: NodeGroup, resources: Resources
) -> Iterator[tuple[str, str]]:
    """Why a type does not go with the stack's settings: problem and remedy."""
    name, settings = described["InstanceType"], resources.settings
    architecture = "arm64" if "ARM_64" in group.ami_type else "x86_64"
    supported = described["ProcessorInfo"]["SupportedArchitectures"]
    if architecture not in supported:
        yield (
            f"the nodes' image {group.ami_type} is for {architecture}, and {name} is"
            f" {listed(supported)}",
            _OTHER,
        )
    takes = {"none", *strategies_of(described)}
    for placement in sorted({arm.placement for arm in settings.arms} - takes):
        yield f"{name} cannot be in a {placement} placement group", _OTHER
    network = described["NetworkInfo"]
    if any(arm.ena_express for arm in settings.arms) and not network.get("EnaSrdSupported"):
        remedy = f"{_OTHER}, or deploy the stack with EnaExpress none"
        yield f"{name} does not support ENA Express", remedy
    weightings = network.get("BandwidthWeightings") or ["default"]
    if settings.bandwidth_weighting not in weightings:
        yield (
            f"{name} cannot have the bandwidth weighting {settings.bandwidth_weighting}",
            f"{_OTHER}, or deploy the stack with BandwidthWeighting default",
        )


def _limits(described: Mapping[str, Any], resources: Resources) -> Iterator[tuple[str, str]]:
    """Why so many nodes of a type do not fit into quota and subnet: problem and remedy."""
    name, settings = described["InstanceType"], resources.settings
    now_there, then = room(resources), room(resources, name)
    together = settings.node_count * then.arms
    nodes, vcpus, addresses = f"{together} nodes of {name}", together * then.vcpus, 0
    if then.load is not None:
        loading = load_nodes_for(settings.node_count, settings)
        vcpus += then.vcpus_beside(loading)
        addresses = (loading - then.load.nodes) * then.load.addresses
        if then.vcpus_beside(loading):
            nodes += f" and {loading} load nodes"
    if lacking := then.lacking_quota(nodes, vcpus):
        yield lacking, "choose a smaller type, or ask for more in the Service Quotas console"
    addresses += together * then.addresses
    # The nodes that are there leave first.
    free = then.free_addresses + now_there.nodes * now_there.addresses
    if addresses > free:
        yield (
            f"{nodes} need {addresses} addresses, {then.addresses} each ({then.because}), and the"
            f" subnet {then.subnet} has {free} for them",
            "choose a smaller type, or deploy the stack with a SecondaryCidr or a smaller MaxPods",
        )
