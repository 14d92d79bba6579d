"""campaign.json from runs' results: what counts, what is left out, and what the schema says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rackrate.results.build_campaign import answers_of_runs, build_campaign, pooled_step
from rackrate_contract.arms import Arm
from rackrate_contract.campaign import CAMPAIGN, CampaignResults
from rackrate_contract.results import Results
from tests import ROOT
from tests.unit.report import campaigns, samples
from tests.unit.report.campaigns import facts, step

PUBLISHED = json.loads((ROOT / "docs" / "campaign.schema.json").read_text())
VALIDATOR = Draft202012Validator(PUBLISHED)
RATIOS = (1.94, 1.72, 1.99, 1.88)


def run(number: int, ratio: float = 1.9, *, nodes: int | None = None, **changes: Any) -> Results:
    """The results of a run on nodes of its own, or on those of another number, on its own day."""
    arms = tuple(on_nodes(arm, number if nodes is None else nodes) for arm in samples.arms())
    verdict = samples.verdict(ratio=ratio, ci95=(ratio * 0.99, ratio * 1.01))
    results = samples.results(verdicts=(verdict,), **changes)
    started_at = f"2026-11-{number:02d}T08:00:00.000Z"
    facts_of_run = results.run.model_copy(
        update={"id": campaigns.run_id(number), "started_at": started_at}
    )
    return results.model_copy(update={"run": facts_of_run, "arms": arms})


def on_nodes(arm: Arm, number: int) -> Arm:
    """The arm on other nodes."""
    nodes = (
        each.model_copy(update={"instance_id": f"i-{arm.name}-{place}-{number}"})
        for place, each in enumerate(arm.nodes)
    )
    return arm.model_copy(update={"nodes": tuple(nodes)})


RUNS = tuple(run(n, ratio) for n, ratio in enumerate(RATIOS, 1))


def built(runs=RUNS, *, kind="draws", steps=None, **more: Any) -> CampaignResults:
    """A campaign of these runs."""
    steps_made = [step(n) for n in range(1, len(runs) + 1)] if steps is None else steps
    fields = {"swept": more.pop("swept", None), "series": more.pop("series", None)}
    return build_campaign(
        facts(kind=kind, lab_scale=None, **fields),
        plan={},
        steps=steps_made,
        runs=runs,
        least=4,
        most=12,
        stopped=None,
        **more,
    )


def test_results_are_read_back_as_they_were_written():
    written = samples.results(counters=samples.counters()).to_json()
    assert Results.from_json(written).to_json() == written


def test_each_run_is_a_draw_of_one_answer():
    (answer,) = built().answers
    assert [draw.ratio for draw in answer.draws] == list(RATIOS)
    assert [draw.run_id for draw in answer.draws] == [campaigns.run_id(n) for n in range(1, 5)]
    assert [draw.started_at for draw in answer.draws] == [each.run.started_at for each in RUNS]
    assert answer.scope == "the placement group"
    assert answer.threshold == RUNS[0].plan["threshold"]


def test_the_newest_draw_is_tested_against_those_before_it_in_a_series_only():
    far = (*RUNS, run(5, 0.4))
    assert built(far, series="nightly").answers[0].changed is True
    assert built(far).answers[0].changed is None


def test_a_test_with_other_parameters_than_the_newest_runs_is_left_out():
    first, *rest = RUNS[0].plan["tests"]
    plan = RUNS[0].plan | {"tests": [first | {"seconds": 99}, *rest]}
    other = RUNS[0].model_copy(update={"plan": plan})
    (answer,) = built((other, *RUNS[1:])).answers
    assert (len(answer.draws), answer.left_out) == (3, 1)


def test_pooled_runs_on_the_same_nodes_are_one_draw_with_both_names():
    runs = (*RUNS, run(5, 1.96, nodes=1))
    results = built(runs, kind="pool")
    (answer,) = results.answers
    assert len(answer.draws) == 4
    assert results.pooling.startswith("5 runs count as 4 draws")
    assert results.pooling in results.conclusion
    assert "in these" in answer.claim and answer.scope == "these stacks"
    assert answer.draws[0].run_ids == [campaigns.run_id(1), campaigns.run_id(5)]


def test_a_pool_reports_what_differed_with_the_nodes_as_a_comparison_does():
    versions = RUNS[0].versions.model_copy(update={"image": "example.test/tools:0"})
    runs = (RUNS[0].model_copy(update={"versions": versions}), *RUNS[1:])
    results = built(runs, kind="pool")
    assert {each.what.split(" of ")[0] for each in results.differences} == {"image", "nodes"}
    assert "nothing that rackrate records differed" not in built(RUNS, kind="pool").conclusion
    assert built(runs).differences == ()


def test_draws_that_differ_in_more_than_their_nodes_are_warned_of():
    assert built().warnings == ()
    versions = RUNS[0].versions.model_copy(update={"image": "example.test/tools:0"})
    arms = tuple(arm.model_copy(update={"nodes": arm.nodes[:1]}) for arm in RUNS[0].arms)
    updated = RUNS[0].model_copy(update={"versions": versions, "arms": arms})
    (warning,) = built((updated, *RUNS[1:]), warnings=()).warnings
    assert "number of nodes" in warning and "image of the tools" in warning


def test_a_sweep_has_cells_and_no_answers():
    steps = [step(n, value=value) for n, value in enumerate((15, 60, 60, 15), 1)]
    results = built(kind="sweep", steps=steps, swept="nodes")
    assert results.answers == ()
    assert {cell.value for cell in results.sweep} == {15, 60}
    assert all(cell.runs == 2 for cell in results.sweep)


@pytest.mark.parametrize("kind", ["draws", "sweep", "pool"])
def test_a_campaign_without_a_run_says_that_nothing_can_be_said(kind):
    results = built((), kind=kind)
    assert results.conclusion.startswith("Nothing can be said")
    assert results.answers == () == results.sweep == results.differences


def test_the_labs_scale_is_that_of_the_runs():
    scaled = RUNS[0].model_copy(update={"run": RUNS[0].run.model_copy(update={"lab_scale": 0.2})})
    assert built((scaled,)).campaign.lab_scale == 0.2
    assert built((RUNS[0],)).campaign.lab_scale == RUNS[0].run.lab_scale


def test_the_placement_of_each_arm_is_recorded():
    assert built().placements == {"treatment": "cluster", "baseline": "none"}


def test_a_pooled_run_is_a_step_with_its_nodes_and_where_it_is_from():
    step = pooled_step(2, RUNS[0], "the stack other")
    assert (step.number, step.run_id, step.source) == (2, RUNS[0].run.id, "the stack other")
    assert set(step.nodes) == {"treatment", "baseline"}


def test_no_runs_have_no_answers():
    assert answers_of_runs(facts(), (), least=4, most=12) == ()


def test_the_schema_is_a_schema_of_its_draft_and_of_campaigns():
    Draft202012Validator.check_schema(PUBLISHED)
    assert PUBLISHED["properties"]["schema"]["const"] == CAMPAIGN


@pytest.mark.parametrize("document", [campaigns.campaign, campaigns.sweep, campaigns.pool, built])
def test_campaigns_are_valid_by_the_published_schema_and_are_read_back(document):
    written = document().to_json()
    VALIDATOR.validate(written)
    assert CampaignResults.from_json(written).to_json() == written


def test_the_schema_is_strict():
    written = built().to_json()
    assert not VALIDATOR.is_valid({**written, "more": 1})
    assert not VALIDATOR.is_valid({k: v for k, v in written.items() if k != "answers"})
