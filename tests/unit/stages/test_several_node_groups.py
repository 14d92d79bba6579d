"""Arms of several node groups: their nodes are shared out evenly, woken, replaced and put back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rackrate.changes.draws import NewNodes
from rackrate.changes.nodes import NodeCount
from rackrate.changes.scaling import put_back, sizes_before
from rackrate.measure.node_groups import Sizes
from rackrate.settings import StackArm
from rackrate.stages.campaign.restore import _nodes_are_ready
from rackrate.stages.execution.rest_nodes import rest_unneeded
from rackrate.stages.execution.wake_nodes import wake_nodes
from rackrate.stages.run.plan import placeholder_nodes
from rackrate_contract.selectors import Selector
from tests.unit.samples import SETTINGS
from tests.unit.stages.campaigns import NO_CAPACITY, NodeGroups
from tests.unit.stages.runs import PLAN

#: Seven nodes in each arm.
USUAL = {
    f"{arm}-{number}": nodes
    for arm in ("treatment", "baseline")
    for number, nodes in enumerate((3, 2, 2), start=1)
}
ARMS = tuple(
    replace(
        arm,
        node_groups=tuple(name for name in USUAL if name.startswith(arm.name)),
        selector=Selector.parse(f"rackrate.dev/arm={arm.name}"),
    )
    for arm in SETTINGS.arms
)


@pytest.fixture
def settings():
    return replace(SETTINGS, arms=ARMS, node_count=7, owns_nodes=True)


@pytest.fixture
def eks(cluster):
    cluster.nodes = []
    return NodeGroups(cluster, USUAL)


@pytest.fixture
def resources(resources, eks):
    return resources.but(eks=eks)


def desired(eks):
    return {name: sizes.desired for name, sizes in eks.sizes.items()}


def until_done(ask, most=20):
    """Ask with the progress of the answer before until all is done. Returns what was told."""
    progress, phases = {}, []
    for _ in range(most):
        changed = ask(progress)
        phases.append(changed.phase)
        if changed.done:
            return phases
        progress = changed.progress
    raise AssertionError(phases)


class TestIdle:
    @pytest.fixture
    def settings(self):
        return replace(SETTINGS, arms=ARMS, node_count=7, idle_scale_to_zero=True)

    @pytest.fixture
    def eks(self, cluster):
        cluster.nodes = []
        return NodeGroups(cluster, USUAL, at_rest=True)

    def wake(self, resources):
        return wake_nodes(PLAN, resources, run_id="mine", execution_arn="arn:mine")

    def test_a_run_wakes_every_group_with_its_share(self, resources, eks):
        assert self.wake(resources).ready is False
        assert desired(eks) == USUAL
        assert {sizes.most for sizes in eks.sizes.values()} == {2, 3}
        assert self.wake(resources).ready is True

    def test_the_nodes_of_one_group_do_not_make_an_arm_ready(self, resources, eks, store):
        eks.held = True
        self.wake(resources)
        eks.held = False
        sizes = dict(eks.sizes)
        eks.sizes["baseline-3"] = Sizes(0, 0, 2)
        eks.boot()
        eks.sizes = sizes
        eks.held = True
        assert self.wake(resources).ready is False
        assert store.runs.find("mine").phase == "waking nodes, 12 of 14 nodes are Ready"

    def test_every_group_is_put_to_rest(self, resources, eks):
        self.wake(resources)
        assert rest_unneeded(resources, runs={"mine"}).rested == tuple(USUAL)
        assert set(desired(eks).values()) == {0}
        assert {name: sizes.most for name, sizes in eks.sizes.items()} == USUAL

    def test_stand_ins_for_nodes_are_in_the_groups_that_the_nodes_will_be_in(self, resources):
        nodes = placeholder_nodes(ARMS[0], 7, resources)
        groups = [node.node_group for node in nodes]
        assert groups == ["treatment-1"] * 3 + ["treatment-2"] * 2 + ["treatment-3"] * 2
        assert {node.instance_type for node in nodes} == {"c5.large"}
        assert len({node.name for node in nodes}) == 7


class TestCampaigns:
    def test_a_draw_empties_every_group_before_any_grows_again(self, resources, eks):
        before = set(eks.node_names)
        until_done(lambda progress: NewNodes().make(None, progress, resources))
        assert [size for _, size in eks.updates] == [0] * 6 + [3, 2, 2] * 2
        assert len(eks.node_names) == 14
        assert eks.node_names.isdisjoint(before)

    def test_a_sweep_shares_out_each_number_and_may_leave_a_group_empty(self, resources, eks):
        until_done(lambda progress: NodeCount().make(2, progress, resources))
        assert list(desired(eks).values()) == [1, 1, 0] * 2
        assert {name: sizes.most for name, sizes in eks.sizes.items()} == USUAL
        until_done(lambda progress: NodeCount().make(8, progress, resources))
        assert list(desired(eks).values()) == [3, 3, 2] * 2

    def test_every_group_gets_its_sizes_back(self, resources, eks):
        before, sizes = sizes_before(resources), dict(eks.sizes)
        until_done(lambda progress: NodeCount().make(2, progress, resources))
        until_done(lambda _: put_back(before, resources))
        assert eks.sizes == sizes

    def test_a_stack_that_got_another_number_of_groups_meanwhile_keeps_it(
        self, resources, eks, settings
    ):
        before = sizes_before(resources)
        fewer = tuple(replace(arm, node_groups=arm.node_groups[:2]) for arm in ARMS)
        updated = resources.but(settings=replace(settings, arms=fewer))
        until_done(lambda _: put_back(before, updated))
        assert eks.sizes["treatment-1"] == Sizes(4, 4, 4)
        assert eks.sizes["treatment-2"] == Sizes(3, 3, 3)

    def test_the_end_waits_for_the_nodes_of_all_groups(self, resources, eks, cluster):
        class Record:
            id, step, kind = "camp", 1, "draws"

        assert _nodes_are_ready(Record, resources)
        missing = cluster.nodes.pop()
        assert not _nodes_are_ready(Record, resources)
        eks.issues = [NO_CAPACITY]
        assert _nodes_are_ready(Record, resources), "EKS says that they do not come"
        eks.issues = []
        cluster.nodes.append(missing)
        assert _nodes_are_ready(Record, resources)


def test_a_plan_names_all_groups_of_an_arm_and_each_nodes_own(plan, store):
    plan(PLAN)
    treatment = store.runs.plan("run-1").arms[0]
    assert treatment.node_groups == ARMS[0].node_groups
    assert len(treatment.nodes) == 7
    assert {node.node_group for node in treatment.nodes} == set(ARMS[0].node_groups)


def test_a_lack_of_nodes_is_reported_in_the_words_of_every_group(plan, eks, cluster):
    cluster.nodes = []
    eks.issues = [NO_CAPACITY]
    with pytest.raises(Exception, match=r"(?s)group treatment-1: .*group treatment-3: "):
        plan(PLAN)


def test_an_arm_is_described_by_all_of_its_groups():
    assert ARMS[1].whereabouts == "node groups baseline-1, baseline-2 and baseline-3"
    unmanaged = StackArm("a", "none", True, (), Selector.parse("pool=x"))
    assert unmanaged.whereabouts == "nodes with the labels pool=x"
