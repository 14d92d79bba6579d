"""Run on create: a custom resource that is created when a run has succeeded, and fails with it.

A run takes longer than a function may. So the request is kept in the bucket, and answered when
EventBridge says that the execution has ended.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from rackrate.document import Json
from rackrate.stack.custom_resource import NOTHING, Answer, logger, reason, respond, sentences
from rackrate.store import Store

#: What the names of these runs begin with; the template's rule and policies rely on it.
PREFIX = "stack-"
_PLAN_DIGITS = 12
_REQUEST = "on-create.json"
#: What an answer needs of a request.
_KEPT = ("ResponseURL", "StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId")
#: Leaves room for everything else in CloudFormation's 4096 bytes.
_CONCLUSION_CHARACTERS = 1500
_RUNNING = "RUNNING"


class InvalidPlanParameter(Exception):
    """The stack's plan is not a JSON object."""


class RunFailed(Exception):
    """The run that the stack asked for did not succeed."""


@dataclass(frozen=True)
class Runner:
    """What this stage works with.

    Attributes:
        state_machine_arn: the benchmark's state machine.
        store: the stack's table and bucket.
        states: a boto3 client of Step Functions.
        s3: a boto3 client.
        bucket_name: the stack's bucket.
    """

    state_machine_arn: str
    store: Store
    states: Any
    s3: Any
    bucket_name: str

    def execution_arn(self, run_id: str) -> str:
        """The ARN of a run's execution."""
        return f"{self.state_machine_arn.replace(':stateMachine:', ':execution:')}:{run_id}"


def serve_request(event: Mapping[str, Any], runner: Runner) -> Answer | None:
    """Does what CloudFormation asks.

    Args:
        event: CloudFormation's request, with the property `Plan`, which is JSON.
        runner: what to work with.

    Returns:
        The run's id as physical id, `RunId` and `Conclusion` as attributes; None when the run has
        begun and the answer follows after its end.

    Raises:
        InvalidPlanParameter: the plan is not a JSON object; nothing was started.
        RunFailed: the run has ended already, and not well.
    """
    if event["RequestType"] == "Delete":
        return _stop(event, runner)
    plan = parse_plan(event["ResourceProperties"]["Plan"])
    run_id = run_id_of(plan, event["RequestId"])
    before = event.get("PhysicalResourceId", NOTHING)
    # The plan was not changed, or an update is rolled back: the earlier run answers for it.
    if event["RequestType"] == "Update" and _plan_part(before) == _plan_part(run_id):
        return Answer(before, _attributes(before, runner))
    return _start(event, plan, run_id, runner)


def run_id_of(plan: Json, request_id: str) -> str:
    """The run of a request; the same however often Lambda repeats an invocation.

    At most 80 characters, which is what Step Functions takes; the plan can be told from them.
    """
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    return f"{PREFIX}{digest[:_PLAN_DIGITS]}-{re.sub(r'[^A-Za-z0-9-]', '-', request_id)}"[:80]


def _plan_part(run_id: str) -> str:
    return run_id[: len(PREFIX) + _PLAN_DIGITS]


def parse_plan(text: str) -> Json:
    """Reads the parameter.

    Raises:
        InvalidPlanParameter: it is not a JSON object.
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
    # Before the start, because a run may end before this function does.
    kept = {name: event[name] for name in _KEPT if name in event}
    runner.store.put_json(runner.store.key(run_id, _REQUEST), kept)
    try:
        runner.states.start_execution(
            stateMachineArn=runner.state_machine_arn, name=run_id, input=json.dumps(plan)
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            _forget(run_id, runner)
            raise
        # An earlier invocation started it. Its end may have been told while the request was lost.
        execution = runner.states.describe_execution(executionArn=runner.execution_arn(run_id))
        if execution["status"] != _RUNNING:
            return _ended(run_id, execution, runner)
    return None


def _stop(event: Mapping[str, Any], runner: Runner) -> Answer:
    run_id = event["PhysicalResourceId"]
    if run_id != NOTHING:
        arn = runner.execution_arn(run_id)
        # First, so that nobody answers a request that CloudFormation has given up.
        _forget(run_id, runner)
        try:
            if runner.states.describe_execution(executionArn=arn)["status"] == _RUNNING:
                runner.states.stop_execution(
                    executionArn=arn,
                    error="StackDeleted",
                    cause="the stack that asked for the run was deleted or rolled back",
                )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
                raise
    return Answer(run_id)


def answer_ended(detail: Mapping[str, Any], runner: Runner) -> Json:
    """Answers the request of a run whose execution has ended.

    Args:
        detail: of EventBridge's event "Step Functions Execution Status Change".
        runner: what to work with.

    Returns:
        Whether there was a request to answer; other runs are none of our business.

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
        # Without an answer CloudFormation would wait for as long as ServiceTimeout says.
        logger.exception("how the run ended could not be found out")
        error = f"the run {run_id} has ended, and how could not be found out: {reason(failure)}"
    # A creation that failed has the run's id, so that the rollback asks for its deletion.
    respond({"PhysicalResourceId": run_id, **request}, answer=answer, error=error)
    _forget(run_id, runner)
    return {"answered": True}


def _request(run_id: str, runner: Runner) -> Json | None:
    text = runner.store.find_text(run_id, _REQUEST)
    if text is None:
        return None
    request: Json = json.loads(text)
    return request


def _forget(run_id: str, runner: Runner) -> None:
    """Removes the request: its address lets anybody answer in our place."""
    runner.s3.delete_object(Bucket=runner.bucket_name, Key=runner.store.key(run_id, _REQUEST))


def _ended(run_id: str, execution: Mapping[str, Any], runner: Runner) -> Answer:
    if execution["status"] == "SUCCEEDED":
        return Answer(run_id, _attributes(run_id, runner))
    raise RunFailed(failure_text(run_id, execution, runner.bucket_name))


def _attributes(run_id: str, runner: Runner) -> dict[str, str]:
    run = runner.store.run(run_id)
    status = "unknown" if run is None else run.status
    conclusion = (run and run.conclusion) or f"The run's status is {status}."
    return {"RunId": run_id, "Conclusion": conclusion[:_CONCLUSION_CHARACTERS]}


def failure_text(run_id: str, execution: Mapping[str, Any], bucket_name: str) -> str:
    """How an execution ended, for people.

    Args:
        run_id: the run.
        execution: DescribeExecution's answer; `cause` is often Lambda's error document.
        bucket_name: where the run's files are.
    """
    ended = {"ABORTED": "was stopped", "TIMED_OUT": "took too long"}
    how = ended.get(execution["status"], "failed")
    error, cause = execution.get("error") or "", execution.get("cause") or ""
    try:
        document = json.loads(cause)
    except ValueError:
        document = None
    if isinstance(document, dict) and "errorMessage" in document:
        error = error or document.get("errorType", "")
        cause = str(document["errorMessage"])
    why = ": ".join(part for part in (error, sentences(cause)) if part).rstrip(".")
    return (
        f"The run {run_id} {how}{f' with {why}' if why else ''}."
        f" What it measured is in s3://{bucket_name}/runs/{run_id}/."
    )
