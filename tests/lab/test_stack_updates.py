"""A user changes the parameters of a stack that holds results, and keeps measuring with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import WaiterError

from lab import stack
from tests.lab.running import SHORT, TOOLS, Lab
from tests.lab.waiting import eventually


class Stack:
    """The stack that the tests share, as the owner of its parameters sees it."""

    def __init__(self, lab: Lab) -> None:
        self._cloudformation = lab.aws("cloudformation")
        self.given = self.parameters()

    def parameters(self) -> dict[str, str]:
        """The parameters as they are now."""
        return {p["ParameterKey"]: p["ParameterValue"] for p in self._described("Parameters")}

    def _described(self, section: str) -> list[dict[str, str]]:
        (found,) = self._cloudformation.describe_stacks(StackName=stack.STACK)["Stacks"]
        return list(found[section])

    def output(self, name: str) -> str:
        """An output as it is now."""
        (value,) = (o["OutputValue"] for o in self._described("Outputs") if o["OutputKey"] == name)
        return value

    def update(self, **changed: str) -> None:
        """Give some parameters other values and let the others be, as `update-stack` does."""
        self._cloudformation.update_stack(
            StackName=stack.STACK,
            UsePreviousTemplate=True,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            Parameters=[
                {"ParameterKey": name, "ParameterValue": changed[name]}
                if name in changed
                else {"ParameterKey": name, "UsePreviousValue": True}
                for name in self.given
            ],
        )
        try:
            self._cloudformation.get_waiter("stack_update_complete").wait(
                StackName=stack.STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 240}
            )
        except WaiterError as error:
            raise AssertionError(f"{error}: {self._reasons()}") from error

    def _reasons(self) -> list[str]:
        """Why resources failed, the newest first."""
        events = self._cloudformation.describe_stack_events(StackName=stack.STACK)["StackEvents"]
        return [
            f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
            for event in events
            if event["ResourceStatus"].endswith("FAILED")
        ]


@pytest.fixture(scope="module")
def earlier(lab: Lab) -> str:
    """A run that succeeded before the updates; one that another test made will do."""
    listed = json.loads(lab.command(str(TOOLS / "rackrate"), "list", "--json").stdout)["runs"]
    ended = [run["id"] for run in listed if run["status"] == "succeeded"]
    if not ended:
        ended = ["before-the-updates"]
        assert lab.rackrate(SHORT, ended[0]).returncode == 0
    return ended[0]


@pytest.fixture
def updated(lab: Lab) -> Iterator[Stack]:
    """The stack, which afterwards has the parameters that it had."""
    found = Stack(lab)
    yield found
    if found.parameters() != found.given:
        found.update(**found.given)


def kept(lab: Lab, run_id: str) -> dict[str, Any]:
    """All that there is of a run: its items and the content of its objects."""
    s3, bucket = lab.aws("s3"), lab.outputs["BucketName"]
    content = {
        name: s3.get_object(Bucket=bucket, Key=f"runs/{run_id}/{name}")["Body"].read()
        for name in lab.objects(run_id)
    }
    items = [item for kind in ("run", "trial#", "verdict#") for item in lab.items(run_id, kind)]
    return {"items": items, "objects": content}


def host_namespace(lab: Lab) -> bool:
    """Is there the namespace whose pods are in the network of their node?"""
    names = {found.metadata.name for found in lab.core.list_namespace().items}
    return f"{lab.namespace}-host" in names


def at_rest(lab: Lab) -> bool:
    """Have the node groups no nodes and no update that is not over?

    EKS refuses an update of a node group while another one runs.
    """
    eks, cluster = lab.aws("eks"), lab.outputs["ClusterName"]
    groups = [
        eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
        for name in eks.list_nodegroups(clusterName=cluster)["nodegroups"]
    ]
    return not lab.core.list_node().items and all(
        (group["status"], group["scalingConfig"]["desiredSize"]) == ("ACTIVE", 0)
        for group in groups
    )


def sizes_of_groups(arm: dict[str, Any]) -> list[int]:
    """The number of measured nodes of each node group of an arm of a plan, in the arm's order."""
    return [sum(node["node_group"] == name for node in arm["nodes"]) for name in arm["node_groups"]]


def placement_groups(lab: Lab, node_groups: list[str]) -> set[str]:
    """The placement groups of all instances that node groups ever launched; empty for none."""
    found = lab.aws("ec2").describe_instances(
        Filters=[{"Name": "tag:eks:nodegroup-name", "Values": node_groups}]
    )["Reservations"]
    return {one["Placement"].get("GroupName", "") for each in found for one in each["Instances"]}


def test_a_stack_takes_other_parameters_and_keeps_its_results(
    lab: Lab, earlier: str, updated: Stack
) -> None:
    before = kept(lab, earlier)
    stores = {name: updated.output(name) for name in ("BucketName", "TableName")}
    assert before["items"] and "results.json" in before["objects"]

    updated.update(
        NodeCount="3",
        NodeGroupsPerArm="2",
        HostNetwork="false",
        ToolImage="build",
        IdleScaleToZero="true",
    )
    image = updated.output("ToolImage")
    assert ".dkr.ecr." in image
    assert host_namespace(lab) is False
    assert lab.rackrate(SHORT, "updated").returncode == 0
    plan = lab.document("updated", "plan.json")
    assert plan["image"] == image
    assert [len(arm["nodes"]) for arm in plan["arms"]] == [3, 3]
    treatment, baseline = (updated.output(f"{arm}NodeGroups") for arm in ("Treatment", "Baseline"))
    assert [",".join(arm["node_groups"]) for arm in plan["arms"]] == [treatment, baseline]
    assert [sizes_of_groups(arm) for arm in plan["arms"]] == [[2, 1], [2, 1]]
    # Both node groups of the treatment arm launch into its placement group, and those of the
    # baseline into none.
    placed = placement_groups(lab, treatment.split(","))
    assert len(placed) == 1 and placed != {""}
    assert placement_groups(lab, baseline.split(",")) == {""}
    # Only pods in the network of their node read what its interfaces have counted.
    assert not lab.document("updated", "counters.json").get("before")
    eventually(lambda: at_rest(lab), seconds=60)

    updated.update(**updated.given)
    assert host_namespace(lab) is True
    eks, cluster = lab.aws("eks"), lab.outputs["ClusterName"]
    assert len(eks.list_nodegroups(clusterName=cluster)["nodegroups"]) == 2
    assert lab.rackrate(SHORT, "restored").returncode == 0
    assert len(lab.document("restored", "counters.json")["before"]) == 4

    assert {name: updated.output(name) for name in stores} == stores
    assert kept(lab, earlier) == before
