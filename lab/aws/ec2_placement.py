"""Placement groups for moto's EC2: their API, and instances that belong to them.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html
"""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.responses.instances import InstanceResponse

from . import ec2_capacity

# A rack spread group runs at most this many instances per zone.
_SPREAD_INSTANCES_PER_ZONE = 7
_MAX_PARTITIONS = 7


@dataclass(frozen=True)
class PlacementGroup:
    """One placement group."""

    name: str
    id: str
    arn: str
    strategy: str
    partition_count: int | None
    spread_level: str | None
    tags: dict[str, str]

    def describe(self) -> dict[str, Any]:
        """As DescribePlacementGroups prints it."""
        return {
            "GroupName": self.name,
            "GroupId": self.id,
            "GroupArn": self.arn,
            "State": "available",
            "Strategy": self.strategy,
            "PartitionCount": self.partition_count,
            "SpreadLevel": self.spread_level,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
        }


class PlacementGroups:
    """The Region's placement groups."""

    def __init__(self) -> None:
        self._groups: dict[str, PlacementGroup] = {}
        self._lock = threading.Lock()

    def create(
        self,
        *,
        name: str,
        strategy: str,
        partition_count: int | None,
        spread_level: str | None,
        tags: dict[str, str],
        region: str,
        account_id: str,
    ) -> PlacementGroup:
        """Raises EC2ClientError as EC2 does for what it refuses."""
        if strategy not in ("cluster", "partition", "spread"):
            raise EC2ClientError("InvalidParameterValue", f"The strategy '{strategy}' is unknown.")
        if spread_level == "host" and strategy == "spread":
            raise EC2ClientError(
                "InvalidParameterValue",
                "Host level spread placement groups are only supported on AWS Outposts.",
            )
        if partition_count is not None and strategy != "partition":
            raise EC2ClientError(
                "InvalidParameterCombination",
                "The 'partitionCount' parameter can only be used with the 'partition' strategy.",
            )
        if partition_count is not None and not 1 <= partition_count <= _MAX_PARTITIONS:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"The partition count must be between 1 and {_MAX_PARTITIONS}.",
            )
        if spread_level is not None and strategy != "spread":
            raise EC2ClientError(
                "InvalidParameterCombination",
                "The 'spreadLevel' parameter can only be used with the 'spread' strategy.",
            )
        if strategy == "partition" and partition_count is None:
            partition_count = 2
        if strategy == "spread" and spread_level is None:
            spread_level = "rack"
        with self._lock:
            if name in self._groups:
                raise EC2ClientError(
                    "InvalidPlacementGroup.Duplicate",
                    f"The placement group '{name}' already exists.",
                )
            group = PlacementGroup(
                name,
                f"pg-{secrets.token_hex(8)}{'0'}",
                f"arn:aws:ec2:{region}:{account_id}:placement-group/{name}",
                strategy,
                partition_count,
                spread_level,
                tags,
            )
            self._groups[name] = group
            return group

    def find(self, *, name: str | None = None, group_id: str | None = None) -> PlacementGroup:
        """By name or id. Raises EC2ClientError InvalidPlacementGroup.Unknown."""
        with self._lock:
            for group in self._groups.values():
                if name == group.name or (group_id is not None and group_id == group.id):
                    return group
        raise EC2ClientError(
            "InvalidPlacementGroup.Unknown", f"The Placement Group '{name or group_id}' is unknown."
        )

    def all(self) -> list[PlacementGroup]:
        """Every group."""
        with self._lock:
            return list(self._groups.values())

    def delete(self, name: str) -> None:
        """Forget a group."""
        with self._lock:
            del self._groups[name]


GROUPS = PlacementGroups()


def _instances_of(backend: Any, group: str) -> list[Any]:
    return [
        instance
        for reservation in backend.reservations.values()
        for instance in reservation.instances
        if instance.placement.group_name == group and instance.state != "terminated"
    ]


def _create_placement_group(self: EC2Response) -> ActionResult:
    name = self._get_param("GroupName")
    if not name:
        raise EC2ClientError("MissingParameter", "The request must contain GroupName.")
    count = self._get_param("PartitionCount")
    self.error_on_dryrun()
    group = GROUPS.create(
        name=name,
        strategy=self._get_param("Strategy", "cluster"),
        partition_count=int(count) if count is not None else None,
        spread_level=self._get_param("SpreadLevel"),
        tags=self._parse_tag_specification().get("placement-group", {}),
        region=self.region,
        account_id=self.current_account,
    )
    return ActionResult({"PlacementGroup": group.describe()})


def _describe_placement_groups(self: EC2Response) -> ActionResult:
    names, ids = self._get_param("GroupNames", []), self._get_param("GroupIds", [])
    groups = GROUPS.all()
    if names or ids:
        groups = [GROUPS.find(name=name) for name in names]
        groups += [GROUPS.find(group_id=group_id) for group_id in ids]
    for name, values in self._filters_from_querystring().items():
        groups = [group for group in groups if _filter_value(group, name) in list(values)]
    return ActionResult({"PlacementGroups": [group.describe() for group in groups]})


def _filter_value(group: PlacementGroup, name: str) -> str | None:
    if name.startswith("tag:"):
        return group.tags.get(name.removeprefix("tag:"))
    values = {
        "group-name": group.name,
        "group-arn": group.arn,
        "strategy": group.strategy,
        "spread-level": group.spread_level,
        "state": "available",
    }
    if name not in values:
        raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return values[name]


def _delete_placement_group(self: EC2Response) -> EmptyResult:
    group = GROUPS.find(name=self._get_param("GroupName"))
    if _instances_of(self.ec2_backend, group.name):
        raise EC2ClientError(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.name}' is in use and may not be deleted.",
        )
    if ec2_capacity.RESERVATIONS.active_in_group(group.arn):
        raise EC2ClientError(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.name}' has an active Capacity Reservation and may not be"
            " deleted.",
        )
    GROUPS.delete(group.name)
    return EmptyResult()


_moto_run_instances = InstanceResponse.run_instances


# Placement and capacity are decided on what runs; two launches at once must not see the same.
_launching = threading.Lock()


def _run_instances(self: EC2Response) -> ActionResult:
    """moto's RunInstances, with placement, network interfaces and reserved capacity checked and
    kept."""
    placement = self._get_param("Placement", {}) or {}
    if placement.get("GroupName") and placement.get("GroupId"):
        raise EC2ClientError(
            "InvalidParameterCombination",
            "The parameters GroupName and GroupId cannot be used together.",
        )
    interfaces = self._get_param("NetworkInterfaces", []) or []
    _check_interfaces(self, interfaces)
    with _launching:
        group = None
        if placement.get("GroupName") or placement.get("GroupId"):
            group = GROUPS.find(name=placement.get("GroupName"), group_id=placement.get("GroupId"))
            _check_launch(self, group)
        count = int(self._get_param("MaxCount", "1"))
        partitions = _partitions(self, group, placement.get("PartitionNumber"), count)
        reservation_id = ec2_capacity.choose(
            self.ec2_backend,
            self._get_param("CapacityReservationSpecification", {}) or {},
            instance_type=self._get_param("InstanceType", "m1.small"),
            zone=_zone(self, placement, interfaces),
            placement_group_arn=group.arn if group else None,
            count=count,
        )
        result = _moto_run_instances(self)
        launched: Any = result.result
        for instance, partition in zip(launched.instances, partitions, strict=False):
            if group is not None:
                instance.placement.group_name = group.name
                instance.placement.group_id = group.id
                instance.placement.partition_number = partition
            instance.capacity_reservation_id = reservation_id
            _note_interfaces(instance, interfaces)
    return result


def _partitions(
    self: EC2Response, group: PlacementGroup | None, wanted: Any, count: int
) -> list[int | None]:
    """The partition of each new instance: the one that is asked for, else the emptiest."""
    if group is None or group.strategy != "partition":
        if wanted:
            raise EC2ClientError(
                "InvalidParameterCombination",
                "The parameter PartitionNumber needs a partition placement group.",
            )
        return [None] * count
    partition_count = group.partition_count or 1
    if wanted:
        if not 1 <= int(wanted) <= partition_count:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"The partition number {wanted} is invalid: the placement group '{group.name}' has"
                f" {partition_count} partitions.",
            )
        return [int(wanted)] * count
    sizes = dict.fromkeys(range(1, partition_count + 1), 0)
    for instance in _instances_of(self.ec2_backend, group.name):
        sizes[instance.placement.partition_number] += 1
    chosen: list[int | None] = []
    for _ in range(count):
        emptiest = min(sizes, key=lambda number: (sizes[number], number))
        sizes[emptiest] += 1
        chosen.append(emptiest)
    return chosen


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
    asked = {int(one.get("DeviceIndex", 0)): one for one in interfaces}
    for index, interface in instance.nics.items():
        # The network interfaces that a launch makes go with the instance, unless it says not.
        keep = asked.get(index, {}).get("DeleteOnTermination")
        interface.delete_on_termination = keep is None or _true(keep)
        specification = asked.get(index, {}).get("EnaSrdSpecification")
        if specification:
            interface.ena_srd_specification = specification


def _true(value: Any) -> bool:
    return str(value).lower() == "true"


def _check_launch(self: EC2Response, group: PlacementGroup) -> None:
    instance_type = self._get_param("InstanceType", "m1.small")
    described = self.ec2_backend.describe_instance_types([instance_type])
    supported = described[0].get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
    if group.strategy not in supported:
        raise EC2ClientError(
            "InvalidParameterCombination",
            f"{group.strategy.capitalize()} placement groups are not supported by the"
            f" '{instance_type}' instance type. Specify a supported instance type or change the"
            " placement group strategy, and try again.",
        )
    if group.strategy == "spread":
        running = len(_instances_of(self.ec2_backend, group.name))
        wanted = running + int(self._get_param("MaxCount", "1"))
        if wanted > _SPREAD_INSTANCES_PER_ZONE:
            raise EC2ClientError(
                "InstanceLimitExceeded",
                f"Spread placement group '{group.name}' may have at most"
                f" {_SPREAD_INSTANCES_PER_ZONE} running instances per Availability Zone.",
            )


def install() -> None:
    """Teach moto's EC2 placement groups, and RunInstances what else depends on placement."""
    ec2_capacity.install()
    additions: dict[str, Any] = {
        "create_placement_group": _create_placement_group,
        "describe_placement_groups": _describe_placement_groups,
        "delete_placement_group": _delete_placement_group,
        "run_instances": _run_instances,
    }
    for name, method in additions.items():
        setattr(EC2Response, name, method)
