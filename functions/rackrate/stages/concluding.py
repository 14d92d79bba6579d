"""Analyze what is stored, report it, and write down how the run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackrate import conclusion, tools
from rackrate.ceilings import arm_limit, ceiling
from rackrate.errors import TrialsLost
from rackrate.report.page import render_page
from rackrate.report.results import build_results, trials_csv
from rackrate.schedule import TrialKey, planned_trials
from rackrate.store import Store, now

Json = dict[str, Any]


def analyze(run_id: str, *, after_failure: bool, store: Store) -> Json:
    """Computes the verdicts from the stored trials alone, so that it can be done again any time.

    Args:
        run_id: the run.
        after_failure: has the run failed already, so that a loss of trials is no news?
        store: the store.

    Raises:
        TrialsLost: more trials were lost than the plan tolerates; the verdicts are stored.
    """
    stored_plan = store.get_json(run_id, "plan.json")
    planned = planned_trials(store.get_json(run_id, "schedule.json"))
    trials = store.trial_states(run_id)
    measured = [t.key for t in planned if trials.get(t.key, {}).get("status") == "measured"]
    lost = len(planned) - len(measured)
    verdicts = compare_arms(stored_plan, trials)
    for verdict in verdicts:
        store.put_verdict(run_id, verdict)
    store.update_run(
        run_id,
        {
            "phase": "analyzing",
            "trials_planned": len(planned),
            "trials_measured": len(measured),
            "trials_failed": lost,
            "conclusion": conclusion.sentence(verdicts),
        },
    )
    if not after_failure and lost > stored_plan["plan"]["tolerated_loss"] * len(planned):
        missing = [trials.get(t.key, {}) for t in planned if t.key not in set(measured)]
        raise TrialsLost(conclusion.loss(missing, lost=lost, planned=len(planned)))
    return {"verdicts": len(verdicts), "measured": len(measured), "lost": lost}


def compare_arms(stored_plan: Json, trials: Mapping[TrialKey, Json]) -> list[Json]:
    """A verdict for each test on each arm but the baseline, as `rackrate.result.v1` has them."""
    from rackrate.statistics import compare  # numpy takes a while; others here do without

    plan = stored_plan["plan"]
    arms = {arm["name"]: arm for arm in stored_plan["arms"]}
    verdicts = []
    for test in (tools.load_test(value) for value in plan["tests"]):
        limits = {name: arm_limit(arm, test.flows) for name, arm in arms.items()}
        baseline = plan["baseline"]
        for name in arms:
            if name == baseline:
                continue
            found = compare(
                _values(trials, test.name, name),
                _values(trials, test.name, baseline),
                better=test.better,
                threshold=plan["threshold"],
                seed=plan["seed"],
            )
            verdicts.append(
                {
                    "test": test.name,
                    "metric": test.metric,
                    "unit": test.unit,
                    "better": test.better,
                    "arm": name,
                    "baseline": baseline,
                    "arm_median": found.arm_median,
                    "baseline_median": found.baseline_median,
                    "ratio": found.ratio,
                    "ci95": None if found.ci95 is None else list(found.ci95),
                    "verdict": found.verdict,
                    "reason": found.reason,
                    "blocks": found.blocks,
                    "threshold": plan["threshold"],
                    "ceiling": ceiling(limits[name], limits[baseline]),
                }
            )
    return verdicts


def _values(trials: Mapping[TrialKey, Json], test: str, arm: str) -> dict[int, list[float]]:
    values: dict[int, list[float]] = {}
    for key, trial in sorted(trials.items()):
        if key.test == test and trial["arm"] == arm and trial["status"] == "measured":
            values.setdefault(key.block, []).append(float(trial["value"]))
    return values


def report(run_id: str, *, failure: Mapping[str, str] | None, store: Store) -> Json:
    """Writes results.json, trials.csv and report.html."""
    store.update_run(run_id, {"phase": "reporting"})
    run = store.run(run_id) or {}
    stored_plan = store.get_json(run_id, "plan.json")
    trials = [trial for _, trial in sorted(store.trials(run_id).items())]
    verdicts = _in_plan_order(store.verdicts(run_id), stored_plan)
    results = build_results(
        run={**run, "status": conclusion.status_of(failure, lost=run["trials_failed"])},
        failure=failure,
        stored_plan=stored_plan,
        trials=trials,
        verdicts=verdicts,
        written_at=now(),
    )
    store.put_json(run_id, "results.json", results)
    store.put_text(run_id, "trials.csv", trials_csv(trials), "text/csv")
    key = store.put_text(run_id, "report.html", render_page(results, trials), "text/html")
    return {"report_key": key}


def _in_plan_order(verdicts: Sequence[Json], stored_plan: Json) -> list[Json]:
    tests = [test["name"] for test in stored_plan["plan"]["tests"]]
    return sorted(verdicts, key=lambda v: (tests.index(v["test"]), v["arm"]))


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
