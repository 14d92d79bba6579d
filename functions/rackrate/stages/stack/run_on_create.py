"""Run on create: a custom resource that runs the benchmark, and succeeds or fails with the run.

A run takes longer than a function may run. So the function stores the request in the bucket, and
answers it when EventBridge reports that the execution has ended. EventBridge delivers the events of
Step Functions on a best effort basis (Step Functions developer guide, "Automating Step Functions
event delivery with EventBridge"), so a schedule looks for an end that nobody reported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from rackrate.errors import suppress_codes
from rackrate.executions.store import Store
from rackrate.stack.custom_resource import NOTHING, Answer, logger, reason, respond, sentences
from rackrate.stack.patience import Patience
from rackrate_contract.document import Json
from rackrate_text.failures import explain

#: The prefix of these runs' names. The template's rule and policies rely on it.
PREFIX = "stack-"
_PLAN_DIGITS = 12
#: The key of the request that waits for its answer. CloudFormation makes one at a time.
_REQUEST = "on-create.json"
_RUN_ID = "RunId"
#: The fields of a request that its answer needs.
_KEPT = ("ResponseURL", "StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId")
#: Leaves room for the other fields in CloudFormation's limit of 4096 bytes.
_CONCLUSION_CHARACTERS = 1500
_RUNNING = "RUNNING"


class InvalidPlanParameter(Exception):
    """The stack's plan is not a JSON object."""


class RunFailed(Exception):
    """The run that the stack asked for did not succeed."""


@dataclass(frozen=True)
class Runner:
    """The clients and names that this stage uses.

    Attributes:
        state_machine_arn: the benchmark's state machine.
        store: the stack's table and bucket.
        states: a boto3 client of Step Functions.
    """

    state_machine_arn: str
    store: Store
    states: Any

    def execution_arn(self, run_id: str) -> str:
        """The ARN of a run's execution."""
        return f"{self.state_machine_arn.replace(':stateMachine:', ':execution:')}:{run_id}"


def serve_request(event: Mapping[str, Any], runner: Runner) -> Answer | None:
    """Handle CloudFormation's request.

    Args:
        event: CloudFormation's request, with the property `Plan`, which is JSON.
        runner: the clients and names to use.

    Returns:
        The run's id as physical id, `RunId` and `Conclusion` as attributes; None when the run has
        started and the answer follows after its end.

    Raises:
        InvalidPlanParameter: the plan is not a JSON object; nothing was started.
        RunFailed: the run has ended already without success.
    """
    if event["RequestType"] == "Delete":
        return _stop(event, runner)
    plan = parse_plan(event["ResourceProperties"]["Plan"])
    run_id = run_id_of(plan, event["RequestId"])
    before = event.get("PhysicalResourceId", NOTHING)
    # The plan is unchanged, or CloudFormation rolls an update back: answer with the earlier run.
    if event["RequestType"] == "Update" and _plan_part(before) == _plan_part(run_id):
        return Answer(before, _attributes(before, runner))
    return _start(event, plan, run_id, runner)


def run_id_of(plan: Json, request_id: str) -> str:
    """The run id for a request. It is the same when Lambda repeats an invocation.

    It has at most 80 characters, the limit of Step Functions, and contains a digest of the plan.
    """
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    return f"{PREFIX}{digest[:_PLAN_DIGITS]}-{re.sub(r'[^A-Za-z0-9-]', '-', request_id)}"[:80]


def patience_of(run_id: str) -> Patience:
    """The patience of a run's first functions with refusals.

    A run that the stack starts may begin when IAM has only just made their roles. In any other run
    a refusal is reported at once.
    """
    return Patience() if run_id.startswith(PREFIX) else Patience([])


def _plan_part(run_id: str) -> str:
    return run_id[: len(PREFIX) + _PLAN_DIGITS]


def parse_plan(text: str) -> Json:
    """Read the parameter.

    Raises:
        InvalidPlanParameter: the text is not a JSON object.
    """
    remedy = 'give a plan such as {} or {"blocks": 4}, or leave the parameter empty'
    try:
        plan = json.loads(text)
    except ValueError as error:
        raise InvalidPlanParameter(f"RunOnCreate: it is not JSON ({error}); {remedy}") from error
    if not isinstance(plan, dict):
        raise InvalidPlanParameter(f"RunOnCreate: it is not a JSON object; {remedy}")
    return plan


def _start(event: Mapping[str, Any], plan: Json, run_id: str, runner: Runner) -> Answer | None:
    # Store the request before the start, because a run may end before this function does.
    fields = {name: event[name] for name in _KEPT if name in event}
    runner.store.objects.put_json(_REQUEST, {**fields, _RUN_ID: run_id})
    try:
        runner.states.start_execution(
            stateMachineArn=runner.state_machine_arn, name=run_id, input=json.dumps(plan)
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            _forget(run_id, runner)
            raise
        # An earlier invocation started the run. The event of its end may have come while no request
        # was stored.
        execution = runner.states.describe_execution(executionArn=runner.execution_arn(run_id))
        if execution["status"] != _RUNNING:
            return _ended(run_id, execution, runner)
    return None


def _stop(event: Mapping[str, Any], runner: Runner) -> Answer:
    run_id = event["PhysicalResourceId"]
    if run_id != NOTHING:
        arn = runner.execution_arn(run_id)
        # Forget the request first, so that nobody answers one that CloudFormation has given up.
        _forget(run_id, runner)
        with suppress_codes("ExecutionDoesNotExist"):
            if runner.states.describe_execution(executionArn=arn)["status"] == _RUNNING:
                runner.states.stop_execution(
                    executionArn=arn,
                    error="StackDeleted",
                    cause="the stack that asked for the run was deleted or rolled back",
                )
    return Answer(run_id)


def answer_ended(detail: Mapping[str, Any], runner: Runner) -> Json:
    """Answer the request of a run whose execution has ended.

    Args:
        detail: the detail of EventBridge's event "Step Functions Execution Status Change".
        runner: the clients and names to use.

    Returns:
        Whether there was a request to answer; runs that no stack asked for have none.

    Raises:
        RuntimeError: CloudFormation did not take the answer.
    """
    run_id = detail["name"]
    request = _request(run_id, runner)
    if request is None:
        return {"answered": False}
    answer: Answer | None = None
    error: str | None = None
    try:
        execution = runner.states.describe_execution(executionArn=detail["executionArn"])
        answer = _ended(run_id, execution, runner)
    except RunFailed as failure:
        error = sentences(str(failure))
    except Exception as failure:
        # Answer in any case; otherwise CloudFormation waits until ServiceTimeout.
        logger.exception("how the run ended could not be found out")
        error = f"the run {run_id} has ended, and how could not be found out: {reason(failure)}"
    # A failed creation also returns the run's id, so that the rollback requests its deletion.
    respond({"PhysicalResourceId": run_id, **request}, answer=answer, error=error)
    _forget(run_id, runner)
    return {"answered": True}


def answer_unreported(runner: Runner) -> Json:
    """Answer a request whose run has ended, if nothing has reported the end.

    Returns:
        Whether there was such a request.
    """
    request = _stored(runner)
    if request is None:
        return {"answered": False}
    run_id: str = request[_RUN_ID]
    arn = runner.execution_arn(run_id)
    status = _RUNNING  # where the request was stored, and the run starts any moment
    with suppress_codes("ExecutionDoesNotExist"):
        status = runner.states.describe_execution(executionArn=arn)["status"]
    if status == _RUNNING:
        return {"answered": False}
    try:
        return answer_ended({"name": run_id, "executionArn": arn}, runner)
    except RuntimeError:
        # What CloudFormation refuses after all attempts, it waits for no more.
        _forget(run_id, runner)
        raise


def _request(run_id: str, runner: Runner) -> Json | None:
    """The stored request of a run."""
    request = _stored(runner)
    return request if request is not None and request.pop(_RUN_ID) == run_id else None


def _stored(runner: Runner) -> Json | None:
    text = runner.store.objects.find(_REQUEST)
    if text is None:
        return None
    request: Json = json.loads(text)
    return request


def _forget(run_id: str, runner: Runner) -> None:
    """Delete a run's stored request, because its URL lets anybody answer in our place."""
    if _request(run_id, runner) is not None:
        runner.store.objects.delete(_REQUEST)


def _ended(run_id: str, execution: Mapping[str, Any], runner: Runner) -> Answer:
    if execution["status"] == "SUCCEEDED":
        return Answer(run_id, _attributes(run_id, runner))
    raise RunFailed(failure_text(run_id, execution, runner.store.objects.bucket_name))


def _attributes(run_id: str, runner: Runner) -> dict[str, str]:
    run = runner.store.runs.find(run_id)
    status = "unknown" if run is None else run.status
    conclusion = (run and run.conclusion) or f"The run's status is {status}."
    return {"RunId": run_id, "Conclusion": conclusion[:_CONCLUSION_CHARACTERS]}


def failure_text(run_id: str, execution: Mapping[str, Any], bucket_name: str) -> str:
    """A sentence on how an execution failed, and where its files are.

    Args:
        run_id: the run.
        execution: the response of DescribeExecution; `cause` is often Lambda's error document.
        bucket_name: the bucket with the run's files.
    """
    ended = {"ABORTED": "was stopped", "TIMED_OUT": "took too long"}
    how = ended.get(execution["status"], "failed")
    error, cause = execution.get("error") or "", execution.get("cause") or ""
    reason = sentences(explain(error, cause).text)
    why = ": ".join(part for part in (error, reason) if part).rstrip(".")
    return (
        f"The run {run_id} {how}{f' with {why}' if why else ''}."
        f" What it measured is in s3://{bucket_name}/runs/{run_id}/."
    )
