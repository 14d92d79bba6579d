"""Analyze what is stored, and write down how the run ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackrate import conclusion
from rackrate.analysis import Evidence, analyze_run, compare_runs
from rackrate.errors import TrialsLost
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
    analysis["regressions"], warnings = _regressions(evidence, store)
    analysis["warnings"] += warnings
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
    kept = {trial["samples_key"] for trial in trials.values() if trial.get("samples_key")}
    return Evidence(
        stored_plan=store.get_json(run_id, "plan.json"),
        planned=tuple(planned),
        trials=trials,
        raw=store.samples(kept),
        counters=store.find_json(run_id, "counters.json"),
    )


def _regressions(evidence: Evidence, store: Store) -> tuple[list[Json], list[str]]:
    """The verdicts against the earlier run the plan names, and what stood in their way."""
    earlier = evidence.stored_plan["plan"].get("compare_with")
    if earlier is None:
        return [], []
    if store.find_json(earlier, "plan.json") is None:
        return [], [f"compare_with: the results of the run {earlier} are gone"]
    return compare_runs(evidence, _evidence(earlier, store), name=earlier)


def finish(
    run_id: str, *, execution_arn: str, failure: Mapping[str, Any] | None, store: Store
) -> Json:
    """Writes how the run ended, once."""
    run = store.run(run_id) or {}
    status = conclusion.status_of(failure, lost=int(run.get("trials_failed", 0)))
    return record_end(run_id, status, execution_arn=execution_arn, failure=failure, store=store)


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
