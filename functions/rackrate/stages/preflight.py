"""Preflight: check the parameters against facts from AWS before the stack creates anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from rackrate.stack.custom_resource import Answer
from rackrate.stack.preflight import (
    Facts,
    PreflightFailed,
    Request,
    Zones,
    check_existing_cluster,
    check_new_cluster,
)

Json = dict[str, Any]


def serve_request(event: Mapping[str, Any], *, ec2: Any, eks: Any) -> Answer:
    """Handle CloudFormation's request.

    Args:
        event: CloudFormation's request, with the properties in template.yaml.
        ec2: a boto3 client.
        eks: a boto3 client.

    Returns:
        The two zones as physical id, so that an update finds the zones chosen before. With an
        existing cluster, the physical id is the cluster's name.

    Raises:
        PreflightFailed: the message has every fault.
    """
    if event["RequestType"] == "Delete":
        return Answer(event["PhysicalResourceId"])
    request = Request.from_properties(event["ResourceProperties"])
    if request.existing_cluster_name:
        return _existing(request, ec2=ec2, eks=eks)
    earlier = Zones.from_text(event.get("PhysicalResourceId", ""))
    old = event.get("OldResourceProperties", {})
    zones, faults = check_new_cluster(request, _facts(request, old, ec2), earlier)
    if faults:
        raise PreflightFailed(faults)
    return Answer(
        str(zones),
        {
            "AvailabilityZone": zones.first,
            "OtherAvailabilityZone": zones.other,
            "ClusterArn": "",
            "ClusterSecurityGroupId": "",
            "VpcId": "",
        },
    )


def _facts(request: Request, old: Mapping[str, Any], ec2: Any) -> Facts:
    named = [{"Name": "instance-type", "Values": [request.instance_type]}]
    types = ec2.describe_instance_types(Filters=named)["InstanceTypes"]
    offerings = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=named
    )
    asked = set(request.reservations.values())
    before = {old.get(name) for name in request.reservations}
    return Facts(
        instance_type=types[0] if types else None,
        # All zones, so that a message can say why a local zone, for example, cannot be used.
        zones=ec2.describe_availability_zones(AllAvailabilityZones=True)["AvailabilityZones"],
        offered=frozenset(
            offer["Location"] for page in offerings for offer in page["InstanceTypeOfferings"]
        ),
        reservations={id_: _reservation(id_, ec2) for id_ in asked},
        held=frozenset(asked & before),
        group=_group(request.existing_group, ec2) if request.existing_group else None,
    )


def _reservation(id_: str, ec2: Any) -> Json | None:
    try:
        answer = ec2.describe_capacity_reservations(CapacityReservationIds=[id_])
    except ClientError as error:
        if error.response["Error"]["Code"].startswith("InvalidCapacityReservationId"):
            return None
        raise
    found: list[Json] = answer["CapacityReservations"]
    return found[0] if found else None


def _group(name: str, ec2: Any) -> Json | None:
    found: list[Json] = ec2.describe_placement_groups(
        Filters=[{"Name": "group-name", "Values": [name]}]
    )["PlacementGroups"]
    return found[0] if found else None


def _existing(request: Request, *, ec2: Any, eks: Any) -> Answer:
    cluster: Json | None = None
    subnets: list[Json] = []
    try:
        cluster = eks.describe_cluster(name=request.existing_cluster_name)["cluster"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
    if request.existing_subnet_ids:
        wanted = [{"Name": "subnet-id", "Values": list(request.existing_subnet_ids)}]
        subnets = ec2.describe_subnets(Filters=wanted)["Subnets"]
    faults = check_existing_cluster(request, cluster, {s["SubnetId"]: s for s in subnets})
    if faults or cluster is None:
        raise PreflightFailed(faults)
    network = cluster["resourcesVpcConfig"]
    return Answer(
        request.existing_cluster_name,
        {
            "AvailabilityZone": "",
            "OtherAvailabilityZone": "",
            "ClusterArn": cluster["arn"],
            "ClusterSecurityGroupId": network.get("clusterSecurityGroupId", ""),
            "VpcId": network["vpcId"],
        },
    )
