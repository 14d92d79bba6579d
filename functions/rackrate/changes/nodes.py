"""A sweep over the number of nodes: each run has new nodes in all arms, as a draw has.

Otherwise two runs of one number, or the nodes that a number shares with the one before it, would
share their placement, and their differences would be too small.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError

from rackrate.changes.base import Value
from rackrate.changes.draws import NewNodes
from rackrate.errors import Fault, NodesUnavailable, suppress_codes, translated
from rackrate.measure.instance_types import instance_types
from rackrate.measure.launch_templates import instance_type_of
from rackrate.measure.node_groups import NodeGroup, groups_of
from rackrate.plan.capacity import (
    LoadRoom,
    Machines,
    Room,
    addresses_per_node,
    faults_of_node_counts,
)
from rackrate.plan.faults import kind_of
from rackrate.resources import Resources
from rackrate_text.quotas import DEFAULT_NODES_PER_GROUP, NODES_PER_GROUP, quota_code


class NodeCount(NewNodes):
    """Another number of nodes in each arm."""

    name = "nodes"

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Numbers for which quotas, addresses or the placement group have no room."""
        texts = [
            Fault(
                f"sweep.nodes[{index}]",
                f"must be a whole number, not {kind_of(value)}",
                "write a whole number, without quotes",
            )
            for index, value in enumerate(values)
            if not isinstance(value, int)
        ]
        counts = {index: value for index, value in enumerate(values) if isinstance(value, int)}
        return [*texts, *faults_of_node_counts(counts, room(resources))]

    def title(self, value: Value | None) -> str:
        """The number."""
        return f"{value} nodes in each arm"

    def node_count(self, value: Value | None, usual: int) -> int:
        """The step's value."""
        return value if isinstance(value, int) else usual


def room(resources: Resources, instance_type: str | None = None) -> Room:
    """What limits the number of nodes.

    Args:
        resources: the stack's resources.
        instance_type: the type that the arms' nodes are to have; by default what they have.

    Raises:
        NodesUnavailable: a node group is missing.
        Throttled: AWS throttled a request.
    """
    settings = resources.settings
    groups = groups_of(resources.eks, settings.cluster_name, settings.arms)
    subnet = next(iter(groups[0].subnets), None)
    instance_type = instance_type or instance_type_of(resources.ec2, groups[0])
    if instance_type is None or subnet is None:
        raise NodesUnavailable(f"the node group {groups[0].name} has no instance type or no subnet")
    # Without a way to Service Quotas each request takes long.
    quota = functools.cache(functools.partial(_quota, resources.quotas))
    with translated():
        subnets = resources.ec2.describe_subnets(SubnetIds=[subnet])
        nodes_per_group = quota("eks", NODES_PER_GROUP)
        machines = _machines(groups, instance_type, resources, quota)
        load = None
        if settings.load is not None:
            of_load = groups_of(resources.eks, settings.cluster_name, [settings.load])
            load_type = instance_type_of(resources.ec2, of_load[0]) or instance_type
            load_machines = _machines(of_load, load_type, resources, quota)
            load = LoadRoom(settings=settings, **vars(load_machines))
    return Room(
        arms=len(settings.arms),
        groups_per_arm=len(settings.arms[0].node_groups),
        nodes_per_group=int(nodes_per_group or DEFAULT_NODES_PER_GROUP),
        subnet=subnet,
        free_addresses=int(subnets["Subnets"][0]["AvailableIpAddressCount"]),
        is_spread=any(arm.placement == "spread" for arm in settings.arms),
        load=load,
        **vars(machines),
    )


def _machines(
    groups: Sequence[NodeGroup],
    instance_type: str,
    resources: Resources,
    quota: Callable[[str, str], float | None],
) -> Machines:
    """What the nodes of these groups take, if they have this type.

    `quota` returns the account's value of a quota of a service.
    """
    settings, code = resources.settings, quota_code(instance_type)
    described = instance_types(resources.ec2, {instance_type})[instance_type]
    addresses, because = addresses_per_node(described, cni=settings.cni, max_pods=settings.max_pods)
    return Machines(
        nodes=sum(group.desired for group in groups),
        instance_type=instance_type,
        vcpus=int(described["VCpuInfo"]["DefaultVCpus"]),
        vcpu_quota=quota("ec2", code),
        vcpu_quota_code=code,
        addresses=addresses,
        because=because,
    )


def _quota(quotas: Any, service: str, code: str) -> float | None:
    """The account's value of a quota; None if it is unknown or Service Quotas does not answer."""
    # A VPC without egress has no endpoint of Service Quotas.
    with suppress_codes("NoSuchResourceException"), contextlib.suppress(BotoCoreError):
        response = quotas.get_service_quota(ServiceCode=service, QuotaCode=code)
        return float(response["Quota"]["Value"])
    return None
