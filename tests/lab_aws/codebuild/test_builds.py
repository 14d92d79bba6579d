"""Builds run with their own role, and nodes find the images that they push."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.lab_aws.region import Lab, archive, eventually


def made(lab: Lab, template: str, **request: Any) -> dict[str, Any]:
    """Create a stack, which must succeed. Returns its outputs by name."""
    stack = lab.stack(template, **request)
    assert stack["StackStatus"] == "CREATE_COMPLETE", lab.reasons(stack["StackId"])
    found = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    return {**found, "StackId": stack["StackId"], "StackName": stack["StackName"]}


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


def built(lab: Lab, project: str, tag: str) -> dict[str, Any]:
    codebuild = lab.client("codebuild")
    started = codebuild.start_build(
        projectName=project,
        environmentVariablesOverride=[{"name": "IMAGE_TAG", "value": tag}] if tag else [],
    )["build"]
    assert (started["buildStatus"], started["buildComplete"]) == ("IN_PROGRESS", False)
    builds: dict[str, Any] = eventually(
        lambda: codebuild.batch_get_builds(ids=[started["id"]])["builds"][0],
        lambda found: found["buildComplete"],
    )
    return builds


def test_a_build_puts_an_image_where_nodes_find_it(lab: Lab, tmp_path: Path) -> None:
    bucket = lab.bucket()
    source = archive("", **{"buildspec.yaml": BUILDSPEC, "Dockerfile": "FROM scratch\n"})
    lab.client("s3").put_object(Bucket=bucket, Key="source.zip", Body=source)
    found = made(lab, BUILD.replace("BUCKET", bucket))
    build = built(lab, found["Project"], "1")
    assert build["buildStatus"] == "SUCCEEDED", build["phases"]
    assert [phase["phaseType"] for phase in build["phases"]][-1] == "COMPLETED"
    image = lab.client("ecr").describe_images(repositoryName=found["Repository"])
    assert image["imageDetails"][0]["imageTags"] == ["1"]
    assert image["imageDetails"][0]["imageDigest"].startswith("sha256:")
    digest = image["imageDetails"][0]["imageDigest"]
    assert lab.backend.images[-2:] == [f"{found['Uri']}:1", f"{found['Uri']}@{digest}"]

    failed = built(lab, found["Project"], "")
    assert failed["buildStatus"] == "FAILED"
    contexts = [context for phase in failed["phases"] for context in phase.get("contexts", [])]
    assert contexts[0]["message"] == "the environment variable IMAGE_TAG is not set"

    lab.client("iam").delete_role_policy(RoleName=found["Role"], PolicyName="build")
    failed = built(lab, found["Project"], "2")
    contexts = [context for phase in failed["phases"] for context in phase.get("contexts", [])]
    assert "s3:GetObject" in contexts[0]["message"]
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_COMPLETE"


def test_a_repository_with_images_stays_unless_it_is_to_be_emptied(lab: Lab) -> None:
    bucket = lab.bucket()
    source = archive("", **{"buildspec.yaml": BUILDSPEC})
    lab.client("s3").put_object(Bucket=bucket, Key="source.zip", Body=source)
    template = BUILD.replace("BUCKET", bucket).replace(
        "EmptyOnDelete: true", "EmptyOnDelete: false"
    )
    found = made(lab, template)
    assert built(lab, found["Project"], "1")["buildStatus"] == "SUCCEEDED"
    assert lab.delete(found["StackId"])["StackStatus"] == "DELETE_FAILED"
    assert "Repository" in lab.reasons(found["StackId"], "DELETE_FAILED")
