"""Report: write the results, the trials as tables, and the page."""

from __future__ import annotations

from rackrate.measure import members
from rackrate.measure.counters import NAME as COUNTERS
from rackrate.measure.counters import Counters
from rackrate.plan.workloads import workloads
from rackrate.report.page import render_page
from rackrate.resources import Resources
from rackrate.results.build import RunFailure, RunTimes, build_results
from rackrate.results.rows import parquet_key, trials_csv, trials_parquet, verdicts_parquet
from rackrate.stages.run.finish import sentence_of
from rackrate.times import now
from rackrate.verdict.model import Analysis
from rackrate_contract.document import Document

#: The content type of a Parquet file.
PARQUET = "application/vnd.apache.parquet"


class Reported(Document):
    """The objects that were written."""

    report_key: str
    """The page's key."""


def report(run_id: str, resources: Resources, *, failure: RunFailure | None) -> Reported:
    """Write results.json, report.html, and the trials and verdicts as tables.

    Raises:
        LookupError: there is no such run.
    """
    store = resources.store
    if failure is None:
        store.runs.update(run_id, phase="reporting")
    run = store.runs.get(run_id)
    trials = [trial for _, trial in sorted(store.trials.of(run_id).items())]
    planned = store.runs.plan(run_id)
    results = build_results(
        planned,
        trials,
        store.runs.read(run_id, "analysis.json", Analysis),
        trials_planned=run.trials_planned,
        stopped=run.stopped,
        times=RunTimes(run.started_at, now(), run.waited_seconds),
        lab_scale=run.lab_scale,
        warnings=run.warnings,
        failure=None
        if failure is None
        else RunFailure(failure.error, sentence_of(failure, "run", run, store)),
        counters=store.runs.find_document(run_id, COUNTERS, Counters),
        launches=run.launches,
        replacements=run.replacements,
        starts=store.runs.find_document(run_id, members.NAME, members.WorkloadStarts)
        if workloads(planned.plan.tests)
        else None,
    )
    store.runs.update(run_id, seconds=results.run.seconds)  # list and show print the same
    store.runs.put(run_id, "results.json", results)
    store.runs.put_text(
        run_id, "trials.csv", trials_csv(trials, results, planned.nodes), "text/csv"
    )
    rows = trials_parquet(trials, results, planned.nodes)
    store.objects.put_bytes(parquet_key("trials", results), rows, PARQUET)
    store.objects.put_bytes(parquet_key("verdicts", results), verdicts_parquet(results), PARQUET)
    page = render_page(results, trials, store.trials.raw_values(trials))
    return Reported(report_key=store.runs.put_text(run_id, "report.html", page, "text/html"))
