"""The project's own stacks in the lab: built and packaged by the SAM CLI, created, deleted."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from lab import daemon
from lab.errors import LabError

REPOSITORY = Path(__file__).resolve().parents[1]
STACK = "rackrate"
#: The root templates: for a stack with a cluster of its own, and for one that uses a cluster.
OWN_CLUSTER, EXISTING_CLUSTER = "template.yaml", "existing-cluster.yaml"
#: The directories that `sam build` writes; the first is its default.
BUILD_DIRECTORIES = {
    OWN_CLUSTER: REPOSITORY / ".aws-sam" / "build",
    EXISTING_CLUSTER: REPOSITORY / ".aws-sam" / "existing-cluster",
}
SAM_SETTINGS = REPOSITORY / "samconfig.toml"
# What `sam build` reads.
SOURCES = (
    *("functions", "image", "packages", "statemachine", "templates"),
    *("samconfig.toml", OWN_CLUSTER, EXISTING_CLUSTER),
)
CREATE_SECONDS = 300.0
DELETE_SECONDS = 300.0
# CreateStack's limit for TemplateBody; a larger template is given by its URL.
LARGEST_TEMPLATE_BODY_BYTES = 51_200
POLL_SECONDS = 1.0

Say = Callable[[str], None]


def environment(status: Mapping[str, Any]) -> dict[str, str]:
    """The variables with which the aws command, the SAM CLI, kubectl and rackrate use the lab."""
    return {
        "AWS_ENDPOINT_URL": str(status["endpoint_url"]),
        "AWS_REGION": str(status["region"]),
        "AWS_DEFAULT_REGION": str(status["region"]),
        "AWS_ACCESS_KEY_ID": str(status["access_key_id"]),
        "AWS_SECRET_ACCESS_KEY": str(status["secret_access_key"]),
        "KUBECONFIG": str(status["kubeconfig"]),
    }


def child_environment(status: Mapping[str, Any] | None = None) -> dict[str, str]:
    """A child's environment: our own tools first on PATH, and not the user's AWS profile."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AWS_") or name in {"AWS_CA_BUNDLE"}
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"PATH": path, "SAM_CLI_TELEMETRY": "0", "AWS_EC2_METADATA_DISABLED": "true"}
    return inherited | own | (environment(status) if status else {"AWS_REGION": "us-east-1"})


@dataclass(frozen=True)
class Packaged:
    """The template with its artifacts in the lab's S3: as a file, and as a URL of that S3."""

    path: Path
    url: str


def build(root: str = OWN_CLUSTER) -> None:
    """Run `sam build` as a user would, unless the build is that of these sources."""
    with _build_directory(root) as directory:
        sources = digest_of_sources()
        # In the directory that every other build empties.
        built = directory / "sources.sha256"
        if not built.exists() or built.read_text("ascii") != sources:
            places = ("--template", str(REPOSITORY / root), "--build-dir", str(directory))
            _sam(["build", *places], child_environment())
            built.write_text(sources, encoding="ascii")


def package(status: Mapping[str, Any], root: str = OWN_CLUSTER) -> Packaged:
    """Upload the output of `sam build` to the lab's S3; any number of stacks can use it.

    Raises LabError when nothing was built.
    """
    s3 = client(status, "s3")
    artifacts = f"{STACK}-artifacts"
    s3.create_bucket(Bucket=artifacts)
    # Not in the build directory, which labs of several caches share.
    packaged = packaged_directory(status) / root
    packaged.parent.mkdir(exist_ok=True)
    package_into(artifacts, packaged, child_environment(status), root=root)
    body = packaged.read_bytes()
    key = f"{hashlib.sha256(body).hexdigest()}.template"
    s3.put_object(Bucket=artifacts, Key=key, Body=body)
    return Packaged(packaged, f"{status['endpoint_url']}/{artifacts}/{key}")


def packaged_directory(status: Mapping[str, Any]) -> Path:
    """Where `package` writes the root templates, under their own names."""
    return Path(str(status["kubeconfig"])).parent / "packaged"


def package_into(
    bucket: str,
    template: Path,
    variables: dict[str, str],
    *,
    root: str = OWN_CLUSTER,
    prefix: str | None = None,
) -> None:
    """Upload the output of `sam build` to a bucket of the S3 that the variables name.

    The root template is written to the file `template`. Raises LabError when nothing was built.
    """
    with _build_directory(root) as directory:
        _sam(
            [
                "package",
                *("--template-file", str(directory / "template.yaml")),
                *("--s3-bucket", bucket),
                *(("--s3-prefix", prefix) if prefix else ()),
                *("--output-template-file", str(template)),
            ],
            variables,
        )


def deploy(
    status: Mapping[str, Any],
    say: Say,
    *,
    name: str = STACK,
    parameters: Mapping[str, str] | None = None,
    packaged: Packaged | None = None,
    seconds: float = CREATE_SECONDS,
) -> None:
    """Create a stack of the packaged template and wait until it is there.

    `parameters` override the lab's own: its ToolImage, and HostNetwork, so that every plan can be
    run in the lab. With an ExistingClusterName the template is the one for that. This calls
    CloudFormation's API, because with an http endpoint `sam deploy` refuses the URLs that `sam
    package` writes. Raises LabError with the events' reasons when it
    fails. The stack then stays as CloudFormation left it, so that a user can look at it and delete
    it.
    """
    own = {"ToolImage": str(status["tools_image"]), "HostNetwork": "true"}
    values = {**own, **(parameters or {})}
    root = EXISTING_CLUSTER if "ExistingClusterName" in values else OWN_CLUSTER
    packaged = packaged or package(status, root)
    cloudformation = client(status, "cloudformation")
    large = packaged.path.stat().st_size > LARGEST_TEMPLATE_BODY_BYTES
    try:
        stack_id = cloudformation.create_stack(
            StackName=name,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in values.items()
            ],
            **(
                {"TemplateURL": packaged.url}
                if large
                else {"TemplateBody": packaged.path.read_text("utf-8")}
            ),
        )["StackId"]
    except ClientError as error:
        raise LabError(f"The stack was not created: {error.response['Error']['Message']}") from None
    _watch(cloudformation, say, stack_id, "CREATE_COMPLETE", seconds)


def delete(
    status: Mapping[str, Any], say: Say, *, name: str = STACK, seconds: float = DELETE_SECONDS
) -> None:
    """Delete a stack and wait until it is deleted. Raises LabError with the events' reasons."""
    cloudformation = client(status, "cloudformation")
    try:
        stack = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        raise LabError(f"There is no stack {name}: {error}") from None
    cloudformation.delete_stack(StackName=stack["StackId"])
    _watch(cloudformation, say, stack["StackId"], "DELETE_COMPLETE", seconds)


def client(status: Mapping[str, Any], service: str) -> Any:
    """A client of the lab's region."""
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=status["endpoint_url"],
        region_name=status["region"],
        aws_access_key_id=status["access_key_id"],
        aws_secret_access_key=status["secret_access_key"],
        config=Config(read_timeout=CREATE_SECONDS, retries={"max_attempts": 0}),
    )


def status_of_lab() -> dict[str, object]:
    """The status of the lab that is up. Raises LabError when none is."""
    status = read_status(daemon.state_directory() / "status.json")
    if status is None or daemon.keeper_pid() is None:
        raise LabError("No lab is up: start one with `make lab-up`.")
    return status


@contextlib.contextmanager
def _build_directory(root: str) -> Iterator[Path]:
    """Lock the directory that `sam build` writes: each build empties it first."""
    directory = BUILD_DIRECTORIES[root]
    directory.parent.mkdir(exist_ok=True)
    with (directory.parent / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory


def digest_of_sources() -> str:
    """A digest of all that `sam build` reads, and of the programs that build."""
    directories = [path for path in (REPOSITORY / name for name in SOURCES) if path.is_dir()]
    files = [path for path in (REPOSITORY / name for name in SOURCES) if path.is_file()]
    for directory in directories:
        for parent, _, names in os.walk(directory, followlinks=True):
            files += [Path(parent, name) for name in names if not name.endswith(".pyc")]
    digest = hashlib.sha256(f"{sys.version} {version('aws-sam-cli')}".encode())
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path} {path.stat().st_mode} {content}\n".encode())
    return digest.hexdigest()


def _watch(cloudformation: Any, say: Say, stack_id: str, goal: str, seconds: float) -> None:
    """Wait for the stack's status and report its nested stacks. Raises LabError."""
    verb = goal.partition("_")[0]
    begun, done = ("being created", "created") if verb == "CREATE" else ("being deleted", "deleted")
    deadline = time.monotonic() + seconds
    seen = set() if verb == "CREATE" else {e["EventId"] for e in _events(cloudformation, stack_id)}
    while True:
        state = cloudformation.describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"]
        for event in reversed(_events(cloudformation, stack_id)):
            if event["EventId"] in seen:
                continue
            seen.add(event["EventId"])
            if (
                event["ResourceType"] == "AWS::CloudFormation::Stack"
                and event.get("PhysicalResourceId") != stack_id
                and event["ResourceStatus"] in (f"{verb}_IN_PROGRESS", f"{verb}_COMPLETE")
            ):
                ended = event["ResourceStatus"] == f"{verb}_COMPLETE"
                say(f"{event['LogicalResourceId']} {done if ended else begun}")
        if state == goal:
            return
        if state.endswith(("FAILED", "ROLLBACK_COMPLETE")) or (
            state == "DELETE_COMPLETE" and verb == "CREATE"
        ):
            raise LabError(f"The stack was not {done}: {_reasons(cloudformation, stack_id)}.")
        if time.monotonic() > deadline:
            raise LabError(
                f"The stack is still {state} after {seconds:.0f} s: look at the lab's log."
            )
        time.sleep(POLL_SECONDS)


def _events(cloudformation: Any, stack: str) -> list[dict[str, Any]]:
    pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack)
    return [event for page in pages for event in page["StackEvents"]]


def _reasons(cloudformation: Any, stack: str) -> str:
    """Why resources failed; for a nested stack, why the resources in it failed."""
    reasons = dict.fromkeys(_reasons_in(cloudformation, stack))
    return "; ".join(reasons) or "no event names a reason"


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
        # Without --config-file, SAM looks for the settings beside the built template.
        [sys.executable, "-m", "lab.sam", *arguments, "--config-file", str(SAM_SETTINGS)],
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


def outputs(status: Mapping[str, Any], name: str = STACK) -> dict[str, str]:
    """A stack's outputs."""
    stack = client(status, "cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}


def read_status(path: Path) -> dict[str, Any] | None:
    """The status that the region wrote when it first answered; None before that."""
    try:
        status: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except OSError:
        return None
    return status
