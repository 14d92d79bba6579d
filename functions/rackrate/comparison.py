"""A comparison of two runs: what is asked for, and comparison.json. Pure.

It is laid out as the results of one run whose arms are the arms of both, so that one page shows
either: an arm of the run has its name, the same arm of the other run has `<arm> (<other run>)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from rackrate import analysis, conclusion, tools
from rackrate.analysis import Evidence
from rackrate.differences import differences
from rackrate.errors import Fault, InvalidComparison
from rackrate.plan_faults import kind_of, listed, shown
from rackrate.report.results import build_results
from rackrate.schedule import TrialKey

Json = dict[str, Any]

SCHEMA = "rackrate.comparison.v1"
#: What tells a comparison from a plan in an execution's input.
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
    """Which runs are to be compared.

    Attributes:
        run: id of a run, or a baseline's name.
        other: the same, for what it is compared with.
    """

    run: str
    other: str


@dataclass(frozen=True)
class Recorded:
    """All that a run left, for a comparison.

    Attributes:
        run: its item of the table.
        evidence: its plan and trials, without the facts of their nodes, and raw values.
        trials: its trials as they are stored.
        marks: the marks of its analysis.json.
    """

    run: Mapping[str, Any]
    evidence: Evidence
    trials: Sequence[Mapping[str, Any]]
    marks: Sequence[Mapping[str, Any]]

    @property
    def id(self) -> str:
        """The run's id."""
        return str(self.run["run_id"])


def is_comparison(raw: object) -> bool:
    """Does an execution's input ask for a comparison, and not for a run?"""
    return isinstance(raw, dict) and FIELD in raw


def read_request(raw: Mapping[str, Any]) -> Request:
    """Reads an execution's input that has the field `compare`.

    Raises:
        InvalidComparison: with every fault.
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


def readable(stored_plan: Mapping[str, Any]) -> tuple[Json, list[str]]:
    """A plan without the tests that today's tools do not take any more, and their names."""
    tests, dropped = [], []
    for test in stored_plan["plan"]["tests"]:
        try:
            tools.load_test(test)
        except (KeyError, ValidationError):
            dropped.append(str(test["name"]))
        else:
            tests.append(test)
    return {**stored_plan, "plan": {**stored_plan["plan"], "tests": tests}}, dropped


def relabelled(arm: str, run_id: str) -> str:
    """What the other run's arm is called."""
    return f"{arm} ({run_id})"


def compare(
    ours: Recorded,
    theirs: Recorded,
    *,
    comparison_id: str,
    execution_arn: str,
    baseline: str | None,
    started_at: str,
    written_at: str,
    notes: Sequence[str] = (),
) -> tuple[Json, list[Json], Json]:
    """Compares two runs.

    Args:
        ours: the run.
        theirs: what it is compared with.
        comparison_id: the comparison's id, its execution's name.
        execution_arn: its execution.
        baseline: the name of the baseline that `theirs` is, or None.
        started_at: ISO 8601.
        written_at: ISO 8601.
        notes: what else a reader should know.

    Returns:
        comparison.json; the trials that it rests on, and their raw values by trial id, both with
        the names its arms have there.

    Raises:
        InvalidComparison: nothing was measured in both runs.
    """
    after, before = ours.evidence, theirs.evidence
    _check_common(ours, theirs)
    found = differences(after, before)
    verdicts = analysis.cross_verdicts(after, before, lambda arm: relabelled(arm, theirs.id))
    mine, their = _Part(ours, theirs, None), _Part(theirs, ours, theirs.id)
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
    failed = sum(trial["status"] != "measured" for trial in trials)
    document = build_results(
        run={
            "run_id": comparison_id,
            "status": "compared",
            "started_at": started_at,
            "lab_scale": ours.run.get("lab_scale"),
            "trials_planned": len(trials),
            "trials_measured": len(trials) - failed,
            "trials_failed": failed,
            "warnings": warnings,
        },
        failure=None,
        stored_plan=_stored_plan(ours, theirs, execution_arn),
        trials=trials,
        analysis={
            "method": f"{METHOD} {analysis.METHOD}",
            "verdicts": verdicts,
            "regressions": [],
            "summaries": _in_turn(mine.summaries, their.summaries),
            "marks": marks,
            "warnings": [],
        },
        written_at=written_at,
    )
    between = f"between {ours.id} and {theirs.id}"
    differed = conclusion.what_differed(found.found, verdicts, between)
    said = conclusion.sentence(verdicts, marks=marks, measured=len(trials) - failed)
    return (
        {
            **document,
            "schema": SCHEMA,
            "conclusion": f"{differed} {said}",
            "arms": [
                {**arm, "baseline": arm["name"] not in after.arms} for arm in document["arms"]
            ],
            "comparison": {
                "run": ours.id,
                "with": theirs.id,
                "baseline": baseline,
                "differences": found.found,
            },
        },
        trials,
        {**mine.raw, **their.raw},
    )


def _check_common(ours: Recorded, theirs: Recorded) -> None:
    after, before = ours.evidence, theirs.evidence
    common = any(
        after.by_test_and_arm.get((test.name, arm)) and before.by_test_and_arm.get((test.name, arm))
        for test in analysis.shared_tests(after, before)
        for arm in analysis.shared_arms(after, before)
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
    """What of the two runs is not compared; a test whose parameters differ is named once."""
    after, before = ours.evidence, theirs.evidence
    named = {test.name for test in after.tests}
    return [
        *analysis.unshared(after, before, f"the run {theirs.id}"),
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


def _stored_plan(ours: Recorded, theirs: Recorded, execution_arn: str) -> Json:
    """The plan of the run with what was compared of it, and the arms of both."""
    after, before = ours.evidence, theirs.evidence
    names = {test.name for test in analysis.shared_tests(after, before)}
    plan = after.stored_plan["plan"]
    shared = analysis.shared_arms(after, before)
    return {
        # What plans of older stacks may lack.
        "estimates": {},
        "kubernetes_version": None,
        "image": None,
        **after.stored_plan,
        "execution_arn": execution_arn,
        "plan": {**plan, "tests": [test for test in plan["tests"] if test["name"] in names]},
        "arms": _in_turn(
            [after.arms[arm] for arm in shared],
            [{**before.arms[arm], "name": relabelled(arm, theirs.id)} for arm in shared],
        ),
    }


def _in_turn(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    return [each for both in zip(ours, theirs, strict=True) for each in both]


class _Part:
    """What a comparison takes of one run, with the names that its arms have there."""

    def __init__(self, recorded: Recorded, other: Recorded, label: str | None) -> None:
        """`label`: what is put behind the names of the arms, if anything."""
        self._recorded, self._label = recorded, label
        evidence = recorded.evidence
        self._tests = analysis.shared_tests(evidence, other.evidence)
        self._arms = analysis.shared_arms(evidence, other.evidence)
        self._named = {test.name for test in self._tests}

    def _arm(self, name: str) -> str:
        return name if self._label is None else relabelled(name, self._label)

    def _takes(self, entry: Mapping[str, Any]) -> bool:
        return entry["test"] in self._named and entry["arm"] in self._arms

    @property
    def trials(self) -> list[Json]:
        """The trials, the warm-up left out; where a raw output is says `raw_href`."""
        return [
            {
                **trial,
                "arm": self._arm(trial["arm"]),
                # As seen from comparisons/<id>/report.html.
                **({"raw_href": f"../../{key}"} if (key := trial.get("raw_key")) else {}),
            }
            for trial in self._recorded.trials
            if self._takes(trial) and not trial.get("warm_up")
        ]

    @property
    def raw(self) -> Json:
        """Raw values by trial id."""
        kept = self._recorded.evidence.raw
        keys = [key for key in self._recorded.evidence.measured if key.id in kept]
        return {self._key(key).id: kept[key.id] for key in keys if self._takes(vars(key))}

    def _key(self, key: TrialKey) -> TrialKey:
        return replace(key, arm=self._arm(key.arm))

    @property
    def marks(self) -> list[Json]:
        """The marks of the run's analysis."""
        return [
            {**mark, "arm": self._arm(mark["arm"])}
            for mark in self._recorded.marks
            if self._takes(mark)
        ]

    @property
    def summaries(self) -> list[Json]:
        """What each arm came to, in the same order for both runs."""
        evidence = self._recorded.evidence
        # The other run has them in an order of its own.
        tests = sorted(self._tests, key=lambda test: test.name)
        return [
            {**analysis.summary(evidence, test, metric, arm), "arm": self._arm(arm)}
            for test in tests
            for metric in test.metrics
            for arm in sorted(self._arms)
        ]
