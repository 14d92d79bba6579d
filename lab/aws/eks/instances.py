"""Instances of a node group, and the nodes that they become."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from lab.aws.account import REGION
from lab.aws.clients import ClientFactory
from lab.aws.eks.infrastructure import Infrastructure, Instance, NodeSpec
from lab.aws.eks.user_data import KubeletSettings

# EKS's names of taint effects, and Kubernetes'.
_TAINT_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}


# Addresses in a delegated prefix, a /28.
_PREFIX_ADDRESSES = 16


@dataclass(frozen=True)
class NetworkFacts:
    """The first network card of an instance type, from DescribeInstanceTypes.

    The VPC CNI and the kubelet's maxPods use no other (amazon-vpc-cni-k8s, README,
    `ENABLE_MULTI_NIC`; amazon-eks-ami, nodeadm/internal/kubelet/eni_max_pods.go). `cni` is the
    CNI's environment.
    """

    peak_bits_per_second: float
    interfaces: int
    addresses_per_interface: int
    cni: Mapping[str, str]

    @property
    def max_pods(self) -> int:
        """EKS's default without prefix delegation: an address per pod, and two pods without one."""
        return self.interfaces * (self.addresses_per_interface - 1) + 2

    @property
    def has_prefixes(self) -> bool:
        """Whether the CNI gives pods addresses of prefixes."""
        return self.cni.get("ENABLE_PREFIX_DELEGATION") == "true"

    @property
    def most_interfaces(self) -> int:
        """How many the CNI uses. A MAX_ENI of 0 is none (its pkg/ipamd/ipamd.go: getMaxENI)."""
        return min(self.interfaces, int(self.cni.get("MAX_ENI") or 0) or self.interfaces)

    @property
    def has_second(self) -> bool:
        """Whether the CNI adds an interface to a new node. It has no ENA Express.

        The CNI keeps an interface ready (WARM_ENI_TARGET=1), or a prefix, for which the first
        interface has room (v1.23.1, pkg/ipamd/ipamd.go; pkg/awsutils/awsutils.go: attachENI).
        """
        return self.most_interfaces > 1 and not self.has_prefixes

    @property
    def pod_addresses(self) -> int:
        """How many addresses the CNI has for pods: all but each interface's own."""
        addresses = _PREFIX_ADDRESSES if self.has_prefixes else 1
        return self.most_interfaces * (self.addresses_per_interface - 1) * addresses


def launch_instances(
    clients: ClientFactory,
    infrastructure: Infrastructure,
    *,
    description: Mapping[str, Any],
    template: Mapping[str, Any],
    image_id: str,
    cluster_security_group: str,
    count: int,
    cni: Mapping[str, str],
    started: Callable[[Instance], None],
    room: Callable[[str, int], int] = lambda _, count: count,
) -> list[Instance]:
    """Run `count` instances in the node group's subnets, and call `started` for each.

    `cni` is the environment of the VPC CNI, whose interfaces they have from the start. `room` says
    for how many instances of a strategy EC2 has capacity.
    Raises ClientError for what EC2 refuses, NodeLaunchError when a subnet has no free block.
    """
    ec2 = clients.get("ec2")
    subnets = ec2.describe_subnets(SubnetIds=description["subnets"])["Subnets"]
    group = _placement_group(ec2, template.get("Placement") or {})
    instance_type = template["InstanceType"]
    options = template.get("NetworkPerformanceOptions") or {}
    network = _network_facts(ec2, instance_type, options.get("BandwidthWeighting"), cni)
    tcp, udp = _ena_express(template)
    request = _request(description, template, image_id)
    instances = []
    capacity = room(group.get("Strategy", "none"), count)
    for index in range(count):
        subnet = subnets[index % len(subnets)]
        if index >= capacity:
            raise _no_capacity(instance_type, subnet["AvailabilityZone"])
        block = infrastructure.allocate_block(subnet["CidrBlock"])
        address = str(next(block.hosts()))
        interfaces = _interfaces(
            template, subnet["SubnetId"], cluster_security_group, block, network
        )
        try:
            launched = ec2.run_instances(**request, **interfaces)["Instances"][0]
        except ClientError:
            infrastructure.release_block(block)
            raise
        instance = Instance(
            name=f"ip-{address.replace('.', '-')}.ec2.internal",
            instance_id=launched["InstanceId"],
            instance_type=instance_type,
            zone=subnet["AvailabilityZone"],
            image_id=image_id,
            block=block,
            placement_group=group.get("GroupName"),
            placement_group_id=group.get("GroupId"),
            placement_strategy=group.get("Strategy"),
            partition_number=launched["Placement"].get("PartitionNumber"),
            instance_bits_per_second=network.peak_bits_per_second,
            ena_express=tcp,
            ena_express_udp=udp,
            default_max_pods=network.max_pods,
            pod_addresses=network.pod_addresses,
        )
        started(instance)
        instances.append(instance)
    return instances


def _no_capacity(instance_type: str, zone: str) -> ClientError:
    """EC2's words are in https://github.com/hashicorp/terraform-provider-aws/issues/1496."""
    message = (
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you"
        f" requested ({zone}). Our system will be working on provisioning additional capacity. You"
        f" can currently get {instance_type} capacity by not specifying an Availability Zone in"
        " your request or choosing another one."
    )
    return ClientError(
        {"Error": {"Code": "InsufficientInstanceCapacity", "Message": message}}, "RunInstances"
    )


def _placement_group(ec2: Any, placement: Mapping[str, Any]) -> Mapping[str, Any]:
    """The placement group that a launch template names, by name or by id; empty without one."""
    if placement.get("GroupName"):
        by = {"GroupNames": [placement["GroupName"]]}
    elif placement.get("GroupId"):
        by = {"GroupIds": [placement["GroupId"]]}
    else:
        return {}
    group: Mapping[str, Any] = ec2.describe_placement_groups(**by)["PlacementGroups"][0]
    return group


def _request(
    description: Mapping[str, Any], template: Mapping[str, Any], image_id: str
) -> dict[str, Any]:
    """RunInstances for one instance of a node group, without its interfaces."""
    copied = (
        "UserData",
        "MetadataOptions",
        "CapacityReservationSpecification",
        "IamInstanceProfile",
        "NetworkPerformanceOptions",
    )
    request: dict[str, Any] = {
        "ImageId": image_id,
        "InstanceType": template["InstanceType"],
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": _tags(description, template)}],
        **{key: template[key] for key in copied if template.get(key)},
    }
    placement = template.get("Placement") or {}
    if placement.get("GroupName") or placement.get("GroupId"):
        # As the template names it: another account's group has no name here.
        fields = ("GroupName", "GroupId", "PartitionNumber")
        request["Placement"] = {key: placement[key] for key in fields if placement.get(key)}
    if description["capacityType"] == "SPOT":
        request["InstanceMarketOptions"] = {"MarketType": "spot"}
    return request


def node_spec(
    instance: Instance,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    kubelet: KubeletSettings,
) -> NodeSpec:
    """The node that an instance becomes."""
    return NodeSpec(
        **vars(instance),
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
        kubelet_configuration=kubelet.configuration,
        kubelet_flags=kubelet.flags,
    )


def _network_facts(
    ec2: Any, instance_type: str, weighting: str | None, cni: Mapping[str, str]
) -> NetworkFacts:
    """The network of an instance type."""
    described = ec2.describe_instance_types(InstanceTypes=[instance_type])["InstanceTypes"][0]
    network = described["NetworkInfo"]
    return NetworkFacts(
        _peak(described, weighting) * 1e9,
        int(network["NetworkCards"][0]["MaximumNetworkInterfaces"]),
        int(network["Ipv4AddressesPerInterface"]),
        cni,
    )


def _peak(described: Mapping[str, Any], weighting: str | None) -> float:
    """The most bandwidth of an instance's first network card, in Gb/s.

    One interface of a 32xlarge that has two cards gets 170 of the instance's 200 Gb/s, as the text
    of the card says (EC2 user guide, "Network performance" of those families).

    `vpc-1` raises the baseline by a quarter and keeps a higher peak. `ebs-1` takes a quarter of the
    volumes' baseline from the network (EC2 user guide, "EC2 instance bandwidth weighting
    configuration"). Flex types, whose peaks behave otherwise, are not modelled.
    """
    first = described["NetworkInfo"]["NetworkCards"][0]
    peak = 170.0 if "170 Gigabit" in first["NetworkPerformance"] else first["PeakBandwidthInGbps"]
    if weighting == "vpc-1":
        return max(float(peak), 1.25 * float(first["BaselineBandwidthInGbps"]))
    if weighting == "ebs-1":
        volumes = described["EbsInfo"]["EbsOptimizedInfo"]["BaselineBandwidthInMbps"]
        return float(peak) - 0.25 * float(volumes) / 1000
    return float(peak)


def _ena_express(template: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the primary interface's TCP flows, and its UDP flows, use ENA Express."""
    for interface in template.get("NetworkInterfaces") or []:
        if int(interface.get("DeviceIndex", 0)) == 0:
            specification = interface.get("EnaSrdSpecification") or {}
            udp = specification.get("EnaSrdUdpSpecification") or {}
            return bool(specification.get("EnaSrdEnabled")), bool(udp.get("EnaSrdUdpEnabled"))
    return False, False


def _interfaces(
    template: Mapping[str, Any],
    subnet_id: str,
    cluster_security_group: str,
    block: ipaddress.IPv4Network,
    network: NetworkFacts,
) -> dict[str, Any]:
    """RunInstances' network parameters, with the interface that the CNI adds to a new node.

    Pods' addresses are of both in turn. The CNI takes them from any interface: its
    `AssignPodIPv4Address` iterates over a map (pkg/ipamd/datastore/data_store.go).
    """
    groups, of_template = template.get("SecurityGroupIds"), template.get("NetworkInterfaces")
    # EKS does not add the cluster's security group to custom ones.
    own = [{"DeviceIndex": 0, "Groups": groups or [cluster_security_group]}]
    interfaces = [dict(interface) for interface in of_template or own]
    first = min(interfaces, key=lambda each: int(each.get("DeviceIndex", 0)))
    first["PrivateIpAddress"] = str(block[1])
    used = [first]
    if network.has_second:
        used.append({"DeviceIndex": len(interfaces), "PrivateIpAddress": str(block[0])})
        used[1]["Groups"] = first.get("Groups", [])
        interfaces.append(used[1])
    pods = min(network.pod_addresses, block.num_addresses - 4)
    for number, interface in enumerate(used):
        interface["PrivateIpAddresses"] = [
            {"PrivateIpAddress": str(block[3 + pod]), "Primary": False}
            for pod in range(number, pods, len(used))
        ]
    for interface in interfaces:
        interface["SubnetId"] = subnet_id
    both = groups if of_template else None  # EC2 refuses them together
    return {"NetworkInterfaces": interfaces, **({"SecurityGroupIds": both} if both else {})}


def _tags(description: Mapping[str, Any], template: Mapping[str, Any]) -> list[dict[str, str]]:
    tags = {}
    if cluster := description.get("clusterName"):
        tags = {"eks:cluster-name": cluster, f"kubernetes.io/cluster/{cluster}": "owned"}
    # Karpenter launches instances without a node group.
    if "nodegroupName" in description:
        tags["eks:nodegroup-name"] = description["nodegroupName"]
    for specification in template.get("TagSpecifications", []):
        if specification["ResourceType"] == "instance":
            tags.update({tag["Key"]: tag["Value"] for tag in specification["Tags"]})
    return [{"Key": key, "Value": value} for key, value in tags.items()]
