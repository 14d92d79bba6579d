"""Check the account's quotas against what the stack needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rackrate_text.placement_groups import group_query
from rackrate_text.quotas import (
    COUNTED_INSTANCES,
    COUNTED_RESERVATIONS,
    Nodes,
    Vcpus,
    counted_types,
    request_command,
    vcpu_use,
)

from ..errors import unless_missing
from ..reading.stack import Stack, paginated
from .check import Check, required

SPREAD_LIMIT = 7
"""Maximum of running instances of a spread group in a zone (EC2 user guide, placement groups)."""

LEAST_CONCURRENCY = 10
"""The concurrency quota of a new account. A run and the stack's rules invoke fewer at once."""


_VCPUS = "vCPU quota"
_GROUP = "placement group"
_ARMS = ("Treatment", "Baseline")


def vcpus(stack: Stack) -> Iterator[Check]:
    """Check that the account may run all nodes of the stack at once."""
    if stack.parameters.get("ExistingClusterName"):
        yield Check(_VCPUS, "ok", "the nodes are those of a cluster that exists")
        return
    arms_type = required(stack.parameters, "InstanceType")
    has_instance = stack.parameters.get("EndpointInstance", "none") != "none"
    nodes = Nodes(
        stack.name,
        arms_type,
        int(required(stack.parameters, "NodeCount")),
        [
            stack.parameters.get(f"{arm}CapacityReservationId", "")
            for arm in _ARMS
            if f"{arm}NodeGroups" in stack.outputs
        ],
        stack.parameters.get("LoadInstanceType", ""),
        int(stack.parameters.get("LoadNodeCount", "0")),
        (stack.parameters.get("EndpointInstanceType") or arms_type) if has_instance else "",
    )
    ec2 = stack.client("ec2")
    launched = [{"Name": "instance-state-name", "Values": list(COUNTED_INSTANCES)}]
    instances = [
        instance
        for reservation in paginated(ec2, "describe_instances", "Reservations", Filters=launched)
        for instance in reservation["Instances"]
    ]
    held = [{"Name": "state", "Values": list(COUNTED_RESERVATIONS)}]
    listed = ("describe_capacity_reservations", "CapacityReservations")
    reservations = list(paginated(ec2, *listed, Filters=held))
    types = sorted(counted_types(instances, reservations, nodes))
    named = [{"Name": "instance-type", "Values": types}]
    vcpus_of = {
        type_["InstanceType"]: int(type_["VCpuInfo"]["DefaultVCpus"])
        for type_ in paginated(ec2, "describe_instance_types", "InstanceTypes", Filters=named)
    }
    account = stack.outputs["StateMachineArn"].split(":")[4]
    for code in nodes.quota_codes:
        quota = _quota(stack, code)
        if quota is None:
            yield Check(
                _VCPUS,
                "unknown",
                f"Service Quotas does not report {code} here",
                f"look for {code} in the Service Quotas console",
            )
            continue
        yield vcpu_check(vcpu_use(nodes, code, quota, instances, reservations, vcpus_of, account))


def vcpu_check(use: Vcpus) -> Check:
    """The finding in words."""
    code = use.code
    finding = (
        f"{use.in_use} of {use.quota:g} vCPUs are in use; the stack has {use.nodes}, which"
        f" need {use.needed} and have {use.of_nodes}"
    )
    if use.suffices:
        return Check(_VCPUS, "ok", finding)
    return Check(
        _VCPUS,
        "failed",
        finding,
        f"ask Service Quotas for {use.needed_quota} or more"
        f" ({request_command('ec2', code, use.needed_quota)}), or deploy fewer or smaller nodes",
    )


def _quota(stack: Stack, code: str) -> float | None:
    """The account's value; AWS's default if nobody asked for more; None for an unknown quota."""
    client, request = stack.client("service-quotas"), {"ServiceCode": "ec2", "QuotaCode": code}
    for ask in (client.get_service_quota, client.get_aws_default_service_quota):
        answer = unless_missing(ask, "NoSuchResourceException", **request)
        if answer is not None:
            return float(answer["Quota"]["Value"])
    return None


def placement_group(stack: Stack) -> Check:
    """Check that the treatment's placement group exists and is large enough."""
    parameters = stack.parameters
    if parameters.get("ExistingClusterName"):
        return Check(_GROUP, "ok", "that of the nodes of a cluster that exists")
    if parameters.get("TreatmentStrategy") == "none":
        return Check(_GROUP, "ok", "none, by TreatmentStrategy=none")
    existing = parameters.get("ExistingPlacementGroup")
    own: Mapping[str, Any] = {"Filters": [{"Name": "tag:rackrate:stack", "Values": [stack.name]}]}
    query = group_query(existing) if existing else own
    describe = stack.client("ec2").describe_placement_groups
    described = unless_missing(describe, "InvalidPlacementGroup.Unknown", **query)
    if described is None or not described["PlacementGroups"]:
        return Check(
            _GROUP,
            "failed",
            f"EC2 does not know {existing or 'one of this stack'}",
            "deploy the stack again with `sam build && sam deploy`",
        )
    return group_check(described["PlacementGroups"][0], parameters)


def group_check(group: Mapping[str, Any], parameters: Mapping[str, str]) -> Check:
    """Turn EC2's description of the placement group into a finding for these parameters."""
    finding = f"{group['GroupName']}, {group['Strategy']}, {group['State']}"
    if group["State"] != "available":
        return Check(_GROUP, "failed", finding, "wait until it is available, or deploy again")
    if group["Strategy"] == "spread":
        nodes = int(required(parameters, "NodeCount"))
        finding += f"; {nodes} of at most {SPREAD_LIMIT} instances in a zone"
        if nodes > SPREAD_LIMIT:
            return Check(_GROUP, "failed", finding, f"set NodeCount to {SPREAD_LIMIT} or less")
    return Check(_GROUP, "ok", finding)


def concurrency(stack: Stack) -> Check:
    """Check that Lambda's concurrency quota suffices for a run."""
    name = "Lambda concurrency"
    limits = stack.client("lambda").get_account_settings()["AccountLimit"]
    available = int(limits["UnreservedConcurrentExecutions"])
    finding = f"{available} at once, for all functions of the account"
    if available >= LEAST_CONCURRENCY:
        return Check(name, "ok", finding)
    return Check(
        name,
        "warning",
        finding,
        "ask for more concurrent executions (L-B99A9384) in the Service Quotas console",
    )
