"""Preflight: check the parameters against facts from AWS before the stack creates anything."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from rackrate import registry
from rackrate.aws import is_ipv6
from rackrate.errors import Fault, suppress_codes
from rackrate.stack.custom_resource import Answer
from rackrate.stack.existing_cluster import check_existing_cluster
from rackrate.stack.patience import Patience
from rackrate.stack.preflight import Facts, PreflightFailed, check_new_cluster, max_pods
from rackrate.stack.quotas import Quotas, Use, build_faults, free_plan_faults
from rackrate.stack.request import Request, Zones
from rackrate.stack.updates import (
    NESTED_STACKS,
    changes_cluster,
    is_of_earlier_release,
    replaces_node_groups,
    update_faults,
)
from rackrate_text.placement_groups import group_query, is_group_id
from rackrate_text.quotas import (
    COUNTED_INSTANCES,
    COUNTED_RESERVATIONS,
    ELASTIC_ADDRESSES,
    IMAGE_BUILDS,
    MOST_NODE_GROUPS,
    NAT_GATEWAYS_PER_ZONE,
    VPCS,
    Nodes,
    Vcpus,
    counted_types,
    divided,
    vcpu_use,
)
from rackrate_text.words import listed

Json = dict[str, Any]

logger = Logger(child=True)

#: The attribute `Warnings` when there is none: an output of a stack is not empty.
_NO_WARNING = "none"
_IPV6_WARNING = (
    "The cluster's pods have IPv6 addresses. Plans with tests of"
    f" {listed([name for name in registry.names() if registry.test_class(name).no_ipv6], 'or')} are"
    " refused."
)
#: The node groups that an arm can have, in the names of attributes.
_GROUP_NAMES = ("First", "Second", "Third", "Fourth")
#: States of NAT gateways that count (Amazon VPC user guide, "Amazon VPC quotas").
#: What the vCPUs of a deployment follow from, but for the instance type of its arms.
_MACHINES = operator.attrgetter(
    "arm_count", "node_count", "load_node_count", "load_type", "endpoint_type"
)
_COUNTED_GATEWAYS = ["pending", "available", "deleting"]


def serve_request(
    event: Mapping[str, Any],
    *,
    ec2: Any,
    eks: Any,
    quotas: Any,
    free_tier: Any,
    cloudformation: Any,
    patience: Patience,
) -> Answer:
    """Handle CloudFormation's request.

    Args:
        event: CloudFormation's request, with the properties of the two root templates.
        ec2: a boto3 client.
        eks: a boto3 client.
        quotas: a boto3 client of Service Quotas.
        free_tier: a boto3 client of AWS Free Tier.
        cloudformation: a boto3 client.
        patience: for the function's role, which may be seconds old.

    Returns:
        The two zones as physical id, so that an update finds the zones chosen before. With an
        existing cluster, the physical id is the cluster's name.

    Raises:
        PreflightFailed: the message has a line for each of the first faults.
    """
    if event["RequestType"] == "Delete":
        return Answer(event["PhysicalResourceId"])
    properties, old = event["ResourceProperties"], event.get("OldResourceProperties", {})
    request = Request.from_properties(properties)
    earlier = Zones.from_text(event.get("PhysicalResourceId", ""))
    if old and patience.ask(lambda: _is_rolled_back(event["StackId"], cloudformation)):
        return patience.ask(lambda: _answer_again(request, earlier, old, ec2=ec2, eks=eks))
    if is_of_earlier_release(old):
        old = patience.ask(lambda: _with_nested_parameters(event["StackId"], old, cloudformation))
    changed = update_faults(old, properties, earlier) if old else []
    if changed and changes_cluster(old, properties):
        raise PreflightFailed(changed)
    looked = _Looking(ec2, quotas, patience, account=event["StackId"].split(":")[4])
    if request.tool_image == "build" and old.get("ToolImage") != "build":
        changed += build_faults(looked.at_builds())
    if request.existing_cluster_name:
        return patience.ask(lambda: _existing(request, changed, looked.warnings, ec2=ec2, eks=eks))
    is_replaced = replaces_node_groups(old, properties)
    facts = patience.ask(lambda: _facts(request, old, ec2, is_replaced=is_replaced))
    if is_replaced or not old:
        changed += free_plan_faults(looked.at_plan(facts, free_tier))
    quota_values = looked.at_quotas(request, facts, old, is_replaced=is_replaced)
    zones, faults = check_new_cluster(request, replace(facts, quotas=quota_values), earlier)
    for warning in looked.warnings:
        logger.warning(warning)
    if changed or faults:
        raise PreflightFailed([*changed, *faults])
    cluster = patience.ask(lambda: _described(request.cluster_name, eks))
    return _answer(request, zones, looked.warnings, facts, cluster)


def _answer_again(
    request: Request, zones: Zones, old: Mapping[str, Any], *, ec2: Any, eks: Any
) -> Answer:
    """Answer without checks: these properties were accepted before.

    A refusal would leave the stack half-way.
    """
    if request.existing_cluster_name:
        return _of_existing(_described(request.existing_cluster_name, eks))
    facts, cluster = _facts(request, old, ec2), _described(request.cluster_name, eks)
    return _answer(request, zones, (), facts, cluster)


def _answer(
    request: Request, zones: Zones, warnings: Sequence[str], facts: Facts, cluster: Json | None
) -> Answer:
    sizes = _nodes_of_groups(request)
    of_arms, of_load = max_pods(request, facts.instance_type, facts.load_type)
    return Answer(
        str(zones),
        {
            "AvailabilityZone": zones.first,
            "OtherAvailabilityZone": zones.other,
            "ClusterArn": "",
            "ClusterSecurityGroupId": "",
            # Stacks that go back to an earlier release read this.
            "NodesOfGroups": ",".join(map(str, sizes)),
            **{
                f"NodesOf{name}Group": str(size)
                for name, size in zip(_GROUP_NAMES, sizes, strict=True)
            },
            "MaxPods": of_arms,
            "LoadMaxPods": of_load,
            "EncryptSecrets": "true" if _encrypts_secrets(request, cluster) else "false",
            "PlacementGroupIsId": "true" if is_group_id(request.existing_group) else "false",
            "EndpointArchitecture": _architecture(facts.endpoint_type),
            "ToolImageRepository": request.image_repository,
            "Warnings": " ".join(warnings) or _NO_WARNING,
        },
    )


def _architecture(described: Mapping[str, Any] | None) -> str:
    """The architecture of an instance type, as the names of EKS's images have it."""
    supported = described["ProcessorInfo"]["SupportedArchitectures"] if described else ()
    return "arm64" if "arm64" in supported else "x86_64"


def _encrypts_secrets(request: Request, cluster: Json | None) -> bool:
    """Whether the cluster's secrets are encrypted with a key of the user's.

    A cluster that exists stays as it is, because CloudFormation would replace it.
    """
    if cluster is None:
        return request.encryption_key != "aws"
    return any(each["provider"].get("keyArn") for each in cluster.get("encryptionConfig") or ())


def _with_nested_parameters(
    stack_id: str, old: Mapping[str, Any], cloudformation: Any
) -> dict[str, Any]:
    """The properties of the deployment before, and the parameters that its nested stacks had.

    CloudFormation updates those stacks after the preflight, so they still have them.
    """
    nested: dict[str, Any] = {}
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack_id)
    for resource in (each for page in pages for each in page["StackResourceSummaries"]):
        if resource["LogicalResourceId"] in NESTED_STACKS:
            named = {"StackName": resource["PhysicalResourceId"]}
            (stack,) = cloudformation.describe_stacks(**named)["Stacks"]
            nested |= {each["ParameterKey"]: each["ParameterValue"] for each in stack["Parameters"]}
    return {**nested, **old}


def _is_rolled_back(stack_id: str, cloudformation: Any) -> bool:
    """Whether CloudFormation takes an update of the stack back.

    It then sends an ordinary update with the old properties. Only the stack's status shows it.
    """
    (stack,) = cloudformation.describe_stacks(StackName=stack_id)["Stacks"]
    return bool(stack["StackStatus"].startswith("UPDATE_ROLLBACK"))


def _nodes_of_groups(request: Request) -> list[int]:
    """The nodes of each node group that an arm can have; 0 for those that it does not have."""
    sizes = divided(request.node_count, request.node_groups)
    return sizes + [0] * (MOST_NODE_GROUPS - len(sizes))


def _facts(
    request: Request, old: Mapping[str, Any], ec2: Any, *, is_replaced: bool = False
) -> Facts:
    instance_type, offered = _type(request.instance_type, ec2)
    load_type, load_offered = _type(request.load_type, ec2)
    endpoint_type, endpoint_offered = _type(request.endpoint_type, ec2)
    reserved = set(request.reservations.values())
    before = {old.get(name) for name in request.reservations}
    return Facts(
        instance_type=instance_type,
        # All zones, so that a message can say why a local zone, for example, cannot be used.
        zones=ec2.describe_availability_zones(AllAvailabilityZones=True)["AvailabilityZones"],
        offered=offered,
        load_type=load_type,
        load_offered=load_offered,
        endpoint_type=endpoint_type,
        endpoint_offered=endpoint_offered,
        reservations={id_: _reservation(id_, ec2) for id_ in reserved},
        held=frozenset() if is_replaced else frozenset(reserved & before),
        group=_group(request.existing_group, ec2),
    )


def _type(name: str, ec2: Any) -> tuple[Json | None, frozenset[str]]:
    """What EC2 reports of an instance type, and the zones that offer it."""
    if not name:
        return None, frozenset()
    named = [{"Name": "instance-type", "Values": [name]}]
    types = ec2.describe_instance_types(Filters=named)["InstanceTypes"]
    offerings = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=named
    )
    zones = (offer["Location"] for page in offerings for offer in page["InstanceTypeOfferings"])
    return types[0] if types else None, frozenset(zones)


class _Looking:
    """Looks at the account's quotas and its plan.

    What AWS does not report becomes a warning and stops nothing.
    """

    def __init__(self, ec2: Any, quotas: Any, patience: Patience, *, account: str) -> None:
        self._ec2, self._quotas, self._patience = ec2, quotas, patience
        self._account = account
        self.warnings: list[str] = []

    def at_quotas(
        self, request: Request, facts: Facts, old: Mapping[str, Any], *, is_replaced: bool
    ) -> Quotas:
        """The quotas of what the deployment makes; an update makes only what it changes.

        Args:
            request: the stack's parameters.
            facts: the facts from EC2.
            old: the properties of the deployment before; empty when the stack is created.
            is_replaced: whether new node groups start while the old ones exist.
        """
        had_nodes = (
            bool(old)
            and not is_replaced
            and _MACHINES(Request.from_properties({**old, "StackName": request.stack_name}))
            == _MACHINES(request)
        )
        makes_gateway = request.egress == "nat" and old.get("Egress") != "nat"
        vcpus = vpcs = addresses = gateways = None
        if facts.instance_type is not None and not had_nodes:
            nodes = _nodes(request, facts, is_replaced=is_replaced)
            vcpus = self._look(
                f"vCPUs (quota {listed(nodes.quota_codes)} of EC2)", lambda: self._vcpus(nodes)
            )
        if not old:
            vpcs = self._look(f"VPCs (quota {VPCS} of VPC)", self._vpcs)
        if makes_gateway:
            addresses = self._look(
                f"elastic IP addresses (quota {ELASTIC_ADDRESSES} of EC2)", self._addresses
            )
            gateways = self._look(
                f"NAT gateways (quota {NAT_GATEWAYS_PER_ZONE} of VPC)", self._nat_gateways
            )
        nat_gateway_quota, nat_gateways = gateways or (None, {})
        return Quotas(vcpus or (), vpcs, addresses, nat_gateways, nat_gateway_quota)

    def at_builds(self) -> dict[str, float]:
        """How many builds may run at once, by environment; one that is not known is missing."""
        values = {}
        for environment, code in IMAGE_BUILDS.items():
            what = f"concurrent builds in {environment} (quota {code} of CodeBuild)"
            value = self._look(what, lambda code=code: self._value("codebuild", code))  # type: ignore[misc]
            if value is not None:
                values[environment] = value
            if value == 1:
                self.warnings.append(
                    f"The preflight did not look for other builds in {environment}, where CodeBuild"
                    f" runs one at once (quota {code}). If one runs, the image's build waits, for 5"
                    " minutes at most, and then the deployment fails."
                )
        return values

    def at_plan(self, facts: Facts, free_tier: Any) -> dict[str, str]:
        """The instance types that the account's plan does not start, by parameter."""
        has_own_type = facts.endpoint_type != facts.instance_type
        types = {
            "InstanceType": facts.instance_type,
            "LoadInstanceType": facts.load_type,
            "EndpointInstanceType": facts.endpoint_type if has_own_type else None,
        }
        barred = {
            parameter: described["InstanceType"]
            for parameter, described in types.items()
            if described and not described["FreeTierEligible"]
        }
        if not barred:
            return {}
        ask = free_tier.get_account_plan_state
        plan = self._look("account's plan", ask, "it is the Free plan")
        return barred if plan and plan["accountPlanType"] == "FREE" else {}

    def _look[Found](
        self, what: str, question: Callable[[], Found], risk: str = "the quota is too small"
    ) -> Found | None:
        try:
            return self._patience.ask(question)
        except (ClientError, BotoCoreError) as error:
            self.warnings.append(
                f"The preflight did not check the {what}: {error}. If {risk}, the deployment fails"
                " later."
            )
            return None

    def _vcpus(self, nodes: Nodes) -> tuple[Vcpus, ...]:
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
        types = sorted(counted_types(instances, reservations, nodes))
        named = [{"Name": "instance-type", "Values": types}]
        described = self._listed("describe_instance_types", "InstanceTypes", Filters=named)
        vcpus = {one["InstanceType"]: int(one["VCpuInfo"]["DefaultVCpus"]) for one in described}
        return tuple(
            vcpu_use(
                nodes,
                code,
                self._value("ec2", code),
                instances,
                reservations,
                vcpus,
                self._account,
            )
            for code in nodes.quota_codes
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
        quota = {"ServiceCode": service, "QuotaCode": code}
        with suppress_codes("NoSuchResourceException"):
            return float(self._quotas.get_service_quota(**quota)["Quota"]["Value"])
        response = self._quotas.get_aws_default_service_quota(**quota)
        return float(response["Quota"]["Value"])


def _nodes(request: Request, facts: Facts, *, is_replaced: bool) -> Nodes:
    """The nodes that the deployment makes. A type that EC2 does not know has no vCPUs."""
    knows_load_type = not request.load_type or facts.load_type is not None
    return Nodes(
        # Nodes that run until the new ones do make no room for these.
        "" if is_replaced else request.stack_name,
        request.instance_type,
        request.node_count,
        (request.treatment_reservation, request.baseline_reservation)[: request.arm_count],
        request.load_type,
        request.load_node_count if knows_load_type else 0,
        request.endpoint_type if facts.endpoint_type is not None else "",
    )


def _reservation(id_: str, ec2: Any) -> Json | None:
    try:
        response = ec2.describe_capacity_reservations(CapacityReservationIds=[id_])
    except ClientError as error:
        if error.response["Error"]["Code"].startswith("InvalidCapacityReservationId"):
            return None
        raise
    reservations: list[Json] = response["CapacityReservations"]
    return reservations[0] if reservations else None


def _group(named: str, ec2: Any) -> Json | None:
    """A placement group by its name or id; None if it is empty, or if EC2 does not know it."""
    if not named:
        return None
    with suppress_codes("InvalidPlacementGroup.Unknown"):
        groups: list[Json] = ec2.describe_placement_groups(**group_query(named))["PlacementGroups"]
        return groups[0] if groups else None
    return None


def _existing(
    request: Request, changed: Sequence[Fault], warnings: Sequence[str], *, ec2: Any, eks: Any
) -> Answer:
    cluster = _described(request.existing_cluster_name, eks)
    subnets: list[Json] = []
    if request.existing_subnet_ids:
        filters = [{"Name": "subnet-id", "Values": list(request.existing_subnet_ids)}]
        subnets = ec2.describe_subnets(Filters=filters)["Subnets"]
    faults = check_existing_cluster(request, cluster, {s["SubnetId"]: s for s in subnets})
    if changed or faults:
        raise PreflightFailed([*changed, *faults])
    return _of_existing(cluster, warnings)


def _described(name: str, eks: Any) -> Json | None:
    """A cluster; None when no cluster has that name, or it is empty."""
    if not name:
        return None
    with suppress_codes("ResourceNotFoundException"):
        cluster: Json = eks.describe_cluster(name=name)["cluster"]
        return cluster
    return None


def _of_existing(cluster: Json | None, warnings: Sequence[str] = ()) -> Answer:
    if cluster is None:
        raise LookupError("the existing cluster does not exist any more")
    network = cluster["resourcesVpcConfig"]
    ipv6 = [_IPV6_WARNING] if is_ipv6(cluster) else []
    return Answer(
        cluster["name"],
        {
            "AvailabilityZone": "",
            "OtherAvailabilityZone": "",
            "ClusterArn": cluster["arn"],
            "ClusterSecurityGroupId": network.get("clusterSecurityGroupId", ""),
            "NodesOfGroups": "",
            "MaxPods": "",
            "LoadMaxPods": "",
            "PlacementGroupIsId": "false",
            "Warnings": " ".join([*ipv6, *warnings]) or _NO_WARNING,
        },
    )
