"""Builds campaign.json (`rackrate.campaign.v1`, see docs/results.md) from its runs. Pure.

Every run counts by its results.json, wherever it was made, so that runs of this campaign, of its
series and of other stacks are treated alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rackrate.plan.model import Plan
from rackrate.plan.planned_run import PlannedRun
from rackrate.results.pool import stack_of
from rackrate.verdict import campaign, sweeps
from rackrate.verdict import hunt as hunting
from rackrate.verdict.capacity import capacities, launched_arms
from rackrate.verdict.differences import differences
from rackrate.verdict.evidence import Evidence, shared_tests
from rackrate_contract.arms import arm_titles
from rackrate_contract.campaign import (
    Answer,
    CampaignFacts,
    CampaignResults,
    CampaignStopped,
    Hunt,
    Step,
    SweepCell,
)
from rackrate_contract.capacity import sentences
from rackrate_contract.document import Json
from rackrate_contract.results import Results
from rackrate_contract.verdicts import Difference, OnMetric, Verdict
from rackrate_text.words import listed

#: The fact about runs that always differs between draws.
_NODES = "nodes"
#: What also differs from draw to draw, because nodes are new.
_PLACE = "place in the network (network node layers)"
#: The swept field whose values are numbers of nodes, so that throughputs add up.
_GROWS = "nodes"


def build_campaign(
    facts: CampaignFacts,
    *,
    plan: Json,
    steps: Sequence[Step],
    runs: Sequence[Results],
    least: int,
    most: int,
    stopped: CampaignStopped | None,
    hunt: Hunt | None = None,
    warnings: Iterable[str] = (),
) -> CampaignResults:
    """Build campaign.json.

    Args:
        facts: the campaign. Without a scale of the lab's network it gets that of its runs.
        plan: the plan of every run, as it was given; empty for a pool.
        steps: the steps that were begun, in order; for a pool those of `pooled_step`.
        runs: the results of the runs that count, in the order in which they were made; for a
            series also those of earlier campaigns.
        least: the fewest draws that the campaign makes; only used for draws.
        most: the most draws that it makes; only used for draws.
        stopped: why it made no more steps, or None.
        hunt: what a hunt knows of the present nodes; None for other campaigns.
        warnings: deviations from what was asked.
    """
    is_sweep, is_pool, is_hunt = (facts.kind == kind for kind in ("sweep", "pool", "hunt"))
    answers = () if is_sweep or is_hunt else answers_of_runs(facts, runs, least=least, most=most)
    pooling = campaign.why_one_draw(_on_nodes(runs)) if is_pool and runs else ""
    cells = _cells(facts, steps, runs) if is_sweep else ()
    differed = tuple(_differences(runs)) if is_pool else ()
    if is_sweep:
        titles = {step.value: step.change for step in steps}
        conclusion = sweeps.conclusion(
            cells, title=lambda value: titles[value], grows=facts.swept == _GROWS
        )
    elif is_hunt:
        conclusion = "No draw of this hunt was measured."
        if hunt is not None:
            kept = hunting.kept_in_words(hunt, facts.id, stopped)
            conclusion = " ".join([*hunting.sentences(hunt), kept])
    else:
        conclusion = campaign.conclusion(
            answers, pooled_differences=differed if is_pool else None, pooling=pooling
        )
    arms = launched_arms(steps) | (arm_titles(runs[-1].arms) if runs else {})
    filled = capacities(steps, arms)
    conclusion = " ".join([conclusion, *sentences(filled, {s.value: s.change for s in steps})])
    if not (is_sweep or is_pool):
        warnings = [*warnings, *_unlike_draws(runs)]
    scales = [run.run.lab_scale for run in runs if run.run.lab_scale]
    return CampaignResults(
        campaign=facts.model_copy(
            update={"lab_scale": facts.lab_scale or next(iter(scales), None)}
        ),
        conclusion=conclusion,
        method={"sweep": sweeps, "hunt": hunting}.get(facts.kind, campaign).METHOD,
        plan=plan,
        stopped=stopped,
        steps=tuple(steps),
        placements={arm.name: arm.placement for run in runs for arm in run.arms},
        answers=answers,
        capacity=filled,
        sweep=cells,
        differences=differed,
        pooling=pooling,
        hunt=hunt,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def answers_of_runs(
    facts: CampaignFacts, runs: Sequence[Results], *, least: int, most: int
) -> tuple[Answer, ...]:
    """The answers of a campaign of draws or of a pool.

    A run whose test has the name of the newest run's, but not its parameters, is left out of the
    answers on that test.

    Args:
        facts: the campaign.
        runs: see `build_campaign`.
        least: the fewest draws that the campaign makes; not used for a pool.
        most: the most draws that it makes; not used for a pool.
    """
    if not runs:
        return ()
    on_nodes = _on_nodes(runs)
    draws = [campaign.DrawOfRuns(run.run_id, run.verdicts) for run in on_nodes]
    if facts.kind == "pool":
        draws = campaign.draws_of_runs(on_nodes)
        least = most = len(draws)
    answers = campaign.answers_of(
        draws,
        threshold=Plan.from_json(runs[-1].plan).threshold,
        least=least,
        most=most,
        since_before=facts.series is not None,
    )
    by_id = {run.run_id: run for run in on_nodes}
    return tuple(campaign.placed(answer, by_id, pooled=facts.kind == "pool") for answer in answers)


def pooled_step(number: int, run: Results, source: str | None) -> Step:
    """A run of a pool as a step.

    Args:
        number: its number, from 1.
        run: its results.
        source: where it is from, such as another stack's name; None for a run of this stack.
    """
    return Step(
        number=number,
        change="a run that was made before",
        value=None,
        run_id=run.run.id,
        status=run.run.status,
        started_at=run.run.started_at,
        change_seconds=None,
        run_seconds=run.run.seconds,
        dollars=None,
        nodes={arm.name: arm.node_names for arm in run.arms},
        source=source,
    )


def _comparable(run: Results, newest: Results) -> list[Verdict]:
    """The verdicts of a run on tests that it shares with the newest run."""
    shared = {test.name for test in shared_tests(_evidence(newest), [_evidence(run)])}
    return [verdict for verdict in run.verdicts if verdict.test in shared]


def _on_nodes(runs: Sequence[Results]) -> list[campaign.RunOnNodes]:
    """The runs with what decides which of them count as one draw."""
    return [
        campaign.RunOnNodes(
            run.run.id,
            _comparable(run, runs[-1]),
            # What distinguishes a run's nodes from all others.
            frozenset(node.instance_id or node.name for arm in run.arms for node in arm.nodes),
            stack=stack_of(run.run.execution_arn),
            started_at=run.run.started_at,
            seconds=run.run.seconds,
        )
        for run in runs
    ]


def _cells(
    facts: CampaignFacts, steps: Sequence[Step], runs: Sequence[Results]
) -> tuple[SweepCell, ...]:
    values = {step.run_id: step.value for step in steps if step.value is not None}
    measured = [
        sweeps.SweepRun(values[run.run.id], _planned(run), run.summaries)
        for run in runs
        if run.run.id in values
    ]
    if not measured:
        return ()
    threshold = measured[-1].planned.plan.threshold
    return sweeps.sweep_cells(measured, threshold=threshold, grows=facts.swept == _GROWS)


def _differences(runs: Sequence[Results]) -> list[Difference]:
    """What differed between the newest run and the others."""
    if len(runs) < 2:
        return []
    *before, newest = map(_evidence, runs)
    return differences(newest, before).changes


def _unlike_draws(runs: Sequence[Results]) -> list[str]:
    """A warning if draws differ in more than their placement: the stack was updated meanwhile."""
    facts = [each.what for each in _differences(runs)]
    what = [each for each in facts if each.split(" of ")[0] not in (_NODES, _PLACE)]
    if len({tuple((arm.name, len(arm.nodes)) for arm in run.arms) for run in runs}) > 1:
        what.insert(0, "number of nodes")
    if not what:
        return []
    return [
        f"The draws differ not only in their nodes: {listed(what)}. Look at their runs before you"
        " take them for draws of one placement group."
    ]


def _evidence(run: Results) -> Evidence:
    """A run's plan and nodes as evidence. Its trials are not in its results."""
    return Evidence(_planned(run), (), {}, {})


def _planned(run: Results) -> PlannedRun:
    """The planned run that results are of."""
    return PlannedRun(
        run_id=run.run.id,
        execution_arn=run.run.execution_arn,
        plan=Plan.from_json(run.plan),
        compare_with_baseline=None,
        metrics=tuple(map(OnMetric.from_fields, run.metrics)),
        arms=run.arms,
        placeholder_nodes=False,
        image=run.versions.image,
        kubernetes_version=run.versions.kubernetes,
        estimates=run.estimates,
    )
