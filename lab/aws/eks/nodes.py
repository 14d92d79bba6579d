"""Instances of a node group, and what becomes of them as nodes."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..services import Services
from ..substrate import EksBackend, NodeSpec

# EKS's names of taint effects, and Kubernetes'.
_TAINT_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}


@dataclass(frozen=True)
class Instance:
    """A running instance and the address block it was given."""

    instance_id: str
    name: str
    instance_type: str
    zone: str
    image_id: str
    block: ipaddress.IPv4Network
    placement_group: str | None
    placement_strategy: str | None
    bits_per_second: float


def launch_instances(
    services: Services,
    backend: EksBackend,
    *,
    description: Mapping[str, Any],
    template: Mapping[str, Any],
    image_id: str,
    cluster_security_group: str,
    count: int,
    started: Callable[[Instance], None],
) -> list[Instance]:
    """Run `count` instances over the node group's subnets; `started` is told of each.

    Raises ClientError as EC2 refuses, NodeLaunchError when a subnet has no free block.
    """
    ec2 = services.clients.get("ec2")
    subnets = ec2.describe_subnets(SubnetIds=description["subnets"])["Subnets"]
    placement = template.get("Placement") or {}
    strategy = None
    group = None
    if placement.get("GroupName") or placement.get("GroupId"):
        by = (
            {"GroupNames": [placement["GroupName"]]}
            if placement.get("GroupName")
            else {"GroupIds": [placement["GroupId"]]}
        )
        found = ec2.describe_placement_groups(**by)["PlacementGroups"][0]
        group, strategy = found["GroupName"], found["Strategy"]
    instance_type = template["InstanceType"]
    bits_per_second = _peak_bits_per_second(ec2, instance_type)
    instances = []
    for index in range(count):
        subnet = subnets[index % len(subnets)]
        block = backend.allocate_block(subnet["CidrBlock"])
        address = str(next(block.hosts()))
        request: dict[str, Any] = {
            "ImageId": image_id,
            "InstanceType": instance_type,
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": subnet["SubnetId"],
            "PrivateIpAddress": address,
            # With custom security groups the cluster's own is not added.
            "SecurityGroupIds": template.get("SecurityGroupIds") or [cluster_security_group],
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": _tags(description, template)}
            ],
        }
        if group is not None:
            request["Placement"] = {"GroupName": group}
        if template.get("UserData"):
            request["UserData"] = template["UserData"]
        if template.get("MetadataOptions"):
            request["MetadataOptions"] = template["MetadataOptions"]
        launched = ec2.run_instances(**request)["Instances"][0]
        instance = Instance(
            launched["InstanceId"],
            f"ip-{address.replace('.', '-')}.ec2.internal",
            instance_type,
            subnet["AvailabilityZone"],
            image_id,
            block,
            group,
            strategy,
            bits_per_second,
        )
        started(instance)
        instances.append(instance)
    return instances


def node_spec(
    instance: Instance,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    region: str,
) -> NodeSpec:
    """The node an instance is to be."""
    return NodeSpec(
        name=instance.name,
        instance_id=instance.instance_id,
        instance_type=instance.instance_type,
        zone=instance.zone,
        region=region,
        image_id=instance.image_id,
        block=instance.block,
        labels={
            **labels,
            "node.kubernetes.io/instance-type": instance.instance_type,
            "topology.kubernetes.io/region": region,
            "topology.kubernetes.io/zone": instance.zone,
        },
        taints=[
            {
                "key": taint["key"],
                "value": taint.get("value") or "",
                "effect": _TAINT_EFFECTS[taint["effect"]],
            }
            for taint in taints
        ],
        placement_group=instance.placement_group,
        placement_strategy=instance.placement_strategy,
        instance_bits_per_second=instance.bits_per_second,
    )


def _peak_bits_per_second(ec2: Any, instance_type: str) -> float:
    """The documented peak of the type's network cards together, in bit/s."""
    described = ec2.describe_instance_types(InstanceTypes=[instance_type])["InstanceTypes"][0]
    cards = described["NetworkInfo"]["NetworkCards"]
    return float(sum(card["PeakBandwidthInGbps"] for card in cards)) * 1e9


def _tags(description: Mapping[str, Any], template: Mapping[str, Any]) -> list[dict[str, str]]:
    cluster = description["clusterName"]
    tags = {
        "eks:cluster-name": cluster,
        "eks:nodegroup-name": description["nodegroupName"],
        f"kubernetes.io/cluster/{cluster}": "owned",
    }
    for specification in template.get("TagSpecifications", []):
        if specification["ResourceType"] == "instance":
            tags.update({tag["Key"]: tag["Value"] for tag in specification["Tags"]})
    return [{"Key": key, "Value": value} for key, value in tags.items()]
