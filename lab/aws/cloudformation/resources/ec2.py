"""AWS::EC2::*"""

from __future__ import annotations

import time
from typing import Any

from lab.aws.cloudformation.coercion import extraneous, is_true, lost
from lab.aws.cloudformation.failures import ResourceFailure
from lab.aws.cloudformation.resource_type import Created, Properties, ResourceContext, ResourceType

_POLL_SECONDS = 0.1


def _tag(context: ResourceContext, resource_id: str, properties: Properties) -> None:
    context.client("ec2").create_tags(
        Resources=[resource_id], Tags=context.tag_list(properties.get("Tags"))
    )


def _without(properties: Properties, *names: str) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in names}


class Vpc(ResourceType):
    """A VPC."""

    type = "AWS::EC2::VPC"
    deletion = ("ec2", "DeleteVpc", "VpcId")
    properties = frozenset({"CidrBlock", "EnableDnsHostnames", "EnableDnsSupport", "Tags"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        ec2 = context.client("ec2")
        dns = ("EnableDnsSupport", "EnableDnsHostnames")
        vpc = ec2.create_vpc(**_without(properties, "Tags", *dns))["Vpc"]
        context.begin(vpc["VpcId"])
        for name in dns:
            if name in properties:
                value = {"Value": is_true(properties[name])}
                ec2.modify_vpc_attribute(VpcId=vpc["VpcId"], **{name: value})
        _tag(context, vpc["VpcId"], properties)
        groups = ec2.describe_security_groups(
            Filters=[
                {"Name": "vpc-id", "Values": [vpc["VpcId"]]},
                {"Name": "group-name", "Values": ["default"]},
            ]
        )["SecurityGroups"]
        acls = ec2.describe_network_acls(Filters=[{"Name": "vpc-id", "Values": [vpc["VpcId"]]}])
        return Created(
            vpc["VpcId"],
            {
                "VpcId": vpc["VpcId"],
                "CidrBlock": vpc["CidrBlock"],
                "DefaultSecurityGroup": groups[0]["GroupId"],
                "DefaultNetworkAcl": acls["NetworkAcls"][0]["NetworkAclId"],
            },
        )


class Subnet(ResourceType):
    """A subnet."""

    type = "AWS::EC2::Subnet"
    deletion = ("ec2", "DeleteSubnet", "SubnetId")
    properties = frozenset({"AvailabilityZone", "CidrBlock", "Tags", "VpcId"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        ec2 = context.client("ec2")
        subnet = ec2.create_subnet(**_without(properties, "Tags"))["Subnet"]
        context.begin(subnet["SubnetId"])
        _tag(context, subnet["SubnetId"], properties)
        return Created(
            subnet["SubnetId"],
            {
                "SubnetId": subnet["SubnetId"],
                "VpcId": subnet["VpcId"],
                "AvailabilityZone": subnet["AvailabilityZone"],
                "CidrBlock": subnet["CidrBlock"],
            },
        )


class InternetGateway(ResourceType):
    """An internet gateway."""

    type = "AWS::EC2::InternetGateway"
    deletion = ("ec2", "DeleteInternetGateway", "InternetGatewayId")
    properties = frozenset({"Tags"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        gateway = context.client("ec2").create_internet_gateway()["InternetGateway"]
        identity = gateway["InternetGatewayId"]
        _tag(context, identity, properties)
        return Created(identity, {"InternetGatewayId": identity})


class VpcGatewayAttachment(ResourceType):
    """The attachment of an internet gateway to a VPC."""

    type = "AWS::EC2::VPCGatewayAttachment"
    properties = frozenset({"InternetGatewayId", "VpcId"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        context.client("ec2").attach_internet_gateway(**properties)
        identity = f"IGW|{properties['VpcId']}"
        return Created(identity, {"AttachmentType": "IGW"})

    def delete(self, context: ResourceContext) -> None:
        context.client("ec2").detach_internet_gateway(**context.state.properties)


class ElasticIp(ResourceType):
    """An Elastic IP address."""

    type = "AWS::EC2::EIP"
    properties = frozenset({"Domain", "Tags"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        address = context.client("ec2").allocate_address(
            **{"Domain": "vpc", **_without(properties, "Tags")}
        )
        _tag(context, address["AllocationId"], properties)
        return Created(
            address["PublicIp"],
            {"AllocationId": address["AllocationId"], "PublicIp": address["PublicIp"]},
        )

    def delete(self, context: ResourceContext) -> None:
        context.client("ec2").release_address(AllocationId=context.state.attributes["AllocationId"])


class NatGateway(ResourceType):
    """A NAT gateway."""

    type = "AWS::EC2::NatGateway"
    deletion = ("ec2", "DeleteNatGateway", "NatGatewayId")
    properties = frozenset({"AllocationId", "SubnetId", "Tags"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        gateway = context.client("ec2").create_nat_gateway(**_without(properties, "Tags"))
        identity = gateway["NatGateway"]["NatGatewayId"]
        _tag(context, identity, properties)
        return Created(identity, {"NatGatewayId": identity})


class RouteTable(ResourceType):
    """A route table."""

    type = "AWS::EC2::RouteTable"
    deletion = ("ec2", "DeleteRouteTable", "RouteTableId")
    properties = frozenset({"Tags", "VpcId"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        table = context.client("ec2").create_route_table(VpcId=properties["VpcId"])["RouteTable"]
        _tag(context, table["RouteTableId"], properties)
        return Created(table["RouteTableId"], {"RouteTableId": table["RouteTableId"]})


class Route(ResourceType):
    """A route."""

    type = "AWS::EC2::Route"
    properties = frozenset({"DestinationCidrBlock", "GatewayId", "NatGatewayId", "RouteTableId"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        context.client("ec2").create_route(**properties)
        destination = properties["DestinationCidrBlock"]
        return Created(f"{properties['RouteTableId']}|{destination}", {"CidrBlock": destination})

    def delete(self, context: ResourceContext) -> None:
        properties = context.state.properties
        context.client("ec2").delete_route(
            RouteTableId=properties["RouteTableId"],
            DestinationCidrBlock=properties["DestinationCidrBlock"],
        )


class SubnetRouteTableAssociation(ResourceType):
    """The association of a subnet with a route table."""

    type = "AWS::EC2::SubnetRouteTableAssociation"
    deletion = ("ec2", "DisassociateRouteTable", "AssociationId")
    properties = frozenset({"RouteTableId", "SubnetId"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        identity = context.client("ec2").associate_route_table(**properties)["AssociationId"]
        return Created(identity, {"Id": identity})


_RULE = {
    "CidrIp",
    "CidrIpv6",
    "Description",
    "DestinationPrefixListId",
    "DestinationSecurityGroupId",
    "FromPort",
    "GroupId",
    "IpProtocol",
    "SourcePrefixListId",
    "SourceSecurityGroupId",
    "ToPort",
}
_EVERYTHING = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def _permission(rule: dict[str, Any]) -> dict[str, Any]:
    """Convert a rule from CloudFormation's form to the API's IpPermission."""
    for key in rule:
        if key not in _RULE:
            raise extraneous("#/SecurityGroupRule", key)
    permission: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"])}
    for name in ("FromPort", "ToPort"):
        if name in rule:
            permission[name] = int(rule[name])
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    group = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"], **described}]
    if "CidrIpv6" in rule:
        permission["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **described}]
    if group:
        permission["UserIdGroupPairs"] = [{"GroupId": group, **described}]
    prefix_list = rule.get("SourcePrefixListId") or rule.get("DestinationPrefixListId")
    if prefix_list:
        permission["PrefixListIds"] = [{"PrefixListId": prefix_list, **described}]
    return permission


class SecurityGroup(ResourceType):
    """A security group with its inline rules."""

    type = "AWS::EC2::SecurityGroup"
    deletion = ("ec2", "DeleteSecurityGroup", "GroupId")
    properties = frozenset(
        {
            "GroupDescription",
            "GroupName",
            "SecurityGroupEgress",
            "SecurityGroupIngress",
            "Tags",
            "VpcId",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        ec2 = context.client("ec2")
        options = {"VpcId": properties["VpcId"]} if "VpcId" in properties else {}
        identity = ec2.create_security_group(
            GroupName=properties.get("GroupName") or context.physical_name(255),
            Description=properties["GroupDescription"],
            **options,
        )["GroupId"]
        context.begin(identity)
        _tag(context, identity, properties)
        self._change_rules(context, {}, properties)
        return Created(
            identity,
            {"GroupId": identity, "Id": identity, "VpcId": properties.get("VpcId", "")},
        )

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> None:
        self._change_rules(context, old, new)
        _tag(context, str(context.state.physical_id), new)

    @staticmethod
    def _change_rules(context: ResourceContext, old: Properties, new: Properties) -> None:
        ec2, identity = context.client("ec2"), str(context.state.physical_id)
        # Without rules for what leaves a group, EC2 lets everything leave.
        for direction, default in (("ingress", []), ("egress", [_EVERYTHING])):
            before = old.get(f"SecurityGroup{direction.title()}", default)
            after = new.get(f"SecurityGroup{direction.title()}", default)
            for verb, rules in (
                ("revoke", [rule for rule in before if rule not in after]),
                ("authorize", [rule for rule in after if rule not in before]),
            ):
                if rules:
                    getattr(ec2, f"{verb}_security_group_{direction}")(
                        GroupId=identity, IpPermissions=[_permission(rule) for rule in rules]
                    )


class SecurityGroupIngress(ResourceType):
    """A security group's rule for incoming traffic."""

    type = "AWS::EC2::SecurityGroupIngress"
    properties = frozenset(
        {
            "CidrIp",
            "CidrIpv6",
            "Description",
            "FromPort",
            "GroupId",
            "IpProtocol",
            "SourcePrefixListId",
            "SourceSecurityGroupId",
            "ToPort",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        rules = context.client("ec2").authorize_security_group_ingress(
            GroupId=properties["GroupId"], IpPermissions=[_permission(properties)]
        )["SecurityGroupRules"]
        identity = rules[0]["SecurityGroupRuleId"]
        return Created(identity, {"Id": identity})

    def delete(self, context: ResourceContext) -> None:
        context.client("ec2").revoke_security_group_ingress(
            GroupId=context.state.properties["GroupId"],
            IpPermissions=[_permission(context.state.properties)],
        )


class Ec2PlacementGroup(ResourceType):
    """A placement group; CloudFormation chooses its name."""

    type = "AWS::EC2::PlacementGroup"
    deletion = ("ec2", "DeletePlacementGroup", "GroupName")
    properties = frozenset({"ParentGroupId", "PartitionCount", "SpreadLevel", "Strategy", "Tags"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        name = context.physical_name(255)
        request = {**_without(properties, "Tags"), "GroupName": name}
        if "PartitionCount" in request:
            request["PartitionCount"] = int(request["PartitionCount"])
        group = context.client("ec2").create_placement_group(
            **request,
            TagSpecifications=[
                {
                    "ResourceType": "placement-group",
                    "Tags": context.tag_list(properties.get("Tags")),
                }
            ],
        )["PlacementGroup"]
        return Created(name, {"GroupName": name, "GroupId": group["GroupId"]})


class LaunchTemplate(ResourceType):
    """A launch template; a change of its data makes a new version."""

    type = "AWS::EC2::LaunchTemplate"
    deletion = ("ec2", "DeleteLaunchTemplate", "LaunchTemplateId")
    properties = frozenset(
        {
            "LaunchTemplateData",
            "LaunchTemplateName",
            "TagSpecifications",
            "VersionDescription",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        tags = {
            tag["Key"]: tag["Value"]
            for specification in properties.get("TagSpecifications", [])
            for tag in specification["Tags"]
        }
        data = properties["LaunchTemplateData"]
        template = context.call(
            "ec2",
            "CreateLaunchTemplate",
            {
                "LaunchTemplateName": properties.get("LaunchTemplateName")
                or context.physical_name(125),
                "LaunchTemplateData": data,
                "VersionDescription": properties.get("VersionDescription", ""),
                "TagSpecifications": [
                    {"ResourceType": "launch-template", "Tags": context.tag_list(tags)}
                ],
            },
        )["LaunchTemplate"]
        context.begin(template["LaunchTemplateId"])
        self._compare(context, data)
        return Created(template["LaunchTemplateId"], self._attributes(template))

    @staticmethod
    def _compare(context: ResourceContext, data: dict[str, Any]) -> None:
        """Fail for data that the emulated EC2 did not keep, which nodes would silently lack."""
        versions = context.client("ec2").describe_launch_template_versions(
            LaunchTemplateId=context.state.physical_id, Versions=["$Latest"]
        )["LaunchTemplateVersions"]
        missing = lost(data, versions[0]["LaunchTemplateData"])
        if missing:
            raise ResourceFailure(
                f"The emulated EC2 did not keep {', '.join(missing)} of LaunchTemplateData"
            )

    @staticmethod
    def _attributes(template: dict[str, Any]) -> dict[str, str]:
        return {
            "LaunchTemplateId": template["LaunchTemplateId"],
            "DefaultVersionNumber": str(template["DefaultVersionNumber"]),
            "LatestVersionNumber": str(template["LatestVersionNumber"]),
        }

    def update(self, context: ResourceContext, old: Properties, new: Properties) -> Created | None:
        identity = str(context.state.physical_id)
        version = context.call(
            "ec2",
            "CreateLaunchTemplateVersion",
            {
                "LaunchTemplateId": identity,
                "LaunchTemplateData": new["LaunchTemplateData"],
                "VersionDescription": new.get("VersionDescription", ""),
            },
        )["LaunchTemplateVersion"]
        self._compare(context, new["LaunchTemplateData"])
        attributes = dict(context.state.attributes)
        attributes["LatestVersionNumber"] = str(version["VersionNumber"])
        return Created(identity, attributes)


class VpcEndpoint(ResourceType):
    """A gateway or interface endpoint."""

    type = "AWS::EC2::VPCEndpoint"
    deletion = ("ec2", "DeleteVpcEndpoints", "VpcEndpointIds")
    properties = frozenset(
        {
            "PolicyDocument",
            "PrivateDnsEnabled",
            "RouteTableIds",
            "SecurityGroupIds",
            "ServiceName",
            "SubnetIds",
            "Tags",
            "VpcEndpointType",
            "VpcId",
        }
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        # moto cannot delete an endpoint without an explicit type, so set EC2's default.
        request = {"VpcEndpointType": "Gateway", **_without(properties, "Tags")}
        endpoint = context.call("ec2", "CreateVpcEndpoint", request)
        found = endpoint["VpcEndpoint"]
        context.begin(found["VpcEndpointId"])
        _tag(context, found["VpcEndpointId"], properties)
        return Created(
            found["VpcEndpointId"],
            {
                "Id": found["VpcEndpointId"],
                "DnsEntries": [
                    f"{entry.get('HostedZoneId', '')}:{entry['DnsName']}"
                    for entry in found.get("DnsEntries", [])
                ],
                "NetworkInterfaceIds": found.get("NetworkInterfaceIds", []),
            },
        )

    def delete(self, context: ResourceContext) -> None:
        super().delete(context)
        ec2, ids = context.client("ec2"), [context.state.physical_id]
        while ec2.describe_vpc_endpoints(VpcEndpointIds=ids)["VpcEndpoints"][0]["State"] != (
            "deleted"
        ):
            time.sleep(_POLL_SECONDS)


class VpcCidrBlock(ResourceType):
    """An additional CIDR block of a VPC."""

    type = "AWS::EC2::VPCCidrBlock"
    deletion = ("ec2", "DisassociateVpcCidrBlock", "AssociationId")
    properties = frozenset({"CidrBlock", "VpcId"})

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        made = context.call("ec2", "AssociateVpcCidrBlock", properties)["CidrBlockAssociation"]
        return Created(made["AssociationId"], {"Id": made["AssociationId"]})
