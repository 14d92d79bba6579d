"""Report what was found: the results, the trials as a table, and the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackrate import conclusion
from rackrate.report.page import render_page
from rackrate.report.results import build_results, trials_csv
from rackrate.store import Store, now

Json = dict[str, Any]


def report(run_id: str, *, failure: Mapping[str, str] | None, store: Store) -> Json:
    """Writes results.json, trials.csv and report.html."""
    store.update_run(run_id, {"phase": "reporting"})
    run = store.run(run_id) or {}
    trials = [trial for _, trial in sorted(store.trials(run_id).items())]
    analysis = store.get_json(run_id, "analysis.json")
    results = build_results(
        run={**run, "status": conclusion.status_of(failure, lost=run["trials_failed"])},
        failure=failure,
        stored_plan=store.get_json(run_id, "plan.json"),
        trials=trials,
        analysis=analysis,
        counters=store.find_json(run_id, "counters.json"),
        written_at=now(),
    )
    store.put_json(run_id, "results.json", results)
    store.put_text(run_id, "trials.csv", trials_csv(trials, analysis), "text/csv")
    key = store.put_text(run_id, "report.html", render_page(results, trials), "text/html")
    return {"report_key": key}
