"""Look: stop after a batch of blocks, or measure the next one; what counts as planned then."""

from __future__ import annotations

import pytest

from rackrate.errors import TrialsLost
from rackrate.plan.items import block_items, planned_trials
from rackrate.results.build import RunFailure
from rackrate.stages.run.analyze import analyze
from rackrate.stages.run.collect import give_up
from rackrate.stages.run.finish import finish
from rackrate.stages.run.look import Looked, look
from rackrate.stages.run.report import report
from rackrate.verdict.model import Analysis
from tests.unit.stages.runs import ARN, PLAN, RUN, json_of

LOOKING = {**PLAN, "blocks": {"least": 6, "most": 9}}
#: With fewer than six blocks no verdict is settled.
EARLY = {**PLAN, "blocks": {"least": 4, "most": 6}}


@pytest.fixture
def measure_batch(store, measure):
    def do(number):
        measure(*store.runs.items(RUN, f"blocks_{number}.json"))

    return do


def test_a_run_whose_verdicts_are_settled_stops_and_says_so(
    deploy, measure_batch, store, resources
):
    deploy(LOOKING)
    measure_batch(1)
    assert look(RUN, resources, batch=1).enough
    run = store.runs.find(RUN)
    assert run.stopped.why == "settled"
    assert (run.stopped.after_blocks, run.stopped.most_blocks) == (6, 9)
    assert run.phase == "stopped after 6 blocks"

    assert analyze(RUN, resources, after_failure=False).lost == 0
    report(RUN, resources, failure=None)
    finish(RUN, resources, execution_arn=ARN, failure=None, report_key=None)
    assert store.runs.find(RUN).status == "succeeded", "blocks that were not needed are not lost"
    results = json_of(store, "results.json")
    assert results["trials"] == {
        "planned": 36,
        "measured": 36,
        "failed": 0,
        "causes": [],
        "failures": [],
    }
    assert results["stopped"] == run.stopped.to_json()
    assert results["warnings"] == []
    assert run.stopped.text in store.runs.find_text(RUN, "report.html").decode()


def test_a_run_with_an_open_verdict_measures_the_next_batch(
    deploy, measure_batch, store, resources
):
    deploy(EARLY)
    measure_batch(1)
    key = f"runs/{RUN}/blocks_2.json"
    assert look(RUN, resources, batch=1) == Looked(enough=False, batch=2, items_key=key)
    run = store.runs.find(RUN)
    assert run.phase == "looked after 4 blocks: 0 of 3 verdicts are settled, measuring on to 6"
    assert (run.next_look, run.trials_planned, run.stopped) == (6, 36, None)

    measure_batch(2)
    assert look(RUN, resources, batch=2).enough
    assert store.runs.find(RUN).stopped.why == "settled"
    assert analyze(RUN, resources, after_failure=False).measured == 36


def test_looking_again_gives_the_same_answer(deploy, measure_batch, store, resources):
    deploy(EARLY)
    measure_batch(1)
    first = look(RUN, resources, batch=1)
    before = store.runs.find(RUN)
    assert look(RUN, resources, batch=1) == first
    assert store.runs.find(RUN).model_copy(update={"updated_at": before.updated_at}) == before


def test_blocks_that_never_began_are_neither_planned_nor_lost(
    deploy, measure_batch, store, resources
):
    deploy(EARLY)
    measure_batch(1)
    look(RUN, resources, batch=1)
    analyzed = analyze(RUN, resources, after_failure=True)
    assert (analyzed.measured, analyzed.lost) == (24, 0)
    assert store.runs.find(RUN).trials_planned == 24
    report(RUN, resources, failure=RunFailure("Aborted", "x"))
    assert json_of(store, "results.json")["trials"]["planned"] == 24


def test_the_rest_of_a_batch_that_began_is_lost(deploy, measure_batch, measure, store, resources):
    deploy(EARLY)
    measure_batch(1)
    look(RUN, resources, batch=1)
    measure(block_items(store.runs.items(RUN, "blocks_2.json"))[0])
    with pytest.raises(TrialsLost, match="6 of 36 trials were lost"):
        analyze(RUN, resources, after_failure=False)


def test_a_block_that_was_not_announced_began_if_it_has_a_failed_trial(
    deploy, measure_batch, store, resources
):
    deploy(EARLY)
    measure_batch(1)
    (item, *_) = store.runs.items(RUN, "blocks_2.json")
    give_up(RUN, item, RunFailure("Lambda.Unknown", "it never ran"), resources)
    assert (store.runs.find(RUN).block, store.runs.find(RUN).last_block) == (1, 4)
    assert len(store.evidence(RUN).planned) == len(planned_trials(store.runs.items(RUN)))


def test_make_ups_repeat_only_what_has_begun(deploy, measure, store):
    deploy(EARLY)
    for item in store.runs.items(RUN, "blocks_1.json"):
        assert measure(item).pods == (0 if item.kind == "makeup" else 4)
    assert {key.block for key in store.trials.states(RUN)} == {1, 2, 3, 4}


def test_a_run_whose_look_failed_warns_that_it_measured_no_more(
    deploy, measure_batch, store, resources
):
    deploy(EARLY)
    measure_batch(1)
    assert analyze(RUN, resources, after_failure=False).lost == 0
    (warning,) = store.runs.read(RUN, "analysis.json", Analysis).warnings
    assert "the look at the verdicts after 4 blocks failed" in warning
    assert "could have measured 6" in warning


def test_a_run_of_a_fixed_number_of_blocks_has_nothing_to_warn_of(
    deploy, measure_batch, store, resources
):
    deploy(PLAN)
    measure_batch(1)
    analyze(RUN, resources, after_failure=False)
    report(RUN, resources, failure=None)
    assert store.runs.read(RUN, "analysis.json", Analysis).warnings == ()
    assert json_of(store, "results.json")["stopped"] is None
