"""Tasks that start an execution of another state machine, wait for its end, and stop it.

moto's own task passes names that the API does not know, and leaves the child running when its
parent ends.
https://docs.aws.amazon.com/step-functions/latest/dg/connect-stepfunctions.html
"""

from __future__ import annotations

import datetime
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError
from moto.stepfunctions.parser.api import HistoryEventType, TaskFailedEventDetails
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import (
    CustomErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import (
    FailureEvent,
    FailureEventException,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name import (
    StatesErrorName,
)
from moto.stepfunctions.parser.asl.component.common.error_name.states_error_name_type import (
    StatesErrorNameType,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_sfn,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import (
    ResourceCondition,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service import (  # noqa: E501
    StateTaskService,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails

LOG = logging.getLogger(__name__)

_SFN = state_task_service_sfn.StateTaskServiceSfn
_POLL_SECONDS = 0.2
_WAITING_RESOURCE = re.compile(r"arn:[^:]+:states:::states:startExecution\.sync(:2)?")

_moto_eval_integration_pattern = _SFN._eval_integration_pattern
_moto_after_eval_execution = StateTaskService._after_eval_execution


def states_of(machine: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every state of a parsed definition, those inside maps and parallel branches included."""
    for state in machine.get("States", {}).values():
        yield state
        inner = [state.get("ItemProcessor"), state.get("Iterator"), *state.get("Branches", [])]
        for each in filter(None, inner):
            yield from states_of(each)


def waits_for_executions(definition: str) -> bool:
    """Whether a definition has a task that waits for the end of an execution that it starts."""
    return any(
        _WAITING_RESOURCE.fullmatch(str(state.get("Resource", "")))
        for state in states_of(json.loads(definition))
    )


def _client(runtime: Any, credentials: Any) -> Any:
    """A client with the state machine's role."""
    module: Any = state_task_service_sfn  # its client is the lab's; see `task_clients`
    return module.boto_client_for(
        region=runtime.region, service="stepfunctions", state_credentials=credentials
    )


def eval_service_task(
    self: Any,
    env: Environment,
    resource_runtime_part: Any,
    normalised_parameters: dict[str, Any],
    state_credentials: Any,
) -> None:
    """Start the execution."""
    request = {key[0].lower() + key[1:]: item for key, item in normalised_parameters.items()}
    response = _client(resource_runtime_part, state_credentials).start_execution(**request)
    env.stack.append(_task_document(response))


def eval_integration_pattern(
    self: Any,
    env: Environment,
    resource_runtime_part: Any,
    normalised_parameters: dict[str, Any],
    state_credentials: Any,
) -> None:
    """Wait for the child's end; stop the child when the task ends before."""
    if self.resource.condition == ResourceCondition.WaitForTaskToken:
        _moto_eval_integration_pattern(
            self, env, resource_runtime_part, normalised_parameters, state_credentials
        )
        return
    client = _client(resource_runtime_part, state_credentials)
    execution_arn = env.stack.pop()["ExecutionArn"]
    child: dict[str, Any] | None = None
    while env.is_running():
        description = client.describe_execution(executionArn=execution_arn)
        if description["status"] != "RUNNING":
            child = _task_document(description)
            break
        env.program_state_event.wait(_POLL_SECONDS)
    if child is None:
        _stop(client, execution_arn)
        env.stack.append({})
        return
    if self.resource.condition == ResourceCondition.Sync2:
        child |= {key: json.loads(child[key]) for key in ("Input", "Output") if key in child}
    if child["Status"] != "SUCCEEDED":
        raise _task_failed(self, env, child)
    env.stack.append(child)


def _stop(client: Any, execution_arn: str) -> None:
    """Stop a child as far as the role may; as on AWS, a refusal changes nothing for the parent."""
    try:
        client.stop_execution(executionArn=execution_arn)
    except ClientError as error:
        LOG.warning("%s was not stopped with its parent: %s", execution_arn, error)


def _task_document(response: dict[str, Any]) -> dict[str, Any]:
    """An API's answer as a task gives it: names in title case, times in milliseconds."""
    return {
        key[0].upper() + key[1:]: (
            _task_document(item)
            if isinstance(item, dict)
            else int(item.timestamp() * 1000)
            if isinstance(item, datetime.datetime)
            else item
        )
        for key, item in response.items()
        if key != "ResponseMetadata"
    }


def _task_failed(task: Any, env: Environment, child: dict[str, Any]) -> FailureEventException:
    kind = StatesErrorNameType.StatesTaskFailed
    return FailureEventException(
        _failure_event(task, env, StatesErrorName(typ=kind), kind.to_name(), json.dumps(child))
    )


def from_error(self: Any, env: Environment, ex: Exception) -> FailureEvent:
    """The failure that a refused call means, by AWS's name of the error."""
    if not isinstance(ex, ClientError):
        event: FailureEvent = super(_SFN, self)._from_error(env=env, ex=ex)
        return event
    code, metadata = ex.response["Error"]["Code"], ex.response["ResponseMetadata"]
    name = f"StepFunctions.{code.removesuffix('Exception')}Exception"
    if metadata["HTTPStatusCode"] >= 500:  # AWS's SDK has no class of its own for these
        name = "StepFunctions.AWSStepFunctionsException"
    cause = (
        f"{ex.response['Error']['Message']} (Service: AWSStepFunctions;"
        f" Status Code: {metadata['HTTPStatusCode']}; Error Code: {code};"
        f" Request ID: {metadata.get('RequestId')}; Proxy: null)"
    )
    return _failure_event(self, env, CustomErrorName(name), name, cause)


def _failure_event(task: Any, env: Environment, name: Any, error: str, cause: str) -> FailureEvent:
    return FailureEvent(
        env=env,
        error_name=name,
        event_type=HistoryEventType.TaskFailed,
        event_details=EventDetails(  # type: ignore[typeddict-item]
            taskFailedEventDetails=TaskFailedEventDetails(
                resource=task._get_sfn_resource(),
                resourceType=task._get_sfn_resource_type(),
                error=error,
                cause=cause,
            )
        ),
    )


def after_eval_execution(self: Any, env: Environment, *args: Any, **kwargs: Any) -> None:
    """Record the task's success, unless its execution ended before."""
    if env.is_running():
        _moto_after_eval_execution(self, env, *args, **kwargs)
