"""Instances of a node group, and the nodes that they become."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.account import REGION
from lab.aws.clients import ClientFactory
from lab.aws.eks.infrastructure import Infrastructure, NodeSpec
from lab.aws.eks.user_data import KubeletSettings

# EKS's names of taint effects, and Kubernetes'.
_TAINT_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}


@dataclass(frozen=True)
class NetworkFacts:
    """The network of an instance type, from DescribeInstanceTypes."""

    peak_bits_per_second: float
    interfaces: int
    addresses_per_interface: int

    @property
    def max_pods(self) -> int:
        """EKS's default without prefix delegation: an address per pod, and two pods without one."""
        return self.interfaces * (self.addresses_per_interface - 1) + 2


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
    partition_number: int | None
    network: NetworkFacts
    ena_express: bool
    ena_express_udp: bool


def launch_instances(
    clients: ClientFactory,
    infrastructure: Infrastructure,
    *,
    description: Mapping[str, Any],
    template: Mapping[str, Any],
    image_id: str,
    cluster_security_group: str,
    count: int,
    started: Callable[[Instance], None],
) -> list[Instance]:
    """Run `count` instances in the node group's subnets, and call `started` for each.

    Raises ClientError for what EC2 refuses, NodeLaunchError when a subnet has no free block.
    """
    ec2 = clients.get("ec2")
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
    options = template.get("NetworkPerformanceOptions") or {}
    network = _network_facts(ec2, instance_type, options.get("BandwidthWeighting"))
    ena_express = _ena_express(template)
    instances = []
    for index in range(count):
        subnet = subnets[index % len(subnets)]
        block = infrastructure.allocate_block(subnet["CidrBlock"])
        address = str(next(block.hosts()))
        request: dict[str, Any] = {
            "ImageId": image_id,
            "InstanceType": instance_type,
            "MinCount": 1,
            "MaxCount": 1,
            "TagSpecifications": [
                {"ResourceType": "instance", "Tags": _tags(description, template)}
            ],
            **_interfaces(template, subnet["SubnetId"], address, cluster_security_group),
        }
        if group is not None:
            request["Placement"] = {"GroupName": group}
            if placement.get("PartitionNumber"):
                request["Placement"]["PartitionNumber"] = placement["PartitionNumber"]
        if description["capacityType"] == "SPOT":
            request["InstanceMarketOptions"] = {"MarketType": "spot"}
        for key in (
            "UserData",
            "MetadataOptions",
            "CapacityReservationSpecification",
            "NetworkPerformanceOptions",
        ):
            if template.get(key):
                request[key] = template[key]
        try:
            launched = ec2.run_instances(**request)["Instances"][0]
        except ClientError:
            infrastructure.release_block(block)
            raise
        instance = Instance(
            launched["InstanceId"],
            f"ip-{address.replace('.', '-')}.ec2.internal",
            instance_type,
            subnet["AvailabilityZone"],
            image_id,
            block,
            group,
            strategy,
            launched["Placement"].get("PartitionNumber"),
            network,
            *ena_express,
        )
        started(instance)
        instances.append(instance)
    return instances


def node_spec(
    instance: Instance,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    kubelet: KubeletSettings,
) -> NodeSpec:
    """The node that an instance becomes."""
    return NodeSpec(
        name=instance.name,
        instance_id=instance.instance_id,
        instance_type=instance.instance_type,
        zone=instance.zone,
        region=REGION,
        image_id=instance.image_id,
        block=instance.block,
        labels={
            **labels,
            "node.kubernetes.io/instance-type": instance.instance_type,
            "topology.kubernetes.io/region": REGION,
            "topology.kubernetes.io/zone": instance.zone,
        },
        taints=[
            {
                "key": taint["key"],
                "value": taint.get("value") or "",
                "effect": _TAINT_EFFECTS.get(taint["effect"], taint["effect"]),
            }
            for taint in taints
        ],
        placement_group=instance.placement_group,
        placement_strategy=instance.placement_strategy,
        instance_bits_per_second=instance.network.peak_bits_per_second,
        partition_number=instance.partition_number,
        ena_express=instance.ena_express,
        ena_express_udp=instance.ena_express_udp,
        default_max_pods=instance.network.max_pods,
        kubelet_configuration=kubelet.configuration,
        kubelet_flags=kubelet.flags,
    )


def _network_facts(ec2: Any, instance_type: str, weighting: str | None) -> NetworkFacts:
    """The network of an instance type; the bandwidths of its network cards are added up."""
    described = ec2.describe_instance_types(InstanceTypes=[instance_type])["InstanceTypes"][0]
    network = described["NetworkInfo"]
    return NetworkFacts(
        _peak(described, weighting) * 1e9,
        int(network["MaximumNetworkInterfaces"]),
        int(network["Ipv4AddressesPerInterface"]),
    )


def _peak(described: Mapping[str, Any], weighting: str | None) -> float:
    """The most bandwidth of an instance, in Gb/s.

    `vpc-1` raises the baseline by a quarter and keeps a higher peak. `ebs-1` takes a quarter of the
    volumes' baseline from the network (EC2 user guide, "EC2 instance bandwidth weighting
    configuration"). Flex types, whose peaks behave otherwise, are not modelled.
    """
    cards = described["NetworkInfo"]["NetworkCards"]
    peak = float(sum(card["PeakBandwidthInGbps"] for card in cards))
    if weighting == "vpc-1":
        return max(peak, 1.25 * float(sum(card["BaselineBandwidthInGbps"] for card in cards)))
    if weighting == "ebs-1":
        volumes = described["EbsInfo"]["EbsOptimizedInfo"]["BaselineBandwidthInMbps"]
        return peak - 0.25 * float(volumes) / 1000
    return peak


def _ena_express(template: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the primary interface's TCP flows, and its UDP flows, use ENA Express."""
    for interface in template.get("NetworkInterfaces") or []:
        if int(interface.get("DeviceIndex", 0)) == 0:
            asked = interface.get("EnaSrdSpecification") or {}
            udp = asked.get("EnaSrdUdpSpecification") or {}
            return bool(asked.get("EnaSrdEnabled")), bool(udp.get("EnaSrdUdpEnabled"))
    return False, False


def _interfaces(
    template: Mapping[str, Any], subnet_id: str, address: str, cluster_security_group: str
) -> dict[str, Any]:
    """RunInstances' network parameters: interfaces if the template has any."""
    interfaces = [dict(interface) for interface in template.get("NetworkInterfaces") or []]
    groups = template.get("SecurityGroupIds")
    if not interfaces:
        return {
            "SubnetId": subnet_id,
            "PrivateIpAddress": address,
            # EKS does not add the cluster's security group to custom ones.
            "SecurityGroupIds": groups or [cluster_security_group],
        }
    for interface in interfaces:
        interface["SubnetId"] = subnet_id
        if int(interface.get("DeviceIndex", 0)) == 0:
            interface["PrivateIpAddress"] = address
    return {"NetworkInterfaces": interfaces, **({"SecurityGroupIds": groups} if groups else {})}


def _tags(description: Mapping[str, Any], template: Mapping[str, Any]) -> list[dict[str, str]]:
    cluster = description["clusterName"]
    tags = {
        "eks:cluster-name": cluster,
        f"kubernetes.io/cluster/{cluster}": "owned",
    }
    # Karpenter launches instances without a node group.
    if "nodegroupName" in description:
        tags["eks:nodegroup-name"] = description["nodegroupName"]
    for specification in template.get("TagSpecifications", []):
        if specification["ResourceType"] == "instance":
            tags.update({tag["Key"]: tag["Value"] for tag in specification["Tags"]})
    return [{"Key": key, "Value": value} for key, value in tags.items()]
