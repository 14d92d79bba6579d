"""taskcat deploys into the Region by its own API, and says what became of the stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab_aws.conftest import Lab
from tests.taskcat.deploying import Taskcat, TaskcatError

CONFIGURATION = """
project:
  name: small
  regions: [us-east-1]
  template: build/packaged.yaml
  package_lambda: false
  shorten_stack_name: true
tests:
  plain: {parameters: {Purpose: plain}}
  other: {parameters: {Purpose: other, Size: "3"}}
"""

CHILD = {
    "Parameters": {"Purpose": {"Type": "String"}},
    "Resources": {
        "Topic": {
            "Type": "AWS::SNS::Topic",
            "Properties": {"DisplayName": {"Ref": "Purpose"}},
        },
        "Role": {
            "Type": "AWS::IAM::Role",
            "Condition": "Fails",
            # A policy that does not exist cannot be attached.
            "Properties": {
                "AssumeRolePolicyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Action": "sts:AssumeRole",
                            "Principal": {"Service": "lambda.amazonaws.com"},
                        }
                    ],
                },
                "ManagedPolicyArns": ["arn:aws:iam::aws:policy/NoSuchPolicy"],
            },
        },
    },
    "Conditions": {"Fails": {"Fn::Equals": [{"Ref": "Purpose"}, "failure"]}},
    "Outputs": {"Topic": {"Value": {"Ref": "Topic"}}},
}


def root(child_url: str) -> str:
    template = {
        "Parameters": {
            "Purpose": {"Type": "String", "AllowedPattern": "[a-z]+"},
            "Size": {"Type": "Number", "Default": "2"},
            "Label": {"Type": "String", "Default": ""},
        },
        "Resources": {
            "Child": {
                "Type": "AWS::CloudFormation::Stack",
                "Properties": {
                    "TemplateURL": child_url,
                    "Parameters": {"Purpose": {"Ref": "Purpose"}},
                },
            }
        },
        "Outputs": {
            "Topic": {"Value": {"Fn::GetAtt": ["Child", "Outputs.Topic"]}},
            "Size": {"Value": {"Ref": "Size"}},
        },
    }
    return json.dumps(template)


@pytest.fixture
def taskcat(lab: Lab, tmp_path: Path) -> Taskcat:
    artifacts = lab.bucket()
    lab.client("s3").put_object(Bucket=artifacts, Key="child.json", Body=json.dumps(CHILD))
    template = tmp_path / "root.json"
    template.write_text(root(f"https://{artifacts}.s3.us-east-1.amazonaws.com/child.json"))
    configuration = tmp_path / "taskcat.yml"
    configuration.write_text(CONFIGURATION)
    project = tmp_path / "project"
    project.mkdir()
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "AWS_ENDPOINT_URL": lab.region.endpoint_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": lab.region.access_key_id,
        "AWS_SECRET_ACCESS_KEY": lab.region.secret_access_key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return Taskcat(environment, template, artifacts, project, configuration)


def test_a_stack_is_there_while_the_test_looks_at_it_and_gone_afterwards(
    lab: Lab, taskcat: Taskcat
) -> None:
    topics = lab.client("sns")
    with taskcat.deployed("other") as stack:
        assert stack.created
        assert stack.name.startswith("tCaT-other-")
        assert stack.outputs["Size"] == "3"
        made = topics.get_topic_attributes(TopicArn=stack.outputs["Topic"])
        assert made["Attributes"]["DisplayName"] == "other"
    with pytest.raises(topics.exceptions.NotFoundException):
        topics.get_topic_attributes(TopicArn=stack.outputs["Topic"])
    assert stack.deletion[0].status == "DELETE_COMPLETE"


def test_parameters_of_one_deployment_are_laid_over_the_tests_own(taskcat: Taskcat) -> None:
    with taskcat.deployed("plain", {"Purpose": "changed", "Size": "5"}) as stack:
        assert stack.parameters == {"Purpose": "changed", "Size": "5", "Label": ""}
        assert stack.outputs["Size"] == "5"


def test_taskcat_makes_no_bucket_of_its_own(lab: Lab, taskcat: Taskcat) -> None:
    def buckets() -> set[str]:
        return {bucket["Name"] for bucket in lab.client("s3").list_buckets()["Buckets"]}

    before = buckets()
    with taskcat.deployed("plain"):
        pass
    assert buckets() == before


def test_a_failed_stack_gives_the_reason_of_the_nested_resource_and_is_deleted(
    lab: Lab, taskcat: Taskcat
) -> None:
    with taskcat.deployed("plain", {"Purpose": "failure"}) as stack:
        assert not stack.created
        assert any(reason.startswith("Role: ") for reason in stack.reasons), stack.reasons
        assert "NoSuchPolicy" in " ".join(stack.reasons)
    names = [
        found["StackName"]
        for found in lab.client("cloudformation").describe_stacks()["Stacks"]
        if found["StackStatus"] != "DELETE_COMPLETE"
    ]
    assert stack.name not in names


def test_parameters_that_cloudformation_refuses_are_reasons_too(taskcat: Taskcat) -> None:
    with taskcat.deployed("plain", {"Purpose": "UPPER"}) as stack:
        assert stack.status == "CREATE_FAILED"
        assert "Purpose" in stack.reasons[0]


def test_a_stack_is_deleted_also_when_the_test_fails(lab: Lab, taskcat: Taskcat) -> None:
    with pytest.raises(RuntimeError, match="the test's own"), taskcat.deployed("plain") as stack:
        raise RuntimeError("the test's own")
    assert stack.deletion[0].status == "DELETE_COMPLETE"


def test_a_test_that_does_not_exist_is_named(taskcat: Taskcat) -> None:
    with pytest.raises(TaskcatError, match="no test 'nonesuch'"), taskcat.deployed("nonesuch"):
        pass
