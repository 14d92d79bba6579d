"""Rules about launch templates and the node groups that use them."""

from __future__ import annotations

import pytest

from lint.rules import launch_templates as rules

GOOD_GROUP = "InstanceTypes: [c5.large], Subnets: [subnet-1]"


def nodes(data: str = "", group: str = GOOD_GROUP, template: str = "{Id: !Ref Template}") -> str:
    return f"""
    Parameters:
      Choice: {{Type: String, AllowedValues: [one, other]}}
      Subnets: {{Type: CommaDelimitedList}}
    Conditions:
      IsOne: !Equals [!Ref Choice, one]
    Resources:
      Template:
        Type: AWS::EC2::LaunchTemplate
        Properties:
          LaunchTemplateData: {{{data}}}
      Nodes:
        Type: AWS::EKS::Nodegroup
        Properties: {{LaunchTemplate: {template}, {group}}}
    """


DATA = "Resources/Template/Properties/LaunchTemplateData"


@pytest.mark.parametrize(
    ("data", "place", "remedy"),
    [
        ("IamInstanceProfile: {Name: x}", "IamInstanceProfile", "set NodeRole"),
        ("HibernationOptions: {Configured: true}", "HibernationOptions", "remove it"),
        (
            "InstanceInitiatedShutdownBehavior: terminate",
            "InstanceInitiatedShutdownBehavior",
            "remove it",
        ),
        (
            "InstanceMarketOptions: {MarketType: spot}",
            "InstanceMarketOptions",
            "set CapacityType: SPOT",
        ),
        (
            "NetworkInterfaces: [{SubnetId: subnet-1}]",
            "NetworkInterfaces/0/SubnetId",
            "set Subnets of the node group",
        ),
        (
            "IamInstanceProfile: !If [IsOne, {Name: x}, !Ref AWS::NoValue]",
            "IamInstanceProfile",
            "set NodeRole",
        ),
    ],
)
def test_what_eks_refuses_in_a_launch_template_is_refused(findings, data, place, remedy):
    (found,) = findings(rules.RefusedInLaunchTemplate, nodes(data))
    assert found.startswith(f"{DATA}/{place}: EKS refuses {place.split('/')[-1]}")
    assert remedy in found


@pytest.mark.parametrize(
    "template",
    [
        nodes("MetadataOptions: {HttpTokens: required}"),
        nodes("InstanceMarketOptions: {MarketType: capacity-block}"),
        nodes("NetworkInterfaces: [{DeviceIndex: 0}]"),
        nodes("IamInstanceProfile: !Ref AWS::NoValue"),
        nodes("IamInstanceProfile: {Name: x}", template="{Id: lt-of-another-stack}"),
    ],
)
def test_what_eks_takes_in_a_launch_template_is_taken(findings, template):
    assert findings(rules.RefusedInLaunchTemplate, template) == []


def test_a_refused_property_in_the_other_branch_of_the_data_is_found(findings):
    text = nodes("Fn::If: [IsOne, {IamInstanceProfile: {Name: x}}, {KeyName: y}]")
    (found,) = findings(rules.RefusedInLaunchTemplate, text)
    assert "IamInstanceProfile" in found


@pytest.mark.parametrize(
    ("data", "group", "said"),
    [
        ("InstanceType: c5.large", "InstanceTypes: [c5.large]", "keep one of them"),
        ("InstanceType: c5.large", "InstanceTypes: !If [IsOne, [a], !Ref AWS::NoValue]", "keep"),
        ("", "Subnets: [subnet-1]", "EKS takes t3.medium; set InstanceTypes"),
        ("", "InstanceTypes: !If [IsOne, [a], !Ref AWS::NoValue]", "EKS takes t3.medium"),
    ],
)
def test_an_instance_type_in_both_places_or_in_none_is_refused(findings, data, group, said):
    (found,) = findings(rules.InstanceTypeInOnePlace, nodes(data, group))
    assert "Resources/Nodes/Properties" in found
    assert said in found


@pytest.mark.parametrize(
    ("data", "group"),
    [
        ("", "InstanceTypes: [c5.large]"),
        ("InstanceType: c5.large", "Subnets: [subnet-1]"),
        (
            "InstanceType: !If [IsOne, c5.large, !Ref AWS::NoValue]",
            "InstanceTypes: !If [IsOne, !Ref AWS::NoValue, [c5.large]]",
        ),
    ],
)
def test_an_instance_type_in_one_place_is_taken(findings, data, group):
    assert findings(rules.InstanceTypeInOnePlace, nodes(data, group)) == []


@pytest.mark.parametrize(
    ("name", "remedy"), [("DiskSize", "BlockDeviceMappings"), ("RemoteAccess", "KeyName")]
)
def test_disk_and_access_beside_a_launch_template_are_refused(findings, name, remedy):
    (found,) = findings(rules.DiskOrAccessBesideLaunchTemplate, nodes(group=f"{name}: 20"))
    assert f"EKS refuses {name} beside LaunchTemplate" in found
    assert remedy in found


def test_disk_and_access_without_a_launch_template_are_taken(findings):
    rule = rules.DiskOrAccessBesideLaunchTemplate
    assert findings(rule, nodes(group="DiskSize: 20", template="!Ref AWS::NoValue")) == []
    assert findings(rule, nodes(group="DiskSize: !Ref AWS::NoValue")) == []
    either = "!If [IsOne, {Id: !Ref Template}, !Ref AWS::NoValue]"
    disk = "DiskSize: !If [IsOne, !Ref AWS::NoValue, 20]"
    assert findings(rule, nodes(group=disk, template=either)) == []


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{Id: !Ref Template, Name: mine}", "Id and Name; keep Id"),
        ("{Id: !Ref Template, Name: !If [IsOne, mine, !Ref AWS::NoValue]}", "keep Id"),
        ("{Version: '1'}", "neither Id nor Name; set Id"),
    ],
)
def test_a_launch_template_named_twice_or_never_is_refused(findings, template, said):
    (found,) = findings(rules.LaunchTemplateIdOrName, nodes(template=template))
    assert said in found


def test_a_launch_template_named_once_is_taken(findings):
    either = "!If [IsOne, {Id: !Ref Template}, {Name: mine}]"
    for template in ("{Id: !Ref Template}", "{Name: mine}", either, "!Ref AWS::NoValue"):
        assert findings(rules.LaunchTemplateIdOrName, nodes(template=template)) == []


def test_an_image_without_user_data_is_refused(findings):
    rule = rules.ImageWithoutUserData
    (found,) = findings(rule, nodes("ImageId: ami-1"))
    assert found.startswith(f"{DATA}/ImageId: ImageId without UserData")
    assert "add UserData" in found
    (found,) = findings(rule, nodes("ImageId: ami-1, UserData: !If [IsOne, x, !Ref AWS::NoValue]"))
    assert "add UserData" in found


def test_an_image_with_user_data_is_taken(findings):
    rule = rules.ImageWithoutUserData
    assert findings(rule, nodes("ImageId: ami-1, UserData: x")) == []
    assert findings(rule, nodes("UserData: x")) == []
    both = "ImageId: !If [IsOne, ami-1, !Ref AWS::NoValue], UserData: !If [IsOne, x, y]"
    assert findings(rule, nodes(both)) == []


@pytest.mark.parametrize("name", ["AmiType", "Version", "ReleaseVersion"])
def test_what_describes_eks_own_image_beside_another_is_refused(findings, name):
    (found,) = findings(rules.AmiTypeBesideImage, nodes("ImageId: ami-1", f"{name}: x"))
    assert f"EKS refuses {name} beside ImageId" in found
    assert "keep one of them" in found


def test_what_describes_eks_own_image_is_taken_without_another(findings):
    rule = rules.AmiTypeBesideImage
    assert findings(rule, nodes("ImageId: ami-1", "AmiType: CUSTOM")) == []
    assert findings(rule, nodes("", "AmiType: x, Version: y")) == []
    image = "ImageId: !If [IsOne, ami-1, !Ref AWS::NoValue]"
    assert findings(rule, nodes(image, "Version: !If [IsOne, !Ref AWS::NoValue, y]")) == []


@pytest.mark.parametrize(
    "subnets",
    ["[subnet-1, subnet-2]", "!Ref Subnets", "!If [IsOne, [subnet-1, subnet-2], [subnet-1]]"],
)
def test_several_subnets_for_nodes_in_a_placement_group_are_refused(findings, subnets):
    (found,) = findings(
        rules.SeveralSubnetsInPlacementGroup,
        nodes("Placement: {GroupName: one}", f"Subnets: {subnets}"),
    )
    assert "Subnets can be several" in found
    assert "give a list of one subnet" in found


@pytest.mark.parametrize(
    ("data", "subnets"),
    [
        ("Placement: {GroupName: one}", "[subnet-1]"),
        ("Placement: {Tenancy: dedicated}", "[subnet-1, subnet-2]"),
        (
            "Placement: !If [IsOne, {GroupName: one}, !Ref AWS::NoValue]",
            "!If [IsOne, [subnet-1], [subnet-1, subnet-2]]",
        ),
    ],
)
def test_one_subnet_or_no_group_is_taken(findings, data, subnets):
    template = nodes(data, f"Subnets: {subnets}")
    assert findings(rules.SeveralSubnetsInPlacementGroup, template) == []


@pytest.mark.parametrize("name", ["SecurityGroupIds", "SecurityGroups"])
def test_security_groups_in_two_places_are_refused(findings, name):
    (found,) = findings(
        rules.SecurityGroupsInOnePlace, nodes(f"{name}: [x], NetworkInterfaces: [{{}}]")
    )
    assert f"EC2 refuses {name} beside NetworkInterfaces; move them to Groups" in found


def test_security_groups_in_one_place_are_taken(findings):
    rule = rules.SecurityGroupsInOnePlace
    assert findings(rule, nodes("SecurityGroupIds: [x]")) == []
    assert findings(rule, nodes("NetworkInterfaces: [{Groups: [x]}]")) == []
    either = "SecurityGroupIds: !If [IsOne, [x], !Ref AWS::NoValue], "
    either += "NetworkInterfaces: !If [IsOne, !Ref AWS::NoValue, [{Groups: [x]}]]"
    assert findings(rule, nodes(either)) == []
