"""Analyze what is stored, and write down how the run ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rackrate import conclusion
from rackrate.analysis import Evidence, analyze_run, compare_runs
from rackrate.differences import differences
from rackrate.errors import TrialsLost
from rackrate.links import link, validity
from rackrate.schedule import planned_trials
from rackrate.store import Store

Json = dict[str, Any]


def analyze(run_id: str, *, after_failure: bool, store: Store) -> Json:
    """Computes the verdicts from what is stored alone, so that it can be done again any time.

    Args:
        run_id: the run.
        after_failure: has the run failed already, so that a loss of trials is no news?
        store: the store.

    Raises:
        TrialsLost: more trials were lost than the plan tolerates; the verdicts are stored.
    """
    evidence = _evidence(run_id, store)
    analysis = analyze_run(evidence)
    analysis |= _since(evidence, store, analysis["warnings"])
    store.put_json(run_id, "analysis.json", analysis)
    for verdict in analysis["verdicts"]:
        store.put_verdict(run_id, verdict)
    lost = len(evidence.planned) - len(evidence.measured)
    store.update_run(
        run_id,
        {
            "phase": "analyzing",
            "trials_planned": len(evidence.planned),
            "trials_measured": len(evidence.measured),
            "trials_failed": lost,
            "conclusion": conclusion.sentence(
                analysis["verdicts"],
                analysis["regressions"],
                marks=analysis["marks"],
                measured=len(evidence.measured),
                differences=analysis["regression_differences"],
            ),
        },
    )
    tolerated = evidence.stored_plan["plan"]["tolerated_loss"] * len(evidence.planned)
    if not after_failure and lost > tolerated:
        missing = [
            evidence.trials.get(k, {}) for k in evidence.planned if k not in evidence.measured
        ]
        raise TrialsLost(conclusion.loss(missing, lost=lost, planned=len(evidence.planned)))
    return {"verdicts": len(analysis["verdicts"]), "measured": len(evidence.measured), "lost": lost}


def _evidence(run_id: str, store: Store) -> Evidence:
    """What a run left: its plan, its trials, and the raw values of those that were measured."""
    planned = [trial.key for trial in planned_trials(store.get_json(run_id, "schedule.json"))]
    trials = store.trial_values(run_id)
    return Evidence(
        stored_plan=store.get_json(run_id, "plan.json"),
        planned=tuple(planned),
        trials=trials,
        raw=store.raw_values(trials.values()),
        counters=store.find_json(run_id, "counters.json"),
    )


def _since(evidence: Evidence, store: Store, warnings: list[str]) -> Json:
    """The verdicts against the earlier run the plan names, and what differed between the two.

    What stood in their way is added to `warnings`.

    Returns:
        regressions: the verdicts.
        regression_differences: what differed, or None without an earlier run.
    """
    nothing: Json = {"regressions": [], "regression_differences": None}
    earlier = evidence.stored_plan["plan"].get("compare_with")
    if earlier is None:
        return nothing
    if store.find_json(earlier, "plan.json") is None:
        warnings.append(f"compare_with: the results of the run {earlier} are gone")
        return nothing
    before = _evidence(earlier, store)
    regressions, notes = compare_runs(evidence, before, name=earlier)
    found = differences(evidence, before)
    warnings += notes
    warnings += [
        "compare_with: only one of the runs recorded this, so nobody knows whether it differed:"
        f" {what}"
        for what in found.untold
    ]
    return {"regressions": regressions, "regression_differences": found.found}


def finish(
    run_id: str,
    *,
    execution_arn: str,
    state: Mapping[str, Any],
    store: Store,
    dashboard_url: str | None = None,
) -> Json:
    """Writes how the run ended, once, and tells those who look at the execution.

    Args:
        run_id: the run.
        execution_arn: its execution.
        state: the execution's whole state: `failure` if it failed, `reported` if there is a page.
        store: the store.
        dashboard_url: the stack's dashboard, or None.

    Returns:
        What `record_end` says, and
        output: the execution's output, or None for a run that failed.
        cause: the execution's cause, with the page's place in it; None for a run that did not fail.
    """
    run = store.run(run_id) or {}
    failure = state.get("failure")
    page = (state.get("reported") or {}).get("report_key")
    status = conclusion.status_of(failure, lost=int(run.get("trials_failed", 0)))
    ended = record_end(run_id, status, execution_arn=execution_arn, failure=failure, store=store)
    if failure is not None:
        return {**ended, "output": None, "cause": _cause(failure, page, store)}
    output = _output({"run_id": run_id, **run}, status, page, dashboard_url, store)
    return {**ended, "output": output, "cause": None}


def _output(
    run: Json, status: str, page: str | None, dashboard_url: str | None, store: Store
) -> Json:
    """What a person reads who opens the execution in the console."""
    analysis = store.find_json(run["run_id"], "analysis.json") or {}
    verdicts = [*analysis.get("verdicts", []), *analysis.get("regressions", [])]
    said = conclusion.with_scale(str(run.get("conclusion", "")), run.get("lab_scale"))
    return {
        "status": status,
        "conclusion": said,
        "verdicts": [conclusion.line(verdict) for verdict in verdicts],
        "report": page and link(page, store),
        "report_valid": page and validity(page, store),
        "dashboard": dashboard_url,
        "results": f"s3://{store.bucket_name}/{store.key(run['run_id'], '')}",
    }


def _cause(failure: Mapping[str, Any], page: str | None, store: Store) -> str:
    """Why a run failed, as it came, and where the report is, in the message that people read."""
    cause = str(failure.get("Cause") or "")
    if page is None:
        return cause
    where = f"The report on what was measured: s3://{store.bucket_name}/{page}"
    try:
        document = json.loads(cause)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "errorMessage" not in document:
        return f"{cause}\n{where}".strip()
    return json.dumps({**document, "errorMessage": f"{document['errorMessage']}\n{where}"})


def record_end(
    run_id: str,
    status: str,
    *,
    execution_arn: str,
    failure: Mapping[str, Any] | None,
    store: Store,
) -> Json:
    """Writes a terminal status and the error, unless the run has a terminal status already.

    Returns:
        status: the status.
        written: was it written now?
        seconds: how long the run took, if it was written now.
    """
    attributes: Json = {"execution_arn": execution_arn, "phase": status.replace("_", " ")}
    if failure is not None:
        attributes["error"] = str(failure.get("Error") or status)
        attributes["cause"] = str(failure.get("Cause") or "")
    seconds = store.finish_run(run_id, status, attributes)
    return {"status": status, "written": seconds is not None, "seconds": seconds}
