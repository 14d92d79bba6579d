"""Load nodes in campaigns: they follow the arms' number, and only where a workload uses them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackrate.errors import InvalidCampaign, InvalidPlan
from rackrate.plan.capacity import load_nodes_for
from rackrate.settings import LOAD, StackArm
from rackrate.stages.campaign.change import change
from rackrate.stages.campaign.judge import judge
from rackrate.stages.campaign.plan_campaign import plan_campaign
from rackrate.stages.campaign.restore import restore
from rackrate.stages.execution.take_lease import take_campaign_lease
from rackrate.stages.run.plan import check_apart
from rackrate_contract.selectors import Selector
from tests.unit.builders import node as node_of
from tests.unit.samples import SETTINGS
from tests.unit.stages.campaigns import CAMPAIGN, CAMPAIGN_ARN, NodeGroups

#: Four nodes in each arm, and two load nodes.
USUAL = {"treatment-1": 4, "baseline-1": 4, "load-1": 2}
ARMS = tuple(
    replace(
        arm,
        node_groups=(f"{arm.name}-1",),
        selector=Selector.parse(f"rackrate.dev/arm={arm.name}"),
    )
    for arm in SETTINGS.arms
)
LOAD_NODES = StackArm(LOAD, "none", False, ("load-1",), Selector.parse("rackrate.dev/arm=load"))
STORE = {"name": "etcd", "puts": 300, "members": None, "loaders": None}


@pytest.fixture
def settings():
    return replace(
        SETTINGS, arms=ARMS, node_count=4, owns_nodes=True, load=LOAD_NODES, load_node_count=2
    )


@pytest.fixture
def eks(cluster):
    cluster.nodes = []
    return NodeGroups(cluster, USUAL)


@pytest.fixture
def resources(resources, eks, ec2):
    ec2.describe_subnets = lambda **_: {"Subnets": [{"AvailableIpAddressCount": 4000}]}
    return resources.but(eks=eks, quotas=Quotas(640.0))


class Quotas:
    """Service Quotas with the same value for every quota."""

    def __init__(self, value):
        self.value = value

    def get_service_quota(self, **_):
        return {"Quota": {"Value": self.value}}


def begin(resources, test, **given):
    raw = {"plan": {"tests": [test], "blocks": 1}, **given}
    plan_campaign(raw, resources, campaign_id=CAMPAIGN, execution_arn=CAMPAIGN_ARN)
    assert take_campaign_lease(CAMPAIGN, resources).taken
    judge(CAMPAIGN, resources, failure=None)


def until(done, most=20):
    for _ in range(most):
        if done():
            return
    raise AssertionError("it does not end")


def desired(eks):
    return {name: sizes.desired for name, sizes in eks.sizes.items()}


def test_a_sweep_over_nodes_scales_them_in_proportion_and_puts_them_back(resources, eks, store):
    begin(resources, STORE, sweep={"nodes": [6, 5]})
    assert store.leases.valid().keys() == {"treatment", "baseline", LOAD}
    until(lambda: change(CAMPAIGN, resources).ready)
    assert desired(eks) == {"treatment-1": 6, "baseline-1": 6, "load-1": 3}
    until(lambda: restore(CAMPAIGN, resources).done)
    assert desired(eks) == USUAL


def test_a_sweep_over_nodes_with_few_runs_and_pairs_is_warned_of_before_the_start(resources):
    def warnings(plan, **given):
        raw = {"plan": {"tests": ["rtt"], **plan}, "sweep": {"nodes": [6, 5]}, "dry_run": True}
        made = plan_campaign(
            raw | given, resources, campaign_id=CAMPAIGN, execution_arn=CAMPAIGN_ARN
        )
        return [each for each in made.warnings if "runs_per_step" in each]

    (warning,) = warnings({})
    assert "has 2 runs, and the first, 6 nodes, 1 pair in each run" in warning
    assert warnings({"pairing": "ring"}, runs_per_step=3) == []


def test_a_step_waits_for_its_load_nodes(resources, cluster):
    begin(resources, STORE, sweep={"nodes": [6, 5]})
    for _ in ("empty", "fill"):
        change(CAMPAIGN, resources)
    cluster.nodes = [n for n in cluster.nodes if not n["metadata"]["name"].startswith("load-1-")]
    assert not change(CAMPAIGN, resources).ready
    assert "load nodes: 0 of 3 nodes are Ready" in resources.store.campaigns.get(CAMPAIGN).phase


def test_a_draw_leaves_the_load_nodes(resources, eks):
    begin(resources, STORE, draws=4)
    until(lambda: change(CAMPAIGN, resources).ready)
    assert [size for name, size in eks.updates if name == "load-1"] in ([], [2])
    assert {("treatment-1", 0), ("baseline-1", 0)} <= set(eks.updates)


def test_a_campaign_without_a_workload_neither_holds_nor_touches_them(resources, eks, store):
    begin(resources, {"name": "rtt", "count": 10}, sweep={"nodes": [6, 5]})
    assert store.leases.valid().keys() == {"treatment", "baseline"}
    until(lambda: change(CAMPAIGN, resources).ready)
    until(lambda: restore(CAMPAIGN, resources).done)
    assert "load-1" not in {name for name, _ in eks.updates}


def test_each_tier_has_as_many_load_pods_as_load_nodes(resources):
    begin(resources, STORE, sweep={"nodes": [2, 6]})
    planned = resources.store.campaigns.plan(CAMPAIGN)
    costs = {step.value: step.usd_per_hour for step in planned.estimate.step_estimates}
    # Two arms of n nodes with n / 2 load nodes, and the cluster.
    each = (costs[6] - costs[2]) / (2 * 6 + 3 - 2 * 2 - 1)
    assert each == pytest.approx(0.085, rel=0.05)


def test_the_quota_counts_them(resources):
    few = resources.but(quotas=Quotas(24.0))
    begin(few, {"name": "rtt", "count": 10}, sweep={"nodes": [2, 4]})
    with pytest.raises(InvalidCampaign, match="12 nodes in all arms and 3 load nodes"):
        begin(few, STORE, sweep={"nodes": [2, 6]})


@pytest.mark.parametrize(
    ("count", "nodes"), [(15, 4), (60, 15), (150, 38), (1002, 250), (1, 1), (2004, 500)]
)
def test_they_are_a_quarter_of_every_tier_and_never_fewer(settings, count, nodes):
    large = replace(settings, node_count=1002, load_node_count=250)
    assert load_nodes_for(count, large) == nodes


def test_a_load_node_in_an_arm_is_refused_by_the_parameters_that_selected_it():
    nodes = {"treatment": [node_of("a")], "baseline": [node_of("b")], LOAD: [node_of("b")]}
    with pytest.raises(InvalidPlan, match="BaselineSelector or LoadNodeSelector"):
        check_apart(nodes)
