"""Executions that end once, end immediately when stopped, and report every change."""

from __future__ import annotations

import datetime
import json
import logging
import threading
from collections.abc import Callable
from typing import Any

from moto.stepfunctions.parser import models as parser_models
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.backend.execution import (
    BaseExecutionWorkerCommunication,
    Execution,
)
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker
from moto.stepfunctions.parser.utils import TMP_THREADS

from lab.aws.clock import now
from lab.aws.event_bridge import EventRouter

LOG = logging.getLogger(__name__)

TERMINAL = (
    ExecutionStatus.SUCCEEDED,
    ExecutionStatus.FAILED,
    ExecutionStatus.ABORTED,
    ExecutionStatus.TIMED_OUT,
)


def install(router: EventRouter) -> None:
    """Make moto use these executions, which report their changes to EventBridge."""

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

    setattr(parser_models, "Execution", Announced)  # noqa: B010 - moto exports no such name


class _Communication(BaseExecutionWorkerCommunication):
    execution: LabExecution

    def terminated(self) -> None:
        self.execution.program_ended(self)

    def reflect(self) -> None:
        """Copy the final status of the program to the execution."""
        self._reflect_execution_status()  # type: ignore[no-untyped-call]


class _Worker(ExecutionWorker):
    """Evaluates a program. An error in it ends the execution, which would hang otherwise."""

    def _execution_logic(self) -> None:
        try:
            super()._execution_logic()  # type: ignore[no-untyped-call]
        except Exception as error:
            LOG.exception("execution %s", self._evaluation_details.execution_details.arn)
            communication: Any = self._execution_communication
            communication.execution.fail("States.Runtime", f"{type(error).__name__}: {error}")

    def start(self) -> None:
        # moto keeps every thread in a list forever, for its own tests.
        TMP_THREADS[:] = [thread for thread in TMP_THREADS if thread.is_alive()]
        super().start()  # type: ignore[no-untyped-call]


class LabExecution(Execution):
    """An execution that ends once, ends immediately when stopped, and tells EventBridge."""

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
