"""Placement groups: the properties that EC2 accepts with each strategy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfnlint.template import Template

from lint.rule import Rule
from lint.template import (
    Place,
    largest,
    pick,
    possible,
    possible_values,
    properties,
    referred,
    resolve,
    resolved,
    resources,
    scenarios,
)

STRATEGIES = {"cluster", "partition", "spread", "precision-time"}
GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html"
GROUP = "AWS::EC2::PlacementGroup"


class _OnlyWithStrategy(Rule):
    """A property that EC2 accepts with one strategy only."""

    id = ""
    name: str
    strategy: str

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, found, scenario in possible(cfn, GROUP, self.name, "Strategy"):
            if self.name not in found:
                continue
            can_be = possible_values(cfn, found.get("Strategy", "cluster"), scenario)
            others = (STRATEGIES if can_be is None else can_be) - {self.strategy}
            if others:
                yield (
                    ["Resources", logical_id, "Properties", self.name],
                    f"{self.name} goes with Strategy {self.strategy} only, and here Strategy "
                    f"can be {' or '.join(sorted(others))}; make {self.name} AWS::NoValue "
                    f"unless Strategy is {self.strategy}",
                )


class SpreadLevelNeedsSpread(_OnlyWithStrategy):
    id = "E9001"
    shortdesc = "SpreadLevel needs a spread placement group"
    description = "EC2 refuses SpreadLevel beside any strategy but spread."
    source_url = (
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html"
    )
    name = "SpreadLevel"
    strategy = "spread"


class PartitionCountNeedsPartition(_OnlyWithStrategy):
    id = "E9002"
    shortdesc = "PartitionCount needs a partition placement group"
    description = "EC2 refuses PartitionCount beside any strategy but partition."
    source_url = (
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreatePlacementGroup.html"
    )
    name = "PartitionCount"
    strategy = "partition"


class PartitionsPerZone(Rule):
    id = "E9003"
    shortdesc = "A partition placement group has one to seven partitions"
    description = "EC2 makes at most seven partitions in each zone."
    source_url = GUIDE

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, found, _ in possible(cfn, GROUP, "PartitionCount"):
            count = largest(cfn, found.get("PartitionCount"))
            if count is not None and not 1 <= count <= 7:
                yield (
                    ["Resources", logical_id, "Properties", "PartitionCount"],
                    "PartitionCount must be 1 to 7, the most that a zone has; "
                    "lower it, or bound its parameter with MaxValue: 7",
                )


class PlacementGroupNamesItself(Rule):
    id = "E9004"
    shortdesc = "A placement group's name is not yours to set"
    description = "GroupName of AWS::EC2::PlacementGroup is an attribute; CloudFormation sets it."
    source_url = (
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/"
        "aws-resource-ec2-placementgroup.html"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        for logical_id, group in resources(cfn, GROUP):
            if "GroupName" in properties(group):
                yield (
                    ["Resources", logical_id, "Properties", "GroupName"],
                    "GroupName cannot be set; remove it and refer to the group with "
                    f"!Ref {logical_id}",
                )


class GroupNameOrGroupId(Rule):
    id = "E9005"
    shortdesc = "Placement takes GroupName or GroupId, not both"
    description = "EC2 refuses a launch template whose Placement names the group twice."
    source_url = (
        "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/"
        "API_LaunchTemplatePlacementRequest.html"
    )

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        data = "LaunchTemplateData"
        for logical_id, found, _ in possible(
            cfn, "AWS::EC2::LaunchTemplate", "Placement", within=data
        ):
            placement = found.get("Placement")
            if isinstance(placement, dict) and {"GroupName", "GroupId"} <= set(placement):
                yield (
                    ["Resources", logical_id, "Properties", data, "Placement"],
                    "Placement has GroupName and GroupId; keep one of them",
                )


class SpreadHoldsSeven(Rule):
    id = "E9006"
    shortdesc = "A spread placement group holds seven instances in a zone"
    description = (
        "The eighth instance of a rack-level spread group in a zone does not start, and a node "
        "group with it is CREATE_FAILED."
    )
    source_url = GUIDE

    def findings(self, cfn: Template) -> Iterator[tuple[Place, str]]:
        groups = dict(resources(cfn, GROUP))
        templates = dict(resources(cfn, "AWS::EC2::LaunchTemplate"))
        for logical_id, node_group in resources(cfn, "AWS::EKS::Nodegroup"):
            owned = pick(properties(node_group), "LaunchTemplate", "ScalingConfig")
            for used in referred(owned) & set(templates):
                data = pick(properties(templates[used]).get("LaunchTemplateData"), "Placement")
                for name in referred(data) & set(groups):
                    wanted = pick(properties(groups[name]), "Strategy", "SpreadLevel")
                    given = [node_group, templates[used], groups[name]]
                    for scenario in scenarios(cfn, owned, data, wanted, given=given):
                        if name in referred(resolve(data, scenario)) and _is_spread_by_rack(
                            cfn, resolved(wanted, scenario), scenario
                        ):
                            sizes = resolved(owned, scenario).get("ScalingConfig")
                            yield from self._too_many(cfn, logical_id, sizes)

    def _too_many(self, cfn: Template, logical_id: str, sizes: Any) -> Iterator[tuple[Place, str]]:
        for name, size in (sizes if isinstance(sizes, dict) else {}).items():
            most = largest(cfn, size)
            if most is not None and most > 7:
                yield (
                    ["Resources", logical_id, "Properties", "ScalingConfig", name],
                    f"{name} can be more than 7, which is all that a spread placement group holds "
                    "in a zone; lower it, bound its parameter with MaxValue: 7, or choose "
                    "another strategy",
                )


def _is_spread_by_rack(cfn: Template, group: dict[str, Any], scenario: dict[str, bool]) -> bool:
    strategies = possible_values(cfn, group.get("Strategy", "cluster"), scenario)
    levels = possible_values(cfn, group.get("SpreadLevel", "rack"), scenario)
    return strategies == {"spread"} and levels == {"rack"}
