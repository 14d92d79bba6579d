"""Finish: record how a run ended, and summarize it in the execution's output."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from rackrate.executions.store import Store
from rackrate.resources import Resources
from rackrate.results.build import RunFailure, final_status
from rackrate.settings import LOAD
from rackrate.stages.execution.rest_nodes import RESTING
from rackrate.verdict import wording
from rackrate.verdict.model import Analysis
from rackrate_contract.capacity import Launch
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import (
    CampaignOutput,
    CampaignRecord,
    ExecutionRecord,
    Kind,
    RunOutput,
    RunRecord,
    Status,
)
from rackrate_text.words import counted

#: The longest error and cause that Step Functions takes.
_MAX_ERROR, _MAX_CAUSE = 256, 32_768


#: The phase of a campaign that puts back what it changed.
PUTTING_BACK = "putting back what was changed"


class Ended(Document):
    """How an execution's end was recorded."""

    kind: Kind
    id: str
    status: Status
    seconds: float | None
    """How long it took; null when its end had been written before."""
    launches: tuple[Launch, ...] = ()
    """How the nodes of arms came that a run woke."""


class Finished(Document):
    """The end of an execution."""

    ended: Ended
    output: RunOutput | CampaignOutput | None
    """The execution's output; null for one that failed."""
    error: str | None
    """The execution's error; null for one that did not fail."""
    cause: str | None
    """The execution's cause, with the page's place in it; null for one that did not fail."""


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
    return finish_execution(
        "run",
        run_id,
        status,
        lambda: _output(run_id, run, status, report_key, dashboard_url, store),
        execution_arn=execution_arn,
        failure=failure,
        report_key=report_key,
        resources=resources,
    )


def finish_execution(
    kind: Kind,
    name: str,
    status: Status,
    output: Callable[[], RunOutput | CampaignOutput],
    *,
    execution_arn: str,
    failure: RunFailure | None,
    report_key: str | None,
    resources: Resources,
) -> Finished:
    """Record the end of an execution, with the output of one that did not fail, or its cause."""
    record = resources.store.of(kind).find(name)
    ended = record_end(
        kind, name, status, execution_arn=execution_arn, failure=failure, resources=resources
    )
    if failure is None:
        return Finished(ended=ended, output=output(), error=None, cause=None)
    cause = sentence_of(failure, kind, record, resources.store)
    if report_key is not None:
        page = f"s3://{resources.store.objects.bucket_name}/{report_key}"
        cause = f"{cause}\nThe report on what was measured: {page}".strip()
    return Finished(ended=ended, output=None, error=failure.error, cause=cause)


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
        run_id: the run.
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
            cause = state.get("finished", {}).get("cause") or sentence_of(
                failure, "run", resources.store.runs.find(run_id), resources.store
            )
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
        conclusion="" if run is None else wording.in_brief(run.conclusion, run.lab_scale),
        verdicts=tuple(wording.line(verdict) for verdict in verdicts),
        report=None if page is None else store.objects.link(page),
        report_valid=None if page is None else store.objects.link_validity(page),
        dashboard=dashboard_url,
        results=f"s3://{store.objects.bucket_name}/{store.runs.key(run_id, '')}",
    )


def sentence_of(
    failure: RunFailure,
    kind: Kind,
    record: ExecutionRecord | None,
    store: Store,
    *,
    logs: str | None = None,
) -> str:
    """The sentence that people read on an execution that failed or was stopped.

    Args:
        failure: why it ended.
        kind: whether it is a run or a campaign.
        record: its record, as it was before its end was recorded.
        store: the store.
        logs: the log group of the stack's functions; by default this function's own.
    """
    during = None
    if record is not None and record.is_running and record.phase not in (RESTING, PUTTING_BACK):
        during = record.phase
    return failure.sentence(
        subject=f"The {kind}",
        during=during,
        measured=_measured(failure, record, store),
        log_group=logs or log_group(),
    )


def _measured(failure: RunFailure, record: ExecutionRecord | None, store: Store) -> str:
    """How much an execution has measured, in words; empty where that is not known."""
    if isinstance(record, CampaignRecord):
        steps = [step for step in store.campaigns.steps(record.id) if step.source is None]
        good = sum(step.has_result for step in steps)
        verb = "has a result" if good == 1 else "have a result"
        return f"{good} of {counted(len(steps), 'step')} {verb}" if steps else ""
    if not isinstance(record, RunRecord) or not record.trials_planned:
        return ""
    if f" of {record.trials_planned} trials" in failure.cause:
        return ""
    return f"{record.trials_measured} of {counted(record.trials_planned, 'trial')} were measured"


def log_group() -> str:
    """The log group of all of the stack's functions, this one included."""
    return os.environ.get("AWS_LAMBDA_LOG_GROUP_NAME", "of the stack's functions")


def record_end(
    kind: Kind,
    name: str,
    status: Status,
    *,
    execution_arn: str,
    failure: RunFailure | None,
    resources: Resources,
) -> Ended:
    """Record a terminal status and the error, unless that is done already; give back the nodes.

    While a campaign has something to put back, it keeps the nodes until the hourly sweep has put it
    back.
    """
    store = resources.store
    executions = store.of(kind)
    record = executions.find(name)
    # A campaign's item has both, even if it did not fail.
    attributes: Json = {} if kind == "run" else {"error": None, "cause": None}
    if failure is not None:
        cause = sentence_of(failure, kind, record, store)
        attributes = {"error": failure.error or status, "cause": cause}
    launches: tuple[Launch, ...] = ()
    if isinstance(record, RunRecord):
        own = (each for each in record.launches if each.began_at >= record.started_at)
        launches = tuple(each for each in own if each.arm != LOAD)
    phase = status.replace("_", " ")
    seconds = executions.finish(
        name, status, execution_arn=execution_arn, phase=phase, **attributes
    )
    if isinstance(record, CampaignRecord) and record.changed is not None:
        if seconds is not None:
            warning = "what it changed is not put back yet; the hourly clean-up tries again"
            executions.update(name, warnings=(*record.warnings, warning))
    elif record is not None and record.leased_at is not None:
        # Afterwards, so that its recorded time does not overlap that of the next one. A lease of an
        # older rackrate may be that of another kind's execution with the id of a refused one.
        store.leases.give_back(kind, name)
    return Ended(kind=kind, id=name, status=status, seconds=seconds, launches=launches)
