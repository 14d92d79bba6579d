"""Executions that end once, end immediately when stopped, and report every change."""

from __future__ import annotations

import datetime
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from moto.stepfunctions.parser.api import ExecutionStatus, HistoryEventType
from moto.stepfunctions.parser.asl.component.common.flow.start_at import StartAt
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.utils import TMP_THREADS

from lab.aws.clock import now
from lab.aws.event_bridge import EventRouter
from lab.aws.step_functions.interpreter import continue_map_run

LOG = logging.getLogger(__name__)

#: How long after its end an execution can be redriven.
REDRIVABLE_DAYS = 14

TERMINAL = (
    ExecutionStatus.SUCCEEDED,
    ExecutionStatus.FAILED,
    ExecutionStatus.ABORTED,
    ExecutionStatus.TIMED_OUT,
)


def announcing(router: EventRouter) -> type[LabExecution]:
    """Executions that report their changes to EventBridge."""

    def announce(execution: LabExecution) -> None:
        router.put(
            source="aws.states",
            detail_type="Step Functions Execution Status Change",
            resources=[execution.exec_arn],
            detail=_status_change(execution),
        )

    class Announced(LabExecution):
        """An execution of this Region."""

        on_change = staticmethod(announce)

    return Announced


class _Communication(BaseExecutionWorkerCommunication):
    execution: LabExecution

    def __init__(self, execution: LabExecution) -> None:
        super().__init__(execution)
        self._attempt = execution.redrive_count

    def terminated(self) -> None:
        # The program of an execution that was redriven since has nothing to say.
        if self._attempt == self.execution.redrive_count:
            self.execution.program_ended(self)

    def reflect(self) -> None:
        """Copy the final status of the program to the execution."""
        self._reflect_execution_status()  # type: ignore[no-untyped-call]


class _Worker(ExecutionWorker):
    """Evaluates a program. An error in it ends the execution, which would hang otherwise."""

    def _execution_logic(self) -> None:
        try:
            self._evaluate()
        except Exception as error:
            LOG.exception("execution %s", self._evaluation_details.execution_details.arn)
            communication: Any = self._execution_communication
            communication.execution.fail("States.Runtime", f"{type(error).__name__}: {error}")

    def _evaluate(self) -> None:
        super()._execution_logic()  # type: ignore[no-untyped-call]

    def _get_evaluation_environment(self) -> Environment:
        env: Environment = super()._get_evaluation_environment()
        env.states.context_object.context_object_data["Execution"]["RedriveCount"] = 0  # type: ignore[typeddict-unknown-key]
        return env

    def start(self) -> None:
        # moto keeps every thread in a list forever, for its own tests.
        TMP_THREADS[:] = [thread for thread in TMP_THREADS if thread.is_alive()]
        super().start()  # type: ignore[no-untyped-call]


class _RedrivenWorker(_Worker):
    """Evaluates a program from the state on that an earlier evaluation did not finish."""

    before: Environment

    def _evaluate(self) -> None:
        communication: Any = self._execution_communication
        execution: LabExecution = communication.execution
        program: Any = self._get_evaluation_entrypoint()
        state, state_input = unfinished_state(self.before)
        program.start_at = StartAt(state)
        env = self._get_evaluation_environment()
        env.states.reset(state_input)
        facts: Any = env.states.context_object.context_object_data["Execution"]
        facts["RedriveCount"] = execution.redrive_count
        facts["RedriveTime"] = now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        # A copy, because a call that the stop interrupted may still add events.
        history: Any = env.event_manager
        history._history_event_list.extend(self.before.event_manager.get_event_history())
        for _ in history._history_event_list:
            history._event_id_gen.get()
        continue_map_run(self.before, env, state)
        self.env = env
        env.event_manager.add_event(
            context=env.event_history_context,
            event_type=HistoryEventType.ExecutionRedriven,
            event_details=EventDetails(  # type: ignore[typeddict-item]
                executionRedrivenEventDetails={"redriveCount": execution.redrive_count}
            ),
        )
        program.eval(env)
        communication.terminated()


def unfinished_state(env: Environment) -> tuple[str, Any]:
    """The state with which a redrive begins, and its input: the last that was entered."""
    for event in reversed(list(env.event_manager.get_event_history())):
        entered: Any = event.get("stateEnteredEventDetails")
        if entered is not None:
            return entered["name"], json.loads(entered["input"])
    raise RuntimeError("the execution entered no state")


class LabExecution(Execution):
    """An execution that ends once, ends immediately when stopped, and reports to EventBridge.

    One that ended otherwise than well can be redriven.
    https://docs.aws.amazon.com/step-functions/latest/dg/redrive-executions.html
    """

    on_change: Callable[[LabExecution], None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._end_lock = threading.Lock()
        self.redrive_count = 0
        self.redrive_date: datetime.datetime | None = None

    @property
    def not_redrivable(self) -> str | None:
        """Why it cannot be redriven, in Step Functions' words; None if it can."""
        if self.exec_status not in TERMINAL:
            return "Execution is RUNNING and cannot be redriven"
        if self.exec_status == ExecutionStatus.SUCCEEDED:
            return "Execution is SUCCEEDED and cannot be redriven"
        if now() - (self.stop_date or now()) > datetime.timedelta(days=REDRIVABLE_DAYS):
            return "Execution has exceeded its redrivable period and cannot be redriven"
        return None

    def redrive(self) -> None:
        """Go on with the state that was not finished."""
        before: Any = self.exec_worker
        with self._end_lock:
            self.redrive_count += 1
            self.redrive_date = now()
            fresh: Any = self._get_start_execution_worker()
            worker = _RedrivenWorker.__new__(_RedrivenWorker)
            worker.__dict__.update(fresh.__dict__)
            worker.before = before.env
            # Until the program goes on, the history is the earlier one.
            worker.env = before.env
            self.exec_worker = worker
            self.stop_date = self.error = self.cause = None
            self.exec_status = ExecutionStatus.RUNNING
        self.on_change(self)
        worker.start()

    def _get_start_execution_worker_comm(self) -> _Communication:
        return _Communication(self)

    def _get_start_execution_worker(self) -> _Worker:
        moto_worker = super()._get_start_execution_worker()
        worker = _Worker.__new__(_Worker)
        worker.__dict__.update(moto_worker.__dict__)
        return worker

    def get_start_execution_details(self) -> Any:
        """The details with times as text, because datetimes cannot be serialized to JSON."""
        details: Any = super().get_start_execution_details()
        details.start_time = self.start_date.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return details

    def start(self) -> None:
        self.exec_status = ExecutionStatus.RUNNING
        self.on_change(self)
        self.exec_status = None
        super().start()

    def program_ended(self, communication: _Communication) -> None:
        """Record the end of the program, unless the execution was stopped before."""
        with self._end_lock:
            if self.exec_status in TERMINAL:
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
            if self.exec_status in TERMINAL:
                return False
            self.stop_date = now()
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
