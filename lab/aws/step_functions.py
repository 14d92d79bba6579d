"""Step Functions: moto's interpreter, with the behaviour of AWS where moto's differs."""

from __future__ import annotations

import datetime
import json
import logging
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
from botocore.config import Config
from moto.core.responses import ActionResult
from moto.stepfunctions.parser import models as parser_models
from moto.stepfunctions.parser.api import (
    ExecutionFailedEventDetails,
    ExecutionStatus,
    HistoryEventType,
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
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import (
    distributed_iteration_component,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor import (
    distributed_item_processor_worker,
)
from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import (
    WaitFunction,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.backend.execution import (
    BaseExecutionWorkerCommunication,
    Execution,
)
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.utils import TMP_THREADS
from moto.stepfunctions.responses import StepFunctionResponse

from .authorization import AccessDenied, Authorizer, map_run_needs
from .errors import ApiError
from .event_bridge import EventRouter
from .identity import SESSION_SECONDS, assume_role

LOG = logging.getLogger(__name__)
# The interpreter logs every error a state machine handles, and that it ignores tolerated
# failures, which is no longer so.
logging.getLogger("moto.stepfunctions").setLevel(logging.CRITICAL)

# https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
_MAX_NAME = 80
_BAD_NAME = re.compile(r"[\s<>{}\[\]?*\"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]")
_TERMINAL = (
    ExecutionStatus.SUCCEEDED,
    ExecutionStatus.FAILED,
    ExecutionStatus.ABORTED,
    ExecutionStatus.TIMED_OUT,
)


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.UTC)


class _Communication(BaseExecutionWorkerCommunication):
    execution: LabExecution

    def terminated(self) -> None:
        self.execution.program_ended(self)

    def reflect(self) -> None:
        """Take the program's end over into the execution."""
        self._reflect_execution_status()  # type: ignore[no-untyped-call]


class _Worker(ExecutionWorker):
    """Evaluates a program; whatever goes wrong ends the execution instead of hanging it."""

    def _execution_logic(self) -> None:
        try:
            super()._execution_logic()  # type: ignore[no-untyped-call]
        except Exception as error:
            LOG.exception("execution %s", self._evaluation_details.execution_details.arn)
            communication: Any = self._execution_communication
            communication.execution.fail("States.Runtime", f"{type(error).__name__}: {error}")

    def start(self) -> None:
        # moto keeps every thread for ever in a list for its own tests.
        TMP_THREADS[:] = [thread for thread in TMP_THREADS if thread.is_alive()]
        super().start()  # type: ignore[no-untyped-call]


class LabExecution(Execution):
    """An execution that ends once, at once when stopped, and tells EventBridge."""

    on_change: Callable[[LabExecution], None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._end_lock = threading.Lock()

    def _get_start_execution_worker_comm(self) -> _Communication:
        return _Communication(self)

    def _get_start_execution_worker(self) -> _Worker:
        made = super()._get_start_execution_worker()
        worker = _Worker.__new__(_Worker)
        worker.__dict__.update(made.__dict__)
        return worker

    def get_start_execution_details(self) -> Any:
        """The context object's times are text, not datetimes, which cannot be serialised."""
        details: Any = super().get_start_execution_details()
        details.start_time = self.start_date.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return details

    def start(self) -> None:
        self.exec_status = ExecutionStatus.RUNNING
        self.on_change(self)
        self.exec_status = None
        super().start()

    def program_ended(self, communication: _Communication) -> None:
        """The program came to its end, unless the execution was stopped before."""
        with self._end_lock:
            if self.exec_status in _TERMINAL:
                return
            communication.reflect()
        self.on_change(self)

    def fail(self, error: str, cause: str) -> None:
        """End with an error."""
        self._end(ExecutionStatus.FAILED, error, cause)

    def stop(self, stop_date: datetime.datetime, error: str | None, cause: str | None) -> None:
        if self._end(ExecutionStatus.ABORTED, error or None, cause or None):
            worker = self.exec_worker
            if worker is not None and worker.env is not None:
                worker.stop(stop_date=stop_date, error=error, cause=cause)

    def _end(self, status: ExecutionStatus, error: str | None, cause: str | None) -> bool:
        with self._end_lock:
            if self.exec_status in _TERMINAL:
                return False
            self.stop_date = _now()
            self.error, self.cause = error, cause
            self.exec_status = status
        self.on_change(self)
        return True


def _status_change(execution: LabExecution) -> dict[str, Any]:
    """The detail of "Step Functions Execution Status Change".

    https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html
    """
    succeeded = execution.exec_status == ExecutionStatus.SUCCEEDED
    return {
        "executionArn": execution.exec_arn,
        "stateMachineArn": execution.state_machine.arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": _milliseconds(execution.start_date),
        "stopDate": _milliseconds(execution.stop_date),
        "input": execution.execution_input,
        "output": json.dumps(execution.output) if succeeded else None,
        "inputDetails": {"included": True},
        "outputDetails": {"included": True} if succeeded else None,
        "error": execution.error,
        "cause": execution.cause,
    }


def _milliseconds(moment: datetime.datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


# -- the API


_moto_create = StepFunctionResponse.create_state_machine
_moto_update = StepFunctionResponse.update_state_machine


def _create_state_machine(self: StepFunctionResponse) -> ActionResult:
    _check_definition(self._get_param("definition"))
    return _moto_create(self)


def _update_state_machine(self: StepFunctionResponse) -> ActionResult:
    if self._get_param("definition") is not None:
        _check_definition(self._get_param("definition"))
    return _moto_update(self)


def _check_definition(text: str) -> None:
    """Refuse what does not parse, and transitions to states that are not there."""
    try:
        document = json.loads(text)
        AmazonStateLanguageParser.parse(text)
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


def _start_execution(self: StepFunctionResponse) -> ActionResult:
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


def _stop_execution(self: StepFunctionResponse) -> ActionResult:
    execution: Any = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    execution.stop(_now(), self._get_param("error"), self._get_param("cause"))
    return ActionResult({"stopDate": execution.stop_date})


def _describe_execution(self: StepFunctionResponse) -> ActionResult:
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
        }
    )


def _summary(execution: Any) -> dict[str, Any]:
    return {
        "executionArn": execution.exec_arn,
        "stateMachineArn": execution.state_machine_arn,
        "name": execution.name,
        "status": execution.status,
        "startDate": execution.start_date,
        "stopDate": execution.stop_date if execution.exec_status in _TERMINAL else None,
    }


def _list_executions(self: StepFunctionResponse) -> ActionResult:
    found, next_token = self.stepfunction_backend.list_executions(
        self._get_param("stateMachineArn"),
        status_filter=self._get_param("statusFilter"),
        max_results=self._get_int_param("maxResults"),
        next_token=self._get_param("nextToken"),
    )
    return ActionResult(
        {"executions": [_summary(execution) for execution in found], "nextToken": next_token}
    )


def _get_execution_history(self: StepFunctionResponse) -> ActionResult:
    execution: Any = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    worker = execution.exec_worker
    events = (
        list(worker.env.event_manager.get_event_history())
        if worker is not None and worker.env is not None
        else []
    )
    if self._get_param("reverseOrder"):
        events.reverse()
    start = int(self._get_param("nextToken") or 0)
    end = start + (self._get_int_param("maxResults") or 1000)
    return ActionResult(
        {"events": events[start:end], "nextToken": str(end) if end < len(events) else None}
    )


# -- the interpreter


_DISTRIBUTED = distributed_iteration_component.DistributedIterationComponent
_ITEM_WORKER = distributed_item_processor_worker.DistributedItemProcessorWorker
_moto_map_run = _DISTRIBUTED._map_run
_moto_parse = AmazonStateLanguageParser.parse


def _map_run(self: Any, env: Environment, eval_input: Any) -> None:
    """moto's Map Run, failing when more items failed than are tolerated."""
    _moto_map_run(self, env, eval_input)
    record = eval_input.map_run_record
    counts = record.item_counter
    total = counts.total.get()
    failed = counts.failed.get() + counts.timed_out.get()
    if not env.is_running() or not total or not failed:
        return
    too_many = failed > (record.tolerated_failure_count or 0)
    too_large_a_share = failed * 100.0 / total > (record.tolerated_failure_percentage or 0.0)
    # Either threshold, when given, fails the Map Run; none given tolerates nothing.
    by_count = record.tolerated_failure_count not in (None, 0)
    by_share = record.tolerated_failure_percentage not in (None, 0.0)
    exceeded = (
        (by_count and too_many) or (by_share and too_large_a_share) or not (by_count or by_share)
    )
    if not exceeded:
        return
    kind = StatesErrorNameType.StatesExceedToleratedFailureThreshold
    raise FailureEventException(
        failure_event=FailureEvent(
            env=env,
            error_name=StatesErrorName(typ=kind),
            event_type=HistoryEventType.MapRunFailed,
            event_details=EventDetails(  # type: ignore[typeddict-item]
                executionFailedEventDetails=ExecutionFailedEventDetails(
                    error=kind.to_name(),
                    cause="The specified tolerated failure threshold was exceeded",
                )
            ),
        )
    )


def _eval_pool(self: Any, job: Any, worker_frame: Environment) -> None:
    """moto's loop over items, as a loop: its recursion ends at some hundred items.

    The state of a stopped execution is looked at before each item, so that none is begun.
    """
    while job is not None:
        if not worker_frame.is_running():
            job.job_output = None
            self._map_run_record.item_counter.aborted.count()
        else:
            frame = worker_frame.open_inner_frame()
            self._eval_job(env=frame, job=job)
            worker_frame.delete_frame(frame)
        failed = isinstance(job.job_output, Exception) or self.stopped()
        following = None if failed else self._job_pool.next_job()
        if following is None:
            # The frame goes before the job: the map state waits for jobs, not for workers.
            self._env.delete_frame(worker_frame)
        self._job_pool.close_job(job)
        job = following


def _wait_interval(self: WaitFunction, env: Environment, wait_seconds: float) -> None:
    """Wait by the monotonic clock; moto's counts whole seconds and may wait one too many."""
    deadline = time.monotonic() + wait_seconds
    while (remaining := deadline - time.monotonic()) > 0 and env.is_running():
        env.program_state_event.wait(remaining)


def _parse(definition: str) -> Any:
    """moto's parser, given numbers as it can read them."""
    return _moto_parse(json.dumps(_readable(json.loads(definition))))


def _readable(value: Any) -> Any:
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: (
            float(item)
            if key in ("ToleratedFailurePercentage", "BackoffRate") and isinstance(item, int)
            else _readable(item)
        )
        for key, item in value.items()
    }


class _TaskClients:
    """Clients for tasks; a task that names a role acts with that role's credentials."""

    def __init__(self, endpoint_url: str, admin: dict[str, str]) -> None:
        self._endpoint_url, self._admin = endpoint_url, admin
        self._clients: dict[tuple[str, str | None], tuple[float, Any]] = {}
        self._lock = threading.Lock()

    def client(self, region: str, service: str, state_credentials: Any = None) -> Any:
        """Takes the place of moto's `boto_client_for`."""
        role = getattr(state_credentials, "role_arn", None)
        with self._lock:
            made, client = self._clients.get((service, role), (0.0, None))
            if client is None or time.monotonic() - made > SESSION_SECONDS / 2:
                client = boto3.client(
                    service,  # type: ignore[call-overload]
                    region_name=region,
                    endpoint_url=self._endpoint_url,
                    config=Config(
                        parameter_validation=False,
                        retries={"total_max_attempts": 1},
                        read_timeout=960,
                        max_pool_connections=64,
                    ),
                    **self._keys(role),
                )
                self._clients[service, role] = (time.monotonic(), client)
            return client

    def _keys(self, role: str | None) -> dict[str, str]:
        if role is None:
            return self._admin
        credentials = assume_role(role, "StepFunctions")
        return {
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_session_token": credentials.session_token or "",
        }


def _checked_map_run(authorizer: Authorizer) -> Callable[..., None]:
    """The Map Run, begun only if the state machine's role may start child executions.

    Items are run inside the interpreter here, so that no StartExecution is ever seen.
    """

    def map_run(self: Any, env: Environment, eval_input: Any) -> None:
        machine = env.states.context_object.context_object_data["StateMachine"]["Id"]
        role = env.aws_execution_details.role_arn
        try:
            authorizer.require(role, map_run_needs(machine), {})
        except AccessDenied as denied:
            kind = StatesErrorNameType.StatesRuntime
            raise FailureEventException(
                failure_event=FailureEvent(
                    env=env,
                    error_name=StatesErrorName(typ=kind),
                    event_type=HistoryEventType.MapRunFailed,
                    event_details=EventDetails(  # type: ignore[typeddict-item]
                        executionFailedEventDetails=ExecutionFailedEventDetails(
                            error=kind.to_name(), cause=str(denied)
                        )
                    ),
                )
            ) from denied
        _map_run(self, env, eval_input)

    return map_run


def install(
    *, endpoint_url: str, admin: dict[str, str], router: EventRouter, authorizer: Authorizer
) -> None:
    """Make moto's Step Functions behave as AWS's."""

    def announce(execution: LabExecution) -> None:
        router.put(
            source="aws.states",
            detail_type="Step Functions Execution Status Change",
            resources=[execution.exec_arn],
            detail=_status_change(execution),
        )

    LabExecution.on_change = staticmethod(announce)
    setattr(parser_models, "Execution", LabExecution)  # noqa: B010 - moto exports no such name
    clients = _TaskClients(endpoint_url, admin)
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if name.startswith("moto.stepfunctions.parser") and hasattr(module, "boto_client_for"):
            setattr(module, "boto_client_for", clients.client)  # noqa: B010
    replacements: list[tuple[type, str, Any]] = [
        (StepFunctionResponse, "create_state_machine", _create_state_machine),
        (StepFunctionResponse, "update_state_machine", _update_state_machine),
        (StepFunctionResponse, "start_execution", _start_execution),
        (StepFunctionResponse, "stop_execution", _stop_execution),
        (StepFunctionResponse, "describe_execution", _describe_execution),
        (StepFunctionResponse, "list_executions", _list_executions),
        (StepFunctionResponse, "get_execution_history", _get_execution_history),
        (_DISTRIBUTED, "_map_run", _checked_map_run(authorizer)),
        (_ITEM_WORKER, "_eval_pool", _eval_pool),
        (WaitFunction, "_wait_interval", _wait_interval),
        (AmazonStateLanguageParser, "parse", staticmethod(_parse)),
    ]
    for owner, attribute, replacement in replacements:
        setattr(owner, attribute, replacement)
