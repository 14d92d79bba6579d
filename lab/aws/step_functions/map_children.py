"""The executions of a Map Run's items, which can be listed and stopped like any other.

The lab runs items inside the interpreter of the execution that has the map.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.itemprocessor import (
    map_run_record,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import (
    ProgramEnded,
    ProgramError,
    ProgramStopped,
    ProgramTimedOut,
)

from lab.aws.clock import now

_STATUS = {
    ProgramEnded: ExecutionStatus.SUCCEEDED,
    ProgramError: ExecutionStatus.FAILED,
    ProgramStopped: ExecutionStatus.ABORTED,
    ProgramTimedOut: ExecutionStatus.TIMED_OUT,
}


@dataclass
class MapChild:
    """The execution of one item.

    Attributes:
        machine_arn: the ARN of the state machine, with the Map Run's label.
        frame: what the interpreter knows of it.
        name: its name.
        start_date: when it started.
        stop_date: when it ended, or None.
    """

    machine_arn: str
    frame: Environment
    name: str = field(default_factory=lambda: str(uuid.uuid4()))
    start_date: datetime.datetime = field(default_factory=now)
    stop_date: datetime.datetime | None = None

    @property
    def arn(self) -> str:
        """The ARN that people see."""
        return f"{self.machine_arn.replace(':stateMachine:', ':execution:')}:{self.name}"

    @property
    def status(self) -> str:
        """The status in Step Functions' words."""
        return _STATUS.get(type(self.frame.program_state()), ExecutionStatus.RUNNING)

    def stop(self, error: str | None, cause: str | None) -> datetime.datetime:
        """End it, if it still runs. The map goes on with the next item. Returns its end."""
        self.frame.set_stop(stop_date=now(), error=error, cause=cause)
        self.stop_date = self.stop_date or now()
        return self.stop_date

    def summary(self, map_run_arn: str) -> dict[str, Any]:
        """The entry in the list of a Map Run's executions."""
        return {
            "executionArn": self.arn,
            "stateMachineArn": self.machine_arn,
            "name": self.name,
            "status": self.status,
            "startDate": self.start_date,
            "stopDate": self.stop_date,
            "mapRunArn": map_run_arn,
        }


def children_of(record: map_run_record.MapRunRecord) -> list[MapChild]:
    """The executions of a Map Run so far."""
    children: list[MapChild] = record.__dict__.setdefault("children", [])
    return children


def map_runs(backend: Any) -> Iterator[map_run_record.MapRunRecord]:
    """The Map Runs of a Region."""
    for execution in backend._get_executions():
        worker = execution.exec_worker
        if worker is not None and worker.env is not None:
            yield from worker.env.map_run_record_pool_manager.get_all()
