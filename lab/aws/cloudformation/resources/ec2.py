"""AWS::EC2::*"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.aws.cloudformation.api_resource import ApiResource, Call, names, renamed
from lab.aws.cloudformation.coercion import extraneous, is_true, lost
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Properties, ResourceContext, Tagging
from lab.waiting import until

_DELETION_SECONDS = 900.0
TAGGING = Tagging("ec2", "CreateTags", "Resources", identity="{id}", at_creation=False)
_DNS = ("EnableDnsSupport", "EnableDnsHostnames")


def _configure_vpc(context: ResourceContext, old: Properties, new: Properties) -> None:
    for name in _DNS:
        if name in new:
            vpc = {"VpcId": context.state.physical_id, name: {"Value": is_true(new[name])}}
            context.call("ec2", "ModifyVpcAttribute", vpc)


_RULE = {
    "CidrIp",
    "Description",
    "FromPort",
    "GroupId",
    "IpProtocol",
    "SourceSecurityGroupId",
    "ToPort",
}
_EVERYTHING = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def _permission(rule: dict[str, Any]) -> dict[str, Any]:
    """Convert a rule from CloudFormation's form to the API's IpPermission."""
    for key in rule:
        if key not in _RULE:
            raise extraneous("#/SecurityGroupRule", key)
    permission: Properties = {
        key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in rule
    }
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"], **described}]
    if "SourceSecurityGroupId" in rule:
        source = {"GroupId": rule["SourceSecurityGroupId"], **described}
        permission["UserIdGroupPairs"] = [source]
    return permission


def _change_rules(context: ResourceContext, old: Properties, new: Properties) -> None:
    # Without rules for what leaves a group, EC2 lets everything leave.
    for direction, default in (("Ingress", []), ("Egress", [_EVERYTHING])):
        before = old.get(f"SecurityGroup{direction}", default)
        after = new.get(f"SecurityGroup{direction}", default)
        for verb, rules in (
            ("Revoke", [rule for rule in before if rule not in after]),
            ("Authorize", [rule for rule in after if rule not in before]),
        ):
            if rules:
                permissions = [_permission(rule) for rule in rules]
                request = {"GroupId": context.state.physical_id, "IpPermissions": permissions}
                context.call("ec2", f"{verb}SecurityGroup{direction}", request)


def _revoke_ingress(context: ResourceContext) -> None:
    rule = context.state.properties
    request = {"GroupId": rule["GroupId"], "IpPermissions": [_permission(rule)]}
    context.call("ec2", "RevokeSecurityGroupIngress", request)


def _prepare_group(context: ResourceContext, properties: Properties) -> Properties:
    """Tag a placement group when it is created: its tags cannot change."""
    tags = {"ResourceType": "placement-group", **TAGGING.of(context.tags())}
    return {**properties, "TagSpecifications": [tags]}


def _configure_template(context: ResourceContext, old: Properties, new: Properties) -> None:
    """Note the newest version. Fails for data that the emulated EC2 did not keep.

    Nodes would silently lack that data.
    """
    (version,) = context.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=context.state.physical_id, Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    missing = lost(new["LaunchTemplateData"], version["LaunchTemplateData"])
    if missing:
        raise ResourceFailure(
            f"The emulated EC2 did not keep {', '.join(missing)} of LaunchTemplateData"
        )
    context.state.attributes["LatestVersionNumber"] = str(version["VersionNumber"])


def _await_deletion(context: ResourceContext) -> None:
    ec2, ids = context.client("ec2"), [context.state.physical_id]

    def is_deleted() -> bool:
        (endpoint,) = ec2.describe_vpc_endpoints(VpcEndpointIds=ids)["VpcEndpoints"]
        return bool(endpoint["State"] == "deleted")

    if not until(is_deleted, seconds=_DELETION_SECONDS):
        raise ResourceFailure("Exceeded attempts to wait for the deletion")


def _created(kind: str, properties: str, **more: Any) -> ApiResource:
    """A type whose resources `Create…` returns, and `Delete…` takes by their id alone."""
    return ApiResource(
        type=f"AWS::EC2::{kind}",
        properties=names(properties),
        creation=Call(f"Create{kind}"),
        result=kind,
        id=f"{{{kind}Id}}",
        deletion=Call(f"Delete{kind}", **{f"{kind}Id": "{id}"}),
        **more,
    )


RESOURCES = (
    ApiResource(
        type="AWS::EC2::VPC",
        properties=names("CidrBlock EnableDnsHostnames EnableDnsSupport Tags"),
        later=_DNS,
        creation=Call("CreateVpc"),
        result="Vpc",
        id="{VpcId}",
        attributes={"VpcId": "{VpcId}", "CidrBlock": "{CidrBlock}"},
        configure=_configure_vpc,
        deletion=Call("DeleteVpc", VpcId="{id}"),
        tagging=TAGGING,
    ),
    ApiResource(
        type="AWS::EC2::VPCCidrBlock",
        properties=names("CidrBlock VpcId"),
        creation=Call("AssociateVpcCidrBlock"),
        result="CidrBlockAssociation",
        id="{AssociationId}",
        deletion=Call("DisassociateVpcCidrBlock", AssociationId="{id}"),
    ),
    _created(
        "Subnet",
        "AvailabilityZone CidrBlock Tags VpcId",
        attributes={"SubnetId": "{SubnetId}", "AvailabilityZone": "{AvailabilityZone}"},
        tagging=TAGGING,
    ),
    _created("InternetGateway", "Tags", tagging=TAGGING),
    ApiResource(
        type="AWS::EC2::VPCGatewayAttachment",
        properties=names("InternetGatewayId VpcId"),
        creation=Call("AttachInternetGateway"),
        id="IGW|{VpcId}",
        deletion=Call(
            "DetachInternetGateway", InternetGatewayId="{InternetGatewayId}", VpcId="{VpcId}"
        ),
    ),
    ApiResource(
        type="AWS::EC2::EIP",
        properties=names("Domain Tags"),
        creation=Call("AllocateAddress", Domain="vpc"),
        id="{PublicIp}",
        attributes={"AllocationId": "{AllocationId}"},
        deletion=Call("ReleaseAddress", AllocationId="{AllocationId}"),
        tagging=replace(TAGGING, identity="{AllocationId}"),
    ),
    _created("NatGateway", "AllocationId SubnetId Tags", tagging=TAGGING),
    _created("RouteTable", "Tags VpcId", tagging=TAGGING),
    ApiResource(
        type="AWS::EC2::Route",
        properties=names("DestinationCidrBlock GatewayId NatGatewayId RouteTableId"),
        creation=Call("CreateRoute"),
        id="{RouteTableId}|{DestinationCidrBlock}",
        deletion=Call(
            "DeleteRoute",
            RouteTableId="{RouteTableId}",
            DestinationCidrBlock="{DestinationCidrBlock}",
        ),
    ),
    ApiResource(
        type="AWS::EC2::SubnetRouteTableAssociation",
        properties=names("RouteTableId SubnetId"),
        creation=Call("AssociateRouteTable"),
        id="{AssociationId}",
        deletion=Call("DisassociateRouteTable", AssociationId="{id}"),
    ),
    ApiResource(
        type="AWS::EC2::SecurityGroup",
        properties=names(
            "GroupDescription GroupName SecurityGroupEgress SecurityGroupIngress Tags VpcId"
        ),
        name=("GroupName", 255),
        later=names("SecurityGroupEgress SecurityGroupIngress"),
        prepare=renamed(GroupDescription="Description"),
        creation=Call("CreateSecurityGroup"),
        id="{GroupId}",
        attributes={"GroupId": "{id}"},
        configure=_change_rules,
        deletion=Call("DeleteSecurityGroup", GroupId="{id}"),
        tagging=TAGGING,
    ),
    ApiResource(
        type="AWS::EC2::SecurityGroupIngress",
        properties=names(
            "CidrIp Description FromPort GroupId IpProtocol SourceSecurityGroupId ToPort"
        ),
        prepare=lambda _, rule: {"GroupId": rule["GroupId"], "IpPermissions": [_permission(rule)]},
        creation=Call("AuthorizeSecurityGroupIngress"),
        id="{SecurityGroupRules[0][SecurityGroupRuleId]}",
        before_delete=_revoke_ingress,
        deletion=None,
    ),
    ApiResource(
        type="AWS::EC2::PlacementGroup",
        properties=names("ParentGroupId PartitionCount SpreadLevel Strategy"),
        name=("GroupName", 255),
        prepare=_prepare_group,
        creation=Call("CreatePlacementGroup"),
        id="{GroupName}",
        attributes={"GroupName": "{id}"},
        deletion=Call("DeletePlacementGroup", GroupName="{id}"),
    ),
    ApiResource(
        type="AWS::EC2::VPCEndpoint",
        properties=names(
            "PolicyDocument PrivateDnsEnabled RouteTableIds SecurityGroupIds ServiceName SubnetIds"
            " Tags VpcEndpointType VpcId"
        ),
        # moto cannot delete an endpoint without an explicit type, so set EC2's default.
        prepare=lambda _, properties: {"VpcEndpointType": "Gateway", **properties},
        creation=Call("CreateVpcEndpoint"),
        result="VpcEndpoint",
        id="{VpcEndpointId}",
        deletion=Call("DeleteVpcEndpoints", VpcEndpointIds="{id}"),
        after_delete=_await_deletion,
        tagging=TAGGING,
    ),
    _created(
        "LaunchTemplate",
        "LaunchTemplateData",
        name=("LaunchTemplateName", 125),
        change=Call("CreateLaunchTemplateVersion", LaunchTemplateId="{id}"),
        configure=_configure_template,
    ),
)
