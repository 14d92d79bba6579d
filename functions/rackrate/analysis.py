"""What a run's trials say: verdicts, summaries, marks (analysis.json). Pure."""

from __future__ import annotations

import functools
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rackrate import tools
from rackrate.ceilings import ceiling, limit_for
from rackrate.guards import Mark, mark_trials
from rackrate.schedule import TrialKey
from rackrate.tools import TestBase
from rackrate.tools.base import Metric

Json = dict[str, Any]

#: How the figures came about, for whoever reads only the results; docs/statistics.md says why.
METHOD = (
    "Trials of the same test, arm and pair are compared on a logarithmic scale. Each block gives"
    " one difference between the arms, for both are measured in it; the ratio is that of the arms'"
    " geometric means. Its interval is Student's t over blocks, widened by what autocorrelation"
    " there seems to be between them, and, where both arms have six pairs of nodes or more, by the"
    " luck of the pairs (two-way clustered variance). The interval that decides is corrected for"
    " all verdicts of the run (Bonferroni). Percentiles come from pooled raw values. Failed trials"
    " are left out, never counted as zero; marked trials and outliers are kept."
)


@dataclass(frozen=True)
class Evidence:
    """All that a run left.

    Attributes:
        stored_plan: plan.json.
        planned: the trials of its schedule, without the warm-up.
        trials: the trials as the table has them, the warm-up among them.
        raw: samples and series of trials, by trial id.
        counters: counters.json, or None.
    """

    stored_plan: Mapping[str, Any]
    planned: tuple[TrialKey, ...]
    trials: Mapping[TrialKey, Mapping[str, Any]]
    raw: Mapping[str, Mapping[str, Any]]
    counters: Mapping[str, Any] | None

    @functools.cached_property
    def measured(self) -> dict[TrialKey, Mapping[str, Any]]:
        """The planned trials that were measured."""
        return {
            key: trial
            for key in self.planned
            if (trial := self.trials.get(key, {})).get("status") == "measured"
        }

    @functools.cached_property
    def by_test_and_arm(self) -> dict[tuple[str, str], list[TrialKey]]:
        """The keys of the measured trials, in the order of the blocks."""
        found: dict[tuple[str, str], list[TrialKey]] = defaultdict(list)
        for key in sorted(self.measured):
            found[key.test, key.arm].append(key)
        return found

    @functools.cached_property
    def tests(self) -> tuple[TestBase, ...]:
        """The plan's tests, in its order."""
        return tuple(tools.load_test(value) for value in self.stored_plan["plan"]["tests"])

    @functools.cached_property
    def arms(self) -> dict[str, Mapping[str, Any]]:
        """The plan's arms by name."""
        return {arm["name"]: arm for arm in self.stored_plan["arms"]}

    def values(self, test: TestBase, metric: Metric, arm: str) -> list[Any]:
        """The values of an arm's trials, as the statistics take them."""
        from rackrate.statistics import Value  # numpy takes a while; others here do without

        return [
            Value(key.block, key.client, key.server, float(_value(self.measured[key], metric)))
            for key in self.by_test_and_arm.get((test.name, arm), [])
            # A tool that has got a new metric did not measure it before.
            if metric.name in (self.measured[key].get("values") or {})
        ]


def _value(trial: Mapping[str, Any], metric: Metric) -> float:
    return float(trial["values"][metric.name])


def analyze_run(evidence: Evidence) -> Json:
    """The verdicts of a run, each arm against the baseline on each metric of each test.

    Returns:
        analysis.json, its regressions still empty.
    """
    series = {trial: raw.get("series", []) for trial, raw in evidence.raw.items()}
    planned = {key: evidence.trials[key] for key in evidence.planned if key in evidence.trials}
    marks = mark_trials(evidence.stored_plan, planned, series, evidence.counters)
    plan = evidence.stored_plan["plan"]
    baseline = plan["baseline"]
    chosen = [
        (test, metric, arm)
        for test in evidence.tests
        for metric in test.metrics
        for arm in evidence.arms
        if arm != baseline
    ]
    verdicts = [
        {
            **_verdict(
                evidence, evidence, test, metric, (arm, baseline), family=len(chosen), paired=True
            ),
            "marks": _counted(marks, test.name, (arm, baseline)),
        }
        for test, metric, arm in chosen
    ]
    return {
        "method": METHOD,
        "verdicts": verdicts,
        "summaries": [
            summary(evidence, test, metric, arm)
            for test in evidence.tests
            for metric in test.metrics
            for arm in evidence.arms
        ],
        "marks": [
            {**asdict(key), "mark": mark.mark, "text": mark.text}
            for key, found in marks.items()
            for mark in found
        ],
        "regressions": [],
        "regression_differences": None,
        "warnings": [],
    }


def compare_runs(after: Evidence, before: Evidence, *, name: str) -> tuple[list[Json], list[str]]:
    """Each arm of a run against the same arm of an earlier one, by the same statistics.

    Args:
        after: the run.
        before: the earlier run.
        name: the earlier run's id.

    Returns:
        The verdicts, whose baseline is `run <name>`, and what could not be compared, and why.
    """
    warnings = [f"compare_with: {note}" for note in unshared(after, before, f"the run {name}")]
    return cross_verdicts(after, before, lambda _: f"run {name}"), warnings


def shared_tests(after: Evidence, before: Evidence) -> list[TestBase]:
    """The tests that two runs have by the same name and with the same parameters."""
    return [test for test in after.tests if test in before.tests]


def shared_arms(after: Evidence, before: Evidence) -> list[str]:
    """The arms that two runs have by the same name."""
    return [arm for arm in after.arms if arm in before.arms]


def unshared(after: Evidence, before: Evidence, other: str) -> list[str]:
    """What of a run cannot be compared, for the other run does not have it.

    Args:
        after: the run.
        before: the other run.
        other: what to call it.
    """
    return [
        f"the test {test.name} is not in {other} with the same parameters"
        for test in after.tests
        if test not in before.tests
    ] + [f"the arm {arm} is not in {other}" for arm in after.arms if arm not in before.arms]


def cross_verdicts(after: Evidence, before: Evidence, called: Callable[[str], str]) -> list[Json]:
    """Each arm of a run against the arm of the same name of another one.

    The blocks of two runs are not of the same moments, so nothing cancels between them.

    Args:
        after: the run.
        before: the other run.
        called: what the other run's arm is called in the verdicts, by its name.
    """
    chosen = [
        (test, metric, arm)
        for test in shared_tests(after, before)
        for metric in test.metrics
        for arm in shared_arms(after, before)
    ]
    return [
        {
            **_verdict(after, before, test, metric, (arm, arm), family=len(chosen), paired=False),
            "baseline": called(arm),
            "marks": {},
        }
        for test, metric, arm in chosen
    ]


def _verdict(
    evidence: Evidence,
    reference: Evidence,
    test: TestBase,
    metric: Metric,
    arms: tuple[str, str],
    *,
    family: int,
    paired: bool,
) -> Json:
    """The verdict on one metric; `reference` has the baseline's trials, of this run or another.

    `paired`: does each block have a difference of its own, since both arms were measured in it?
    """
    from rackrate.statistics import compare, compare_steadiness

    arm, baseline = arms
    plan = evidence.stored_plan["plan"]
    ours = evidence.values(test, metric, arm)
    theirs = reference.values(test, metric, baseline)
    found = compare(
        ours,
        theirs,
        better=metric.better,
        threshold=plan["threshold"],
        family=family,
        paired=paired,
    )
    steadiness = compare_steadiness(ours, theirs, family=family, seed=plan["seed"])
    limited = metric.unit == "bit/s"
    return {
        "test": test.name,
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "arm": arm,
        "baseline": baseline,
        "arm_median": found.arm_median,
        "baseline_median": found.baseline_median,
        "ratio": found.ratio,
        "ci95": _listed(found.ci95),
        "ci_simultaneous": _listed(found.ci_simultaneous),
        "confidence_simultaneous": found.confidence_simultaneous,
        "verdict": found.verdict,
        "reason": found.reason,
        "blocks": found.blocks,
        "pairs": {"arm": found.arm_pairs, "baseline": found.baseline_pairs},
        "scope": found.scope,
        "claim": _claim(found, arms),
        "more_blocks": found.more_blocks,
        "more_pairs": found.more_pairs,
        "threshold": plan["threshold"],
        "ceiling": ceiling(
            limit_for(evidence.arms[arm], test),
            limit_for(reference.arms[baseline], test),
            arm_median=found.arm_median,
            baseline_median=found.baseline_median,
            names=arms,
            alike=plan["threshold"],
        )
        if limited
        else None,
        "steadiness": {**asdict(steadiness), "ci95": _listed(steadiness.ci95)},
    }


def _listed(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _claim(found: Any, arms: tuple[str, str]) -> str:
    """What the verdict may be said of, and what it rests on."""
    pairs = (found.arm_pairs, found.baseline_pairs)
    counted = (
        _count(pairs[0], "pair") + " of nodes in each arm"
        if pairs[0] == pairs[1]
        else f"{_count(pairs[0], 'pair')} of nodes of {arms[0]} and {pairs[1]} of {arms[1]}"
    )
    resting = f"it rests on {counted} and {_count(found.blocks, 'block')}"
    if found.scope == "the placement":
        return f"about the placement: {resting}"
    return f"about these nodes, not about others placed alike: {resting}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _counted(
    marks: Mapping[TrialKey, Sequence[Mark]], test: str, arms: tuple[str, str]
) -> dict[str, int]:
    """How many trials of a comparison carry each mark."""
    return dict(
        Counter(
            mark.mark
            for key, found in marks.items()
            if key.test == test and key.arm in arms
            for mark in found
        )
    )


def summary(evidence: Evidence, test: TestBase, metric: Metric, arm: str) -> Json:
    """What an arm came to on one metric."""
    from rackrate.statistics import percentiles, spread

    keys = evidence.by_test_and_arm.get((test.name, arm), [])
    values = evidence.values(test, metric, arm)
    scatter = spread(values)
    pooled = [sample for key in keys for sample in _samples(evidence, key, metric.samples)]
    details = [evidence.measured[key].get("details", {}) for key in keys]
    return {
        "test": test.name,
        "metric": metric.name,
        "unit": metric.unit,
        "arm": arm,
        "median": _median([value.value for value in values]),
        "trials": len(keys),
        "blocks": len({key.block for key in keys}),
        "pairs": len({frozenset((key.client, key.server)) for key in keys}),
        "spread_between_blocks": scatter.between_blocks,
        "spread_between_pairs": scatter.between_pairs,
        "percentiles": percentiles(pooled) if pooled else None,
        "loss_ratio": _mean_of(details, "loss_ratio"),
        "retransmits": _sum_of(details, "retransmits"),
    }


def _samples(evidence: Evidence, key: TrialKey, kind: str | None) -> Sequence[float]:
    if kind is None:
        return ()
    found: Sequence[float] = evidence.raw.get(key.id, {}).get("samples", {}).get(kind, ())
    return found


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _mean_of(details: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """Mean over trials that tell; every trial of a test sends about as many packets."""
    told = [float(each[name]) for each in details if name in each]
    return sum(told) / len(told) if told else None


def _sum_of(details: Iterable[Mapping[str, Any]], name: str) -> int | None:
    told = [int(each[name]) for each in details if name in each]
    return sum(told) if told else None
