"""Finish: record how a run ended, and summarize it in the execution's output."""

from __future__ import annotations

import json

from rackrate.document import Document
from rackrate.resources import Resources
from rackrate.results.build import RunFailure, final_status
from rackrate.store import RunProgress, RunRecord, RunStatus, Store
from rackrate.verdict import wording
from rackrate.verdict.model import Analysis


class RunOutput(Document):
    """The execution's output, which people read in the console."""

    status: str
    conclusion: str
    verdicts: tuple[str, ...]
    """A line each."""
    report: str | None
    """A link to the page."""
    report_valid: str | None
    """How long the link holds, in words."""
    dashboard: str | None
    results: str
    """Where the run's objects are."""


class Ended(Document):
    """How a run's end was recorded."""

    run_id: str
    status: RunStatus
    seconds: float | None
    """How long it took; null when its end had been written before."""


class Finished(Document):
    """The end of an execution."""

    ended: Ended
    output: RunOutput | None
    """The execution's output; null for a run that failed."""
    cause: str | None
    """The execution's cause, with the page's place in it; null for a run that did not fail."""


def finish(
    run_id: str,
    resources: Resources,
    *,
    execution_arn: str,
    failure: RunFailure | None,
    report_key: str | None,
    dashboard_url: str | None = None,
) -> Finished:
    """Record once how the run ended, and build the execution's output or cause.

    Args:
        run_id: the run.
        resources: the stack's resources.
        execution_arn: its execution.
        failure: why it failed, or None.
        report_key: the page's key, or None where there is no page.
        dashboard_url: the stack's dashboard, or None.
    """
    store = resources.store
    run = store.run(run_id)
    status = final_status(failure, lost=0 if run is None else run.trials_failed)
    ended = record_end(run_id, status, execution_arn=execution_arn, failure=failure, store=store)
    if failure is not None:
        cause = cause_with_report(failure, report_key, store)
        return Finished(ended=ended, output=None, cause=cause)
    output = _output(run_id, run, status, report_key, dashboard_url, store)
    return Finished(ended=ended, output=output, cause=None)


def _output(
    run_id: str,
    run: RunRecord | None,
    status: str,
    page: str | None,
    dashboard_url: str | None,
    store: Store,
) -> RunOutput:
    analysis = store.find(run_id, "analysis.json", Analysis)
    verdicts = () if analysis is None else (*analysis.verdicts, *analysis.regressions)
    return RunOutput(
        status=status,
        conclusion="" if run is None else wording.with_scale(run.conclusion, run.lab_scale),
        verdicts=tuple(wording.line(verdict) for verdict in verdicts),
        report=None if page is None else store.link(page),
        report_valid=None if page is None else store.link_validity(page),
        dashboard=dashboard_url,
        results=f"s3://{store.bucket_name}/{store.key(run_id, '')}",
    )


def cause_with_report(failure: RunFailure, page: str | None, store: Store) -> str:
    """The failure's cause with the place of the report added to the message that people read."""
    if page is None:
        return failure.cause
    where = f"The report on what was measured: s3://{store.bucket_name}/{page}"
    try:
        document = json.loads(failure.cause)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "errorMessage" not in document:
        return f"{failure.cause}\n{where}".strip()
    return json.dumps({**document, "errorMessage": f"{document['errorMessage']}\n{where}"})


def record_end(
    run_id: str,
    status: RunStatus,
    *,
    execution_arn: str,
    failure: RunFailure | None,
    store: Store,
) -> Ended:
    """Record a terminal status and the error, unless that is done already; give back the nodes."""
    attributes: RunProgress = {"execution_arn": execution_arn, "phase": status.replace("_", " ")}
    if failure is not None:
        attributes["error"] = failure.error or status
        attributes["cause"] = failure.cause
    seconds = store.finish_run(run_id, status, **attributes)
    # Afterwards, so that the run's recorded time does not overlap that of the next run.
    store.give_back_nodes(run_id)
    return Ended(run_id=run_id, status=status, seconds=seconds)
