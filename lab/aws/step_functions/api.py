"""Step Functions' API: what it refuses, and how it describes executions."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

from moto.core.responses import ActionResult
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.responses import StepFunctionResponse

from lab.aws.api_errors import ApiError
from lab.aws.authorization.actions import nested_execution_needs
from lab.aws.authorization.authorizer import AccessDenied, Authorizer
from lab.aws.clock import now
from lab.aws.step_functions import interpreter
from lab.aws.step_functions.executions import TERMINAL
from lab.aws.step_functions.map_children import children_of, map_runs
from lab.aws.step_functions.nested_executions import waits_for_executions

# https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
_MAX_NAME = 80
_BAD_NAME = re.compile(r"[\s<>{}\[\]?*\"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]")


_moto_create = StepFunctionResponse.create_state_machine
_moto_update = StepFunctionResponse.update_state_machine


def create_state_machine(self: StepFunctionResponse, authorizer: Authorizer) -> ActionResult:
    definition = self._get_param("definition")
    _check_definition(definition)
    _check_managed_rule(authorizer, self._get_param("roleArn"), definition)
    return _moto_create(self)


def update_state_machine(self: StepFunctionResponse, authorizer: Authorizer) -> ActionResult:
    definition = self._get_param("definition")
    if definition is not None:
        _check_definition(definition)
    old = self.stepfunction_backend.describe_state_machine(self._get_param("stateMachineArn"))
    role_arn = self._get_param("roleArn") or old.roleArn
    _check_managed_rule(authorizer, role_arn, definition or old.definition)
    return _moto_update(self)


def _check_managed_rule(authorizer: Authorizer, role_arn: str, definition: str) -> None:
    """Refuse a role that may not make the rule by which a machine hears of its children's ends."""
    if not waits_for_executions(definition):
        return
    try:
        authorizer.require(role_arn, nested_execution_needs(), {})
    except AccessDenied as denied:
        raise ApiError(
            "AccessDeniedException", f"'{role_arn}' is not authorized to create managed-rule."
        ) from denied


def _check_definition(text: str) -> None:
    """Refuse a definition that does not parse or that names a next state that does not exist."""
    try:
        document = json.loads(text)
        interpreter.parsed(text)
    except Exception as error:
        raise ApiError(
            "InvalidDefinition", f"Invalid State Machine Definition: '{error}'"
        ) from error
    missing = list(_missing_targets(document, ""))
    if missing:
        raise ApiError(
            "InvalidDefinition",
            "Invalid State Machine Definition: "
            + ", ".join(f"'MISSING_TRANSITION_TARGET: {fault}'" for fault in missing),
        )


def _missing_targets(machine: dict[str, Any], path: str) -> Iterator[str]:
    states: dict[str, Any] = machine.get("States", {})
    targets = [("StartAt", machine.get("StartAt"))]
    for name, state in states.items():
        where = f"{path}/States/{name}"
        targets += [(f"{where}/{key}", state.get(key)) for key in ("Next", "Default")]
        for section in ("Choices", "Catch"):
            targets += [
                (f"{where}/{section}[{index}]/Next", item.get("Next"))
                for index, item in enumerate(state.get(section, []))
            ]
        for section in ("ItemProcessor", "Iterator"):
            if section in state:
                yield from _missing_targets(state[section], f"{where}/{section}")
        for index, branch in enumerate(state.get("Branches", [])):
            yield from _missing_targets(branch, f"{where}/Branches[{index}]")
    for where, target in targets:
        if target is not None and target not in states:
            yield f"Missing 'Next' target: {target} at {where}"


def start_execution(self: StepFunctionResponse) -> ActionResult:
    name = self._get_param("name") or str(uuid.uuid4())
    if len(name) > _MAX_NAME or _BAD_NAME.search(name):
        raise ApiError("InvalidName", f"Invalid Name: '{name}'")
    text = self._get_param("input", if_none="{}")
    try:
        json.loads(text)
    except ValueError as error:
        raise ApiError(
            "InvalidExecutionInput", f"Invalid State Machine Execution Input: '{error}'"
        ) from error
    execution = self.stepfunction_backend.start_execution(
        self._get_param("stateMachineArn"), name, text
    )
    return ActionResult(
        {"executionArn": execution.execution_arn, "startDate": execution.start_date}
    )


def stop_execution(self: StepFunctionResponse) -> ActionResult:
    arn, why = self._get_param("executionArn"), [self._get_param(n) for n in ("error", "cause")]
    for run in map_runs(self.stepfunction_backend):
        for child in children_of(run):
            if child.arn == arn:
                return ActionResult({"stopDate": child.stop(*why)})
    execution: Any = self.stepfunction_backend.describe_execution(arn)
    execution.stop(now(), *why)
    return ActionResult({"stopDate": execution.stop_date})


def redrive_execution(self: StepFunctionResponse) -> ActionResult:
    execution: Any = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    if (reason := execution.not_redrivable) is not None:
        raise ApiError("ExecutionNotRedrivable", f"{reason}: {execution.exec_arn}")
    execution.redrive()
    return ActionResult({"redriveDate": execution.redrive_date})


def send_task_failure(self: StepFunctionResponse) -> ActionResult:
    # moto loses the cause.
    backend: Any = self.stepfunction_backend
    backend.send_task_failure(
        self._get_param("taskToken"), self._get_param("error"), self._get_param("cause")
    )
    return ActionResult({})


def describe_execution(self: StepFunctionResponse) -> ActionResult:
    execution: Any = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    return ActionResult(
        {
            **_summary(execution),
            "input": execution.execution_input,
            "inputDetails": {"included": True},
            "output": (
                json.dumps(execution.output)
                if execution.exec_status == ExecutionStatus.SUCCEEDED
                else None
            ),
            "outputDetails": {"included": True},
            "error": execution.error,
            "cause": execution.cause,
            "redriveStatus": (
                "REDRIVABLE" if execution.not_redrivable is None else "NOT_REDRIVABLE"
            ),
            "redriveStatusReason": execution.not_redrivable,
        }
    )


def _summary(execution: Any) -> dict[str, Any]:
    return {
        "redriveCount": execution.redrive_count,
        "redriveDate": execution.redrive_date,
        "executionArn": execution.exec_arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": execution.start_date,
        "stopDate": execution.stop_date if execution.exec_status in TERMINAL else None,
    }


def list_executions(self: StepFunctionResponse) -> ActionResult:
    status = self._get_param("statusFilter")
    if (map_run := self._get_param("mapRunArn")) is not None:
        children = [
            child.summary(map_run)
            for run in map_runs(self.stepfunction_backend)
            if run.map_run_arn == map_run
            for child in reversed(children_of(run))
            if status in (None, child.status)
        ]
        return ActionResult({"executions": children})
    executions, next_token = self.stepfunction_backend.list_executions(
        self._get_param("stateMachineArn"),
        status_filter=status,
        max_results=self._get_int_param("maxResults"),
        next_token=self._get_param("nextToken"),
    )
    return ActionResult(
        {"executions": [_summary(execution) for execution in executions], "nextToken": next_token}
    )


def _events_of(backend: Any, arn: str) -> list[Any]:
    """The history of an execution, or of the one of a Map Run's item."""
    for run in map_runs(backend):
        for child in children_of(run):
            if child.arn == arn:
                return list(child.frame.event_manager.get_event_history())
    worker = backend.describe_execution(arn).exec_worker
    if worker is None or worker.env is None:
        return []
    return list(worker.env.event_manager.get_event_history())


def get_execution_history(self: StepFunctionResponse) -> ActionResult:
    events = _events_of(self.stepfunction_backend, self._get_param("executionArn"))
    if self._get_param("reverseOrder"):
        events.reverse()
    start = int(self._get_param("nextToken") or 0)
    end = start + (self._get_int_param("maxResults") or 1000)
    return ActionResult(
        {"events": events[start:end], "nextToken": str(end) if end < len(events) else None}
    )
