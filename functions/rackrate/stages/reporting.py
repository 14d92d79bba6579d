"""Report what was found: the results, the trials as tables, and the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rackrate import conclusion
from rackrate.report import models
from rackrate.report.page import render_page
from rackrate.report.results import build_results
from rackrate.report.trials import parquet_key, trials_csv, trials_parquet, verdicts_parquet
from rackrate.store import Store, now

Json = dict[str, Any]


def report(run_id: str, *, failure: Mapping[str, str] | None, store: Store) -> Json:
    """Writes results.json, report.html, and the trials and verdicts as tables.

    Returns:
        report_key: the page's key.
        faults: where results.json is not what its schema says. It is a fault of ours, for which
            nobody's measurements should be lost: the results are written and say so.
    """
    store.update_run(run_id, {"phase": "reporting"})
    run = store.run(run_id) or {}
    trials = [trial for _, trial in sorted(store.trials(run_id).items())]
    results = build_results(
        run={**run, "status": conclusion.status_of(failure, lost=run["trials_failed"])},
        failure=failure,
        stored_plan=store.get_json(run_id, "plan.json"),
        trials=trials,
        analysis=store.get_json(run_id, "analysis.json"),
        counters=store.find_json(run_id, "counters.json"),
        written_at=now(),
    )
    if faults := models.faults(results):
        results["warnings"].append(
            f"This file is not what its schema says ({'; '.join(faults)}): please report it"
            " as a fault of rackrate."
        )
    store.put_json(run_id, "results.json", results)
    store.put_text(run_id, "trials.csv", trials_csv(trials, results), "text/csv")
    store.put_parquet(parquet_key("trials", results), trials_parquet(trials, results))
    store.put_parquet(parquet_key("verdicts", results), verdicts_parquet(results))
    page = render_page(results, trials, store.raw_values(trials))
    return {
        "report_key": store.put_text(run_id, "report.html", page, "text/html"),
        "faults": faults,
    }
