"""The analysis of a run's trials: verdicts, summaries, marks. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackrate.histograms import Histogram, merged
from rackrate.measure.trials import Trial
from rackrate.plan.ceilings import ceiling, limit_for
from rackrate.plan.fields import LEAST_RUNS
from rackrate.plan.looks import look_level, looks
from rackrate.tools.base import Metric, TestBase, least_for
from rackrate.verdict.differences import differences
from rackrate.verdict.evidence import Evidence, shared_arms, shared_tests, unshared
from rackrate.verdict.kinds import partition_pairs, partitions_in_words, zones_in_words
from rackrate.verdict.marks import mark_trials
from rackrate.verdict.model import Analysis
from rackrate.verdict.network_cards import network_card_warnings
from rackrate.verdict.together import together
from rackrate.verdict.together import warnings as together_warnings
from rackrate_contract.arms import Arm, arm_titles
from rackrate_contract.gates import within_a_day
from rackrate_contract.trials import Mark
from rackrate_contract.verdicts import (
    Baseline,
    Difference,
    Pairs,
    PartitionPairs,
    Steadiness,
    Summary,
    Verdict,
)
from rackrate_text.units import duration
from rackrate_text.words import counted

if TYPE_CHECKING:
    from rackrate.verdict.estimator import Finding
    from rackrate.verdict.layout import Value

#: The method in words, for readers of the results. docs/statistics.md gives the reasons.
METHOD = (
    "Each block gives one difference between the arms, as the logarithm of a ratio; pairs, their"
    " directions and blocks are fitted together. The interval for these nodes is Student's t over"
    " blocks, widened by the autocorrelation between them. The interval for this stack's placement"
    " adds the variance between pairs of nodes. Better and worse are decided by a test against the"
    " threshold, no meaningful difference by two one-sided tests, all verdicts of a run together"
    " with an error of 5 % (Holm, and Pocock's limits if the run looked several times); the printed"
    " intervals are adjusted by Bonferroni. Percentiles come from pooled raw values. Failed trials"
    " are left out, never counted as zero; marked trials and outliers are kept."
)


def analyze_run(
    evidence: Evidence,
    earlier: EarlierRuns | None = None,
    warnings: Sequence[str] = (),
) -> Analysis:
    """Compare each arm of a run with the baseline, and with itself in earlier runs.

    Args:
        evidence: the run's evidence.
        earlier: the comparison with the earlier runs that the plan names, or None.
        warnings: deviations from the plan.
    """
    from rackrate.verdict.ranking import rank_nodes

    plan = evidence.planned_run.plan
    trials = {key: evidence.trials[key] for key in evidence.planned if key in evidence.trials}
    marks = mark_trials(evidence.planned_run, trials, evidence.raw, evidence.counters)
    at_once = together(plan, trials)
    return Analysis(
        method=METHOD,
        verdicts=tuple(verdicts_between_arms(evidence, marks)),
        summaries=tuple(
            summary(evidence, test, metric, arm)
            for test in evidence.tests
            for metric in test.metrics
            for arm in evidence.arms
        ),
        marks=tuple(marks),
        regressions=() if earlier is None else tuple(earlier.verdicts),
        regression_differences=None if earlier is None else tuple(earlier.differences),
        together=tuple(at_once),
        rankings=rank_nodes(evidence),
        warnings=(
            *warnings,
            *together_warnings(at_once),
            *network_card_warnings([*evidence.arms.values()], evidence.counters),
            *(() if earlier is None else earlier.warnings),
        ),
    )


def verdicts_between_arms(evidence: Evidence, marks: Iterable[Mark] = ()) -> list[Verdict]:
    """The verdicts on each arm against the baseline in one run.

    Args:
        evidence: the run's evidence.
        marks: the marks of its trials, which change no word.
    """
    from rackrate.verdict.estimator import Question, answer

    plan = evidence.planned_run.plan
    compared = [
        (test, metric, arm)
        for test in evidence.tests
        for metric in test.metrics
        for arm in evidence.arms
        if arm != plan.baseline
    ]
    questions = [
        Question(
            evidence.values(test, metric, arm),
            evidence.values(test, metric, plan.baseline),
            metric.better,
            metric.resolution_at,
            _unfit(test, metric, Side(evidence, arm), Side(evidence, plan.baseline)),
        )
        for test, metric, arm in compared
    ]
    findings = answer(
        questions,
        threshold=plan.threshold,
        error=look_level(len(looks(plan.blocks.least, plan.blocks.most))),
        most_blocks=plan.blocks.most,
    )
    return [
        _verdict(
            finding,
            Side(evidence, arm),
            Side(evidence, plan.baseline),
            test,
            metric,
            called=Baseline(plan.baseline),
            marks=_marked(marks, test.name, (arm, plan.baseline)),
            steadiness=_steadiness(question.arm, question.baseline, len(compared)),
            family=len(compared),
        )
        for (test, metric, arm), question, finding in zip(
            compared, questions, findings, strict=True
        )
    ]


def _steadiness(arm: Sequence[Value], baseline: Sequence[Value], family: int) -> Steadiness:
    from rackrate.verdict.estimate import ERROR
    from rackrate.verdict.steadiness import compare_steadiness

    return compare_steadiness(arm, baseline, error=ERROR / family)


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
    differed = differences(after, runs)
    notes = [
        note for run_id, run in before.items() for note in unshared(after, run, f"the run {run_id}")
    ]
    notes += [not_recorded(what, len(runs)) for what in differed.unrecorded]
    if close := close_in_time(runs):
        notes.append(close)
    baseline = Baseline(name, tuple(before))
    return EarlierRuns(
        cross_verdicts(after, runs, lambda _: baseline),
        differed.changes,
        [f"compare_with: {note}" for note in notes],
    )


def close_in_time(runs: Sequence[Evidence]) -> str | None:
    """A clause on runs that were measured within a day; None on others, and on too few runs."""
    span = _span_seconds(trial for run in runs for trial in run.measured.values())
    return None if span is None or len(runs) < LEAST_RUNS else within_a_day(len(runs), span)


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
    from rackrate.verdict.estimator import RunsQuestion, answer_runs

    compared = [
        (test, metric, arm)
        for test in shared_tests(after, before)
        for metric in test.metrics
        for arm in shared_arms(after, before)
    ]
    questions = [
        RunsQuestion(
            after.values(test, metric, arm),
            [run.values(test, metric, arm) for run in before],
            metric.better,
            metric.resolution_at,
            _unfit(test, metric, *(Side(run, arm) for run in (after, *before))),
        )
        for test, metric, arm in compared
    ]
    findings = answer_runs(questions, threshold=after.planned_run.plan.threshold)
    return [
        _verdict(
            finding,
            Side(after, arm),
            Side(before[-1], arm),
            test,
            metric,
            called=called(arm),
            marks={},
            steadiness=None,
        )
        for (test, metric, arm), finding in zip(compared, findings, strict=True)
    ]


@dataclass(frozen=True)
class Side:
    """An arm of a run."""

    evidence: Evidence
    arm: str

    @property
    def its_arm(self) -> Arm:
        """The arm with its nodes."""
        return self.evidence.arms[self.arm]

    @property
    def title(self) -> str:
        """What people read for the arm's name."""
        return arm_titles(self.evidence.arms.values())[self.arm]

    def trials(self, test: TestBase) -> Sequence[Trial]:
        """The measured trials of the arm."""
        return self.evidence.by_test_and_arm.get((test.name, self.arm), [])


def _verdict(
    finding: Finding,
    side: Side,
    reference: Side,
    test: TestBase,
    metric: Metric,
    *,
    called: Baseline,
    marks: dict[str, int],
    steadiness: Steadiness | None,
    family: int = 1,
) -> Verdict:
    """The verdict on one metric.

    Args:
        finding: what the estimator found.
        side: the arm.
        reference: the arm that it was compared with, in this run or in the first of several.
        test: the test.
        metric: one of its metrics.
        called: the name of the reference in the verdict.
        marks: the number of trials with each mark.
        steadiness: the comparison of the arms' variability, or None.
        family: number of comparisons among which a drift is looked for.
    """
    threshold = side.evidence.planned_run.plan.threshold
    partitions = partition_pairs(side.its_arm, side.trials(test), metric.name)
    names = side.title, reference.title
    arms = side.arm, reference.arm
    # The tests take turns in each block, so all of them have the same span.
    span = _span_seconds(t for key, t in side.evidence.measured.items() if key.arm in arms)
    return Verdict.from_fields(
        finding,
        test=test.name,
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        arm=side.arm,
        baseline=called,
        title=test.title,
        arm_title=side.title,
        # In a comparison of runs it says which run's arm it is.
        baseline_title=""
        if called.is_earlier_run
        else reference.title + called.name.removeprefix(reference.arm),
        pairs=Pairs(arm=finding.arm_pairs, baseline=finding.baseline_pairs),
        partitions=partitions,
        span_seconds=span,
        claim=_claim(finding, (side, reference), span) + _kinds(side, reference, test, partitions),
        threshold=threshold,
        ceiling=ceiling(
            limit_for(side.its_arm, test),
            limit_for(reference.its_arm, test),
            arm_level=finding.arm_mean or finding.arm_median,
            baseline_level=finding.baseline_mean or finding.baseline_median,
            names=names,
            alike=threshold,
            decided=finding.verdict != "inconclusive",
        )
        if metric.unit == "bit/s"
        else None,
        marks=marks,
        drift=_drift(finding, metric, names, threshold=threshold, family=family),
        steadiness=steadiness,
    )


def _unfit(test: TestBase, metric: Metric, *sides: Side) -> str | None:
    """Why a percentile's values cannot be compared; None if they can."""
    if metric.share is None:
        return None
    trials = [trial for side in sides for trial in side.trials(test)]
    counts = [trial.samples.get(metric.samples or "", trial.detail("requests")) for trial in trials]
    fewest = min((count for count in counts if count is not None), default=math.inf)
    if fewest >= (least := least_for(metric.share)):
        return None
    return (
        f"a trial has only {fewest:.0f} values, and the {metric.statistic} takes {least}: raise the"
        " test's seconds, rate or number"
    )


def _kinds(side: Side, reference: Side, test: TestBase, partitions: PartitionPairs | None) -> str:
    """What kinds of pairs the sides have, as further parts of a claim."""
    parts_of = {side.title: partitions_in_words(partitions)}
    others = {
        each.title: zones_in_words(each.its_arm, each.trials(test)) or each.its_arm.towards
        for each in (side, reference)
    }
    return "".join(
        f"; {arm}: {words}" for kinds in (parts_of, others) for arm, words in kinds.items() if words
    )


def _drift(
    finding: Finding, metric: Metric, arms: tuple[str, str], *, threshold: float, family: int
) -> str | None:
    """A sentence on a trend, a step or a dip of one arm alone, by half the threshold or more.

    Smaller changes are the tool's rounding, or move a mean by less than a quarter of what matters.
    """
    from rackrate.verdict.drift import drift_of_one_arm

    if finding.series is None or finding.arm_median is None:
        return None
    arm, baseline = arms
    drift = drift_of_one_arm(
        finding.series,
        arm=arm,
        baseline=baseline,
        least=max(threshold / 2, metric.resolution_at(finding.arm_median) / finding.arm_median),
        family=family,
    )
    return None if drift is None else drift.text


def _span_seconds(trials: Iterable[Trial]) -> float | None:
    """How long trials took, from the start of the first to the end of the last."""
    times = [trial.interval for trial in trials if trial.interval is not None]
    if not times:
        return None
    return max(end for _, end in times) - min(start for start, _ in times)


def _claim(finding: Finding, sides: tuple[Side, Side], span: float | None) -> str:
    """What the verdict applies to, and how many blocks and pairs it rests on."""
    pairs, arms = (finding.arm_pairs, finding.baseline_pairs), [side.title for side in sides]
    of_nodes = "" if any(side.its_arm.endpoint for side in sides) else " of nodes"
    nodes = (
        f"{counted(pairs[0], 'pair')}{of_nodes} in each arm"
        if pairs[0] == pairs[1]
        else f"{counted(pairs[0], 'pair')}{of_nodes} of {arms[0]} and {pairs[1]} of {arms[1]}"
    )
    resting = f"it rests on {nodes} and {counted(finding.blocks, 'block')}"
    if span is not None:
        resting += f" in {duration(span)}"
    if finding.left_out:
        values = counted(finding.left_out, "value")
        resting += (
            f"; {values} without a logarithm {'is' if finding.left_out == 1 else 'are'} left out"
        )
    if finding.scope == "these nodes":
        return f"about these nodes in this time, not about others placed alike: {resting}"
    return f"about {finding.scope}: {resting}"


def _marked(marks: Iterable[Mark], test: str, arms: tuple[str, str]) -> dict[str, int]:
    """The number of a comparison's trials with each mark."""
    return dict(Counter(mark.mark for mark in marks if mark.test == test and mark.arm in arms))


def summary(evidence: Evidence, test: TestBase, metric: Metric, arm: str) -> Summary:
    """The summary of an arm's values of one metric."""
    from rackrate.verdict.percentiles import percentiles
    from rackrate.verdict.steadiness import spread

    trials = evidence.by_test_and_arm.get((test.name, arm), [])
    values = evidence.values(test, metric, arm)
    scatter = spread(values)
    sections = _raw_values(evidence, trials, metric.samples)
    losses = [count for trial in trials if (count := trial.detail("loss_ratio")) is not None]
    resent = [count for trial in trials if (count := trial.detail("retransmits")) is not None]
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
        percentiles=percentiles(sections) if sections else None,
        # The mean is enough, because every trial of a test sends about as many packets.
        loss_ratio=sum(losses) / len(losses) if losses else None,
        retransmits=int(sum(resent)) if resent else None,
    )


def _raw_values(
    evidence: Evidence, trials: Iterable[Trial], kind: str | None
) -> list[list[float] | Histogram]:
    """The raw values of each block that has some, or their histogram."""
    values: dict[int, list[float]] = defaultdict(list)
    histograms: dict[int, list[Histogram]] = defaultdict(list)
    for trial in trials:
        raw = evidence.raw.get(trial.key.id)
        if kind is None or raw is None:
            continue
        values[trial.block] += raw.samples.get(kind, ())
        if kind in raw.histograms:
            histograms[trial.block].append(raw.histograms[kind])
    by_block: list[list[float] | Histogram] = [merged(each) for each in histograms.values()]
    return by_block or [each for each in values.values() if each]
