"""RunInstances: checks and keeps placement, network interfaces and reserved capacity."""

from __future__ import annotations

import re
import threading
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.elastic_network_interfaces import Attachment
from moto.ec2.responses import EC2Response
from moto.ec2.responses.instances import InstanceResponse

from lab.aws.ec2 import capacity_reservations, limits
from lab.aws.ec2.placement_groups import GROUPS, PlacementGroup, instances_of

# A rack spread group runs at most this many instances per zone.
_SPREAD_INSTANCES_PER_ZONE = 7
# DescribeInstanceTypes does not list the types that a precision-time group takes. EC2 user guide,
# "Set the time reference on your EC2 instance to use the local Amazon Time Sync Service" (2026-08).
# The words with which EC2 refuses others are not documented.
_PRECISION_TIME = re.compile(
    r"(m7(a|gd?|g-flex|i|i-flex)|m8(a|g|g-flex)|c7(a|gd|i|i-flex)|c8(gd?|g-flex)|r7(a|g|id?)|r8g"
    r"|x8(a.+|ge?)|i8ge?)\..+"
)


_moto_run_instances = InstanceResponse.run_instances


# Placement and capacity depend on what runs, so only one launch at a time may decide them.
_launching = threading.Lock()


def run_instances(self: EC2Response) -> ActionResult:
    """Run moto's RunInstances; check and keep placement, interfaces and reserved capacity."""
    placement = self._get_param("Placement", {}) or {}
    if placement.get("GroupName") and placement.get("GroupId"):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "The parameters GroupName and GroupId cannot be used together.",
        )
    interfaces = self._get_param("NetworkInterfaces", []) or []
    _check_interfaces(self, interfaces)
    weighting = _weighting(self)
    with _launching:
        group = None
        if placement.get("GroupName") or placement.get("GroupId"):
            group = GROUPS.find(
                self.current_account,
                name=placement.get("GroupName"),
                group_id=placement.get("GroupId"),
            )
            _check_launch(self, group)
        count = int(self._get_param("MaxCount", "1"))
        partitions = _partitions(self, group, placement.get("PartitionNumber"), count)
        instance_type = self._get_param("InstanceType", "m1.small")
        limits.check_plan(self.ec2_backend, instance_type)
        reservation_id = capacity_reservations.choose(
            self.ec2_backend,
            self._get_param("CapacityReservationSpecification", {}) or {},
            instance_type=instance_type,
            zone=_zone(self, placement, interfaces),
            placement_group_arn=group.arn if group else None,
            count=count,
        )
        if reservation_id is None:
            limits.check_vcpus(self.ec2_backend, instance_type, count)
        result = _moto_run_instances(self)
        launched: Any = result.result
        for instance, partition in zip(launched.instances, partitions, strict=False):
            if group is not None:
                instance.placement.group_name = group.name
                instance.placement.group_id = group.id
                instance.placement.partition_number = partition
            instance.capacity_reservation_id = reservation_id
            instance.network_performance_options = {"BandwidthWeighting": weighting}
            # moto does not say what EC2 calls this.
            instance.instance_lifecycle = instance.lifecycle
            _note_interfaces(instance, interfaces)
    return result


def _partitions(
    self: EC2Response, group: PlacementGroup | None, requested: Any, count: int
) -> list[int | None]:
    """The partition of each new instance: the requested one, else the emptiest."""
    if group is None or group.strategy != "partition":
        if requested:
            raise EC2ClientError(
                "InvalidParameterCombination",
                "The parameter PartitionNumber needs a partition placement group.",
            )
        return [None] * count
    partition_count = group.partition_count or 1
    if requested:
        if not 1 <= int(requested) <= partition_count:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"The partition number {requested} is invalid: the placement group"
                f" '{group.name}' has {partition_count} partitions.",
            )
        return [int(requested)] * count
    sizes = dict.fromkeys(range(1, partition_count + 1), 0)
    for instance in instances_of(self.ec2_backend, group):
        sizes[instance.placement.partition_number] += 1
    chosen: list[int | None] = []
    for _ in range(count):
        emptiest = min(sizes, key=lambda number: (sizes[number], number))
        sizes[emptiest] += 1
        chosen.append(emptiest)
    return chosen


def _weighting(self: EC2Response) -> str:
    """The bandwidth weighting; refused for a type without it."""
    options = self._get_param("NetworkPerformanceOptions", {}) or {}
    weighting = options.get("BandwidthWeighting")
    if not weighting:
        return "default"
    instance_type = self._get_param("InstanceType", "m1.small")
    described = self.ec2_backend.describe_instance_types([instance_type])[0]
    # The words of EC2's refusal are not documented.
    if weighting not in described.get("NetworkInfo", {}).get("BandwidthWeightings", []):
        raise EC2ClientError(
            "InvalidParameterCombination",
            f"The bandwidth weighting '{weighting}' is not supported for the instance type"
            f" '{instance_type}'.",
        )
    return str(weighting)


def _zone(self: EC2Response, placement: dict[str, Any], interfaces: list[dict[str, Any]]) -> str:
    subnet = self._get_param("SubnetId") or next(
        (one["SubnetId"] for one in interfaces if one.get("SubnetId")), None
    )
    if subnet:
        return str(self.ec2_backend.get_subnet(subnet).availability_zone)
    return str(placement.get("AvailabilityZone") or f"{self.region}a")


def _check_interfaces(self: EC2Response, interfaces: list[dict[str, Any]]) -> None:
    if interfaces and (self._get_param("SecurityGroupIds") or self._get_param("SecurityGroups")):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "Network interfaces and an instance-level security groups may not be specified on the"
            " same request",
        )
    for interface in interfaces:
        specification = interface.get("EnaSrdSpecification") or {}
        enabled = _true(specification.get("EnaSrdEnabled"))
        udp = specification.get("EnaSrdUdpSpecification") or {}
        if _true(udp.get("EnaSrdUdpEnabled")) and not enabled:
            raise EC2ClientError(
                "InvalidParameterCombination",
                "ENA Express for UDP (EnaSrdUdpEnabled) requires ENA Express (EnaSrdEnabled).",
            )
        if not enabled:
            continue
        instance_type = self._get_param("InstanceType", "m1.small")
        described = self.ec2_backend.describe_instance_types([instance_type])[0]
        if not described.get("NetworkInfo", {}).get("EnaSrdSupported"):
            raise EC2ClientError(
                "InvalidParameterCombination",
                f"ENA Express is not supported for the instance type '{instance_type}'.",
            )


def _note_interfaces(instance: Any, interfaces: list[dict[str, Any]]) -> None:
    requested = {int(one.get("DeviceIndex", 0)): one for one in interfaces}
    for index, interface in instance.nics.items():
        # By default EC2 deletes the network interfaces of a launch with the instance.
        keep = requested.get(index, {}).get("DeleteOnTermination")
        interface.delete_on_termination = keep is None or _true(keep)
        interface.ena_srd_specification = requested.get(index, {}).get("EnaSrdSpecification")
        # moto knows only the first address of an interface of RunInstances.
        interface.private_ip_addresses += requested.get(index, {}).get("PrivateIpAddresses", [])


def attachment(interface: Any) -> Attachment | None:
    """An interface's attachment with its use of ENA Express, as DescribeInstances shows it."""
    if not interface.attachment_id:
        return None
    attachment: Any = Attachment(interface)
    attachment.ena_srd_specification = getattr(interface, "ena_srd_specification", None)
    return attachment  # type: ignore[no-any-return]


def _true(value: Any) -> bool:
    return str(value).lower() == "true"


def _check_launch(self: EC2Response, group: PlacementGroup) -> None:
    instance_type = self._get_param("InstanceType", "m1.small")
    described = self.ec2_backend.describe_instance_types([instance_type])
    supported = described[0].get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
    if _PRECISION_TIME.fullmatch(instance_type):
        supported = [*supported, "precision-time"]
    for strategy in (group.strategy, *(["precision-time"] if group.parent_id else [])):
        if strategy not in supported:
            raise EC2ClientError(
                "InvalidParameterCombination",
                f"{strategy.capitalize()} placement groups are not supported by the"
                f" '{instance_type}' instance type. Specify a supported instance type or change the"
                " placement group strategy, and try again.",
            )
    if group.strategy == "spread":
        running = len(instances_of(self.ec2_backend, group))
        total = running + int(self._get_param("MaxCount", "1"))
        if total > _SPREAD_INSTANCES_PER_ZONE:
            raise EC2ClientError(
                "InstanceLimitExceeded",
                f"Spread placement group '{group.name}' may have at most"
                f" {_SPREAD_INSTANCES_PER_ZONE} running instances per Availability Zone.",
            )
