"""Check the parts of the stack: state machine, table, bucket, image, alarms."""

from __future__ import annotations

import json
import re
from typing import Any

from botocore.exceptions import ClientError

from ..errors import error_code, unless_missing
from ..reading.kinds import RUN
from ..reading.records import GOOD
from ..reading.runs import Run
from ..reading.stack import Stack, paginated
from .check import Check, required

_RESTORE = "deploy the stack again with `sam build && sam deploy`"
# An image in ECR names its account and Region: account.dkr.ecr.region.amazonaws.com/name:tag.
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/"
    r"(?P<name>[^:@]+)(?::(?P<tag>[^@]+))?(?:@(?P<digest>.+))?"
)
_RUNS_LOOKED_THROUGH = 20


def stack_state(stack: Stack) -> Check:
    """Check the stack's state in CloudFormation."""
    if stack.status.endswith("_IN_PROGRESS"):
        return Check(
            "stack", "warning", f"{stack.name} is {stack.status}", "wait until it is complete"
        )
    if "ROLLBACK" in stack.status or stack.status.endswith("_FAILED"):
        return Check(
            "stack",
            "warning",
            f"{stack.name} is {stack.status}: the last change of it failed",
            "read the stack's events for the reason, and deploy it again",
        )
    return Check("stack", "ok", f"{stack.name}, {stack.status}")


def state_machine(stack: Stack) -> Check:
    """Check that the state machine can start a run."""
    arn = required(stack.outputs, "StateMachineArn")
    describe = stack.client("stepfunctions").describe_state_machine
    machine = unless_missing(describe, "StateMachineDoesNotExist", stateMachineArn=arn)
    if machine is None:
        return Check("state machine", "failed", f"there is no {arn}", _RESTORE)
    name, status = machine["name"], machine["status"]
    if status != "ACTIVE":
        return Check("state machine", "failed", f"{name} is {status}", _RESTORE)
    return Check("state machine", "ok", f"{name}, ACTIVE")


def table(stack: Stack) -> Check:
    """Check that the table and its index exist."""
    name = required(stack.outputs, "TableName")
    describe = stack.client("dynamodb").describe_table
    described = unless_missing(describe, "ResourceNotFoundException", TableName=name)
    if described is None:
        return Check("table", "failed", f"there is no table {name}", _RESTORE)
    description = described["Table"]
    indices = {index["IndexName"]: index for index in description.get("GlobalSecondaryIndexes", [])}
    if "runs" not in indices:
        return Check("table", "failed", f"{name} has no index runs", _RESTORE)
    state = description["TableStatus"]
    index_state = indices["runs"].get("IndexStatus", "ACTIVE")
    if (state, index_state) == ("ACTIVE", "ACTIVE"):
        return Check("table", "ok", f"{name}, ACTIVE")
    return Check(
        "table",
        "warning" if state == "UPDATING" else "failed",
        f"{name} is {state}, its index is {index_state}",
        "wait until both are ACTIVE",
    )


def bucket(stack: Stack) -> Check:
    """Check that the caller can reach the bucket."""
    try:
        stack.client("s3").head_bucket(Bucket=stack.bucket)
    except ClientError as error:
        # The answer to a HEAD request has no body, so the status is all there is.
        if error_code(error) == "403":
            return Check(
                "bucket",
                "unknown",
                f"these credentials may not call s3:ListBucket on {stack.bucket}",
                "allow it, or use a role that may",
            )
        if error_code(error) != "404":
            raise
        return Check("bucket", "failed", f"there is no bucket {stack.bucket}", _RESTORE)
    return Check("bucket", "ok", stack.bucket)


def image(stack: Stack) -> Check:
    """Check that the tools' image is where the nodes pull it from."""
    reference = required(stack.outputs, "ToolImage")
    registry = _ECR.fullmatch(reference)
    return _pulled_image(stack, reference) if registry is None else _ecr_image(stack, registry)


def _ecr_image(stack: Stack, registry: re.Match[str]) -> Check:
    name, tag, digest = registry["name"], registry["tag"], registry["digest"]
    which = {"imageDigest": digest} if digest else {"imageTag": tag or "latest"}
    called = f"{name}@{digest}" if digest else f"{name}:{tag or 'latest'}"
    described = unless_missing(
        stack.client("ecr", region_name=registry["region"]).describe_images,
        *("ImageNotFoundException", "RepositoryNotFoundException"),
        registryId=registry["account"],
        repositoryName=name,
        imageIds=[which],
    )
    if described is None:
        return Check(
            "image",
            "failed",
            f"{called} is not in ECR in {registry['region']}",
            "build it again: change ToolImage to a public image and back to build",
        )
    pushed = described["imageDetails"][0].get("imagePushedAt")
    return Check("image", "ok", f"{called} in ECR" + (f", pushed {pushed:%F}" if pushed else ""))


def _pulled_image(stack: Stack, reference: str) -> Check:
    """Check an image of another registry. The only proof is that a run's nodes have pulled it."""
    for run in stack.records(RUN, _RUNS_LOOKED_THROUGH):
        if run.status in GOOD - {"dry_run"} and _image_of(stack, run) == reference:
            return Check("image", "ok", f"{reference}; run {run.id} used it")
    return Check(
        "image",
        "unknown",
        f"{reference}, which no run has pulled yet",
        "nothing; the first run will show whether the nodes can pull it",
    )


def _image_of(stack: Stack, run: Run) -> str | None:
    content = stack.file(run.id, "plan.json")
    if content is None:
        return None
    document: Any = json.loads(content)
    return document.get("image") if isinstance(document, dict) else None


def alarms(stack: Stack) -> Check:
    """Check that none of the stack's alarms is in the ALARM state."""
    if stack.parameters.get("Observability") == "false":
        return Check("alarms", "ok", "none, by Observability=false")
    prefix, client = f"{stack.name}-Monitoring-", stack.client("cloudwatch")
    found = [*paginated(client, "describe_alarms", "MetricAlarms", AlarmNamePrefix=prefix)]
    sounding = [alarm for alarm in found if alarm["StateValue"] == "ALARM"]
    if not sounding:
        return Check("alarms", "ok", f"{len(found)} alarms, none sounds")
    reasons = "; ".join(alarm.get("AlarmDescription") or alarm["AlarmName"] for alarm in sounding)
    return Check(
        "alarms",
        "warning",
        f"{len(sounding)} of {len(found)} sound: {reasons}",
        "look at the dashboard (output DashboardUrl)",
    )
