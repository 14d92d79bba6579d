"""Campaigns on the true system: draws, a sweep, a pool, and what an end in the middle leaves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from lab.fabric import caps
from lab.fabric.caps import Link
from tests.lab.running import SHORT, TOOLS, Lab
from tests.lab.waiting import eventually

SIZE = 2


def campaign(lab: Lab, name: str, *options: str, seconds: float = 180) -> dict[str, Any]:
    """The campaign.json of a campaign that `rackrate campaign run` brought to its end."""
    plan = lab.directory / f"{name}.plan.json"
    plan.write_text(json.dumps(SHORT), encoding="utf-8")
    lab.command(
        *(str(TOOLS / "rackrate"), "campaign", "run", "--plan", str(plan), "--name", name),
        *("--out", str(lab.directory), *options),
        seconds=seconds,
    )
    document: dict[str, Any] = json.loads((lab.directory / name / "campaign.json").read_text())
    return document


def record(lab: Lab, name: str) -> dict[str, Any]:
    """A campaign's item in the table, empty before there is one."""
    response = lab.aws("dynamodb").get_item(
        TableName=lab.outputs["TableName"],
        Key={"pk": {"S": f"campaign#{name}"}, "sk": {"S": "campaign"}},
        ConsistentRead=True,
    )
    return dict(response.get("Item", {}))


def start(lab: Lab, name: str, plan: Mapping[str, Any]) -> str:
    """Start an execution of the campaigns' state machine; returns its ARN."""
    started = lab.aws("stepfunctions").start_execution(
        stateMachineArn=lab.outputs["CampaignStateMachineArn"], name=name, input=json.dumps(plan)
    )
    return str(started["executionArn"])


def arms() -> dict[str, list[Link]]:
    """The links of each arm's nodes, by the value of placementGroup."""
    links: dict[str, list[Link]] = {"true": [], "false": []}
    for link in caps.links():
        links[link.labels["placementGroup"]].append(link)
    return links


def nodes(lab: Lab) -> int:
    return len(lab.nodes(placement_group=True)) + len(lab.nodes(placement_group=False))


@pytest.mark.core
def test_each_draw_measures_new_nodes_and_a_pool_of_its_runs_says_the_same(lab: Lab) -> None:
    before = arms()
    drawn = campaign(lab, "drawn", "--draws", "2")
    assert drawn["campaign"]["status"] == "succeeded"
    assert [step["run_id"] for step in drawn["steps"]] == ["drawn-01", "drawn-02"]
    placed = [{name for arm in step["nodes"].values() for name in arm} for step in drawn["steps"]]
    assert len(placed[0]) == len(placed[1]) == 2 * SIZE
    assert placed[0].isdisjoint(placed[1])
    after = arms()
    for arm, links in after.items():
        assert len(links) == SIZE
        for one, other in itertools.product(links, before[arm]):
            assert one.instance_id != other.instance_id
            assert one.limits != other.limits, "the hosts' luck is drawn again"
    assert after["true"][0].place == after["true"][1].place != before["true"][0].place
    assert after["false"][0].rack != after["false"][1].rack
    # `make lab-truth` knows the places of both draws.
    everything = [link.instance_id for link in caps.all_places()]
    assert len(set(everything[-4 * SIZE :])) == 4 * SIZE
    assert {link.instance_id for arm in after.values() for link in arm} == set(
        everything[-2 * SIZE :]
    )
    for answer in drawn["answers"]:
        assert [draw["run_id"] for draw in answer["draws"]] == ["drawn-01", "drawn-02"]
        # Two draws cannot tell about the placement group, however clear they are.
        assert answer["verdict"] == "inconclusive"
        assert answer["scope"] == "these draws"
    assert lab.record("drawn-01")["campaign"] == "drawn"
    assert (lab.directory / "drawn" / "report.html").exists()
    assert (lab.directory / "drawn-02" / "report.html").exists()
    assert nodes(lab) == 2 * SIZE
    assert lab.holders() == []

    lab.command(
        *(str(TOOLS / "rackrate"), "pool", "drawn-01", "drawn-02", "--name", "pooled"),
        *("--out", str(lab.directory)),
    )
    pooled = json.loads((lab.directory / "pooled" / "campaign.json").read_text())
    ratios = [[draw["ratio"] for draw in answer["draws"]] for answer in drawn["answers"]]
    assert [[draw["ratio"] for draw in answer["draws"]] for answer in pooled["answers"]] == ratios


def test_a_sweep_changes_an_add_on_between_runs_and_puts_it_back(lab: Lab) -> None:
    def configuration() -> Any:
        addon = lab.aws("eks").describe_addon(
            clusterName=lab.outputs["ClusterName"], addonName="kube-proxy"
        )["addon"]
        return json.loads(addon.get("configurationValues") or "{}")

    before = configuration()
    data = campaign(lab, "swept", "--sweep", "kube_proxy=iptables,nftables", "--runs-per-step", "1")
    assert [step["value"] for step in data["steps"]] == ["iptables", "nftables"]
    assert {cell["value"] for cell in data["sweep"]} == {"iptables", "nftables"}
    assert configuration() == before


def test_a_sweep_over_releases_of_the_image_replaces_the_nodes_and_goes_back(lab: Lab) -> None:
    def group(arm: str) -> dict[str, Any]:
        names = lab.outputs[f"{arm}NodeGroups"]
        description: dict[str, Any] = lab.aws("eks").describe_nodegroup(
            clusterName=lab.outputs["ClusterName"], nodegroupName=names
        )["nodegroup"]
        return description

    newest = group("Treatment")["releaseVersion"]
    older = newest.replace("20260714", "20260625")
    assert older != newest
    sweep = f"ami_release={newest},{older}"
    swept = campaign(lab, "released", "--sweep", sweep, "--runs-per-step", "1")
    assert [step["value"] for step in swept["steps"]] == [newest, older]
    images = [
        {node["image"] for arm in results["arms"] for node in arm["node_facts"]}
        for step in swept["steps"]
        if (results := json.loads((lab.directory / step["run_id"] / "results.json").read_text()))
    ]
    assert [len(each) for each in images] == [1, 1]
    assert images[0].isdisjoint(images[1])
    assert {group(arm)["releaseVersion"] for arm in ("Treatment", "Baseline")} == {newest}
    assert nodes(lab) == 2 * SIZE


def test_a_sweep_over_instance_types_starts_nodes_of_each_type_and_leaves_no_version(
    lab: Lab,
) -> None:
    def versions() -> dict[str, list[str]]:
        result = {}
        for arm in ("Treatment", "Baseline"):
            group = lab.aws("eks").describe_nodegroup(
                clusterName=lab.outputs["ClusterName"],
                nodegroupName=lab.outputs[f"{arm}NodeGroups"],
            )["nodegroup"]
            template = lab.aws("ec2").describe_launch_template_versions(
                LaunchTemplateId=group["launchTemplate"]["id"]
            )["LaunchTemplateVersions"]
            numbers = [str(each["VersionNumber"]) for each in template]
            result[arm] = [group["launchTemplate"]["version"], *numbers]
        return result

    before = versions()
    types = ["c5.large", "c5.xlarge"]
    sweep = f"instance_type={','.join(types)}"
    swept = campaign(lab, "typed", "--sweep", sweep, "--runs-per-step", "1")
    assert [step["value"] for step in swept["steps"]] == types
    result = [
        {node["instance_type"] for arm in results["arms"] for node in arm["node_facts"]}
        for step in swept["steps"]
        if (results := json.loads((lab.directory / step["run_id"] / "results.json").read_text()))
    ]
    assert result == [{each} for each in types]
    assert versions() == before
    assert nodes(lab) == 2 * SIZE


@pytest.mark.parametrize(
    ("sweep", "blamed"),
    [
        ("instance_type=c5.large,c7g.large", "sweep.instance_type[1]: the nodes' image"),
        ("ami_release=1.36.2-20260714,1.2.3-20200101", "sweep.ami_release[1]: EC2 has no image"),
        ("nodes=2,501", "sweep.nodes[1]: 501 in each arm"),
        ("vpc_cni=v1.21.1-eksbuild.1,v1.0.0-eksbuild.1", "sweep.vpc_cni[1]: EKS does not offer"),
    ],
)
def test_a_sweep_that_its_last_step_would_break_changes_nothing(
    lab: Lab, sweep: str, blamed: str
) -> None:
    before = lab.nodes(placement_group=True)
    done = lab.command(
        *(str(TOOLS / "rackrate"), "campaign", "run", "--sweep", sweep),
        *("--out", str(lab.directory)),
        check=False,
    )
    assert done.returncode == 2
    assert blamed in done.stderr
    assert lab.nodes(placement_group=True) == before


def test_a_campaign_that_is_stopped_in_a_change_or_a_run_leaves_the_nodes_as_they_were(
    lab: Lab,
) -> None:
    def phase(name: str) -> str:
        return str(record(lab, name).get("phase", {}).get("S", ""))

    def stop(name: str, arn: str) -> None:
        lab.aws("stepfunctions").stop_execution(executionArn=arn)
        eventually(
            lambda: (
                (item := record(lab, name))["status"]["S"] == "aborted"
                and "M" not in item.get("changed", {})
            ),
            seconds=60,
        )
        assert nodes(lab) == 2 * SIZE
        assert lab.holders() == []

    arn = start(lab, "stopped-changing", {"plan": dict(SHORT), "draws": 2})
    eventually(lambda: caps.links() == [], seconds=60, poll_seconds=0.1)
    stop("stopped-changing", arn)

    arn = start(lab, "stopped-running", {"plan": {**SHORT, "blocks": 12}, "draws": 2})
    eventually(lambda: lab.record("stopped-running-01").get("block"), seconds=90)
    stop("stopped-running", arn)
    ended = lab.ended("stopped-running-01")
    assert ended["status"] == "ABORTED"
    eventually(lambda: lab.left_in_cluster("stopped-running-01") == [], seconds=30)
    assert phase("stopped-running") == "aborted"


def test_the_hourly_sweep_finds_nothing_to_put_back_after_campaigns_that_ended(lab: Lab) -> None:
    functions = lab.aws("lambda").list_functions()["Functions"]
    (name,) = (f["FunctionName"] for f in functions if "-RestoreFunction-" in f["FunctionName"])
    response = lab.aws("lambda").invoke(
        FunctionName=name, Payload=json.dumps({"detail-type": "Scheduled Event"})
    )
    swept = json.loads(response["Payload"].read())
    assert (swept["restored"], swept["unrestored"], swept["ended"]) == ([], [], [])


def test_a_run_that_only_claims_to_belong_to_a_campaign_is_refused(lab: Lab) -> None:
    lab.start("stranger", {**SHORT, "campaign": "drawn"})
    ended = lab.ended("stranger")
    assert ended["error"] == "InvalidPlan"
    assert "campaign" in ended["cause"]
