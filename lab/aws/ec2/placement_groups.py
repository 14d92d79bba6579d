"""Placement groups for moto's EC2.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html

A group has an owner. Other accounts that it is shared with name it by its id only:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/share-placement-group.html
The lab has no Resource Access Manager: every group is shared with every account.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response

from lab.aws.ec2.capacity_reservations import active_reservations

STRATEGIES = ("cluster", "partition", "spread", "precision-time")
_MAX_PARTITIONS = 7


@dataclass(frozen=True)
class PlacementGroup:
    """One placement group."""

    name: str
    owner: str
    region: str
    strategy: str
    partition_count: int | None = None
    spread_level: str | None = None
    parent_id: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"pg-{secrets.token_hex(8)}{'0'}")

    @property
    def arn(self) -> str:
        """Its ARN, in its owner's account."""
        return f"arn:aws:ec2:{self.region}:{self.owner}:placement-group/{self.name}"

    def describe(self) -> dict[str, Any]:
        """The group as DescribePlacementGroups shows it."""
        return {
            "GroupName": self.name,
            "GroupId": self.id,
            "GroupArn": self.arn,
            "State": "available",
            "Strategy": self.strategy,
            "PartitionCount": self.partition_count,
            "SpreadLevel": self.spread_level,
            "ParentGroupId": self.parent_id,
            "Tags": [{"Key": key, "Value": value} for key, value in self.tags.items()],
        }


class PlacementGroups:
    """The Region's placement groups."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], PlacementGroup] = {}
        self._lock = threading.Lock()

    def add(self, group: PlacementGroup) -> PlacementGroup:
        """Add a group. Raises EC2ClientError for what EC2 refuses."""
        _require_options_of(group.strategy, group.partition_count, group.spread_level)
        # Only clusters have parents (API reference, CreatePlacementGroup). The words are not known.
        if group.parent_id is not None and (
            group.strategy != "cluster"
            or self.find(group.owner, group_id=group.parent_id).strategy != "precision-time"
        ):
            raise EC2ClientError(
                "InvalidParameterCombination",
                "Only 'cluster' groups have parents, and these are 'precision-time' groups.",
            )
        with self._lock:
            if (group.owner, group.name) in self._groups:
                raise EC2ClientError(
                    "InvalidPlacementGroup.Duplicate",
                    f"The placement group '{group.name}' already exists.",
                )
            self._groups[group.owner, group.name] = group
            return group

    def find(
        self, account_id: str, *, name: str | None = None, group_id: str | None = None
    ) -> PlacementGroup:
        """A group of an account by name, or any by id.

        Raises EC2ClientError InvalidPlacementGroup.Unknown.
        """
        with self._lock:
            for group in self._groups.values():
                if (account_id, name) == (group.owner, group.name) or group_id == group.id:
                    return group
        raise EC2ClientError(
            "InvalidPlacementGroup.Unknown", f"The Placement Group '{name or group_id}' is unknown."
        )

    def of(self, account_id: str) -> list[PlacementGroup]:
        """Every group of an account."""
        with self._lock:
            return [group for group in self._groups.values() if group.owner == account_id]

    def delete(self, group: PlacementGroup) -> None:
        """Remove a group."""
        with self._lock:
            del self._groups[group.owner, group.name]


def _require_options_of(
    strategy: str, partition_count: int | None, spread_level: str | None
) -> None:
    if strategy not in STRATEGIES:
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


GROUPS = PlacementGroups()


def instances_of(backend: Any, group: PlacementGroup) -> list[Any]:
    """The instances of a group that are not terminated; `backend` is moto's EC2 backend."""
    return [
        instance
        for instance in backend.all_instances()
        if getattr(instance.placement, "group_id", None) == group.id
        and instance.state != "terminated"
    ]


def create_placement_group(self: EC2Response) -> ActionResult:
    name = self._get_param("GroupName")
    if not name:
        raise EC2ClientError("MissingParameter", "The request must contain GroupName.")
    strategy = self._get_param("Strategy", "cluster")
    count = self._get_param("PartitionCount", 2 if strategy == "partition" else None)
    self.error_on_dryrun()
    group = GROUPS.add(
        PlacementGroup(
            name=name,
            owner=self.current_account,
            region=self.region,
            strategy=strategy,
            partition_count=int(count) if count is not None else None,
            spread_level=self._get_param("SpreadLevel", "rack" if strategy == "spread" else None),
            parent_id=self._get_param("ParentGroupId"),
            tags=self._parse_tag_specification().get("placement-group", {}),
        )
    )
    return ActionResult({"PlacementGroup": group.describe()})


def describe_placement_groups(self: EC2Response) -> ActionResult:
    names, ids = self._get_param("GroupNames", []), self._get_param("GroupIds", [])
    account = self.current_account
    groups = GROUPS.of(account)
    if names or ids:
        groups = [GROUPS.find(account, name=name) for name in names]
        groups += [GROUPS.find(account, group_id=group_id) for group_id in ids]
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


def delete_placement_group(self: EC2Response) -> EmptyResult:
    group = GROUPS.find(self.current_account, name=self._get_param("GroupName"))
    if instances_of(self.ec2_backend, group):
        raise EC2ClientError(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.name}' is in use and may not be deleted.",
        )
    if any(one.placement_group_arn == group.arn for one in active_reservations()):
        raise EC2ClientError(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.name}' has an active Capacity Reservation and may not be"
            " deleted.",
        )
    GROUPS.delete(group)
    return EmptyResult()
