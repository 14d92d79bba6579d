"""A comparison of a run with others: the request, and comparison.json. Pure.

comparison.json is structured like the results of one run with the arms of both sides, so that the
same page shows both. An arm of the run keeps its name. The same arm of the other run is called
`<arm> (<other run>)`. Several other runs are one arm, `<arm> (<their baseline>)` or
`<arm> (4 runs)`, whose blocks are numbered from the first run's to the last one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rackrate.errors import Fault, InvalidComparison
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.faults import kind_of, shown
from rackrate.plan.fields import LEAST_RUNS, STARTED_BY
from rackrate.plan.planned_run import PlannedRun
from rackrate.results.build import RunTimes, count_trials, metrics_of, versions_of, warm_up_of
from rackrate.tools.base import TestBase
from rackrate.verdict import analysis, wording
from rackrate.verdict.analysis import close_in_time, cross_verdicts, not_recorded
from rackrate.verdict.differences import differences
from rackrate.verdict.evidence import Evidence, shared_arms, shared_tests, unshared
from rackrate_contract.arms import Arm
from rackrate_contract.comparison import Compared, ComparedRun, Comparison
from rackrate_contract.executions import RunRecord
from rackrate_contract.trials import Mark, TrialKey
from rackrate_contract.verdicts import Baseline, Summary, Verdict
from rackrate_text.words import capitalized, listed

#: The field of an execution's input that distinguishes a comparison from a plan.
FIELD = "compare"
_RUNS = ("run", "with")
_MOST_CHARACTERS = 80
_EXAMPLE = '{"compare": {"run": "<id>", "with": "<id, or a baseline\'s name>"}}'

METHOD = (
    "Each arm of the one run is compared with the arm of the same name of the other runs, on the"
    " tests that all have with the same parameters. The blocks of two runs are not of the same"
    " moments, so that nothing cancels between them: whatever changed in between is part of the"
    f" ratio, what rackrate does not record included. With {LEAST_RUNS} other runs or more their"
    " spread gives the interval; with fewer nobody knows how much runs differ from each other, and"
    " the verdict is inconclusive. Seeds differ from run to run and are no difference."
)


@dataclass(frozen=True)
class Request:
    """The runs to compare.

    Attributes:
        run: a run's id, or a baseline's name.
        others: the ids or baselines' names of the runs to compare it with.
    """

    run: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Recorded:
    """A run's stored data, for a comparison.

    Attributes:
        run: its item in the table.
        evidence: its plan, its trials with the facts about their nodes, and its raw values.
        marks: the marks of its analysis.
    """

    run: RunRecord
    evidence: Evidence
    marks: Sequence[Mark]

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id


def read_request(raw: object) -> Request:
    """Read an execution's input, which has the field `compare`.

    Raises:
        InvalidComparison: the input has mistakes; the error lists every one.
    """
    if not isinstance(raw, dict) or FIELD not in raw:
        raise InvalidComparison([Fault(FIELD, "is missing", f"write {_EXAMPLE}")])
    requested = raw[FIELD]
    faults = [
        Fault(name, "is not a field of a comparison", "remove it")
        for name in sorted(raw.keys() - {FIELD, STARTED_BY})
    ]
    if not isinstance(requested, dict):
        faults.append(
            Fault(FIELD, f"must be an object, not {kind_of(requested)}", f"write {_EXAMPLE}")
        )
        raise InvalidComparison(faults)
    faults += [
        Fault(
            f"{FIELD}.{shown(name)}" if len(name) > 60 else f"{FIELD}.{name}",
            "is not a field here",
            f"remove it, or use {listed(_RUNS)}",
        )
        for name in sorted(requested.keys() - set(_RUNS))
    ]
    others: Any = requested.get("with")
    named = {f"{FIELD}.run": requested.get("run")}
    if isinstance(others, list) and others:
        named |= {f"{FIELD}.with[{index}]": name for index, name in enumerate(others)}
    else:
        named[f"{FIELD}.with"] = others
    for name in _RUNS:
        if name not in requested:
            faults.append(Fault(f"{FIELD}.{name}", "is missing", f"write {_EXAMPLE}"))
            del named[f"{FIELD}.{name}"]
    faults += [fault for path, name in named.items() for fault in _faults_of_name(path, name)]
    if faults:
        raise InvalidComparison(faults)
    return Request(requested["run"], tuple(others) if isinstance(others, list) else (others,))


def _faults_of_name(path: str, value: object) -> list[Fault]:
    """Why a value cannot be the name of a run."""
    if not isinstance(value, str) or not value:
        problem = "is empty" if value in ("", []) else f"must be a text, not {kind_of(value)}"
        return [Fault(path, problem, "write a run's id, or a baseline's name")]
    if len(value) > _MOST_CHARACTERS:
        problem = f"is longer than {_MOST_CHARACTERS} characters, which no run's id is"
        return [Fault(path, problem, "write a run's id")]
    return []


def relabelled(arm: str, others: str) -> str:
    """The name in a comparison of the arm of the other runs.

    Args:
        arm: the arm's name.
        others: what the other runs are called.
    """
    return f"{arm} ({others})"


@dataclass(frozen=True)
class ComparedRuns:
    """A comparison with the data for its page.

    Attributes:
        document: comparison.json.
        trials: its trials, with the arms' names in the comparison.
        raw: their raw values by trial id.
    """

    document: Comparison
    trials: Sequence[Trial]
    raw: Mapping[str, RawValues]


def build_comparison(
    ours: Recorded,
    theirs: Sequence[Recorded],
    *,
    comparison_id: str,
    execution_arn: str,
    baseline: str | None,
    times: RunTimes,
    notes: Sequence[str] = (),
) -> ComparedRuns:
    """Compare a run with other runs.

    Args:
        ours: the run.
        theirs: the runs to compare it with, the newest last; at least one.
        comparison_id: the comparison's id, which is its execution's name.
        execution_arn: its execution.
        baseline: the name of the baseline that `theirs` are, or None.
        times: the times of the comparison.
        notes: further notes for the reader.

    Raises:
        InvalidComparison: no test was measured on the same arm in all runs.
    """
    after, before = ours.evidence, [run.evidence for run in theirs]
    shared = (shared_tests(after, before), shared_arms(after, before))
    _check_common(ours, theirs, *shared)
    run_ids = tuple(run.id for run in theirs)
    others = wording.name_of_runs(run_ids, baseline)
    parts = (_Part(ours, *shared, None), _Part(_as_one(theirs), *shared, others))
    differed = differences(after, before)
    warnings = [
        *notes,
        *(f"Not compared: {note}." for note in _unshared(ours, theirs)),
        *(f"{capitalized(not_recorded(fact, len(theirs)))}." for fact in differed.unrecorded),
        *(f"{capitalized(close)}." for close in [close_in_time(before)] if close),
    ]
    run = ComparedRun.from_fields(
        times,
        id=comparison_id,
        status="compared",
        lab_scale=ours.run.lab_scale,
        seed=after.planned_run.plan.seed,
        execution_arn=execution_arn,
        error=None,
        cause=None,
    )
    compared = Compared(
        run=ours.id,
        other=others,
        with_runs=run_ids,
        baseline=baseline,
        differences=tuple(differed.changes),
    )
    verdicts = cross_verdicts(after, before, lambda arm: Baseline(relabelled(arm, others)))
    return _compared_runs(run, compared, parts, verdicts, warnings)


def _compared_runs(
    run: ComparedRun,
    compared: Compared,
    parts: tuple[_Part, _Part],
    verdicts: Sequence[Verdict],
    warnings: Iterable[str],
) -> ComparedRuns:
    """The comparison of the runs' parts, with these verdicts."""
    ours, theirs = parts
    trials = [*ours.trials, *theirs.trials]
    marks = (*ours.marks, *theirs.marks)
    planned = ours.planned
    tests = planned.plan.tests
    arms = _in_turn(ours.arms, theirs.arms)
    counts = count_trials(trials, arms, planned=len(trials))
    differed = wording.what_differed(
        compared.differences, verdicts, f"between {compared.run} and {compared.others}"
    )
    conclusion = wording.sentence(verdicts, marks=marks, measured=counts.measured)
    document = Comparison(
        run=run,
        conclusion=f"{differed} {conclusion}",
        method=f"{METHOD} {analysis.METHOD}",
        plan=planned.plan.to_json(),
        estimates=planned.estimates,
        metrics=metrics_of(tests),
        arms=arms,
        trials=counts,
        warm_up=warm_up_of(()),
        verdicts=tuple(verdicts),
        regressions=(),
        regression_differences=None,
        summaries=_in_turn(ours.summaries, theirs.summaries),
        marks=marks,
        mark_notes=tuple(wording.mark_notes(marks, counts.measured)),
        warnings=tuple(dict.fromkeys(warnings)),
        counters=None,
        versions=versions_of(planned, arms, trials),
        comparison=compared,
    )
    return ComparedRuns(document, trials, {**ours.raw, **theirs.raw})


def _check_common(
    ours: Recorded, theirs: Sequence[Recorded], tests: Sequence[TestBase], arms: Sequence[str]
) -> None:
    """Check that all runs measured one of the tests on one of the arms.

    Args:
        ours: the run.
        theirs: the other runs.
        tests: the tests that all runs have.
        arms: the arms that all runs have.
    """
    runs = (ours, *theirs)
    common = any(
        all(run.evidence.by_test_and_arm.get((test.name, arm)) for run in runs)
        for test in tests
        for arm in arms
    )
    if not common:
        raise InvalidComparison(
            [
                Fault(
                    FIELD,
                    f"the runs {listed(repr(run.id) for run in runs)} have nothing in common, no"
                    " test with the same parameters that was measured in an arm of the same name",
                    "compare runs of the same plan, or of plans that share a test and an arm",
                )
            ]
        )


def _unshared(ours: Recorded, theirs: Sequence[Recorded]) -> list[str]:
    """Sentences on what is not compared; a test with different parameters is named once."""
    after = ours.evidence
    named = {test.name for test in after.tests}
    notes: list[str] = []
    for other in theirs:
        before = other.evidence
        notes += unshared(after, before, f"the run {other.id}")
        notes += [
            f"the test {test.name} is not in the run {ours.id}"
            for test in before.tests
            if test.name not in named
        ]
        notes += [
            f"the arm {arm} is not in the run {ours.id}"
            for arm in before.arms
            if arm not in after.arms
        ]
    return notes


def _as_one(runs: Sequence[Recorded]) -> Recorded:
    """Several runs as one, whose blocks are numbered from the first run's to the last one's.

    The plan is the last run's. An arm has the nodes of all runs.
    """
    *_, last = runs
    if len(runs) == 1:
        return last
    moved: list[Recorded] = []
    for run in runs:
        before = moved[-1].evidence.planned if moved else ()
        moved.append(_after_block(run, max((key.block for key in before), default=0)))
    evidence = [run.evidence for run in moved]
    nodes = {
        name: tuple({node.name: node for run in evidence for node in run.arms[name].nodes}.values())
        for name in shared_arms(evidence[-1], evidence)
    }
    arms = tuple(
        arm.model_copy(update={"nodes": nodes.get(arm.name, arm.nodes)})
        for arm in last.evidence.planned_run.arms
    )
    return Recorded(
        run=last.run,
        evidence=Evidence(
            planned_run=last.evidence.planned_run.model_copy(update={"arms": arms}),
            planned=tuple(key for run in evidence for key in run.planned),
            trials={key: trial for run in evidence for key, trial in run.trials.items()},
            raw={trial_id: raw for run in evidence for trial_id, raw in run.raw.items()},
        ),
        marks=[mark for run in moved for mark in run.marks],
    )


def _after_block(run: Recorded, block: int) -> Recorded:
    """A run without its warm-up, with its blocks numbered from the one after `block`."""

    def moved(key: TrialKey) -> TrialKey:
        return replace(key, block=key.block + block)

    evidence = run.evidence
    trials = [trial for trial in evidence.trials.values() if not trial.warm_up]
    return replace(
        run,
        evidence=Evidence(
            planned_run=evidence.planned_run,
            planned=tuple(map(moved, evidence.planned)),
            trials={
                moved(trial.key): trial.model_copy(update={"block": trial.block + block})
                for trial in trials
            },
            raw={
                moved(trial.key).id: evidence.raw[trial.key.id]
                for trial in trials
                if trial.key.id in evidence.raw
            },
        ),
        marks=[mark.model_copy(update={"block": mark.block + block}) for mark in run.marks],
    )


def _in_turn[T](ours: Sequence[T], theirs: Sequence[T]) -> tuple[T, ...]:
    return tuple(entry for both in zip(ours, theirs, strict=True) for entry in both)


class _Part:
    """One run's part of a comparison, with the arms' names in the comparison."""

    def __init__(
        self, recorded: Recorded, tests: Sequence[TestBase], arms: Sequence[str], label: str | None
    ) -> None:
        """`label` is added after the names of the arms, unless it is None."""
        self._recorded, self._label = recorded, label
        self._evidence = recorded.evidence
        self._tests, self._arms = tests, arms
        self._named = {test.name for test in tests}

    def _arm(self, name: str) -> str:
        return name if self._label is None else relabelled(name, self._label)

    def _has(self, entry: Trial | Mark) -> bool:
        return entry.test in self._named and entry.arm in self._arms

    @property
    def planned(self) -> PlannedRun:
        """The run's plan, with the compared tests only."""
        planned = self._evidence.planned_run
        plan = planned.plan.model_copy(update={"tests": tuple(self._tests)})
        return planned.model_copy(update={"plan": plan})

    @property
    def arms(self) -> list[Arm]:
        """The arms; the other run's arms are the baselines."""
        return [
            self._evidence.arms[name].model_copy(
                update={"name": self._arm(name), "baseline": self._label is not None}
            )
            for name in self._arms
        ]

    @property
    def _compared(self) -> list[Trial]:
        in_order = (trial for _, trial in sorted(self._evidence.trials.items()))
        return [trial for trial in in_order if self._has(trial) and not trial.warm_up]

    @property
    def trials(self) -> list[Trial]:
        """The trials without the warm-up."""
        return [trial.model_copy(update={"arm": self._arm(trial.arm)}) for trial in self._compared]

    @property
    def raw(self) -> dict[str, RawValues]:
        """Raw values by trial id."""
        raw = self._evidence.raw
        return {
            replace(trial.key, arm=self._arm(trial.arm)).id: raw[trial.key.id]
            for trial in self._compared
            if trial.is_measured and trial.key.id in raw
        }

    @property
    def marks(self) -> list[Mark]:
        """The marks of the run's analysis."""
        return [
            mark.model_copy(update={"arm": self._arm(mark.arm)})
            for mark in self._recorded.marks
            if self._has(mark)
        ]

    @property
    def summaries(self) -> list[Summary]:
        """The summaries of the arms, in the same order for both runs."""
        return [
            analysis.summary(self._evidence, test, metric, arm).model_copy(
                update={"arm": self._arm(arm)}
            )
            for test in self._tests
            for metric in test.metrics
            for arm in self._arms
        ]
