"""Finish: record how a run ended, and summarize it in the execution's output."""

from __future__ import annotations

import contextlib
import os

from rackrate.document import Document, Json
from rackrate.executions.model import RunRecord, Status
from rackrate.executions.store import Store
from rackrate.resources import Resources
from rackrate.results.build import RunFailure, final_status
from rackrate.results.comparison import is_comparison
from rackrate.stages.rest_nodes import RESTING
from rackrate.verdict import wording
from rackrate.verdict.model import Analysis
from rackrate_text.words import counted

#: The longest error and cause that Step Functions takes.
_MAX_ERROR, _MAX_CAUSE = 256, 32_768


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
    status: Status
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
    redrives: int = 0,
) -> Finished:
    """Record once how the run ended, and build the execution's output or cause.

    Args:
        run_id: the run.
        resources: the stack's resources.
        execution_arn: its execution.
        redrives: how often the execution was redriven.
        failure: why it failed, or None.
        report_key: the page's key, or None where there is no page.
        dashboard_url: the stack's dashboard, or None.
    """
    store = resources.store
    if redrives and failure is None:
        # It was stopped when it had only to finish, and a redrive has let it do so.
        store.runs.reopen(run_id, redrives)
    run = store.runs.find(run_id)
    status = final_status(failure, lost=0 if run is None else run.trials_failed)
    ended = record_end(
        run_id, status, execution_arn=execution_arn, failure=failure, resources=resources
    )
    if failure is not None:
        cause = cause_with_report(sentence_of(failure, run), report_key, store)
        return Finished(ended=ended, output=None, cause=cause)
    output = _output(run_id, run, status, report_key, dashboard_url, store)
    return Finished(ended=ended, output=output, cause=None)


def end_or_go_on(
    run_id: str,
    resources: Resources,
    *,
    redrives: int,
    token: str,
    state: Json,
) -> bool:
    """End a failed execution with its error, or let that of a redriven run go on.

    Args:
        run_id: the run, or the comparison.
        resources: the stack's resources.
        redrives: how often the execution was redriven. It goes on once for each redrive.
        token: what names the task that waits.
        state: the execution's state, with the first failure and what Finish made of it.

    Returns:
        Whether it goes on.
    """
    goes_on = redrives > 0 and _goes_on(run_id, redrives, state, resources.store)
    step_functions = resources.step_functions
    # A repeated call finds the task ended.
    with contextlib.suppress(step_functions.exceptions.TaskTimedOut):
        if goes_on:
            step_functions.send_task_success(taskToken=token, output="{}")
        else:
            failure = first_failure(state) or RunFailure.read(state["finish_failure"])
            assert failure is not None  # only a failure leads here
            cause = state.get("finished", {}).get("cause")
            if not cause and is_comparison(state.get("plan")):
                cause = failure.sentence(
                    subject="The comparison", during=None, measured="", log_group=log_group()
                )
            cause = cause or sentence_of(failure, resources.store.runs.find(run_id))
            step_functions.send_task_failure(
                taskToken=token, error=failure.error[:_MAX_ERROR], cause=cause[:_MAX_CAUSE]
            )
    return goes_on


def first_failure(state: Json) -> RunFailure | None:
    """The error that ends an execution, out of its state. None if no step failed.

    What fails in the analysis or the report is stored apart, because a step may have failed before.
    """
    return RunFailure.read(state.get("failure") or state.get("later_failure"))


def _goes_on(run_id: str, redrives: int, state: Json, store: Store) -> bool:
    """Record that a redriven run goes on, or find that an earlier try of this call did."""
    if store.runs.reopen(run_id, redrives):
        return True
    run = store.runs.find(run_id)
    recorded = "finish_failure" not in state
    return recorded and run is not None and run.is_running and run.redrives == redrives


def _output(
    run_id: str,
    run: RunRecord | None,
    status: str,
    page: str | None,
    dashboard_url: str | None,
    store: Store,
) -> RunOutput:
    analysis = store.runs.find_document(run_id, "analysis.json", Analysis)
    verdicts = () if analysis is None else (*analysis.verdicts, *analysis.regressions)
    return RunOutput(
        status=status,
        conclusion="" if run is None else wording.with_scale(run.conclusion, run.lab_scale),
        verdicts=tuple(wording.line(verdict) for verdict in verdicts),
        report=None if page is None else store.objects.link(page),
        report_valid=None if page is None else store.objects.link_validity(page),
        dashboard=dashboard_url,
        results=f"s3://{store.objects.bucket_name}/{store.runs.key(run_id, '')}",
    )


def cause_with_report(cause: str, page: str | None, store: Store) -> str:
    """The sentence with the place of the report as its last line."""
    if page is None:
        return cause
    return (
        f"{cause}\nThe report on what was measured: s3://{store.objects.bucket_name}/{page}".strip()
    )


def sentence_of(failure: RunFailure, run: RunRecord | None, *, logs: str | None = None) -> str:
    """The sentence that people read on a run that failed or was stopped.

    Args:
        failure: why it ended.
        run: the run.
        logs: the log group of the stack's functions; by default this function's own.
    """
    measured, during = "", None
    if run is not None:
        during = run.phase if run.is_running and run.phase != RESTING else None
        if run.trials_planned and f" of {run.trials_planned} trials" not in failure.cause:
            planned = counted(run.trials_planned, "trial")
            measured = f"{run.trials_measured} of {planned} were measured"
    return failure.sentence(
        subject="The run", during=during, measured=measured, log_group=logs or log_group()
    )


def log_group() -> str:
    """The log group of all of the stack's functions, this one included."""
    return os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "of the stack's functions")


def record_end(
    run_id: str,
    status: Status,
    *,
    execution_arn: str,
    failure: RunFailure | None,
    resources: Resources,
) -> Ended:
    """Record a terminal status and the error, unless that is done already; give back the nodes."""
    store = resources.store
    run = store.runs.find(run_id)
    attributes: Json = {"execution_arn": execution_arn, "phase": status.replace("_", " ")}
    if failure is not None:
        attributes["error"] = failure.error or status
        attributes["cause"] = sentence_of(failure, run)
    seconds = store.runs.finish(run_id, status, **attributes)
    # Afterwards, so that the run's recorded time does not overlap that of the next run. A campaign
    # with the id of a run that was refused may hold nodes by a lease of an older rackrate.
    if run is not None and run.leased_at is not None:
        store.leases.give_back("run", run_id)
    return Ended(run_id=run_id, status=status, seconds=seconds)
