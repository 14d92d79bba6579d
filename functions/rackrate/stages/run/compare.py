"""Compare: compare finished runs. It writes its own files, records no run and needs no node."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rackrate.errors import Fault, InvalidComparison
from rackrate.executions.runs import NamedRuns
from rackrate.executions.store import Store
from rackrate.plan.faults import Faults, check_name
from rackrate.plan.fields import MAX_EARLIER_RUNS
from rackrate.report.page import render_page
from rackrate.resources import Resources
from rackrate.results import comparison
from rackrate.results.build import RunTimes
from rackrate.results.comparison import Recorded
from rackrate.times import now
from rackrate.verdict import wording
from rackrate.verdict.model import Analysis
from rackrate_contract.executions import ComparisonOutput, RunRecord
from rackrate_contract.results import RESULTS


def compare(
    raw: object, resources: Resources, *, comparison_id: str, execution_arn: str
) -> ComparisonOutput:
    """Compare a run with others, and write comparison.json and report.html below `comparisons/`.

    Args:
        raw: the execution's input, any JSON value.
        resources: the stack's resources.
        comparison_id: the execution's name.
        execution_arn: the execution.

    Raises:
        InvalidComparison: the user has to name other runs; nothing was written.
    """
    store, started_at = resources.store, now()
    faults = Faults()
    check_name(comparison_id, faults)
    if faults:
        raise InvalidComparison(faults)
    asked = comparison.read_request(raw)
    ours = _find_one(asked.run, store)
    theirs, baseline = _find_others(asked.others, ours, store)
    notes: list[str] = []
    compared = comparison.build_comparison(
        _read("run", ours, store, notes),
        [_read("with", run, store, notes) for run in theirs],
        comparison_id=comparison_id,
        execution_arn=execution_arn,
        baseline=baseline,
        times=RunTimes(started_at, now()),
        notes=notes,
    )
    document = compared.document
    prefix = f"comparisons/{comparison_id}"
    page = store.objects.put(
        f"{prefix}/report.html",
        render_page(document, compared.trials, compared.raw),
        "text/html",
    )
    return ComparisonOutput(
        conclusion=wording.in_brief(document.conclusion, document.run.lab_scale),
        differences=document.comparison.differences,
        verdicts=tuple(wording.line(verdict) for verdict in document.verdicts),
        report=store.objects.link(page),
        report_valid=store.objects.link_validity(page),
        comparison_key=store.objects.put_json(f"{prefix}/comparison.json", document.to_json()),
    )


def _refused(field: str, problem: str, remedy: str) -> InvalidComparison:
    return InvalidComparison([Fault(f"{comparison.FIELD}.{field}", problem, remedy)])


def _find_one(name: str, store: Store) -> RunRecord:
    """The finished run with readable results that a name stands for.

    Raises:
        InvalidComparison: there is no such run, or the name stands for several.
    """
    runs = _find("run", name, store).runs
    if len(runs) > 1:
        problem = f"the baseline {name!r} stands for {len(runs)} runs"
        raise _refused("run", problem, "name one run; several may be compared with")
    return runs[0]


def _find_others(
    names: Sequence[str], ours: RunRecord, store: Store
) -> tuple[list[RunRecord], str | None]:
    """The runs to compare with, and the name of the baseline that stands for all of them.

    Raises:
        InvalidComparison: there is no such run, one is named twice, or they are too many.
    """
    found: dict[str, RunRecord] = {}
    baseline = None
    for index, name in enumerate(names):
        field = "with" if len(names) == 1 else f"with[{index}]"
        named = _find(field, name, store)
        baseline = named.baseline
        for run in named.runs:
            if run.id == ours.id:
                raise _refused(
                    field,
                    f"is the run {ours.id!r} itself",
                    "name another run, or a baseline of others",
                )
            if run.id in found:
                problem = f"the run {run.id!r} is named twice"
                raise _refused(field, problem, "name each run once")
            found[run.id] = run
    if len(found) > MAX_EARLIER_RUNS:
        problem = f"stands for {len(found)} runs, more than {MAX_EARLIER_RUNS}"
        raise _refused("with", problem, "name fewer")
    return list(found.values()), baseline if len(names) == 1 else None


def _find(field: str, name: str, store: Store) -> NamedRuns:
    """The finished runs with readable results that a name stands for.

    Raises:
        InvalidComparison: there is no such run.
    """
    named = store.runs.named(name)
    if named.problem is not None:
        raise _refused(field, named.problem, named.remedy)
    for run in named.runs:
        _check_finished(field, run, store)
    return named


def _check_finished(field: str, run: RunRecord, store: Store) -> None:
    """Check that a run is over and has readable results.

    Raises:
        InvalidComparison: it is not, or has none.
    """
    if run.is_running:
        raise _refused(
            field, f"the run {run.id!r} is still going", "wait for its end, or name another run"
        )
    results = store.runs.find_text(run.id, "results.json")
    if results is None:
        raise _refused(
            field,
            f"the run {run.id!r} ended {run.status!r} and left no results",
            "name a run that was measured",
        )
    if (schema := json.loads(results).get("schema")) != RESULTS:
        raise _refused(
            field,
            f"the results of the run {run.id!r} are of the schema {schema!r}, not {RESULTS!r}",
            "name a run that this version of rackrate can read",
        )


def _read(field: str, run: RunRecord, store: Store, notes: list[str]) -> Recorded:
    """The stored evidence of a run. Remarks for the reader are added to `notes`.

    Raises:
        InvalidComparison: the run measured nothing.
    """
    evidence = store.evidence(run.id)
    if not evidence.measured:
        raise _refused(
            field, f"the run {run.id!r} has no measured trials", "name a run that measured"
        )
    if run.status != "succeeded":
        notes.append(f"The run {run.id} ended {run.status}.")
    analysis = store.runs.find_text(run.id, "analysis.json")
    return Recorded(run, evidence, () if analysis is None else Analysis.read(analysis).marks)
