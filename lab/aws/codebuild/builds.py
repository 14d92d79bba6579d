"""AWS CodeBuild, with builds that build no container.

The lab has no container engine, so a build does not run its buildspec's commands. It reads the
source and the buildspec, writes a log, and pushes a manifest with the calls of a real push. It does
all this with the service role's credentials. The environment variables REPOSITORY_URI and IMAGE_TAG
name the repository and the tag. The manifest's one layer says what it is. The lab's nodes do not
pull either: for every reference that is pushed to the emulated registry they run the lab's own
image of the tools. So the lab cannot tell whether a Dockerfile builds.

Builds beyond the account's quota of their environment wait in a queue, and CodeBuild refuses those
beyond five times that number (CodeBuild user guide, "Builds in AWS CodeBuild"). The lab keeps only
the quotas of the environments Linux/Large and ARM/Large.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from botocore.exceptions import ClientError

from lab.aws.account import REGION, arn
from lab.aws.api_errors import ApiError
from lab.aws.clients import ClientFactory
from lab.aws.clock import now
from lab.aws.ecr import push_image
from lab.aws.iam.identity import assume_role
from lab.aws.quotas import ARM_LARGE_BUILDS, LINUX_LARGE_BUILDS, QUOTAS

LOG = logging.getLogger(__name__)

_PHASES = (
    "PROVISIONING",
    "DOWNLOAD_SOURCE",
    "INSTALL",
    "PRE_BUILD",
    "BUILD",
    "POST_BUILD",
    "UPLOAD_ARTIFACTS",
    "FINALIZING",
)
_BEFORE_START = ("SUBMITTED", "QUEUED")

_CONCURRENT_BUILDS = {
    ("LINUX_CONTAINER", "BUILD_GENERAL1_LARGE"): LINUX_LARGE_BUILDS,
    ("ARM_CONTAINER", "BUILD_GENERAL1_LARGE"): ARM_LARGE_BUILDS,
}
#: The builds that the queue takes, as a multiple of those that may run.
_QUEUE = 5
_MINUTE_SECONDS = 60.0


class BuildFailure(Exception):
    """A phase of a build failed; the message is the phase's context."""


class CodeBuild:
    """Projects and their builds."""

    def __init__(self, endpoint_url: str) -> None:
        self._endpoint_url = endpoint_url
        self.projects: dict[str, dict[str, Any]] = {}
        self.builds: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()

    def project(self, name: str) -> dict[str, Any]:
        """The project of this name or ARN. Raises the API's error."""
        project = self.projects.get(name.rsplit("/", 1)[-1])
        if project is None:
            raise ApiError("ResourceNotFoundException", f"Project cannot be found: {name}")
        return project

    def put_project(self, parameters: Mapping[str, Any], *, new: bool) -> dict[str, Any]:
        """Create or change a project. Raises the API's error."""
        name = parameters["name"]
        if new and name in self.projects:
            raise ApiError("ResourceAlreadyExistsException", f"Project already exists: {name}")
        before = {} if new else self.project(name)
        project = {
            "timeoutInMinutes": 60,
            "queuedTimeoutInMinutes": 480,
            "created": now(),
            "arn": arn("codebuild", f"project/{name}"),
            **before,
            **parameters,
            "lastModified": now(),
        }
        self.projects[name] = project
        return project

    def start(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Start a build. Raises the API's error."""
        project = self.project(parameters["projectName"])
        name = project["name"]
        identity = f"{name}:{uuid.uuid4()}"
        environment = dict(project["environment"])
        variables = {item["name"]: item for item in environment.get("environmentVariables", [])}
        for item in parameters.get("environmentVariablesOverride", []):
            variables[item["name"]] = item
        environment["environmentVariables"] = list(variables.values())
        source = dict(project["source"])
        for key, part, member in (
            ("buildspecOverride", source, "buildspec"),
            ("sourceLocationOverride", source, "location"),
            ("sourceTypeOverride", source, "type"),
            ("computeTypeOverride", environment, "computeType"),
            ("environmentTypeOverride", environment, "type"),
            ("imageOverride", environment, "image"),
        ):
            if parameters.get(key):
                part[member] = parameters[key]
        logs = {**project.get("logsConfig", {}), **parameters.get("logsConfigOverride", {})}
        number = 1 + sum(build["projectName"] == name for build in self.builds.values())
        build = {
            "id": identity,
            "arn": arn("codebuild", f"build/{identity}"),
            "buildNumber": number,
            "startTime": now(),
            "currentPhase": "SUBMITTED",
            "buildStatus": "IN_PROGRESS",
            "projectName": name,
            "phases": [],
            "source": source,
            "environment": environment,
            "serviceRole": project["serviceRole"],
            "timeoutInMinutes": project["timeoutInMinutes"],
            "queuedTimeoutInMinutes": project["queuedTimeoutInMinutes"],
            "buildComplete": False,
            "logs": _log_location(name, identity, logs.get("cloudWatchLogs") or {}),
        }
        with self._changed:
            most = _QUEUE * _most_at_once(build)
            if self._count(build, queued=True) >= most:
                raise ApiError(
                    "AccountLimitExceededException",
                    f"Cannot have more than {most:g} builds in queue for the account",
                )
            self.builds[identity] = build
        response = {**build, "phases": []}
        threading.Thread(target=self._run, args=(build,), name="codebuild", daemon=True).start()
        return response

    def stop(self, identity: str) -> dict[str, Any]:
        """Stop a build. Raises the API's error."""
        build = self.builds.get(identity)
        if build is None:
            raise ApiError("ResourceNotFoundException", f"Build cannot be found: {identity}")
        self._end(build, "STOPPED")
        return build

    # -- builds

    def _run(self, build: dict[str, Any]) -> None:
        work = {
            "QUEUED": self._wait,
            "DOWNLOAD_SOURCE": self._download_source,
            "BUILD": self._check_variables,
            "POST_BUILD": self._push,
        }
        for name in (*_BEFORE_START, *_PHASES):
            if build["buildComplete"]:
                return
            phase: dict[str, Any] = {"phaseType": name, "startTime": now()}
            build["currentPhase"] = name
            build["phases"].append(phase)
            started = time.monotonic()
            failure = _attempt(work.get(name), build)
            phase["endTime"] = now()
            phase["durationInSeconds"] = int(time.monotonic() - started)
            failed = "TIMED_OUT" if name == "QUEUED" else "FAILED"
            phase["phaseStatus"] = failed if failure else "SUCCEEDED"
            if name in _PHASES:
                outcome = f"Phase complete: {name} State: {phase['phaseStatus']} {failure or ''}"
                self._log(build, outcome.strip())
            if failure:
                phase["contexts"] = [{"statusCode": "COMMAND_EXECUTION_ERROR", "message": failure}]
                self._end(build, failed)
                return
        self._end(build, "SUCCEEDED")

    def _count(self, build: Mapping[str, Any], *, queued: bool) -> int:
        """How many builds in the environment of this one are queued, or run."""
        return sum(
            not one["buildComplete"] and (one["currentPhase"] in _BEFORE_START) == queued
            for one in self.builds.values()
            if _environment(one) == _environment(build)
        )

    def _wait(self, build: dict[str, Any]) -> None:
        """Wait in the queue until the build may run, or is stopped."""

        def is_over() -> bool:
            may_run = self._count(build, queued=False) < _most_at_once(build)
            return may_run or build["buildComplete"]

        seconds = build["queuedTimeoutInMinutes"] * _MINUTE_SECONDS
        with self._changed:
            if not self._changed.wait_for(is_over, seconds):
                raise BuildFailure("Build has timed out.")
            if not build["buildComplete"]:
                build["currentPhase"] = _PHASES[0]

    def _end(self, build: dict[str, Any], status: str) -> None:
        with self._changed:
            if build["buildComplete"]:
                return
            build["phases"].append({"phaseType": "COMPLETED", "startTime": now()})
            build["currentPhase"], build["endTime"] = "COMPLETED", now()
            build["buildStatus"] = status
            build["buildComplete"] = True
            self._changed.notify_all()

    def _clients(self, build: Mapping[str, Any]) -> ClientFactory:
        credentials = assume_role(build["serviceRole"], "AWSCodeBuild")
        return ClientFactory(self._endpoint_url, credentials)

    def _log(self, build: dict[str, Any], message: str) -> None:
        """Write to the build's log; without the permission the build has no log."""
        place = build["logs"]
        if place["cloudWatchLogs"]["status"] == "DISABLED":
            return
        logs = self._clients(build).get("logs")
        where = {"logGroupName": place["groupName"], "logStreamName": place["streamName"]}
        try:
            with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):
                logs.create_log_stream(**where)
            event = {"timestamp": int(time.time() * 1000), "message": f"[Container] {message}"}
            logs.put_log_events(**where, logEvents=[event])
        except ClientError as error:
            LOG.warning("log of build %s: %s", build["id"], error)

    def _download_source(self, build: dict[str, Any]) -> None:
        source = build["source"]
        buildspec = source.get("buildspec") or "buildspec.yml"
        text = buildspec if "\n" in buildspec else None
        match source["type"]:
            case "S3":
                bucket, _, key = source["location"].removeprefix("arn:aws:s3:::").partition("/")
                s3 = self._clients(build).get("s3")
                content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
                if text is None:
                    text = _member(content, buildspec)
            case "NO_SOURCE":
                if text is None:
                    raise BuildFailure("a project without a source needs its buildspec inline")
            case kind:
                raise BuildFailure(f"sources of type {kind} are not supported here")
        _check_buildspec(str(text))

    @staticmethod
    def _check_variables(build: dict[str, Any]) -> None:
        for name in ("REPOSITORY_URI", "IMAGE_TAG"):
            if not _variables(build).get(name):
                raise BuildFailure(f"the environment variable {name} is not set")

    def _push(self, build: dict[str, Any]) -> None:
        variables = _variables(build)
        architecture = "arm64" if "ARM" in build["environment"]["type"] else "amd64"
        push_image(
            self._clients(build).get("ecr"),
            variables["REPOSITORY_URI"].partition("/")[2],
            variables["IMAGE_TAG"],
            architecture,
        )


def _attempt(work: Callable[[dict[str, Any]], None] | None, build: dict[str, Any]) -> str | None:
    """Do a phase's work. Returns why it failed, or None."""
    if work is None:
        return None
    try:
        work(build)
    except (BuildFailure, ClientError) as error:
        return str(error)
    except Exception as error:
        LOG.exception("build %s", build["id"])
        return f"{type(error).__name__}: {error}"
    return None


def _environment(build: Mapping[str, Any]) -> tuple[str, str]:
    return build["environment"]["type"], build["environment"]["computeType"]


def _most_at_once(build: Mapping[str, Any]) -> float:
    quota = _CONCURRENT_BUILDS.get(_environment(build))
    return QUOTAS[quota].value if quota else math.inf


def _variables(build: Mapping[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in build["environment"]["environmentVariables"]}


def _member(archive: bytes, name: str) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as content:
            return content.read(name).decode()
    except (zipfile.BadZipFile, KeyError) as error:
        raise BuildFailure(f"the source has no buildspec {name}: {error}") from error


def _check_buildspec(text: str) -> None:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BuildFailure(f"YAML_FILE_ERROR Message: {error}") from error
    if not isinstance(document, dict) or str(document.get("version")) not in ("0.1", "0.2"):
        raise BuildFailure("YAML_FILE_ERROR Message: the buildspec has no known version")
    if not document.get("phases"):
        raise BuildFailure("YAML_FILE_ERROR Message: the buildspec has no phases")


def _log_location(project: str, identity: str, config: Mapping[str, Any]) -> dict[str, Any]:
    group = config.get("groupName") or f"/aws/codebuild/{project}"
    stream = identity.rpartition(":")[2]
    if config.get("streamName"):
        stream = f"{config['streamName']}/{stream}"
    return {
        "groupName": group,
        "streamName": stream,
        "deepLink": (
            f"https://console.aws.amazon.com/cloudwatch/home?region={REGION}"
            f"#logsV2:log-groups/log-group/{group}/log-events/{stream}"
        ),
        "cloudWatchLogs": {"status": "ENABLED", **config},
    }
