"""A run whose execution was redriven goes on from its stored trials."""

from __future__ import annotations

import copy

import pytest

from rackrate.errors import NodesChanged
from rackrate.measure.nodes import node_of
from rackrate.results.build import RunFailure
from rackrate.stages.run.finish import end_or_go_on, finish
from rackrate_contract.results import Replacement
from tests.unit.stages.runs import ARN, RUN, Tasks, in_cluster

LONG_AGO = "2026-11-21T08:00:00.000Z"
STATE = {
    "failure": {"Error": "LinksDown", "Cause": "{}"},
    "finished": {"cause": "two links are down"},
}


@pytest.fixture
def tasks():
    return Tasks()


@pytest.fixture
def end(resources, tasks):
    """Call the function of the execution's last state."""

    def do(redrives, state=STATE):
        return end_or_go_on(
            RUN, resources.but(step_functions=tasks), redrives=redrives, token="t", state=state
        )

    return do


@pytest.fixture
def stop(resources):
    """Record that the run failed."""
    failure = RunFailure("LinksDown", "down")
    return lambda: finish(RUN, resources, execution_arn=ARN, failure=failure, report_key=None)


def test_an_execution_ends_with_the_first_error_and_the_sentence_as_its_cause(
    plan, stop, end, tasks
):
    plan()
    stop()
    assert not end(0)
    assert tasks.outcomes == [
        {"taskToken": "t", "error": "LinksDown", "cause": "two links are down"}
    ]


def test_an_execution_whose_analysis_failed_ends_with_that_error(end, tasks):
    lost = {"Error": "KeyError", "Cause": "a test"}
    end(0, {"failure": None, "later_failure": lost})
    end(0, {**STATE, "later_failure": lost})
    assert [outcome["error"] for outcome in tasks.outcomes] == ["KeyError", "LinksDown"]


def test_a_redriven_execution_goes_on_once_for_each_redrive(plan, stop, end, store, tasks):
    plan()
    lost = {"error": "TrialsLost", "message": "8 of 12 trials are lost for good"}
    store.runs.update(RUN, gave_up=lost, lost_arms={"treatment": LONG_AGO}, refused_items=2)
    store.runs.update(RUN, missing_since={"node-a": LONG_AGO})
    stop()
    assert end(1)
    assert end(1), "a repeated call of a function that crashed goes on too"
    run = store.runs.find(RUN)
    assert (run.status, run.error, run.finished_at) == ("running", None, None)
    assert run.gave_up is None, "it measures again"
    assert (run.lost_arms, run.refused_items, run.missing_since) == ({}, 0, {}), "all gets its time"
    assert (run.redrives, len(run.continued_at)) == (1, 1)
    stop()
    assert not end(1)
    assert store.runs.find(RUN).status == "failed"
    assert end(2)
    assert [outcome.get("error") for outcome in tasks.outcomes] == [None, None, "LinksDown", None]


def test_a_run_whose_end_cannot_be_recorded_does_not_go_on_for_ever(plan, stop, end):
    plan()
    stop()
    assert end(1)
    failed = {**STATE, "finish_failure": {"Error": "Throttled", "Cause": "slow down"}}
    assert not end(1, failed)


def test_a_run_that_had_only_to_finish_ends_well_after_a_redrive(plan, resources, store):
    plan()
    store.runs.finish(RUN, "aborted")
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None, redrives=1)
    assert store.runs.find(RUN).status == "succeeded"


def test_only_trials_whose_partners_are_missing_are_measured_again(
    plan, deploy, measure, stop, end, store
):
    measure(*deploy()[:6])
    before = store.trials.of(RUN)
    lost = next(key for key in before if key.block == 2 and key.arm == "treatment")
    store.trials.forget(RUN, apart_from=set(before) - {lost})
    stop()
    end(1)
    plan()
    after = store.trials.of(RUN)
    missing = set(before) - set(after)
    assert len(missing) == 2, "the lost trial and its partner of the other arm"
    assert {key.arm for key in missing} == {"treatment", "baseline"}
    assert {(key.block, key.test) for key in missing} == {(lost.block, lost.test)}
    run = store.runs.find(RUN)
    assert (run.trials_measured, run.trials_failed) == (len(after), 0)


@pytest.fixture
def measured(plan, deploy, measure, stop, end):
    """A run with trials that was stopped, and goes on. Gives a node that has measured."""
    item = deploy()[0]
    measure(item)
    stop()
    end(1)
    return item.pairs[0].client


def another_instance(cluster, name):
    """Let a node be of another instance."""
    in_cluster(cluster, name)["spec"]["providerID"] = "aws:///us-east-1a/i-0another"


def test_other_nodes_are_a_new_draw_and_the_trials_stay_as_they_are(plan, measured, store, cluster):
    before = store.trials.of(RUN)
    another_instance(cluster, measured)
    with pytest.raises(NodesChanged, match=measured):
        plan()
    assert store.trials.of(RUN) == before


def test_a_node_that_is_not_ready_is_waited_for_and_no_new_draw(plan, measured, store, cluster):
    before = store.trials.of(RUN)
    conditions = [{"type": "Ready", "status": "Unknown"}]
    in_cluster(cluster, measured)["status"]["conditions"] = conditions
    plan()
    assert store.trials.of(RUN) == before
    in_cluster(cluster, measured)["metadata"]["deletionTimestamp"] = LONG_AGO
    with pytest.raises(NodesChanged, match=measured):
        plan()


def replaced(measured, node):
    """The replacement of a node."""
    return Replacement(
        place=measured,
        arm="treatment",
        lost=measured,
        why="is gone",
        node=node_of(node),
        block=1,
        at=LONG_AGO,
    )


def test_a_run_goes_on_with_the_node_that_replaced_a_lost_one(plan, measured, store, cluster):
    before = store.trials.of(RUN)
    lost = in_cluster(cluster, measured)
    new = copy.deepcopy(lost)
    new["metadata"]["name"] = "node-x"
    new["spec"]["providerID"] = "aws:///us-east-1a/i-0x"
    cluster.nodes[cluster.nodes.index(lost)] = new
    with pytest.raises(NodesChanged, match=measured):
        plan()
    store.runs.replace_nodes(RUN, [replaced(measured, new)], [])
    plan()
    assert store.trials.of(RUN) == before
    another_instance(cluster, "node-x")
    with pytest.raises(NodesChanged, match="node-x"):
        plan()


def test_a_plan_that_is_made_again_forgets_replacements_of_the_old_one(
    plan, deploy, stop, end, store, cluster
):
    deploy()
    store.runs.replace_nodes(RUN, [replaced("node-a", in_cluster(cluster, "node-b"))], [])
    stop()
    end(1)
    plan()
    assert store.runs.find(RUN).replacements == ()
    assert store.runs.nodes_at(RUN) == {}
