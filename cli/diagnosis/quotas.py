"""Check the account's quotas against what the stack needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from rackrate_text.quotas import quota_code

from ..errors import error_code
from ..stack import Stack
from .check import Check, told

SPREAD_LIMIT = 7
"""Maximum of running instances of a spread group in a zone (EC2 user guide, placement groups)."""

LEAST_CONCURRENCY = 10
"""The concurrency quota of a new account. A run and the stack's rules invoke fewer at once."""


_GROUP = "placement group"


@dataclass(frozen=True)
class Vcpus:
    """vCPUs under one quota: the quota, those running, the stack's part of these, and its need."""

    quota: float
    running: int
    of_stack: int
    needed: int

    @property
    def suffices(self) -> bool:
        """Whether the quota has room for all nodes of the stack."""
        return max(0, self.needed - self.of_stack) <= self.quota - self.running


def vcpus(stack: Stack) -> Check:
    """Check that the account may run all nodes of the stack at once."""
    if stack.parameters.get("ExistingClusterName"):
        return Check("vCPU quota", "ok", "the nodes are those of a cluster that exists")
    ec2 = stack.client("ec2")
    instance_type = told(stack.parameters, "InstanceType")
    code = quota_code(instance_type)
    quota = _quota(stack, code)
    if quota is None:
        return Check(
            "vCPU quota",
            "unknown",
            f"Service Quotas does not tell {code} here",
            f"look for {code} in the Service Quotas console",
        )
    running = _running(ec2, code)
    each = _vcpus_by_type(ec2, {instance_type, *(i["InstanceType"] for i in running)})
    found = Vcpus(
        quota=quota,
        running=sum(each[i["InstanceType"]] for i in running),
        of_stack=sum(each[i["InstanceType"]] for i in running if _is_of(i, stack.name)),
        needed=2 * int(told(stack.parameters, "NodeCount")) * each[instance_type],
    )
    return vcpu_check(found, code, instance_type)


def vcpu_check(found: Vcpus, code: str, instance_type: str) -> Check:
    """The finding in words."""
    said = (
        f"{found.running} of {found.quota:g} vCPUs run; the stack's nodes ({instance_type}) need"
        f" {found.needed} and have {found.of_stack}"
    )
    if found.suffices:
        return Check("vCPU quota", "ok", said)
    return Check(
        "vCPU quota",
        "failed",
        said,
        f"ask for more of {code} in the Service Quotas console, or deploy fewer or smaller nodes",
    )


def _quota(stack: Stack, code: str) -> float | None:
    try:
        found = stack.client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=code)
    except ClientError as error:
        if error_code(error) == "NoSuchResourceException":
            return None
        raise
    return float(found["Quota"]["Value"])


def _running(ec2: Any, code: str) -> list[Mapping[str, Any]]:
    """The instances that a quota counts: On-Demand, pending or running."""
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    )
    return [
        instance
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
        if "InstanceLifecycle" not in instance and quota_code(instance["InstanceType"]) == code
    ]


def _vcpus_by_type(ec2: Any, types: Iterable[str]) -> dict[str, int]:
    """The vCPUs that each type counts for: its default, even if a launch chooses fewer CPUs."""
    pages = ec2.get_paginator("describe_instance_types").paginate(
        Filters=[{"Name": "instance-type", "Values": sorted(types)}]
    )
    return {
        found["InstanceType"]: int(found["VCpuInfo"]["DefaultVCpus"])
        for page in pages
        for found in page["InstanceTypes"]
    }


def _is_of(instance: Mapping[str, Any], stack_name: str) -> bool:
    tags: Iterable[Mapping[str, str]] = instance.get("Tags") or ()
    return any(tag["Key"] == "rackrate:stack" and tag["Value"] == stack_name for tag in tags)


def placement_group(stack: Stack) -> Check:
    """Check that the treatment's placement group exists and is large enough."""
    parameters = stack.parameters
    if parameters.get("ExistingClusterName"):
        return Check(_GROUP, "ok", "that of the nodes of a cluster that exists")
    if parameters.get("TreatmentStrategy") == "none":
        return Check(_GROUP, "ok", "none, by TreatmentStrategy=none")
    existing = parameters.get("ExistingPlacementGroup")
    by = ("group-name", existing) if existing else ("tag:rackrate:stack", stack.name)
    groups = stack.client("ec2").describe_placement_groups(
        Filters=[{"Name": by[0], "Values": [by[1]]}]
    )["PlacementGroups"]
    if not groups:
        return Check(
            _GROUP,
            "failed",
            f"there is none whose {by[0]} is {by[1]}",
            "deploy the stack again with `sam build && sam deploy`",
        )
    return group_check(groups[0], parameters)


def group_check(group: Mapping[str, Any], parameters: Mapping[str, str]) -> Check:
    """Turn EC2's description of the placement group into a finding for these parameters."""
    said = f"{group['GroupName']}, {group['Strategy']}, {group['State']}"
    if group["State"] != "available":
        return Check(_GROUP, "failed", said, "wait until it is available, or deploy again")
    if group["Strategy"] == "spread" and parameters.get("SpreadLevel", "rack") == "rack":
        nodes = int(told(parameters, "NodeCount"))
        said += f"; {nodes} of at most {SPREAD_LIMIT} instances in a zone"
        if nodes > SPREAD_LIMIT:
            return Check(_GROUP, "failed", said, f"set NodeCount to {SPREAD_LIMIT} or less")
    return Check(_GROUP, "ok", said)


def concurrency(stack: Stack) -> Check:
    """Check that Lambda's concurrency quota suffices for a run."""
    name = "Lambda concurrency"
    limits = stack.client("lambda").get_account_settings()["AccountLimit"]
    left = int(limits["UnreservedConcurrentExecutions"])
    said = f"{left} at once, for all functions of the account"
    if left >= LEAST_CONCURRENCY:
        return Check(name, "ok", said)
    return Check(
        name,
        "warning",
        said,
        "ask for more concurrent executions (L-B99A9384) in the Service Quotas console",
    )
