"""Preflight: check the parameters against facts from AWS before the stack creates anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from rackrate.stack.custom_resource import Answer
from rackrate.stack.patience import Patience
from rackrate.stack.preflight import (
    Facts,
    PreflightFailed,
    Request,
    Zones,
    check_existing_cluster,
    check_new_cluster,
)
from rackrate.stack.quotas import Quotas, Use
from rackrate_text.quotas import (
    COUNTED_INSTANCES,
    COUNTED_RESERVATIONS,
    DEFAULT_NODES_PER_GROUP,
    ELASTIC_ADDRESSES,
    MOST_NODE_GROUPS,
    NAT_GATEWAYS_PER_ZONE,
    NODES_PER_GROUP,
    VPCS,
    Nodes,
    Vcpus,
    counted_types,
    divided,
    quota_code,
    vcpu_use,
)

Json = dict[str, Any]

logger = Logger(child=True)

#: The attribute `Warnings` when there is none: an output of a stack is not empty.
_NO_WARNING = "none"
#: States of NAT gateways that count (Amazon VPC user guide, "Amazon VPC quotas").
_COUNTED_GATEWAYS = ["pending", "available", "deleting"]


def serve_request(
    event: Mapping[str, Any], *, ec2: Any, eks: Any, quotas: Any, patience: Patience
) -> Answer:
    """Handle CloudFormation's request.

    Args:
        event: CloudFormation's request, with the properties in template.yaml.
        ec2: a boto3 client.
        eks: a boto3 client.
        quotas: a boto3 client of Service Quotas.
        patience: for the function's role, which may be seconds old.

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
        return patience.ask(lambda: _existing(request, ec2=ec2, eks=eks))
    earlier = Zones.from_text(event.get("PhysicalResourceId", ""))
    old = event.get("OldResourceProperties", {})
    facts = patience.ask(lambda: _facts(request, old, ec2))
    looked = _Looking(ec2, quotas, patience, account=event["StackId"].split(":")[4])
    facts = replace(facts, quotas=looked.at_quotas(request, facts, old))
    zones, faults = check_new_cluster(request, facts, earlier)
    for warning in looked.warnings:
        logger.warning(warning)
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
            "NodesOfGroups": ",".join(map(str, _nodes_of_groups(request))),
            "Warnings": " ".join(looked.warnings) or _NO_WARNING,
        },
    )


def _nodes_of_groups(request: Request) -> list[int]:
    """The nodes of each node group that an arm can have; 0 for those that it does not have."""
    sizes = divided(request.node_count, request.node_groups_per_arm)
    return sizes + [0] * (MOST_NODE_GROUPS - len(sizes))


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


class _Looking:
    """Looks at the account's quotas. What AWS does not tell becomes a warning and stops nothing."""

    def __init__(self, ec2: Any, quotas: Any, patience: Patience, *, account: str) -> None:
        self._ec2, self._quotas, self._patience = ec2, quotas, patience
        self._account = account
        self.warnings: list[str] = []

    def at_quotas(self, request: Request, facts: Facts, old: Mapping[str, Any]) -> Quotas:
        """The quotas of what the deployment makes; an update makes only what it changes.

        Args:
            request: the stack's parameters.
            facts: the facts from EC2.
            old: the properties of the deployment before; empty when the stack is created.
        """
        had_cluster = bool(old) and not old["ExistingClusterName"]
        had_nodes = had_cluster and (old["InstanceType"], int(old["NodeCount"])) == (
            request.instance_type,
            request.node_count,
        )
        makes_gateway = request.egress == "nat" and not (had_cluster and old["Egress"] == "nat")
        vcpus = nodes_per_group = vpcs = addresses = gateways = None
        if facts.instance_type is not None and not had_nodes:
            vcpus = self._look(
                f"vCPUs (quota {quota_code(request.instance_type)} of EC2)",
                lambda: self._vcpus(request),
            )
        if request.node_count > request.node_groups_per_arm * DEFAULT_NODES_PER_GROUP:
            nodes_per_group = self._look(
                f"nodes of a node group (quota {NODES_PER_GROUP} of EKS)",
                lambda: self._value("eks", NODES_PER_GROUP),
            )
        if not had_cluster:
            vpcs = self._look(f"VPCs (quota {VPCS} of VPC)", self._vpcs)
        if makes_gateway:
            addresses = self._look(
                f"elastic IP addresses (quota {ELASTIC_ADDRESSES} of EC2)", self._addresses
            )
            gateways = self._look(
                f"NAT gateways (quota {NAT_GATEWAYS_PER_ZONE} of VPC)", self._nat_gateways
            )
        nat_gateway_quota, nat_gateways = gateways or (None, {})
        return Quotas(vcpus, nodes_per_group, vpcs, addresses, nat_gateways, nat_gateway_quota)

    def _look[Found](self, what: str, question: Callable[[], Found]) -> Found | None:
        try:
            return self._patience.ask(question)
        except (ClientError, BotoCoreError) as error:
            self.warnings.append(
                f"The preflight did not compare the {what} with what is in use: {error}. If the"
                " quota is too small, the deployment fails later."
            )
            return None

    def _vcpus(self, request: Request) -> Vcpus:
        instances = [
            instance
            for reservation in self._listed(
                "describe_instances",
                "Reservations",
                Filters=[{"Name": "instance-state-name", "Values": list(COUNTED_INSTANCES)}],
            )
            for instance in reservation["Instances"]
        ]
        reservations = self._listed(
            "describe_capacity_reservations",
            "CapacityReservations",
            Filters=[{"Name": "state", "Values": list(COUNTED_RESERVATIONS)}],
        )
        types = sorted(counted_types(instances, reservations, request.instance_type))
        named = [{"Name": "instance-type", "Values": types}]
        described = self._listed("describe_instance_types", "InstanceTypes", Filters=named)
        return vcpu_use(
            Nodes(
                request.stack_name,
                request.instance_type,
                request.node_count,
                (request.treatment_reservation, request.baseline_reservation),
            ),
            self._value("ec2", quota_code(request.instance_type)),
            instances,
            reservations,
            {one["InstanceType"]: int(one["VCpuInfo"]["DefaultVCpus"]) for one in described},
            self._account,
        )

    def _vpcs(self) -> Use:
        return Use(self._value("vpc", VPCS), len(self._listed("describe_vpcs", "Vpcs")))

    def _addresses(self) -> Use:
        addresses = self._ec2.describe_addresses()["Addresses"]
        return Use(self._value("ec2", ELASTIC_ADDRESSES), len(addresses))

    def _nat_gateways(self) -> tuple[float, Mapping[str, int]]:
        """The quota of a zone, and the number of gateways by zone."""
        counted = [{"Name": "state", "Values": _COUNTED_GATEWAYS}]
        gateways = self._listed("describe_nat_gateways", "NatGateways", Filters=counted)
        zones = {
            subnet["SubnetId"]: subnet["AvailabilityZone"]
            for subnet in self._listed("describe_subnets", "Subnets")
        }
        there = Counter(zones.get(gateway["SubnetId"], "") for gateway in gateways)
        return self._value("vpc", NAT_GATEWAYS_PER_ZONE), there

    def _listed(self, operation: str, key: str, **arguments: Any) -> list[Json]:
        pages = self._ec2.get_paginator(operation).paginate(**arguments)
        return [one for page in pages for one in page[key]]

    def _value(self, service: str, code: str) -> float:
        """The account's value of a quota; AWS's default if nobody asked for more."""
        wanted = {"ServiceCode": service, "QuotaCode": code}
        try:
            found = self._quotas.get_service_quota(**wanted)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchResourceException":
                raise
            found = self._quotas.get_aws_default_service_quota(**wanted)
        return float(found["Quota"]["Value"])


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
            "NodesOfGroups": "",
            "Warnings": _NO_WARNING,
        },
    )
