"""Change sets say what an update replaces and deletes, in nested stacks too."""

from __future__ import annotations

import textwrap
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.region import Lab, allow, eventually

LEAF = """
Parameters:
  Strategy: {Type: String}
  Other: {Type: String, AllowedPattern: "[-A-Za-z0-9]*", Default: ""}
Conditions:
  HasLog: !Equals [!Ref Strategy, cluster]
Resources:
  Group:
    Type: AWS::EC2::PlacementGroup
    UpdateReplacePolicy: Retain
    Properties: {Strategy: !Ref Strategy}
  Log:
    Type: AWS::Logs::LogGroup
    Condition: HasLog
  Topic:
    Type: AWS::SNS::Topic
    Properties: {DisplayName: !Ref Other}
Outputs:
  Name: {Value: !Ref Group}
"""
ROOT = """
Metadata: {Mark: {of: tests}}
Resources:
  One:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: LEAF
      Parameters: {Strategy: ONE}
  Two:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: LEAF
      Parameters: {Strategy: cluster, Other: OTHER}
"""


class Family:
    """A stack of two nested stacks, the second of which gets an output of the first."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.bucket = lab, lab.stored("leaf.yaml", LEAF)
        self.leaf = f"{lab.region.endpoint_url}/{self.bucket}/leaf.yaml"
        self.cloudformation = lab.client("cloudformation")
        self.id = lab.created(self.body())["StackId"]

    def body(self, one: str = "cluster", other: str = "!GetAtt One.Outputs.Name") -> str:
        text = ROOT.replace("LEAF", self.leaf).replace("ONE", one).replace("OTHER", other)
        return textwrap.dedent(text)

    def propose(self, body: str, *, nested: bool = True) -> dict[str, Any]:
        """Make a change set and wait until it is made."""
        name = f"c-{uuid.uuid4().hex[:8]}"
        self.cloudformation.create_change_set(
            StackName=self.id, ChangeSetName=name, TemplateBody=body, IncludeNestedStacks=nested
        )
        return eventually(
            lambda: self.cloudformation.describe_change_set(StackName=self.id, ChangeSetName=name),
            lambda change_set: change_set["Status"] != "CREATE_IN_PROGRESS",
        )

    def changes(self, change_set: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {
            each["ResourceChange"]["LogicalResourceId"]: each["ResourceChange"]
            for each in change_set["Changes"]
        }

    def inner(self, change: dict[str, Any]) -> dict[str, Any]:
        return self.cloudformation.describe_change_set(
            StackName=change["PhysicalResourceId"], ChangeSetName=change["ChangeSetId"]
        )


@pytest.fixture(scope="module")
def family(lab: Lab) -> Family:
    """One for all tests; those that change it come last."""
    return Family(lab)


def test_a_nested_change_set_lists_what_is_replaced_and_deleted_within(family: Family) -> None:
    root = family.propose(family.body(one="spread"))
    assert (root["Status"], root["IncludeNestedStacks"]) == ("CREATE_COMPLETE", True)
    one = family.changes(root)["One"]
    assert (one["Action"], one["Replacement"]) == ("Modify", "False")
    inner = family.inner(one)
    assert (inner["ParentChangeSetId"], inner["RootChangeSetId"]) == (root["ChangeSetId"],) * 2
    changes = family.changes(inner)
    group, log = changes["Group"], changes["Log"]
    assert (group["Replacement"], group["PolicyAction"]) == ("True", "ReplaceAndRetain")
    assert (log["Action"], log["PolicyAction"]) == ("Remove", "Delete")
    assert "Topic" not in changes


def test_what_only_the_execution_yields_is_unknown_in_the_next_stack(family: Family) -> None:
    two = family.changes(family.propose(family.body(one="spread")))["Two"]
    inner = family.inner(two)
    parameters = {each["ParameterKey"]: each["ParameterValue"] for each in inner["Parameters"]}
    assert parameters["Other"] == "{{changeSet:KNOWN_AFTER_APPLY}}"
    assert family.changes(inner)["Topic"]["Replacement"] == "False"


def test_a_property_that_may_change_may_replace(lab: Lab) -> None:
    template = """
        Resources:
          First: {Type: AWS::SNS::Topic, Properties: {TopicName: NAME}}
          Rule:
            Type: AWS::Logs::LogGroup
            Properties: {LogGroupName: !GetAtt First.TopicName}
    """
    first, second = (f"t-{uuid.uuid4().hex[:8]}" for _ in range(2))
    stack = lab.stack(template.replace("NAME", first))
    cloudformation = lab.client("cloudformation")
    cloudformation.create_change_set(
        StackName=stack["StackId"],
        ChangeSetName="c",
        TemplateBody=textwrap.dedent(template.replace("NAME", second)),
    )
    change_set = cloudformation.describe_change_set(StackName=stack["StackId"], ChangeSetName="c")
    replacements = {
        each["ResourceChange"]["LogicalResourceId"]: each["ResourceChange"]["Replacement"]
        for each in change_set["Changes"]
    }
    assert replacements == {"First": "True", "Rule": "Conditional"}


def test_a_nested_change_set_without_changes_fails_and_a_plain_one_cannot_know(
    family: Family,
) -> None:
    same = family.propose(family.body())
    assert (same["Status"], same["ExecutionStatus"]) == ("FAILED", "UNAVAILABLE")
    assert "didn't contain changes" in same["StatusReason"]
    plain = family.changes(family.propose(family.body(), nested=False))
    assert {one["Details"][0]["ChangeSource"] for one in plain.values()} == {"Automatic"}
    assert all("ChangeSetId" not in one for one in plain.values())


def test_a_part_of_an_unknown_value_fails_the_nested_change_set(family: Family) -> None:
    """aws-cloudformation/cloudformation-coverage-roadmap#759"""
    part = '!Select [1, !Split ["-", !Ref Other]]'
    family.lab.client("s3").put_object(
        Bucket=family.bucket, Key="part.yaml", Body=LEAF.replace("!Ref Other", part).encode()
    )
    head, two, tail = family.body(one="spread").partition("  Two:")
    body = head + two + tail.replace("leaf.yaml", "part.yaml")
    other = family.propose(body)
    assert (other["Status"], "Nested change set" in other["StatusReason"]) == ("FAILED", True)
    assert family.propose(body, nested=False)["Status"] == "CREATE_COMPLETE"


def test_nested_change_sets_are_deleted_at_the_root(family: Family) -> None:
    root = family.propose(family.body(one="spread"))
    one = family.changes(root)["One"]
    delete: Callable[..., Any] = family.cloudformation.delete_change_set
    with pytest.raises(ClientError, match="InvalidChangeSetStatus"):
        delete(ChangeSetName=one["ChangeSetId"])
    delete(ChangeSetName=root["ChangeSetId"])
    with pytest.raises(ClientError, match="ChangeSetNotFound"):
        family.inner(one)
    delete(ChangeSetName=root["ChangeSetId"])


def test_a_change_set_of_a_stack_that_was_updated_since_is_not_executed(family: Family) -> None:
    old, new = (family.propose(family.body(one="spread")) for _ in range(2))
    family.cloudformation.execute_change_set(ChangeSetName=new["ChangeSetId"])
    assert family.lab.settled(family.id)["StackStatus"] == "UPDATE_COMPLETE"
    with pytest.raises(ClientError, match="OBSOLETE"):
        family.cloudformation.execute_change_set(ChangeSetName=old["ChangeSetId"])


def test_the_metadata_of_a_stacks_template_need_a_permission_and_are_json(family: Family) -> None:
    lab = family.lab
    role = lab.role("ec2.amazonaws.com", allow("cloudformation:DescribeStacks", "*"))
    with pytest.raises(ClientError, match="cloudformation:GetTemplateSummary"):
        lab.as_role(role, "cloudformation").get_template_summary(StackName=family.id)
    lab.permit(role, allow("cloudformation:GetTemplateSummary", family.id))
    summary = lab.as_role(role, "cloudformation").get_template_summary(StackName=family.id)
    assert summary["Metadata"] == '{"Mark": {"of": "tests"}}'
