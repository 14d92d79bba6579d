"""Updates replace, clean up and go back as CloudFormation's do."""

from __future__ import annotations

import uuid

import pytest

from lab.tests.aws.cloudformation.test_engine import CODE
from lab.tests.aws.cluster_templates import CLUSTER, NETWORK
from lab.tests.aws.region import Lab, function_arn

LEAF = """
Parameters:
  Strategy: {Type: String}
Resources:
  Group:
    Type: AWS::EC2::PlacementGroup
    Properties: {Strategy: !Ref Strategy}
Outputs:
  Name: {Value: !Ref Group}
"""


class Nest:
    """A stack with a placement group in a nested stack, and then a custom resource."""

    def __init__(self, lab: Lab) -> None:
        bucket, self._lab = lab.stored("leaf.yaml", LEAF), lab
        self.function = lab.function(CODE)
        self._template = f"""
        Resources:
          Leaf:
            Type: AWS::CloudFormation::Stack
            Properties:
              TemplateURL: {lab.region.endpoint_url}/{bucket}/leaf.yaml
              Parameters: {{Strategy: STRATEGY}}
          Thing:
            Type: Custom::Thing
            DependsOn: Leaf
            Properties:
              ServiceToken: {function_arn(self.function)}
              Fail: "FAIL"
        Outputs:
          Name: {{Value: !GetAtt Leaf.Outputs.Name}}
        """
        self.stack = lab.stack(self._of("cluster", "no"))
        assert self.stack["StackStatus"] == "CREATE_COMPLETE"

    def _of(self, strategy: str, fail: str) -> str:
        return self._template.replace("STRATEGY", strategy).replace("FAIL", fail)

    def update(self, strategy: str, fail: str) -> str:
        """Update the stack; returns its status."""
        status = self._lab.update(self.stack["StackId"], self._of(strategy, fail))
        self.stack = self._lab.settled(self.stack["StackId"])
        return status

    @property
    def group(self) -> str:
        return str(self.stack["Outputs"][0]["OutputValue"])

    def groups(self) -> set[str]:
        """The names of the stack's placement groups that exist."""
        existing = self._lab.client("ec2").describe_placement_groups()["PlacementGroups"]
        mark = self.stack["StackName"]
        return {group["GroupName"] for group in existing if group["GroupName"].startswith(mark)}

    def requests(self) -> list[str]:
        """The requests that the custom resource's function got."""
        lines = self._lab.log_of_ended(self.function).splitlines()
        return [line.partition("asked ")[2] for line in lines if "asked " in line]


@pytest.fixture(scope="module")
def nest(lab: Lab) -> Nest:
    """One for all tests, each of which leaves it complete."""
    return Nest(lab)


def test_a_nested_stack_goes_back_to_what_it_replaced_if_a_later_resource_fails(nest: Nest) -> None:
    before = nest.group
    assert nest.update("partition", "Update") == "UPDATE_ROLLBACK_COMPLETE"
    assert nest.group == before
    assert nest.groups() == {before}


def test_a_failed_custom_resource_is_asked_for_its_old_properties_again(nest: Nest) -> None:
    assert nest.update("cluster", "Update") == "UPDATE_ROLLBACK_COMPLETE"
    failed, again = nest.requests()[-2:]
    assert failed.startswith("Update") and '"Fail": "Update"' in failed
    assert again.startswith("Update") and '"Fail": "no"' in again


def test_what_is_replaced_is_deleted_when_all_is_updated(nest: Nest) -> None:
    before = nest.group
    assert nest.update("spread", "never") == "UPDATE_COMPLETE"
    assert nest.group != before
    assert nest.groups() == {nest.group}


def test_update_replace_policy_decides_about_what_is_replaced(lab: Lab) -> None:
    template = """
        Parameters:
          Strategy: {Type: String}
        Resources:
          Group:
            Type: AWS::EC2::PlacementGroup
            UpdateReplacePolicy: Retain
            Properties: {Strategy: !Ref Strategy}
    """

    stack = lab.created(template, {"Strategy": "cluster"})
    assert lab.update(stack["StackId"], parameters={"Strategy": "spread"}) == "UPDATE_COMPLETE"
    groups = lab.client("ec2").describe_placement_groups()["PlacementGroups"]
    own = [one for one in groups if one["GroupName"].startswith(stack["StackName"])]
    assert {one["Strategy"] for one in own} == {"cluster", "spread"}


def test_a_replacement_that_keeps_a_name_of_the_template_is_refused(lab: Lab) -> None:
    template = (
        "Resources:" + NETWORK + CLUSTER.replace("Properties:", "Properties:\n      Name: NAME")
    )
    template = template.replace("NAME", f"c-{uuid.uuid4().hex[:8]}")
    stack = lab.created(template)
    other = template.replace("AdminPermissions: false", "AdminPermissions: true")
    assert lab.update(stack["StackId"], other) == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource" in lab.reasons(stack["StackId"])["Cluster"]
