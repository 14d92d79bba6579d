"""A comparison of two runs: the request, and comparison.json. Pure.

comparison.json is structured like the results of one run with the arms of both runs, so that the
same page shows both. An arm of the run keeps its name. The same arm of the other run is called
`<arm> (<other run>)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rackrate.errors import Fault, InvalidComparison
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.arms import Arm
from rackrate.plan.faults import kind_of, shown
from rackrate.results.build import (
    RunTimes,
    count_trials,
    metrics_of,
    no_warm_up,
    versions_of,
)
from rackrate.results.schema import Compared, ComparedRun, Comparison
from rackrate.store import RunRecord
from rackrate.tools import TestBase
from rackrate.verdict import analysis, wording
from rackrate.verdict.analysis import cross_verdicts
from rackrate.verdict.differences import differences
from rackrate.verdict.evidence import Evidence, shared_arms, shared_tests, unshared
from rackrate.verdict.model import Baseline, Mark, Summary
from rackrate_text.words import listed

#: The field of an execution's input that distinguishes a comparison from a plan.
FIELD = "compare"
_RUNS = ("run", "with")
_MOST_CHARACTERS = 80
_EXAMPLE = '{"compare": {"run": "<id>", "with": "<id, or a baseline\'s name>"}}'

METHOD = (
    "Each arm of the one run is compared with the arm of the same name of the other, on the tests"
    " that both have with the same parameters. The blocks of two runs are not of the same moments,"
    " so that nothing cancels between them: whatever changed in between is part of the ratio, what"
    " rackrate does not record included. Seeds differ from run to run and are no difference."
)


@dataclass(frozen=True)
class Request:
    """The runs to compare.

    Attributes:
        run: a run's id, or a baseline's name.
        other: id or baseline's name of the run to compare it with.
    """

    run: str
    other: str


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
        return self.run.run_id


def is_comparison(raw: object) -> bool:
    """Whether an execution's input asks for a comparison and not for a run."""
    return isinstance(raw, dict) and FIELD in raw


def read_request(raw: Mapping[str, Any]) -> Request:
    """Read an execution's input that has the field `compare`.

    Raises:
        InvalidComparison: the input has mistakes; the error lists every one.
    """
    asked = raw[FIELD]
    faults = [
        Fault(name, "is a field of a plan, not of a comparison", "remove it, or compare later")
        for name in sorted(raw.keys() - {FIELD})
    ]
    if not isinstance(asked, dict):
        faults.append(Fault(FIELD, f"must be an object, not {kind_of(asked)}", f"write {_EXAMPLE}"))
        raise InvalidComparison(faults)
    faults += [
        Fault(
            f"{FIELD}.{shown(name)}" if len(name) > 60 else f"{FIELD}.{name}",
            "is not a field here",
            f"remove it, or use {listed(_RUNS)}",
        )
        for name in sorted(asked.keys() - set(_RUNS))
    ]
    for name in _RUNS:
        value = asked.get(name)
        if name not in asked:
            faults.append(Fault(f"{FIELD}.{name}", "is missing", f"write {_EXAMPLE}"))
        elif not isinstance(value, str) or not value:
            problem = "is empty" if value == "" else f"must be a text, not {kind_of(value)}"
            faults.append(
                Fault(f"{FIELD}.{name}", problem, "write a run's id, or a baseline's name")
            )
        elif len(value) > _MOST_CHARACTERS:
            problem = f"is longer than {_MOST_CHARACTERS} characters, which no run's id is"
            faults.append(Fault(f"{FIELD}.{name}", problem, "write a run's id"))
    if faults:
        raise InvalidComparison(faults)
    return Request(asked["run"], asked["with"])


def relabelled(arm: str, run_id: str) -> str:
    """The name of the other run's arm in a comparison."""
    return f"{arm} ({run_id})"


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
    theirs: Recorded,
    *,
    comparison_id: str,
    execution_arn: str,
    baseline: str | None,
    times: RunTimes,
    notes: Sequence[str] = (),
) -> ComparedRuns:
    """Compare two runs.

    Args:
        ours: the run.
        theirs: the run to compare it with.
        comparison_id: the comparison's id, which is its execution's name.
        execution_arn: its execution.
        baseline: the name of the baseline that `theirs` is, or None.
        times: the times of the comparison.
        notes: further notes for the reader.

    Raises:
        InvalidComparison: no test was measured on the same arm in both runs.
    """
    after, before = ours.evidence, theirs.evidence
    _check_common(ours, theirs)
    found = differences(after, before)
    verdicts = cross_verdicts(after, before, lambda arm: Baseline(relabelled(arm, theirs.id)))
    shared = (shared_tests(after, before), shared_arms(after, before))
    mine, their = _Part(ours, *shared, None), _Part(theirs, *shared, theirs.id)
    marks = [*mine.marks, *their.marks]
    trials = [*mine.trials, *their.trials]
    warnings = [
        *notes,
        *(f"Not compared: {note}." for note in _unshared(ours, theirs)),
        *(
            f"Only one of the runs recorded this, so nobody knows whether it differed: {what}."
            for what in found.untold
        ),
    ]
    planned = after.planned_run
    plan = planned.plan.model_copy(update={"tests": tuple(shared[0])})
    arms = _in_turn(mine.arms, their.arms)
    counts = count_trials(trials, planned=len(trials))
    between = f"between {ours.id} and {theirs.id}"
    differed = wording.what_differed(found.found, verdicts, between)
    said = wording.sentence(verdicts, marks=marks, measured=counts.measured)
    document = Comparison(
        run=ComparedRun(
            id=comparison_id,
            status="compared",
            started_at=times.started_at,
            seconds=times.seconds,
            lab_scale=ours.run.lab_scale,
            seed=plan.seed,
            execution_arn=execution_arn,
            error=None,
            cause=None,
        ),
        conclusion=f"{differed} {said}",
        method=f"{METHOD} {analysis.METHOD}",
        plan=plan,
        estimates=planned.estimates,
        metrics=metrics_of(plan.tests),
        arms=tuple(arms),
        trials=counts,
        warm_up=no_warm_up(),
        verdicts=tuple(verdicts),
        regressions=(),
        regression_differences=None,
        summaries=tuple(_in_turn(mine.summaries, their.summaries)),
        marks=tuple(marks),
        mark_notes=tuple(wording.mark_notes(marks, counts.measured)),
        warnings=tuple(dict.fromkeys(warnings)),
        counters=None,
        versions=versions_of(planned, arms, trials),
        comparison=Compared(
            run=ours.id, other=theirs.id, baseline=baseline, differences=tuple(found.found)
        ),
    )
    return ComparedRuns(document, trials, {**mine.raw, **their.raw})


def _check_common(ours: Recorded, theirs: Recorded) -> None:
    after, before = ours.evidence, theirs.evidence
    common = any(
        after.by_test_and_arm.get((test.name, arm)) and before.by_test_and_arm.get((test.name, arm))
        for test in shared_tests(after, before)
        for arm in shared_arms(after, before)
    )
    if not common:
        raise InvalidComparison(
            [
                Fault(
                    FIELD,
                    f"the runs {ours.id!r} and {theirs.id!r} have nothing in common, no test with"
                    " the same parameters that was measured in an arm of the same name",
                    "compare runs of the same plan, or of plans that share a test and an arm",
                )
            ]
        )


def _unshared(ours: Recorded, theirs: Recorded) -> list[str]:
    """Sentences on what is not compared; a test with different parameters is named once."""
    after, before = ours.evidence, theirs.evidence
    named = {test.name for test in after.tests}
    return [
        *unshared(after, before, f"the run {theirs.id}"),
        *(
            f"the test {test.name} is not in the run {ours.id}"
            for test in before.tests
            if test.name not in named
        ),
        *(
            f"the arm {arm} is not in the run {ours.id}"
            for arm in before.arms
            if arm not in after.arms
        ),
    ]


def _in_turn[T](ours: Sequence[T], theirs: Sequence[T]) -> list[T]:
    return [each for both in zip(ours, theirs, strict=True) for each in both]


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

    def _takes(self, entry: Trial | Mark) -> bool:
        return entry.test in self._named and entry.arm in self._arms

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
    def _taken(self) -> list[Trial]:
        taken = (trial for _, trial in sorted(self._evidence.trials.items()))
        return [trial for trial in taken if self._takes(trial) and not trial.warm_up]

    @property
    def trials(self) -> list[Trial]:
        """The trials without the warm-up."""
        return [trial.model_copy(update={"arm": self._arm(trial.arm)}) for trial in self._taken]

    @property
    def raw(self) -> dict[str, RawValues]:
        """Raw values by trial id."""
        kept = self._evidence.raw
        return {
            replace(trial.key, arm=self._arm(trial.arm)).id: kept[trial.key.id]
            for trial in self._taken
            if trial.is_measured and trial.key.id in kept
        }

    @property
    def marks(self) -> list[Mark]:
        """The marks of the run's analysis."""
        return [
            mark.model_copy(update={"arm": self._arm(mark.arm)})
            for mark in self._recorded.marks
            if self._takes(mark)
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
