"""Pools: whether runs that were made before can be the draws of one answer. Pure.

A run is read from its results.json, so that one of another stack is as good as one of this stack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from rackrate.errors import Fault
from rackrate.plan.model import Plan
from rackrate.verdict.evidence import changed_options
from rackrate_contract.results import RESULTS, Results
from rackrate_text.units import ratio
from rackrate_text.words import listed

#: A comparison: test, metric, arm, baseline.
Compared = tuple[str, str, str, str]


@dataclass(frozen=True)
class PooledRun:
    """A run of a pool.

    Attributes:
        name: what the reader calls it: its id, or the place of its uploaded results.
        source: where it is from, if it is of another stack.
        results: its results.
        plan: its plan.
    """

    name: str
    source: str | None
    results: Results
    plan: Plan


def read_pooled(
    text: bytes, *, name: str, path: str, uploaded: bool, faults: list[Fault]
) -> PooledRun | None:
    """Read a run's results.json; None, with a fault, if it is none.

    Args:
        text: the object's text.
        name: what the reader calls the run.
        path: its place in the campaign's input.
        uploaded: whether it may be of another stack.
        faults: where a fault is added.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != RESULTS:
        problem = f"{name} is not of the schema {RESULTS!r}"
        faults.append(Fault(path, problem, "use the results.json of a run of rackrate"))
        return None
    try:
        results = Results.read(text)
        plan = Plan.from_json(results.plan)
        datetime.fromisoformat(results.run.started_at)
    except ValueError as error:
        problem = f"{name} cannot be read: {_first_mistake(error)}"
        faults.append(Fault(path, problem, "use results as this version of rackrate writes them"))
        return None
    source = stack_of(results.run.execution_arn) if uploaded else None
    return PooledRun(name, source, results, plan)


def _first_mistake(error: ValueError) -> str:
    """The first field that is not as this version writes it, or what else is wrong."""
    if not isinstance(error, ValidationError):
        return str(error)
    within = ("plan",) if error.title == Plan.__name__ else ()
    first = error.errors()[0]
    return f"{'.'.join(map(str, (*within, *first['loc'])))}: {first['msg']}"


def stack_of(execution_arn: str) -> str:
    """The stack of a run, as far as its execution names it: `<stack> in <Region>, account <id>`."""
    parts = execution_arn.split(":")
    if len(parts) < 8:
        return "another stack"
    region, account, machine = parts[3], parts[4], parts[6]
    return f"{machine.removesuffix('-benchmark')} in {region}, account {account}"


def in_order(runs: Sequence[PooledRun]) -> list[PooledRun]:
    """Runs in the order in which they were made."""
    return sorted(runs, key=lambda run: (run.results.run.started_at, run.results.run.id))


def check_pool(runs: Mapping[str, PooledRun], faults: list[Fault]) -> None:
    """Check that runs can be the draws of one answer.

    Args:
        runs: the runs, by their path in the campaign's input.
        faults: where faults are added.
    """
    ids = [run.results.run.id for run in runs.values()]
    for run_id in dict.fromkeys(each for each in ids if ids.count(each) > 1):
        faults.append(Fault("pool", f"the run {run_id!r} is named twice", "name each run once"))
    scales = {run.name: run.results.run.lab_scale for run in runs.values()}
    if len(set(scales.values())) > 1:
        factors = listed(
            f"{name} ({'not of a lab' if scale is None else f'scale {ratio(scale)}'})"
            for name, scale in scales.items()
        )
        problem = f"the networks of the runs are scaled differently: {factors}"
        remedy = "pool runs on AWS, or runs of labs with the same scale"
        faults.append(Fault("pool", problem, remedy))
    if runs and not common(list(runs.values())):
        names = listed(run.name for run in runs.values())
        problem = (
            f"the runs {names} have nothing in common, no test with the same parameters that was"
            " compared between arms of the same names"
        )
        remedy = "pool runs of the same plan, or of plans that share a test and its arms"
        faults.append(Fault("pool", problem, remedy))


def common(runs: Sequence[PooledRun]) -> list[Compared]:
    """What all runs compared, in the order of the newest run."""
    newest = in_order(runs)[-1]
    compared = [_compared(run, newest) for run in runs]
    return [key for key in _compared(newest, newest) if all(key in keys for keys in compared)]


def _compared(run: PooledRun, newest: PooledRun) -> dict[Compared, None]:
    """What a run compared on tests that the newest run has with the same parameters."""
    ours = newest.plan.tests
    same = {test.name for test in run.plan.tests if test in ours}
    return {
        (verdict.test, verdict.metric, verdict.arm, verdict.baseline.name): None
        for verdict in run.results.verdicts
        if verdict.test in same
    }


def notes_of(runs: Sequence[PooledRun]) -> list[str]:
    """What a reader of the pool has to know about its runs."""
    notes = [
        f"The run {run.name} ended {run.results.run.status}."
        for run in runs
        if run.results.run.status != "succeeded"
    ]
    shared = {test for test, *_ in common(runs)}
    newest = in_order(runs)[-1]
    ours = {test.name: test for test in newest.plan.tests}
    for run in runs:
        for test in run.plan.tests:
            if test.name in ours and test != ours[test.name]:
                fields = changed_options(test, ours[test.name])
                notes.append(f"The test {test.name} differs in the run {run.name}: {fields}.")
    if left_out := dict.fromkeys(
        test.name for run in runs for test in run.plan.tests if test.name not in shared
    ):
        notes.append(f"Not compared, because not all runs have them alike: {listed(left_out)}.")
    return notes
