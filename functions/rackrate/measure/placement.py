"""Where EC2 says that nodes are: placement group, partition, zone, capacity type, topology.

A call that EC2 refuses or does not answer leaves its facts unknown, and never fails a run.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from rackrate.plan.ceilings import bandwidth_weighting
from rackrate_contract.arms import InstancePlacement, Node
from rackrate_contract.document import Json

logger = Logger(child=True)

#: The most values of a filter in one call of EC2 (Amazon EC2 API Reference, DescribeInstances).
MOST_VALUES = 200
#: The most instances in one call (Amazon EC2 API Reference, DescribeInstanceTopology).
MOST_INSTANCES = 100
#: The code with which EC2 refuses an operation that the Region does not have.
_NOT_IN_REGION = "UnsupportedOperation"


def placed(ec2: Any, nodes: Sequence[Node]) -> list[Node]:
    """The nodes with what EC2 says of their instances.

    A node without an instance, and an instance that EC2 does not know, stay as they are.

    Args:
        ec2: a client of EC2.
        nodes: the nodes, with the facts that Kubernetes reports.
    """
    ids = [node.instance_id for node in nodes if node.instance_id]
    # A filter lists the instances that exist. InstanceIds fails if one of them is missing.
    instances = {
        instance["InstanceId"]: instance
        for reservation in _listed(ec2.describe_instances, "Reservations", "instance-id", ids)
        for instance in reservation["Instances"]
    }
    queries = sorted(filter(None, {_group_query(instance) for instance in instances.values()}))
    # A call for each group. EC2 has no filter for ids, and refuses all if it does not know one.
    groups = {
        query: group[0]
        for query in queries
        if (
            group := _ask(
                ec2.describe_placement_groups, "PlacementGroups", **{query[0]: [query[1]]}
            )
        )
    }
    layers = _layers(ec2, [node for node in nodes if node.instance_id in instances])
    return [
        _placed(node, instances[node.instance_id], groups, layers)
        if node.instance_id in instances
        else node
        for node in nodes
    ]


def ended(ec2: Any, instance_ids: Sequence[str]) -> set[str]:
    """The instances that EC2 says have ended or are ending. Unknown ones may live elsewhere."""
    return {
        instance["InstanceId"]
        for reservation in _listed(
            ec2.describe_instances, "Reservations", "instance-id", instance_ids
        )
        for instance in reservation["Instances"]
        if instance["State"]["Name"] in ("shutting-down", "terminated")
    }


def _group_query(instance: Mapping[str, Any]) -> tuple[str, str] | None:
    """An argument of DescribePlacementGroups for an instance's group, and its value."""
    where = instance.get("Placement", {})
    if where.get("GroupId"):
        return "GroupIds", where["GroupId"]
    # EC2 writes an empty name for an instance without a group.
    return ("GroupNames", where["GroupName"]) if where.get("GroupName") else None


def _placed(
    node: Node,
    instance: Mapping[str, Any],
    groups: Mapping[tuple[str, str], Json],
    layers: Mapping[str, tuple[str, ...]],
) -> Node:
    where, query = instance.get("Placement", {}), _group_query(instance)
    group: Json = {} if query is None else groups.get(query, {})
    # EC2 leaves it out for an instance that is bought on demand.
    lifecycle = instance.get("InstanceLifecycle") or "on-demand"
    return node.model_copy(
        update={
            "zone": where.get("AvailabilityZone") or node.zone,
            "ec2_placement": InstancePlacement(
                group=where.get("GroupName") or group.get("GroupName") or (query and query[1]),
                group_id=where.get("GroupId") or None,
                parent_group_id=group.get("ParentGroupId"),
                strategy=group.get("Strategy"),
                partition=where.get("PartitionNumber"),
                tenancy=where.get("Tenancy"),
                lifecycle=lifecycle,
                capacity_reservation=instance.get("CapacityReservationId") or None,
                bandwidth_weighting=bandwidth_weighting(instance),
                ena_express=_ena_express(instance),
            ),
            "capacity_type": lifecycle,
            "network_layers": node.network_layers or layers.get(node.name),
        }
    )


def _ena_express(instance: Mapping[str, Any]) -> bool | None:
    """Whether all interfaces of the first network card have ENA Express; None if EC2 reports none.

    The VPC CNI gives a pod an address of any of them (amazon-vpc-cni-k8s v1.23.1, data_store.go).
    """
    enabled = {
        each["Attachment"].get("EnaSrdSpecification", {}).get("EnaSrdEnabled")
        for each in instance.get("NetworkInterfaces", ())
        if each["Attachment"].get("NetworkCardIndex", 0) == 0
    }
    return None if enabled <= {None} else enabled == {True}


def _layers(ec2: Any, nodes: Iterable[Node]) -> dict[str, tuple[str, ...]]:
    """The location in EC2's network of the nodes whose labels do not have it, by node.

    Few instance types have one (the EC2 user guide, "Prerequisites for Amazon EC2 instance
    topology"). EC2 lists no instances of other types, so an empty answer settles the whole type.
    """
    of_type: dict[str | None, list[Node]] = defaultdict(list)
    for node in nodes:
        if not node.network_layers:
            of_type[node.instance_type].append(node)
    layers: dict[str, tuple[str, ...]] = {}
    for alike in of_type.values():
        for batch in itertools.batched(alike, MOST_INSTANCES, strict=False):
            ids = [node.instance_id for node in batch]
            listed = _ask(ec2.describe_instance_topology, "Instances", InstanceIds=ids)
            if listed is None:
                return layers
            by_instance = {one["InstanceId"]: tuple(one["NetworkNodes"]) for one in listed}
            layers |= {node.name: by_instance.get(node.instance_id or "", ()) for node in batch}
            if not by_instance:
                layers |= {node.name: () for node in alike}
                break
    return layers


def _listed(
    operation: Callable[..., Json], key: str, name: str, values: Sequence[str]
) -> list[Json]:
    """What an operation lists for the values of a filter, as far as EC2 answers."""
    entries: list[Json] = []
    for some in itertools.batched(values, MOST_VALUES, strict=False):
        listed = _ask(operation, key, Filters=[{"Name": name, "Values": list(some)}])
        if listed is None:
            break
        entries += listed
    return entries


def _ask(operation: Callable[..., Json], key: str, **arguments: Any) -> list[Json] | None:
    """What all pages of an answer list; None where EC2 did not answer."""
    try:
        return all_pages(operation, key, **arguments)
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] == _NOT_IN_REGION:
            return []
        logger.warning("EC2 did not say where nodes are", error=str(error))
        return None


def all_pages(operation: Callable[..., Json], key: str, **arguments: Any) -> list[Json]:
    """What all pages of an answer of EC2 list under a key."""
    listed: list[Json] = []
    while True:
        response = operation(**arguments)
        listed += response[key]
        if not response.get("NextToken"):
            return listed
        arguments["NextToken"] = response["NextToken"]
