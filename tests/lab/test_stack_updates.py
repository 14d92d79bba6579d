"""A user changes the parameters of a stack that holds results, and keeps measuring with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.running import SHORT, TOOLS, Lab
from tests.lab.shared_stack import SharedStack
from tests.lab.waiting import eventually

pytestmark = pytest.mark.core


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
def updated(lab: Lab) -> Iterator[SharedStack]:
    """The stack, which afterwards has the parameters that it had."""
    shared = SharedStack(lab)
    yield shared
    if shared.parameters() != shared.given:
        shared.update(**shared.given)


def kept(lab: Lab, run_id: str) -> dict[str, Any]:
    """All that there is of a run: its items and the content of its objects."""
    content = {name: lab.read(f"runs/{run_id}/{name}") for name in lab.objects(run_id)}
    items = [item for kind in ("run", "trial#", "verdict#") for item in lab.items(run_id, kind)]
    return {"items": items, "objects": content}


def host_namespace(lab: Lab) -> bool:
    """Is there the namespace whose pods are in the network of their node?"""
    names = {namespace.metadata.name for namespace in lab.core.list_namespace().items}
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
    listed = lab.aws("ec2").describe_instances(
        Filters=[{"Name": "tag:eks:nodegroup-name", "Values": node_groups}]
    )["Reservations"]
    return {one["Placement"].get("GroupName", "") for each in listed for one in each["Instances"]}


def test_a_stack_takes_other_parameters_and_keeps_its_results(
    lab: Lab, earlier: str, updated: SharedStack
) -> None:
    before = kept(lab, earlier)
    stores = {name: updated.output(name) for name in ("BucketName", "TableName")}
    assert before["items"] and "results.json" in before["objects"]

    updated.update(
        NodeCount="3",
        HostNetwork="true",
        ToolImage="build",
        IdleScaleToZero="true",
    )
    image = updated.output("ToolImage")
    assert ".dkr.ecr." in image
    assert host_namespace(lab) is True
    assert lab.rackrate(SHORT, "updated").returncode == 0
    plan = lab.document("updated", "plan.json")
    assert plan["image"] == image
    assert [len(arm["nodes"]) for arm in plan["arms"]] == [3, 3]
    treatment, baseline = (updated.output(f"{arm}NodeGroups") for arm in ("Treatment", "Baseline"))
    assert [",".join(arm["node_groups"]) for arm in plan["arms"]] == [treatment, baseline]
    assert [sizes_of_groups(arm) for arm in plan["arms"]] == [[3], [3]]
    # The node group of the treatment arm launches into its placement group, and the baseline's into
    # none.
    placed = placement_groups(lab, treatment.split(","))
    assert len(placed) == 1 and placed != {""}
    assert placement_groups(lab, baseline.split(",")) == {""}
    # Only pods in the network of their node read what its interfaces have counted.
    assert len(lab.document("updated", "counters.json")["before"]) == 6
    eventually(lambda: at_rest(lab), seconds=60)

    updated.update(**updated.given)
    assert host_namespace(lab) is False
    eks, cluster = lab.aws("eks"), lab.outputs["ClusterName"]
    assert len(eks.list_nodegroups(clusterName=cluster)["nodegroups"]) == 2
    assert lab.rackrate(SHORT, "restored").returncode == 0
    assert not lab.document("restored", "counters.json").get("before")

    assert {name: updated.output(name) for name in stores} == stores
    assert kept(lab, earlier) == before
