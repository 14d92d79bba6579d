"""A run whose execution was redriven goes on from its stored trials."""

from __future__ import annotations

import pytest

from rackrate.errors import NodesChanged
from rackrate.results.build import RunFailure
from rackrate.stages.finish import end_or_go_on, finish
from tests.unit.stages.runs import ARN, RUN, Tasks, trials

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
    assert tasks.told == [{"taskToken": "t", "error": "LinksDown", "cause": "two links are down"}]


def test_a_redriven_execution_goes_on_once_for_each_redrive(plan, stop, end, store, tasks):
    plan()
    lost = {"error": "TrialsLost", "message": "8 of 12 trials are lost for good"}
    store.update_run(RUN, gave_up=lost)
    stop()
    assert end(1)
    assert end(1), "a repeated call of a function that crashed goes on too"
    run = store.run(RUN)
    assert (run.status, run.error, run.finished_at) == ("running", None, None)
    assert run.gave_up is None, "it measures again"
    assert (run.redrives, len(run.continued_at)) == (1, 1)
    stop()
    assert not end(1)
    assert store.run(RUN).status == "failed"
    assert end(2)
    assert [told.get("error") for told in tasks.told] == [None, None, "LinksDown", None]


def test_a_run_whose_end_cannot_be_recorded_does_not_go_on_for_ever(plan, stop, end):
    plan()
    stop()
    assert end(1)
    failed = {**STATE, "finish_failure": {"Error": "Throttled", "Cause": "slow down"}}
    assert not end(1, failed)


def test_a_run_that_had_only_to_finish_ends_well_after_a_redrive(plan, resources, store):
    plan()
    store.finish_run(RUN, "aborted")
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None, redrives=1)
    assert store.run(RUN).status == "succeeded"


def test_only_trials_whose_partners_are_missing_are_measured_again(
    plan, deploy, measure, stop, end, store
):
    for item in deploy()[:6]:
        measure(item)
    before = store.trials(RUN)
    lost = next(key for key in before if key.block == 2 and key.arm == "treatment")
    store.forget_trials(RUN, apart_from=set(before) - {lost})
    stop()
    end(1)
    plan()
    kept = store.trials(RUN)
    gone = set(before) - set(kept)
    assert len(gone) == 2, "the lost trial and its partner of the other arm"
    assert {key.arm for key in gone} == {"treatment", "baseline"}
    assert {(key.block, key.test) for key in gone} == {(lost.block, lost.test)}
    run = store.run(RUN)
    assert (run.trials_measured, run.trials_failed) == (len(kept), 0)


def test_other_nodes_are_a_new_draw_and_the_trials_stay_as_they_are(
    plan, deploy, measure, stop, end, store, cluster
):
    measure(deploy()[0])
    node = next(iter(trials(store))).client
    stop()
    end(1)
    before = store.trials(RUN)
    for found in cluster.nodes:
        if found["metadata"]["name"] == node:
            found["spec"]["providerID"] = "aws:///us-east-1a/i-0another"
    with pytest.raises(NodesChanged, match=node):
        plan()
    assert store.trials(RUN) == before
