"""Rules about placement groups, each on a bad template and a good one."""

from __future__ import annotations

import pytest

from lint.rules import placement_groups as rules

STRATEGY_PARAMETER = """
Parameters:
  Strategy:
    Type: String
    AllowedValues: [cluster, partition, spread, none]
Conditions:
  HasGroup: !Not [!Equals [!Ref Strategy, none]]
  IsSpread: !Equals [!Ref Strategy, spread]
  IsPartition: !Equals [!Ref Strategy, partition]
Resources:
  Group:
    Type: AWS::EC2::PlacementGroup
    Condition: HasGroup
    Properties:
      Strategy: !Ref Strategy
"""


def group(properties: str) -> str:
    return f"""
    Resources:
      Group:
        Type: AWS::EC2::PlacementGroup
        Properties: {{{properties}}}
    """


@pytest.mark.parametrize(
    ("rule", "name", "value", "own", "other"),
    [
        (rules.SpreadLevelNeedsSpread, "SpreadLevel", "rack", "spread", "partition"),
        (rules.PartitionCountNeedsPartition, "PartitionCount", 2, "partition", "spread"),
    ],
)
class TestPropertiesOfOneStrategy:
    def test_refuses_another_strategy(self, findings, rule, name, value, own, other):
        (found,) = findings(rule, group(f"Strategy: {other}, {name}: {value}"))
        assert found.startswith(f"Resources/Group/Properties/{name}: {name} goes with Strategy")
        assert f"can be {other}; make {name} AWS::NoValue unless Strategy is {own}" in found

    def test_refuses_the_default_strategy(self, findings, rule, name, value, own, other):
        (found,) = findings(rule, group(f"{name}: {value}"))
        assert "can be cluster" in found

    def test_takes_its_own_strategy(self, findings, rule, name, value, own, other):
        assert findings(rule, group(f"Strategy: {own}, {name}: {value}")) == []

    def test_takes_another_strategy_without_the_property(
        self, findings, rule, name, value, own, other
    ):
        assert findings(rule, group("Strategy: cluster")) == []

    def test_takes_the_property_under_the_condition_that_implies_its_strategy(
        self, findings, rule, name, value, own, other
    ):
        condition = f"Is{own.title()}"
        line = f"      {name}: !If [{condition}, {value}, !Ref AWS::NoValue]\n"
        assert findings(rule, STRATEGY_PARAMETER + line) == []

    def test_refuses_it_under_a_condition_that_does_not(
        self, findings, rule, name, value, own, other
    ):
        condition = f"Is{other.title()}"
        line = f"      {name}: !If [{condition}, {value}, !Ref AWS::NoValue]\n"
        (found,) = findings(rule, STRATEGY_PARAMETER + line)
        assert f"can be {other};" in found

    def test_counts_only_strategies_that_the_resources_condition_leaves(
        self, findings, rule, name, value, own, other
    ):
        (found,) = findings(rule, STRATEGY_PARAMETER + f"      {name}: {value}\n")
        assert "none" not in found
        assert other in found

    def test_refuses_a_strategy_that_can_be_anything(self, findings, rule, name, value, own, other):
        template = "Parameters: {Strategy: {Type: String}}\n"
        template += "Resources:\n  Group:\n    Type: AWS::EC2::PlacementGroup\n"
        template += f"    Properties: {{Strategy: !Ref Strategy, {name}: {value}}}\n"
        assert len(findings(rule, template)) == 1


@pytest.mark.parametrize("count", ["0", "8"])
def test_more_partitions_than_a_zone_has_are_refused(findings, count):
    found = findings(
        rules.PartitionsPerZone, group(f"Strategy: partition, PartitionCount: {count}")
    )
    assert found and "PartitionCount must be 1 to 7" in found[0] and "lower it" in found[0]


@pytest.mark.parametrize(("bound", "faults"), [("", 1), ("MaxValue: 8", 1), ("MaxValue: 7", 0)])
def test_a_parameter_for_partitions_is_bounded(findings, bound, faults):
    template = f"Parameters: {{Count: {{Type: Number, {bound}}}}}" + group(
        "Strategy: partition, PartitionCount: !Ref Count"
    ).replace("\n    ", "\n")
    assert len(findings(rules.PartitionsPerZone, template)) == faults


def test_a_name_for_a_placement_group_is_refused(findings):
    (found,) = findings(rules.PlacementGroupNamesItself, group("GroupName: mine"))
    assert "GroupName cannot be set; remove it" in found
    assert findings(rules.PlacementGroupNamesItself, group("Strategy: cluster")) == []


def placement(value: str) -> str:
    return f"""
    Parameters: {{Name: {{Type: String}}}}
    Conditions: {{HasName: !Not [!Equals [!Ref Name, ""]]}}
    Resources:
      Template:
        Type: AWS::EC2::LaunchTemplate
        Properties:
          LaunchTemplateData:
            Placement: {value}
    """


@pytest.mark.parametrize(
    "value",
    [
        "{GroupName: one, GroupId: pg-1}",
        "{GroupName: one, GroupId: !If [HasName, pg-1, !Ref AWS::NoValue]}",
        "!If [HasName, {GroupName: one, GroupId: pg-1}, !Ref AWS::NoValue]",
    ],
)
def test_a_group_by_name_and_by_id_is_refused(findings, value):
    (found,) = findings(rules.GroupNameOrGroupId, placement(value))
    assert "Placement has GroupName and GroupId; keep one of them" in found


@pytest.mark.parametrize(
    "value",
    [
        "{GroupName: one}",
        "{GroupId: pg-1}",
        "!If [HasName, {GroupName: one}, {GroupId: pg-1}]",
        "!If [HasName, {GroupName: one}, !Ref AWS::NoValue]",
    ],
)
def test_a_group_by_name_or_by_id_is_taken(findings, value):
    assert findings(rules.GroupNameOrGroupId, placement(value)) == []


def arm(size: str, group: str = "{Strategy: spread}", name: str = "!Ref Group") -> str:
    return f"""
    Parameters:
      Placed: {{Type: String, AllowedValues: ["true", "false"]}}
      Free: {{Type: Number}}
      Seven: {{Type: Number, MaxValue: 7}}
      Listed: {{Type: Number, AllowedValues: [2, 9]}}
    Conditions:
      IsPlaced: !Equals [!Ref Placed, "true"]
    Resources:
      Group:
        Type: AWS::EC2::PlacementGroup
        Properties: {group}
      Template:
        Type: AWS::EC2::LaunchTemplate
        Properties:
          LaunchTemplateData:
            Placement: {{GroupName: {name}}}
      Nodes:
        Type: AWS::EKS::Nodegroup
        Properties:
          LaunchTemplate: {{Id: !Ref Template}}
          ScalingConfig: {{MaxSize: {size}}}
    """


@pytest.mark.parametrize("size", ["8", "!Ref Free", "!Ref Listed", "!If [IsPlaced, 8, 2]"])
def test_more_than_seven_nodes_in_a_spread_group_are_refused(findings, size):
    (found,) = findings(rules.SpreadHoldsSeven, arm(size))
    assert "ScalingConfig/MaxSize: MaxSize can be more than 7" in found
    assert "choose another strategy" in found


@pytest.mark.parametrize(
    "template",
    [
        arm("7"),
        arm("!Ref Seven"),
        arm("8", group="{Strategy: cluster}"),
        arm("8", group="{Strategy: spread, SpreadLevel: host}"),
        arm("8", name="another"),
        arm("!If [IsPlaced, 7, 8]", name="!If [IsPlaced, !Ref Group, another]"),
    ],
)
def test_seven_nodes_or_another_group_are_taken(findings, template):
    assert findings(rules.SpreadHoldsSeven, template) == []


def test_a_condition_made_of_others_narrows_the_strategies_too(findings):
    template = STRATEGY_PARAMETER.replace(
        "Resources:",
        '  HasNewGroup: !And [!Condition HasGroup, !Not [!Equals [!Ref Strategy, "cluster"]]]\n'
        "Resources:",
    ).replace("Condition: HasGroup", "Condition: HasNewGroup")
    (found,) = findings(rules.SpreadLevelNeedsSpread, template + "      SpreadLevel: rack\n")
    assert "can be partition;" in found
