"""Check how the last runs ended, which runs hang, and what earlier stacks left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rackrate_text.words import counted

from ..following.watch import seconds_since
from ..reading.kinds import RUN
from ..reading.runs import Run
from ..reading.stack import Stack, paginated
from .check import Check, required

LOOKED_AT = 20
"""Number of runs to check, the newest ones."""

OVERDUE_FACTOR = 2
OVERDUE_GRACE_SECONDS = 1800
"""The limits of the stack's hourly sweep: twice the expected time and half an hour."""


def last_runs(stack: Stack) -> Check:
    """Check that the last run ended well and that no run hangs."""
    return runs_check(stack.records(RUN, LOOKED_AT), datetime.now(UTC))


def runs_check(runs: Iterable[Run], now: datetime) -> Check:
    """Turn the newest runs into a finding. Dry runs and refused plans do not count."""
    name = "last runs"
    real = [run for run in runs if run.status not in {"dry_run", "invalid"}]
    if not real:
        return Check(name, "ok", "none yet")
    late = [run for run in real if not run.is_over and _is_overdue(run, now)]
    if late:
        names = ", ".join(run.id for run in late)
        return Check(
            name,
            "warning",
            f"should have ended long ago: {names}",
            "stop them in the Step Functions console; the hourly sweep removes what is left",
        )
    ended = [run for run in real if run.is_over]
    if ended and ended[0].status == "failed":
        return Check(
            name,
            "warning",
            f"the last one, {ended[0].id}, failed ({ended[0].error or 'no error given'})",
            f"`rackrate show {ended[0].id}` shows why",
        )
    going = len(real) - len(ended)
    bad = sum(run.status in {"failed", "timed_out"} for run in ended)
    text = f"{len(ended)} ended, {bad} of them badly" if bad else f"{len(ended)} ended, none badly"
    return Check(name, "ok", text + (f"; {going} going on" if going else ""))


def _is_overdue(run: Run, now: datetime) -> bool:
    allowed = OVERDUE_FACTOR * (run.expected_seconds or 0.0) + OVERDUE_GRACE_SECONDS
    return seconds_since(run.started_at, now) > allowed


def leftovers(stack: Stack) -> Check:
    """Check that nothing has this stack's tag without belonging to the stack."""
    mappings = paginated(
        stack.client("resourcegroupstaggingapi"),
        "get_resources",
        "ResourceTagMappingList",
        TagFilters=[{"Key": "rackrate:stack", "Values": [stack.name]}],
        ResourceTypeFilters=["dynamodb:table", "s3"],
    )
    arns = [mapping["ResourceARN"] for mapping in mappings]
    own = {required(stack.outputs, "TableName"), stack.bucket}
    old = [name for arn in arns if (name := arn.rpartition("/")[2].rpartition(":")[2]) not in own]
    return leftovers_check(old, _strays(stack))


def _strays(stack: Stack) -> list[str]:
    """Instances with the stack's tag that neither are the stack's own nor in a node group of it."""
    cluster = required(stack.outputs, "ClusterName")
    eks, ec2 = stack.client("eks"), stack.client("ec2")
    groups = set(paginated(eks, "list_nodegroups", "nodegroups", clusterName=cluster))
    filters = [
        {"Name": "tag:rackrate:stack", "Values": [stack.name]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "stopped"]},
    ]
    return [
        instance["InstanceId"]
        for reservation in paginated(ec2, "describe_instances", "Reservations", Filters=filters)
        for instance in reservation["Instances"]
        if (
            _tag(instance, "eks:cluster-name") != cluster
            or _tag(instance, "eks:nodegroup-name") not in groups
        )
        and instance.get("PrivateIpAddress") != stack.outputs.get("EndpointAddress", "none")
    ]


def _tag(instance: Mapping[str, Any], key: str) -> str | None:
    return next((tag["Value"] for tag in instance.get("Tags") or () if tag["Key"] == key), None)


def leftovers_check(old: list[str], strays: list[str]) -> Check:
    """Turn into a finding: tables and buckets of earlier stacks of this name, stray instances."""
    findings, remedies = [], []
    if strays:
        findings.append(f"instances of no node group: {', '.join(strays)}")
        remedies.append("terminate the instances")
    if old:
        findings.append(f"results of earlier stacks of this name: {', '.join(old)}")
        remedies.append("delete the results if nobody needs them")
    if not findings:
        return Check("leftovers", "ok", "none")
    return Check("leftovers", "warning", "; ".join(findings), "; ".join(remedies))


def log_groups(stack: Stack) -> Check:
    """Check that the logs of control planes expire, also those of deleted stacks of this name."""
    prefix = f"/aws/eks/{stack.name}-"
    logs = stack.client("logs")
    groups = paginated(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix)
    return log_groups_check(groups)


def log_groups_check(described: Iterable[Mapping[str, Any]]) -> Check:
    """Turn CloudWatch's description of the control planes' log groups into a finding.

    EKS recreates a missing group when it writes to it, and then without retention.
    """
    name, groups = "control plane logs", list(described)
    lasting = [group["logGroupName"] for group in groups if not group.get("retentionInDays")]
    if not lasting:
        return Check(name, "ok", f"{counted(len(groups), 'log group')} with a retention")
    return Check(
        name,
        "warning",
        f"never expire: {', '.join(lasting)}",
        "delete them or set their retention; EKS recreated them after somebody deleted them",
    )
