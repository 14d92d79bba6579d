"""The project's own stack in the lab: built and packaged by the SAM CLI, created and watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from lab.errors import LabError

REPOSITORY = Path(__file__).resolve().parents[1]
STACK = "rackrate"
BUILD_DIRECTORY = REPOSITORY / ".aws-sam" / "build"
SAM_SETTINGS = REPOSITORY / "samconfig.toml"
CREATE_SECONDS = 300.0
POLL_SECONDS = 0.5

Say = Callable[[str], None]


def environment(status: Mapping[str, Any]) -> dict[str, str]:
    """What the aws command, the SAM CLI, kubectl and rackrate need to use the lab."""
    return {
        "AWS_ENDPOINT_URL": str(status["endpoint_url"]),
        "AWS_REGION": str(status["region"]),
        "AWS_DEFAULT_REGION": str(status["region"]),
        "AWS_ACCESS_KEY_ID": str(status["access_key_id"]),
        "AWS_SECRET_ACCESS_KEY": str(status["secret_access_key"]),
        "KUBECONFIG": str(status["kubeconfig"]),
    }


def child_environment(status: Mapping[str, Any] | None = None) -> dict[str, str]:
    """A child's environment: our own environment's tools first, no AWS profile of the user."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") or name in {"AWS_CA_BUNDLE"}
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"PATH": path, "SAM_CLI_TELEMETRY": "0", "AWS_EC2_METADATA_DISABLED": "true"}
    return inherited | own | (environment(status) if status else {"AWS_REGION": "us-east-1"})


def build() -> None:
    """`sam build`, as a user would; what did not change is taken from its cache."""
    _sam(["build"], child_environment())


def deploy(status: Mapping[str, Any], say: Say) -> None:
    """Package the built artifacts into the lab's S3 and create the stack from them.

    The stack is created through CloudFormation's API: under an endpoint of http `sam deploy`
    refuses the URLs that `sam package` writes. Raises LabError with the events' reasons when it
    fails.
    """
    session = boto3.session.Session(
        aws_access_key_id=status["access_key_id"],
        aws_secret_access_key=status["secret_access_key"],
        region_name=status["region"],
    )
    settings: Any = {
        "endpoint_url": status["endpoint_url"],
        "config": Config(read_timeout=CREATE_SECONDS, retries={"max_attempts": 0}),
    }
    artifacts = f"{STACK}-artifacts"
    s3 = session.client("s3", **settings)
    s3.create_bucket(Bucket=artifacts)
    packaged = BUILD_DIRECTORY / "packaged.yaml"
    _sam(
        [
            "package",
            *("--template-file", str(BUILD_DIRECTORY / "template.yaml")),
            *("--s3-bucket", artifacts),
            *("--output-template-file", str(packaged)),
        ],
        child_environment(status),
    )
    cloudformation = session.client("cloudformation", **settings)
    cloudformation.create_stack(
        StackName=STACK,
        TemplateBody=packaged.read_text("utf-8"),
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        Parameters=[{"ParameterKey": "ToolImage", "ParameterValue": str(status["tools_image"])}],
    )
    _watch(cloudformation, say)


def _watch(cloudformation: Any, say: Say) -> None:
    deadline = time.monotonic() + CREATE_SECONDS
    told: set[str] = set()
    while True:
        state = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["StackStatus"]
        for event in reversed(_events(cloudformation, STACK)):
            if event["EventId"] in told:
                continue
            told.add(event["EventId"])
            if (
                event["ResourceType"] == "AWS::CloudFormation::Stack"
                and event["LogicalResourceId"] != STACK
                and event["ResourceStatus"] in ("CREATE_IN_PROGRESS", "CREATE_COMPLETE")
            ):
                done = event["ResourceStatus"] == "CREATE_COMPLETE"
                say(f"{event['LogicalResourceId']} {'created' if done else 'being created'}")
        if state == "CREATE_COMPLETE":
            return
        if state.endswith(("FAILED", "ROLLBACK_COMPLETE")):
            raise LabError(f"The stack was not created: {_reasons(cloudformation)}.")
        if time.monotonic() > deadline:
            raise LabError(
                f"The stack is still {state} after {CREATE_SECONDS:.0f} s: look at the lab's log."
            )
        time.sleep(POLL_SECONDS)


def _events(cloudformation: Any, stack: str) -> list[dict[str, Any]]:
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack)
    return [event for page in pages for event in page["StackEvents"]]


def _reasons(cloudformation: Any) -> str:
    """Why resources failed: for a nested stack what failed in it, which is the cause."""
    found = dict.fromkeys(_reasons_in(cloudformation, STACK))
    return "; ".join(found) or "no event names a reason"


def _reasons_in(cloudformation: Any, stack: str) -> list[str]:
    reasons: list[str] = []
    for event in reversed(_events(cloudformation, stack)):
        resource, reason = event["LogicalResourceId"], event.get("ResourceStatusReason", "")
        inner = event.get("PhysicalResourceId", "")
        if not event["ResourceStatus"].endswith("FAILED") or inner == event["StackId"]:
            continue
        if event["ResourceType"] == "AWS::CloudFormation::Stack" and inner:
            reasons += _reasons_in(cloudformation, inner) or [f"{resource}: {reason}"]
        elif reason and "cancelled" not in reason:
            reasons.append(f"{resource}: {reason}")
    return reasons


def _sam(arguments: list[str], variables: dict[str, str]) -> None:
    done = subprocess.run(
        # The settings would be looked for beside the built template.
        [sys.executable, "-m", "samcli", *arguments, "--config-file", str(SAM_SETTINGS)],
        cwd=REPOSITORY,
        env=variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise LabError(f"`sam {arguments[0]}` failed: {' '.join(lines[-6:])}")


def outputs(status: Mapping[str, Any]) -> dict[str, str]:
    """The stack's outputs."""
    cloudformation = boto3.client(
        "cloudformation",
        endpoint_url=status["endpoint_url"],
        region_name=status["region"],
        aws_access_key_id=status["access_key_id"],
        aws_secret_access_key=status["secret_access_key"],
    )
    stack = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
    return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}


def read_status(path: Path) -> dict[str, Any] | None:
    """What the region wrote when it answered, None before."""
    try:
        status: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except OSError:
        return None
    return status
