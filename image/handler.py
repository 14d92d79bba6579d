"""Custom::ToolImage: builds the image of this directory into the stack's own registry.

CodeBuild builds the image for each CPU architecture on a machine of that architecture. This
function starts the builds, waits for them, and joins the two images under one tag. The tag is a
digest of the sources, so an existing image is not built again.

Unlike the other functions, this one is packaged with its directory and needs only Lambda's runtime.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import time
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError

Json = dict[str, Any]

HERE = Path(__file__).parent
#: The files that CodeBuild gets, and from which the tag is computed.
SOURCE = (
    *("Dockerfile", "buildspec.yaml", "crates.txt", "go.mod", "go.sum", "jars.txt", "large.txt"),
    *("pom.xml", "preferences", "programs.txt"),
)
#: CodeBuild's environment type and build image, by the architecture's name in image manifests.
ARCHITECTURES = {
    "amd64": ("LINUX_CONTAINER", "aws/codebuild/amazonlinux-x86_64-standard:5.0"),
    "arm64": ("ARM_CONTAINER", "aws/codebuild/amazonlinux-aarch64-standard:3.0"),
}
#: The quota of concurrently running builds, by the same name (AWS General Reference, CodeBuild).
QUOTAS = {"amd64": "L-4DDC4A99 (Linux/Large)", "arm64": "L-596BEAB4 (ARM/Large)"}

_DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
_OCI = "application/vnd.oci.image.manifest.v1+json"
_OCI_LIST = "application/vnd.oci.image.index.v1+json"

_PAUSE_SECONDS = 10.0
#: The part of the function's time that is reserved for stopping builds and for the answer.
_RESERVE_SECONDS = 60.0
_ANSWER_SECONDS = 10
#: Keeps the whole answer below CloudFormation's limit of 4096 bytes.
_REASON_CHARACTERS = 2000

logger = logging.getLogger()


class BuildFailed(Exception):
    """The image could not be built; the message quotes CodeBuild and names its log."""


def handler(event: Json, context: Any) -> None:
    """The Lambda entry point: CloudFormation's request, which is always answered."""
    repository = os.environ["REPOSITORY_URI"]
    data, error = {}, None
    try:
        builder = Builder(
            repository_uri=repository,
            project=os.environ["PROJECT_NAME"],
            bucket=os.environ["BUCKET_NAME"],
            ecr=boto3.client("ecr"),
            codebuild=boto3.client("codebuild"),
            s3=boto3.client("s3"),
        )
        if event["RequestType"] == "Delete":
            # CloudFormation deletes the repository with its images (EmptyOnDelete).
            builder.remove_source()
        else:
            seconds = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
            data = {"ImageUri": builder.image_uri(seconds)}
    except Exception as failure:
        # Answer in any case; otherwise CloudFormation waits until ServiceTimeout.
        logger.exception("the request could not be met")
        error = f"{type(failure).__name__}: {failure}"[:_REASON_CHARACTERS]
    respond(event, physical_id=repository, data=data, error=error)


def respond(event: Json, *, physical_id: str, data: Json, error: str | None) -> None:
    """Answer CloudFormation.

    Raises:
        OSError: CloudFormation did not accept the answer; Lambda then retries the invocation.
    """
    response = {
        "Status": "FAILED" if error else "SUCCESS",
        "Reason": error or "",
        "PhysicalResourceId": physical_id,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": data,
    }
    request = urllib.request.Request(
        event["ResponseURL"],
        data=json.dumps(response).encode(),
        method="PUT",
        headers={"Content-Type": ""},  # the URL is signed for an empty one
    )
    with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS):
        pass


def source_tag(directory: Path = HERE) -> str:
    """A digest of the sources: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in SOURCE:
        content = (directory / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def source_archive(directory: Path = HERE) -> bytes:
    """The sources for CodeBuild as a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in SOURCE:
            archive.writestr(name, (directory / name).read_bytes())
    return buffer.getvalue()


class Builder:
    """Builds the image, with boto3 clients."""

    def __init__(
        self, *, repository_uri: str, project: str, bucket: str, ecr: Any, codebuild: Any, s3: Any
    ) -> None:
        self._uri, self._project, self._bucket = repository_uri, project, bucket
        self._ecr, self._codebuild, self._s3 = ecr, codebuild, s3
        self._name = repository_uri.partition("/")[2]
        self._tag = source_tag()
        self._key = f"image/{self._tag}.zip"

    def image_uri(self, seconds: float) -> str:
        """The image's URI with its digest. The image is built first if it does not exist.

        Args:
            seconds: how long it may take.

        Raises:
            BuildFailed: a build failed or took too long.
        """
        existing = self._images([self._tag])
        digest = existing[self._tag]["imageId"]["imageDigest"] if existing else self._build(seconds)
        return f"{self._uri}:{self._tag}@{digest}"

    def remove_source(self) -> None:
        """Delete the archive of the sources."""
        self._s3.delete_object(Bucket=self._bucket, Key=self._key)

    def _tags(self) -> dict[str, str]:
        return {architecture: f"{self._tag}-{architecture}" for architecture in ARCHITECTURES}

    def _images(self, tags: list[str]) -> dict[str, Json]:
        """The existing images, by tag."""
        response = self._ecr.batch_get_image(
            repositoryName=self._name,
            imageIds=[{"imageTag": tag} for tag in tags],
            acceptedMediaTypes=[_DOCKER, _OCI, _DOCKER_LIST, _OCI_LIST],
        )
        return {image["imageId"]["imageTag"]: image for image in response["images"]}

    def _build(self, seconds: float) -> str:
        tags = self._tags()
        there = self._images(list(tags.values()))
        missing = [name for name, tag in tags.items() if tag not in there]
        if missing:
            self._s3.put_object(Bucket=self._bucket, Key=self._key, Body=source_archive())
            failures = self._run_builds(missing, seconds)
            there = self._images(list(tags.values()))
            # Check the images, not the builds: a build also fails if another build has pushed the
            # same image meanwhile.
            lacking = [name for name, tag in tags.items() if tag not in there]
            if lacking:
                raise BuildFailed(" ".join(failures.get(name, _LOST % name) for name in lacking))
        return self._join({name: there[tag] for name, tag in tags.items()})

    def _run_builds(self, architectures: list[str], seconds: float) -> dict[str, str]:
        """Build for all architectures in parallel, and return why builds failed."""
        deadline = time.monotonic() + seconds
        started: dict[str, str] = {}
        try:
            for architecture in architectures:
                started[architecture] = self._start(architecture)
            while True:
                builds = self._describe(started)
                if all(build["buildStatus"] != "IN_PROGRESS" for build in builds.values()):
                    break
                if time.monotonic() + _PAUSE_SECONDS > deadline:
                    raise BuildFailed(
                        f"the builds took longer than {seconds:.0f} s and were stopped. "
                        + " ".join(_progress(name, b) for name, b in builds.items())
                    )
                time.sleep(_PAUSE_SECONDS)
        except Exception:
            self._stop(started)
            raise
        return {
            name: failure_text(name, build)
            for name, build in builds.items()
            if build["buildStatus"] != "SUCCEEDED"
        }

    def _start(self, architecture: str) -> str:
        kind, image = ARCHITECTURES[architecture]
        variables = {"REPOSITORY_URI": self._uri, "IMAGE_TAG": self._tags()[architecture]}
        build = self._codebuild.start_build(
            projectName=self._project,
            sourceTypeOverride="S3",
            sourceLocationOverride=f"{self._bucket}/{self._key}",
            environmentTypeOverride=kind,
            imageOverride=image,
            environmentVariablesOverride=[
                {"name": name, "value": value, "type": "PLAINTEXT"}
                for name, value in variables.items()
            ],
        )["build"]
        return str(build["id"])

    def _describe(self, started: Mapping[str, str]) -> dict[str, Json]:
        response = self._codebuild.batch_get_builds(ids=list(started.values()))
        by_id = {build["id"]: build for build in response["builds"]}
        return {architecture: by_id[id_] for architecture, id_ in started.items()}

    def _stop(self, started: Mapping[str, str]) -> None:
        for id_ in started.values():
            try:
                self._codebuild.stop_build(id=id_)
            except ClientError:
                logger.exception("build %s could not be stopped", id_)

    def _join(self, images: Mapping[str, Json]) -> str:
        """Put the manifest list of the images under the tag, and return its digest."""
        kinds = {name: _media_type(image) for name, image in images.items()}
        media_type = _OCI_LIST if _OCI in kinds.values() else _DOCKER_LIST
        manifest = {
            "schemaVersion": 2,
            "mediaType": media_type,
            "manifests": [
                {
                    "mediaType": kinds[name],
                    "size": len(image["imageManifest"].encode()),
                    "digest": image["imageId"]["imageDigest"],
                    "platform": {"architecture": name, "os": "linux"},
                }
                for name, image in images.items()
            ],
        }
        try:
            response = self._ecr.put_image(
                repositoryName=self._name,
                imageTag=self._tag,
                imageManifest=json.dumps(manifest),
                imageManifestMediaType=media_type,
            )
        except ClientError as error:
            repeated = ("ImageAlreadyExistsException", "ImageTagAlreadyExistsException")
            if error.response["Error"]["Code"] not in repeated:
                raise
            return str(self._images([self._tag])[self._tag]["imageId"]["imageDigest"])
        return str(response["image"]["imageId"]["imageDigest"])


_LOST = "the build for %s succeeded, and yet its image is not in the registry."


def _media_type(image: Json) -> str:
    media_type = image.get("imageManifestMediaType")
    return str(media_type or json.loads(image["imageManifest"])["mediaType"])


def _log(build: Json) -> str:
    return str(build.get("logs", {}).get("deepLink") or f"CodeBuild, build {build['id']}")


def _progress(architecture: str, build: Json) -> str:
    """How long a build was queued, and its log."""
    phases = [one for one in build.get("phases", []) if one["phaseType"] == "QUEUED"]
    seconds = sum(one.get("durationInSeconds", 0) for one in phases)
    return f"Log of {architecture}, which was queued for {seconds} s: {_log(build)}."


def failure_text(architecture: str, build: Json) -> str:
    """A sentence on why a build failed.

    Args:
        architecture: the build's architecture.
        build: the build as BatchGetBuilds returns it; the reason is that of the first failed phase.
    """
    for phase in build.get("phases", []):
        if phase.get("phaseStatus", "SUCCEEDED") == "SUCCEEDED":
            continue
        messages = [c["message"] for c in phase.get("contexts", []) if c.get("message")]
        why = f"phase {phase['phaseType']}: {' '.join(messages) or phase['phaseStatus']}"
        if phase["phaseType"] == "QUEUED":
            why = (
                "it was queued and never started: other builds of this account use up CodeBuild's"
                f" quota {QUOTAS[architecture]}; wait for them or ask Service Quotas for more"
            )
        break
    else:
        why = str(build["buildStatus"])
    return f"the build for {architecture} failed, {why.rstrip('.')}. Log: {_log(build)}."
