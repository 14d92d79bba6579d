"""On-Demand Capacity Reservations for moto's EC2.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html
"""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from lab.aws.clock import now


@dataclass
class CapacityReservation:
    """One reservation. Its available capacity is the total less the instances that run in it."""

    id: str
    arn: str
    owner_id: str
    instance_type: str
    platform: str
    zone: str
    tenancy: str
    total: int
    match_criteria: str
    placement_group_arn: str | None
    tags: dict[str, str]
    created: datetime.datetime
    state: str = "active"

    def describe(self, used: int) -> dict[str, Any]:
        """The reservation as DescribeCapacityReservations shows it; `used` instances run in it."""
        active = self.state == "active"
        return {
            "CapacityReservationId": self.id,
            "OwnerId": self.owner_id,
            "CapacityReservationArn": self.arn,
            "InstanceType": self.instance_type,
            "InstancePlatform": self.platform,
            "AvailabilityZone": self.zone,
            "Tenancy": self.tenancy,
            "TotalInstanceCount": self.total if active else 0,
            "AvailableInstanceCount": self.total - used if active else 0,
            "EbsOptimized": False,
            "EphemeralStorage": False,
            "State": self.state,
            "StartDate": self.created,
            "CreateDate": self.created,
            "EndDateType": "unlimited",
            "InstanceMatchCriteria": self.match_criteria,
            "PlacementGroupArn": self.placement_group_arn,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
        }


#: The Region's reservations by id, including cancelled ones.
_RESERVATIONS: dict[str, CapacityReservation] = {}


def active_reservations() -> list[CapacityReservation]:
    """The reservations that are not cancelled."""
    return [one for one in list(_RESERVATIONS.values()) if one.state == "active"]


def _find(identity: str) -> CapacityReservation:
    """A reservation by id. Raises EC2ClientError InvalidCapacityReservationId.NotFound."""
    if identity not in _RESERVATIONS:
        raise EC2ClientError(
            "InvalidCapacityReservationId.NotFound",
            f"The capacity reservation ID '{identity}' does not exist",
        )
    return _RESERVATIONS[identity]


def _used(backend: Any, identity: str) -> int:
    return sum(
        getattr(instance, "capacity_reservation_id", None) == identity
        and instance.state not in ("shutting-down", "terminated", "stopped")
        for instance in backend.all_instances()
    )


def _available(backend: Any, reservation: CapacityReservation) -> int:
    return reservation.total - _used(backend, reservation.id)


def choose(
    backend: Any,
    specification: Mapping[str, Any],
    *,
    instance_type: str,
    zone: str,
    placement_group_arn: str | None,
    count: int,
) -> str | None:
    """The id of the reservation in which `count` instances will run; None for no reservation.

    `specification` is RunInstances' CapacityReservationSpecification. A targeted reservation must
    match and have room. Without a target, the instances use an open reservation that matches.
    Raises EC2ClientError.
    """
    target = (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId")
    if target:
        reservation = _find(target)
        pairs = {
            "instance type": (instance_type, reservation.instance_type),
            "Availability Zone": (zone, reservation.zone),
        }
        # A reservation without a placement group takes instances of any group.
        if reservation.placement_group_arn:
            pairs["placement group"] = (
                str(placement_group_arn),
                reservation.placement_group_arn,
            )
        _check_target(reservation, pairs)
        if _available(backend, reservation) < count:
            raise EC2ClientError(
                "ReservationCapacityExceeded",
                "The requested reservation does not have sufficient compatible and available"
                " capacity for this request.",
            )
        return reservation.id
    for one in active_reservations():
        if (
            one.match_criteria == "open"
            and (one.instance_type, one.zone) == (instance_type, zone)
            and one.placement_group_arn in (None, placement_group_arn)
            and _available(backend, one) >= count
        ):
            return one.id
    return None


def _require_active(reservation: CapacityReservation) -> None:
    if reservation.state != "active":
        raise EC2ClientError(
            "InvalidCapacityReservationState",
            f"The Capacity Reservation {reservation.id} is {reservation.state}, not active.",
        )


def _check_target(reservation: CapacityReservation, pairs: Mapping[str, tuple[str, str]]) -> None:
    _require_active(reservation)
    for name, (requested, reserved) in pairs.items():
        if requested != reserved:
            raise EC2ClientError(
                "InvalidParameterCombination",
                f"The {name} {requested} does not match the {name} {reserved} of the targeted"
                f" Capacity Reservation {reservation.id}.",
            )


def create(self: EC2Response) -> ActionResult:
    instance_type = self._get_param("InstanceType")
    count = int(self._get_param("InstanceCount") or 0)
    zone = self._get_param("AvailabilityZone")
    if not instance_type or not zone or not self._get_param("InstancePlatform"):
        raise EC2ClientError(
            "MissingParameter",
            "The request must contain InstanceType, InstancePlatform and AvailabilityZone.",
        )
    if not 1 <= count <= 1000:
        raise EC2ClientError("InvalidParameterValue", "InstanceCount must be between 1 and 1000.")
    offered = self.ec2_backend.describe_instance_type_offerings(
        "availability-zone", {"instance-type": [instance_type], "location": [zone]}
    )
    if not offered:
        raise EC2ClientError(
            "Unsupported",
            f"The requested instance type {instance_type} is not supported in the requested"
            f" Availability Zone {zone}.",
        )
    identity = f"cr-{secrets.token_hex(8)}{'0'}"
    reservation = CapacityReservation(
        id=identity,
        arn=f"arn:aws:ec2:{self.region}:{self.current_account}:capacity-reservation/{identity}",
        owner_id=self.current_account,
        instance_type=instance_type,
        platform=self._get_param("InstancePlatform"),
        zone=zone,
        tenancy=self._get_param("Tenancy", "default"),
        total=count,
        match_criteria=self._get_param("InstanceMatchCriteria", "open"),
        placement_group_arn=self._get_param("PlacementGroupArn"),
        tags=self._parse_tag_specification().get("capacity-reservation", {}),
        created=now(),
    )
    self.error_on_dryrun()
    _RESERVATIONS[identity] = reservation
    return ActionResult({"CapacityReservation": reservation.describe(0)})


def describe(self: EC2Response) -> ActionResult:
    ids = self._get_param("CapacityReservationIds", [])
    reservations = [_find(identity) for identity in ids] or list(_RESERVATIONS.values())
    described = [one.describe(_used(self.ec2_backend, one.id)) for one in reservations]
    fields = {
        "instance-type": "InstanceType",
        "availability-zone": "AvailabilityZone",
        "state": "State",
        "instance-match-criteria": "InstanceMatchCriteria",
        "placement-group-arn": "PlacementGroupArn",
    }
    for name, values in self._filters_from_querystring().items():
        if name not in fields:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        described = [one for one in described if one[fields[name]] in list(values)]
    return ActionResult({"CapacityReservations": described})


def cancel(self: EC2Response) -> ActionResult:
    reservation = _find(self._get_param("CapacityReservationId"))
    _require_active(reservation)
    self.error_on_dryrun()
    # Instances that run in the reservation keep running.
    reservation.state = "cancelled"
    return ActionResult({"Return": True})
