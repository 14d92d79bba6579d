"""Compare: two runs that are over. It writes files of its own, records no run and needs no node."""

from __future__ import annotations

from typing import Any

from rackrate import comparison, conclusion
from rackrate.analysis import Evidence
from rackrate.comparison import Recorded
from rackrate.errors import Fault, InvalidComparison
from rackrate.links import link, validity
from rackrate.report.page import render_page
from rackrate.report.results import SCHEMA
from rackrate.schedule import planned_trials
from rackrate.store import RUNNING, Store, now

Json = dict[str, Any]


def compare(raw: Json, *, comparison_id: str, execution_arn: str, store: Store) -> Json:
    """Compares two runs and writes `comparisons/<comparison id>/`, comparison.json and report.html.

    Args:
        raw: the execution's input, which has the field `compare`.
        comparison_id: the execution's name.
        execution_arn: the execution.
        store: the store.

    Returns:
        The execution's output: `conclusion`, `differences`, `verdicts` in a line each, `report`, a
        link to the page, `report_valid`, how long that holds, and `comparison_key`.

    Raises:
        InvalidComparison: the user has to name other runs; nothing was written.
    """
    started_at = now()
    asked = comparison.read_request(raw)
    ours, _ = _find("run", asked.run, store)
    theirs, baseline = _find("with", asked.other, store)
    if ours["run_id"] == theirs["run_id"]:
        raise _refused(
            "with",
            f"is the run {ours['run_id']!r} itself",
            "name another run, or the baseline of another one",
        )
    notes: list[str] = []
    document, trials, raws = comparison.compare(
        _read("run", ours, store, notes),
        _read("with", theirs, store, notes),
        comparison_id=comparison_id,
        execution_arn=execution_arn,
        baseline=baseline,
        started_at=started_at,
        written_at=now(),
        notes=notes,
    )
    prefix = f"comparisons/{comparison_id}"
    page = store.put_object(
        f"{prefix}/report.html", render_page(document, trials, raws), "text/html"
    )
    scale = document["run"]["lab_scale"]
    return {
        "conclusion": conclusion.with_scale(document["conclusion"], scale),
        "differences": document["comparison"]["differences"],
        "verdicts": [conclusion.line(verdict) for verdict in document["verdicts"]],
        "report": link(page, store),
        "report_valid": validity(page, store),
        "comparison_key": store.put_json_object(f"{prefix}/comparison.json", document),
    }


def _refused(field: str, problem: str, remedy: str) -> InvalidComparison:
    return InvalidComparison([Fault(f"{comparison.FIELD}.{field}", problem, remedy)])


def _find(field: str, name: str, store: Store) -> tuple[Json, str | None]:
    """The run of a name that is over and has results we can read; and its baseline's name, if any.

    Raises:
        InvalidComparison: there is no such run.
    """
    run, baseline = store.named_run(name)
    if run is None:
        gone = f"the run of the baseline {name!r} is gone" if baseline else None
        problem = gone or f"there is no run and no baseline {name!r}"
        raise _refused(field, problem, "name a run of this stack, or a baseline set in it")
    run_id = run["run_id"]
    if run["status"] == RUNNING:
        raise _refused(
            field, f"the run {run_id!r} is still going", "wait for its end, or name another run"
        )
    results = store.find_json(run_id, "results.json")
    if results is None:
        raise _refused(
            field,
            f"the run {run_id!r} ended {run['status']!r} and left no results",
            "name a run that was measured",
        )
    if (schema := results.get("schema")) != SCHEMA:
        raise _refused(
            field,
            f"the results of the run {run_id!r} are of the schema {schema!r}, not {SCHEMA!r}",
            "name a run that this version of rackrate can read",
        )
    return run, baseline


def _read(field: str, run: Json, store: Store, notes: list[str]) -> Recorded:
    """What a run left. What a reader should know of it is added to `notes`.

    Raises:
        InvalidComparison: nothing of it was measured.
    """
    run_id = run["run_id"]
    stored_plan, dropped = comparison.readable(store.get_json(run_id, "plan.json"))
    stored = store.trials(run_id)
    kept = {test["name"] for test in stored_plan["plan"]["tests"]}
    planned = [trial.key for trial in planned_trials(store.get_json(run_id, "schedule.json"))]
    known = {key: trial for key, trial in stored.items() if key.test in kept}
    evidence = Evidence(
        stored_plan=stored_plan,
        planned=tuple(key for key in planned if key.test in kept),
        trials=known,
        raw=store.raw_values(known.values()),
        counters=None,
    )
    if not any(stored[key]["status"] == "measured" for key in planned if key in stored):
        raise _refused(
            field, f"the run {run_id!r} has no measured trials", "name a run that measured"
        )
    notes += [f"Today's tools do not take the test {name} of the run {run_id}." for name in dropped]
    if run["status"] != "succeeded":
        notes.append(f"The run {run_id} ended {run['status']}.")
    analysis = store.find_json(run_id, "analysis.json") or {}
    return Recorded(
        run=run,
        evidence=evidence,
        trials=[trial for _, trial in sorted(known.items())],
        marks=analysis.get("marks", []),
    )
