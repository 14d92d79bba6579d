"""A hunt through its functions: it looks at the present nodes, draws others, and leaves them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rackrate.changes.nodes import NodeCount
from rackrate.errors import InvalidCampaign
from rackrate.measure.nodes import KEPT_LABEL
from rackrate.plan.campaign_fields import MAX_DRAWS
from rackrate.results.build import RunFailure
from rackrate.stages.campaign.change import change
from tests.unit.stages.campaigns import (
    CAMPAIGN,
    OWNED,
    Executions,
    NodeGroups,
    store_run,
)
from tests.unit.stages.test_campaign import Machine
from tests.unit.verdict.test_hunt import run as results_of_run

HUNT = {"hunt": {"test": "rtt"}, "draws": {"most": 5}}


@pytest.fixture
def settings():
    return OWNED


@pytest.fixture
def eks(cluster):
    cluster.nodes = []
    return NodeGroups(cluster)


@pytest.fixture
def resources(resources, eks):
    return resources.but(eks=eks, step_functions=Executions())


class Hunt(Machine):
    """The functions of a hunt, with runs that measure the nodes of the treatment."""

    def look(self, microseconds):
        """Make one step with such a round trip, and judge it."""
        step = self.judge()
        assert not step.enough
        self.change()
        results = results_of_run(microseconds / 1e6, nodes=self.treatment, run_id=step.run_id)
        store_run(self.resources.store, results)
        return self.judge()

    @property
    def treatment(self):
        """The names of the treatment's nodes."""
        return sorted(
            node["metadata"]["name"]
            for node in self.resources.cluster.nodes
            if node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "ng-1"
        )


@pytest.fixture
def hunt(resources):
    return Hunt(resources)


def test_it_looks_at_the_present_nodes_then_draws_those_of_its_arm_alone(hunt, eks, cluster):
    before = eks.node_names
    hunt.begin(HUNT).judge()
    eks.held = True
    cluster.nodes[0]["status"]["conditions"][0]["status"] = "False"
    assert not change(CAMPAIGN, hunt.resources).ready
    assert hunt.record.phase == "draw 1 of at most 5: the present nodes: 3 of 4 nodes are Ready"
    cluster.nodes[0]["status"]["conditions"][0]["status"] = "True"
    eks.held = False
    judged = hunt.look(100)
    assert eks.node_names == before
    assert not judged.enough
    assert judged.plan["arms"] == ["treatment"]
    hunt.look(120)
    assert len(eks.node_names & before) == 2, "the baseline's nodes stay"
    assert [step.change for step in hunt.steps[:2]] == ["the present nodes", "new nodes"]
    assert hunt.record.phase == "draw 3 of at most 5: new nodes"


def test_what_it_found_stays_with_a_label_and_the_other_arm_without(hunt, eks, cluster):
    sizes = dict(eks.sizes)
    hunt.begin(HUNT)
    hunt.look(100)
    hunt.look(120)
    assert hunt.look(90).enough
    found = hunt.treatment
    hunt.end()
    assert (hunt.treatment, eks.sizes) == (found, sizes)
    labels = {n["metadata"]["name"]: n["metadata"]["labels"].get(KEPT_LABEL) for n in cluster.nodes}
    assert {name for name, label in labels.items() if label == CAMPAIGN} == set(found)
    results = hunt.results
    assert (results.campaign.kind, results.stopped.why) == ("hunt", "found")
    assert results.conclusion.startswith("In the cluster placement group, rtt is 90.0 µs (95 % CI ")
    assert [*results.hunt.draws[-1].nodes] == found


def test_a_hunt_that_fails_labels_nothing(hunt, cluster):
    hunt.begin(HUNT)
    hunt.look(100)
    hunt.end(failure=RunFailure("Stopped", "by hand"))
    assert not any(KEPT_LABEL in node["metadata"]["labels"] for node in cluster.nodes)


def test_nodes_that_were_not_measured_are_neither_good_enough_nor_labelled(hunt, cluster):
    hunt.begin({"hunt": {"test": "rtt", "at_most": "99 us"}, "draws": 2})
    assert not hunt.look(100).enough
    hunt.change()
    failure = RunFailure("NodesUnavailable", json.dumps({"errorMessage": "none"}))
    assert hunt.judge(failure).enough
    hunt.end()
    assert hunt.results.hunt.rank is None
    assert "nothing is known of the present nodes" in hunt.results.conclusion
    assert not any(KEPT_LABEL in node["metadata"]["labels"] for node in cluster.nodes)


def test_nodes_whose_run_lacks_the_hunted_figure_get_no_label(hunt, cluster):
    hunt.begin({"hunt": {"test": "rtt", "at_most": "99 us"}, "draws": 2})
    assert not hunt.look(100).enough
    assert hunt.look(0).enough, "it may draw no more"
    hunt.end()
    assert hunt.results.hunt.rank is None
    assert not any(KEPT_LABEL in node["metadata"]["labels"] for node in cluster.nodes)


def test_the_look_is_no_measure_of_the_time_and_cost_of_a_draw(hunt, store):
    hunt.begin(HUNT)
    hunt.look(100)
    assert store.campaigns.change_seconds("draws") == ()
    hunt.look(120)
    assert len(store.campaigns.change_seconds("draws")) == 1


def test_other_campaigns_do_not_replace_what_it_kept_until_the_label_is_gone(
    hunt, resources, cluster, eks, monkeypatch
):
    monkeypatch.setattr(NodeCount, "faults", lambda *_: [])
    hunt.begin({"hunt": {"test": "rtt", "at_most": "1 s"}})
    assert hunt.look(100).enough
    hunt.end()
    updates, later = len(eks.updates), Hunt(resources, "later")
    for field, raw in (("draws", {}), ("sweep", {"sweep": {"nodes": [2, 3]}})):
        with pytest.raises(InvalidCampaign, match=f"{field}: would replace the nodes that camp k"):
            later.plan({**raw, "dry_run": True})
    assert len(eks.updates) == updates
    later.plan({"hunt": {"test": "rtt"}, "dry_run": True})
    for node in cluster.nodes:
        node["metadata"]["labels"].pop(KEPT_LABEL, None)
    later.plan({"dry_run": True})


class TestContinued:
    """A hunt that looks later at what it kept."""

    @pytest.fixture
    def kept(self, hunt):
        hunt.begin(HUNT)
        for microseconds in (100, 120, 90):
            hunt.look(microseconds)
        hunt.end()
        return hunt

    def again(self, resources, **more):
        return Hunt(resources, "again").begin({"continue": CAMPAIGN, **more})

    def test_it_measures_the_same_nodes_again_and_changes_nothing(self, kept, resources, eks):
        before = eks.node_names
        later = self.again(resources)
        assert later.look(99).enough
        later.end()
        assert eks.node_names == before
        hunt = later.results.hunt
        assert (hunt.since.campaign, hunt.since.gone) == (f"campaign {CAMPAIGN}", ())
        assert hunt.since.ratio == pytest.approx(1.1)
        assert len(hunt.draws) == 3

    def test_it_says_which_nodes_are_gone(self, kept, resources, eks, cluster):
        gone = kept.treatment[0]
        cluster.nodes = [node for node in cluster.nodes if node["metadata"]["name"] != gone]
        eks.boot()
        later = self.again(resources)
        later.look(99)
        later.end()
        assert later.results.hunt.since.gone == (gone,)
        assert len(later.results.hunt.draws) == 4

    def test_it_may_look_as_often_as_one_likes(self, kept, resources, store):
        step = store.campaigns.step(CAMPAIGN, 3)
        for number in range(4, MAX_DRAWS + 1):
            store.campaigns.put_step(CAMPAIGN, step.model_copy(update={"number": number}))
        assert self.again(resources).look(91).enough

    def test_it_draws_again_only_if_it_is_asked_to(self, kept, resources):
        later = self.again(resources, draws=6)
        assert not later.look(130).enough
        assert later.steps[-1].change == "new nodes"


@pytest.mark.parametrize(
    ("hunt", "more", "fault"),
    [
        ({"test": "rtt"}, {"idle_scale_to_zero": True}, "hunt: nodes that are found are to stay"),
        ({"test": "rtt", "dollars_per_percent": 2}, {}, None),
        ({"test": "rtt", "arm": "x"}, {}, "hunt.arm: the stack has no arm 'x'"),
        ({"test": "rtt", "metric": "x"}, {}, "hunt.metric: rtt has no metric 'x'"),
    ],
)
def test_what_cannot_be_hunted_is_refused_before_anything_changes(
    resources, eks, settings, hunt, more, fault
):
    machine = Hunt(resources.but(settings=replace(settings, **more)))
    if fault is None:
        assert machine.plan({"hunt": hunt, "dry_run": True}).estimate.power == ()
        return
    with pytest.raises(InvalidCampaign, match=fault) as caught:
        machine.plan({"hunt": hunt})
    assert len(caught.value.faults) == 1
    assert eks.updates == []
