"""The analysis of a run's trials: verdicts, summaries, marks. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.measure.counters import Counters
from rackrate.measure.trials import Trial
from rackrate.plan.ceilings import ceiling, limit_for
from rackrate.tools import Metric, TestBase
from rackrate.verdict.differences import differences
from rackrate.verdict.evidence import Evidence, shared_arms, shared_tests, unshared
from rackrate.verdict.marks import mark_trials
from rackrate.verdict.model import (
    Analysis,
    Baseline,
    Difference,
    Mark,
    Pairs,
    Steadiness,
    Summary,
    Verdict,
)
from rackrate_text.words import counted

if TYPE_CHECKING:
    from rackrate.verdict.estimator import Finding

#: The method in words, for readers of the results. docs/statistics.md gives the reasons.
METHOD = (
    "Trials of the same test, arm and pair are compared on a logarithmic scale. Each block gives"
    " one difference between the arms, for both are measured in it; the ratio is that of the arms'"
    " geometric means. Its interval is Student's t over blocks, widened by what autocorrelation"
    " there seems to be between them, and, where both arms have six pairs of nodes or more, by the"
    " luck of the pairs (two-way clustered variance). The interval that decides is corrected for"
    " all verdicts of the run (Bonferroni). Percentiles come from pooled raw values. Failed trials"
    " are left out, never counted as zero; marked trials and outliers are kept."
)


def analyze_run(
    evidence: Evidence,
    earlier: EarlierRuns | None = None,
    warnings: Sequence[str] = (),
    *,
    counters: Counters | None = None,
) -> Analysis:
    """Compare each arm of a run with the baseline, and with itself in earlier runs.

    Args:
        evidence: the run's evidence.
        earlier: the comparison with the earlier runs that the plan names, or None.
        warnings: deviations from the plan.
        counters: the nodes' counters, or None when they were not read.
    """
    trials = {key: evidence.trials[key] for key in evidence.planned if key in evidence.trials}
    marks = mark_trials(evidence.planned_run, trials, evidence.raw, counters)
    baseline = evidence.planned_run.plan.baseline
    chosen = [
        (test, metric, arm)
        for test in evidence.tests
        for metric in test.metrics
        for arm in evidence.arms
        if arm != baseline
    ]
    return Analysis(
        method=METHOD,
        verdicts=tuple(
            _against_arm(
                Side(evidence, arm),
                Side(evidence, baseline),
                test,
                metric,
                marks=_marked(marks, test.name, (arm, baseline)),
                family=len(chosen),
            )
            for test, metric, arm in chosen
        ),
        summaries=tuple(
            summary(evidence, test, metric, arm)
            for test in evidence.tests
            for metric in test.metrics
            for arm in evidence.arms
        ),
        marks=tuple(marks),
        regressions=() if earlier is None else tuple(earlier.verdicts),
        regression_differences=None if earlier is None else tuple(earlier.differences),
        warnings=(*warnings, *(() if earlier is None else earlier.warnings)),
    )


@dataclass(frozen=True)
class EarlierRuns:
    """The comparison with earlier runs.

    Attributes:
        verdicts: each arm against itself in the earlier runs.
        differences: the recorded differences between the run and the earlier runs.
        warnings: the parts that could not be compared, and why.
    """

    verdicts: Sequence[Verdict]
    differences: Sequence[Difference]
    warnings: Sequence[str]


def against_earlier_runs(
    after: Evidence, before: Mapping[str, Evidence], *, name: str
) -> EarlierRuns:
    """Compare each arm of a run with the same arm of earlier runs.

    Args:
        after: the run.
        before: the earlier runs by id.
        name: what they are called: a baseline's name, one run's id, or such as `4 runs`.
    """
    runs = list(before.values())
    found = differences(after, runs)
    notes = [
        note for run_id, run in before.items() for note in unshared(after, run, f"the run {run_id}")
    ]
    notes += [not_recorded(what, len(runs)) for what in found.untold]
    baseline = Baseline(name, tuple(before))
    return EarlierRuns(
        cross_verdicts(after, runs, lambda _: baseline),
        found.found,
        [f"compare_with: {note}" for note in notes],
    )


def not_recorded(what: str, others: int) -> str:
    """A sentence, without its period, on a fact that not all of the compared runs recorded.

    Args:
        what: the fact.
        others: with how many runs a run is compared.
    """
    some = "only one of the runs" if others == 1 else "not every run"
    return f"{some} recorded this, so nobody knows whether it differed: {what}"


def cross_verdicts(
    after: Evidence, before: Sequence[Evidence], called: Callable[[str], Baseline]
) -> list[Verdict]:
    """Compare each arm of a run with the arm of the same name in other runs.

    Each of the other runs counts as one value. Blocks of different runs are not simultaneous, so
    shared drift does not cancel between them.

    Args:
        after: the run.
        before: the other runs, the newest last.
        called: returns, for an arm's name, the baseline that the verdicts name.
    """
    chosen = [
        (test, metric, arm)
        for test in shared_tests(after, before)
        for metric in test.metrics
        for arm in shared_arms(after, before)
    ]
    return [
        _against_runs(
            Side(after, arm),
            [Side(run, arm) for run in before],
            test,
            metric,
            called=called(arm),
            family=len(chosen),
        )
        for test, metric, arm in chosen
    ]


@dataclass(frozen=True)
class Side:
    """An arm of a run."""

    evidence: Evidence
    arm: str


def _against_arm(
    side: Side,
    reference: Side,
    test: TestBase,
    metric: Metric,
    *,
    marks: dict[str, int],
    family: int,
) -> Verdict:
    """The verdict on one metric of an arm against another arm of the same run."""
    from rackrate.verdict.estimator import estimate, estimate_steadiness

    plan = side.evidence.planned_run.plan
    ours = side.evidence.values(test, metric, side.arm)
    theirs = reference.evidence.values(test, metric, reference.arm)
    found = estimate(ours, theirs, better=metric.better, threshold=plan.threshold, family=family)
    return _verdict(
        found,
        side,
        reference,
        test,
        metric,
        called=Baseline(reference.arm),
        claim=_claim(found, (side.arm, reference.arm)),
        marks=marks,
        steadiness=estimate_steadiness(ours, theirs, family=family, seed=plan.seed),
    )


def _against_runs(
    side: Side,
    references: Sequence[Side],
    test: TestBase,
    metric: Metric,
    *,
    called: Baseline,
    family: int,
) -> Verdict:
    """The verdict on one metric of an arm against the same arm in other runs."""
    from rackrate.verdict.estimator import estimate_against_runs

    found = estimate_against_runs(
        side.evidence.values(test, metric, side.arm),
        [run.evidence.values(test, metric, run.arm) for run in references],
        better=metric.better,
        threshold=side.evidence.planned_run.plan.threshold,
        family=family,
    )
    return _verdict(
        found,
        side,
        references[-1],
        test,
        metric,
        called=called,
        claim="about these nodes, not about others placed alike: it rests on"
        f" {counted(len(references), 'earlier run')}",
        marks={},
        steadiness=None,
    )


def _verdict(
    found: Finding,
    side: Side,
    reference: Side,
    test: TestBase,
    metric: Metric,
    *,
    called: Baseline,
    claim: str,
    marks: dict[str, int],
    steadiness: Steadiness | None,
) -> Verdict:
    """The verdict on one metric.

    Args:
        found: what was estimated.
        side: the arm.
        reference: an arm that it is compared with, in this run or another, for its limit.
        test: the test.
        metric: one of its metrics.
        called: the name in the verdict of what it is compared with.
        claim: what the verdict applies to.
        marks: the number of trials with each mark.
        steadiness: how the variability compares, or None.
    """
    plan = side.evidence.planned_run.plan
    limited = metric.unit == "bit/s"
    names = (side.arm, reference.arm)
    return Verdict(
        test=test.name,
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        arm=side.arm,
        baseline=called,
        arm_median=found.arm_median,
        baseline_median=found.baseline_median,
        ratio=found.ratio,
        ci95=found.ci95,
        ci_simultaneous=found.ci_simultaneous,
        confidence_simultaneous=found.confidence_simultaneous,
        verdict=found.verdict,
        reason=found.reason,
        blocks=found.blocks,
        pairs=Pairs(arm=found.arm_pairs, baseline=found.baseline_pairs),
        scope=found.scope,
        claim=claim,
        more_blocks=found.more_blocks,
        more_pairs=found.more_pairs,
        more_runs=found.more_runs,
        threshold=plan.threshold,
        ceiling=ceiling(
            limit_for(side.evidence.arms[side.arm], test),
            limit_for(reference.evidence.arms[reference.arm], test),
            arm_median=found.arm_median,
            baseline_median=found.baseline_median,
            names=names,
            alike=plan.threshold,
        )
        if limited
        else None,
        marks=marks,
        steadiness=steadiness,
    )


def _claim(found: Finding, arms: tuple[str, str]) -> str:
    """What the verdict applies to, and how many blocks and pairs it rests on."""
    pairs = (found.arm_pairs, found.baseline_pairs)
    nodes = (
        f"{counted(pairs[0], 'pair')} of nodes in each arm"
        if pairs[0] == pairs[1]
        else f"{counted(pairs[0], 'pair')} of nodes of {arms[0]} and {pairs[1]} of {arms[1]}"
    )
    resting = f"it rests on {nodes} and {counted(found.blocks, 'block')}"
    if found.scope == "the placement":
        return f"about the placement: {resting}"
    return f"about these nodes, not about others placed alike: {resting}"


def _marked(marks: Iterable[Mark], test: str, arms: tuple[str, str]) -> dict[str, int]:
    """The number of a comparison's trials with each mark."""
    return dict(Counter(mark.mark for mark in marks if mark.test == test and mark.arm in arms))


def summary(evidence: Evidence, test: TestBase, metric: Metric, arm: str) -> Summary:
    """The summary of an arm's values of one metric."""
    from rackrate.verdict.estimator import percentiles, spread

    trials = evidence.by_test_and_arm.get((test.name, arm), [])
    values = evidence.values(test, metric, arm)
    scatter = spread(values)
    pooled = [sample for trial in trials for sample in _samples(evidence, trial, metric.samples)]
    losses = [told for trial in trials if (told := trial.detail("loss_ratio")) is not None]
    resent = [told for trial in trials if (told := trial.detail("retransmits")) is not None]
    return Summary(
        test=test.name,
        metric=metric.name,
        unit=metric.unit,
        arm=arm,
        median=statistics.median(value.value for value in values) if values else None,
        trials=len(trials),
        blocks=len({trial.block for trial in trials}),
        pairs=len({trial.nodes for trial in trials}),
        spread_between_blocks=scatter.between_blocks,
        spread_between_pairs=scatter.between_pairs,
        percentiles=percentiles(pooled) if pooled else None,
        # The mean is enough, because every trial of a test sends about as many packets.
        loss_ratio=sum(losses) / len(losses) if losses else None,
        retransmits=int(sum(resent)) if resent else None,
    )


def _samples(evidence: Evidence, trial: Trial, kind: str | None) -> Sequence[float]:
    raw = evidence.raw.get(trial.key.id)
    return () if kind is None or raw is None else raw.samples.get(kind, ())
