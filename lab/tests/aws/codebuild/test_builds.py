"""Builds run with their own role, and nodes find the images that they push."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.aws import quotas
from lab.aws.codebuild import builds
from lab.aws.codebuild.builds import CodeBuild
from lab.tests.aws.region import Lab, archive, eventually

BUILDSPEC = "version: 0.2\nphases:\n  build:\n    commands: [docker build .]\n"


BUILD = """
Resources:
  Repository:
    Type: AWS::ECR::Repository
    Properties:
      EmptyOnDelete: true
      ImageTagMutability: IMMUTABLE
      EncryptionConfiguration: {EncryptionType: AES256}
      ImageScanningConfiguration: {ScanOnPush: true}
  Role:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument:
        Version: "2012-10-17"
        Statement: [{Effect: Allow, Action: sts:AssumeRole,
                     Principal: {Service: codebuild.amazonaws.com}}]
      Policies:
        - PolicyName: build
          PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - {Effect: Allow, Action: ecr:GetAuthorizationToken, Resource: "*"}
              - {Effect: Allow, Action: s3:GetObject, Resource: "arn:aws:s3:::BUCKET/*"}
              - Effect: Allow
                Action: [ecr:BatchCheckLayerAvailability, ecr:BatchGetImage,
                         ecr:InitiateLayerUpload, ecr:UploadLayerPart, ecr:CompleteLayerUpload,
                         ecr:PutImage]
                Resource: !GetAtt Repository.Arn
  Project:
    Type: AWS::CodeBuild::Project
    Properties:
      ServiceRole: !GetAtt Role.Arn
      Artifacts: {Type: NO_ARTIFACTS}
      Source: {Type: S3, Location: BUCKET/source.zip, BuildSpec: buildspec.yaml}
      TimeoutInMinutes: 15
      LogsConfig: {CloudWatchLogs: {Status: DISABLED}}
      Environment:
        Type: LINUX_CONTAINER
        ComputeType: BUILD_GENERAL1_SMALL
        Image: aws/codebuild/amazonlinux-x86_64-standard:5.0
        PrivilegedMode: true
        EnvironmentVariables: [{Name: REPOSITORY_URI, Value: !GetAtt Repository.RepositoryUri}]
Outputs:
  Repository: {Value: !Ref Repository}
  Uri: {Value: !GetAtt Repository.RepositoryUri}
  Role: {Value: !Ref Role}
  Project: {Value: !Ref Project}
"""


def project(lab: Lab, template: str = BUILD, **files: str) -> dict[str, str]:
    """The outputs of a stack with a project that builds these files."""
    bucket = lab.stored("source.zip", archive("", **{"buildspec.yaml": BUILDSPEC, **files}))
    return lab.created(template.replace("BUCKET", bucket))


def built(lab: Lab, project: str, tag: str) -> dict[str, Any]:
    codebuild = lab.client("codebuild")
    started = codebuild.start_build(
        projectName=project,
        environmentVariablesOverride=[{"name": "IMAGE_TAG", "value": tag}] if tag else [],
    )["build"]
    assert (started["buildStatus"], started["buildComplete"]) == ("IN_PROGRESS", False)
    return ended(lab, started["id"])


def build_of(lab: Lab, identity: str) -> dict[str, Any]:
    build: dict[str, Any] = lab.client("codebuild").batch_get_builds(ids=[identity])["builds"][0]
    return build


def ended(lab: Lab, identity: str) -> dict[str, Any]:
    """A build when it is over."""
    return eventually(lambda: build_of(lab, identity), lambda build: build["buildComplete"])


def test_a_build_puts_an_image_where_nodes_find_it(lab: Lab, tmp_path: Path) -> None:
    stack = project(lab, Dockerfile="FROM scratch\n")
    build = built(lab, stack["Project"], "1")
    assert build["buildStatus"] == "SUCCEEDED", build["phases"]
    assert [phase["phaseType"] for phase in build["phases"]][-1] == "COMPLETED"
    image = lab.client("ecr").describe_images(repositoryName=stack["Repository"])
    assert image["imageDetails"][0]["imageTags"] == ["1"]
    assert image["imageDetails"][0]["imageDigest"].startswith("sha256:")
    digest = image["imageDetails"][0]["imageDigest"]
    assert lab.backend.images[-2:] == [f"{stack['Uri']}:1", f"{stack['Uri']}@{digest}"]

    failed = built(lab, stack["Project"], "")
    assert failed["buildStatus"] == "FAILED"
    contexts = [context for phase in failed["phases"] for context in phase.get("contexts", [])]
    assert contexts[0]["message"] == "the environment variable IMAGE_TAG is not set"

    lab.client("iam").delete_role_policy(RoleName=stack["Role"], PolicyName="build")
    failed = built(lab, stack["Project"], "2")
    contexts = [context for phase in failed["phases"] for context in phase.get("contexts", [])]
    assert "s3:GetObject" in contexts[0]["message"]
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def test_a_repository_with_images_stays_unless_it_is_to_be_emptied(lab: Lab) -> None:
    stack = project(lab, BUILD.replace("EmptyOnDelete: true", "EmptyOnDelete: false"))
    assert built(lab, stack["Project"], "1")["buildStatus"] == "SUCCEEDED"
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_FAILED"
    assert "Repository" in lab.reasons(stack["StackId"], "DELETE_FAILED")


@pytest.fixture
def large(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], Any]]:
    """A project in the environment Linux/Large; set the quota before a build is started."""
    stack = project(lab, BUILD.replace("GENERAL1_SMALL", "GENERAL1_LARGE"))

    def start(quota: float) -> str:
        default = quotas.QUOTAS[quotas.LINUX_LARGE_BUILDS]
        allowed = replace(default, applied=quota)
        monkeypatch.setitem(quotas.QUOTAS, quotas.LINUX_LARGE_BUILDS, allowed)
        variables = [{"name": "IMAGE_TAG", "value": uuid.uuid4().hex}]
        response = lab.client("codebuild").start_build(
            projectName=stack["Project"], environmentVariablesOverride=variables
        )
        return str(response["build"]["id"])

    yield start
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def phases(lab: Lab, identity: str) -> dict[str, str]:
    """The status of a build and of its phases, when it is over."""
    build = ended(lab, identity)
    statuses = {phase["phaseType"]: phase.get("phaseStatus", "") for phase in build["phases"]}
    return {**statuses, "build": build["buildStatus"]}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Builds stay in their phase BUILD until the event is set."""
    event = threading.Event()
    monkeypatch.setattr(CodeBuild, "_check_variables", staticmethod(lambda _: event.wait()))
    yield event
    event.set()


def test_a_build_beyond_the_quota_waits_until_another_one_ends(
    lab: Lab, large: Callable[[float], str], held: threading.Event
) -> None:
    # Which of two builds starts first is not known.
    both = [large(1), large(1)]
    eventually(
        lambda: sorted(build_of(lab, one)["currentPhase"] for one in both),
        lambda names: names == ["BUILD", "QUEUED"],
    )
    held.set()
    assert [phases(lab, one)["build"] for one in both] == ["SUCCEEDED", "SUCCEEDED"]


def test_a_build_that_never_starts_times_out_in_the_queue(
    lab: Lab,
    large: Callable[[float], str],
    held: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = large(1)
    eventually(lambda: build_of(lab, first)["currentPhase"], lambda phase: phase == "BUILD")
    monkeypatch.setattr(builds, "_MINUTE_SECONDS", 1e-4)
    second = phases(lab, large(1))
    assert second == {
        "SUBMITTED": "SUCCEEDED",
        "QUEUED": "TIMED_OUT",
        "COMPLETED": "",
        "build": "TIMED_OUT",
    }
    held.set()
    phases(lab, first)


def test_an_account_without_builds_gets_none_into_the_queue(
    lab: Lab, large: Callable[[float], str]
) -> None:
    client = lab.client("codebuild")
    with pytest.raises(
        client.exceptions.AccountLimitExceededException, match="more than 0 builds in queue"
    ):
        large(0)
