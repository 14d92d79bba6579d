"""moto's interpreter of state machines, changed where it differs from AWS's."""

from __future__ import annotations

import copy
import functools
import json
import logging
import time
from typing import Any

from moto.stepfunctions.parser.api import ExecutionFailedEventDetails, HistoryEventType
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
from moto.stepfunctions.parser.asl.eval.event.event_manager import EventManager
from moto.stepfunctions.parser.asl.eval.program_state import ProgramEnded
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

from lab.aws.authorization.actions import map_run_needs
from lab.aws.authorization.authorizer import AccessDenied, Authorizer
from lab.aws.clock import now
from lab.aws.step_functions.map_children import MapChild, children_of

LOG = logging.getLogger(__name__)
# The interpreter logs every error that a state machine handles. It also logs that it ignores
# tolerated failures, which is no longer true here.
logging.getLogger("moto.stepfunctions").setLevel(logging.CRITICAL)


_DISTRIBUTED = distributed_iteration_component.DistributedIterationComponent
_ITEM_WORKER = distributed_item_processor_worker.DistributedItemProcessorWorker
_moto_map_run = _DISTRIBUTED._map_run
_moto_parse = AmazonStateLanguageParser.parse


def map_run(self: Any, authorizer: Authorizer, env: Environment, eval_input: Any) -> None:
    """Run moto's Map Run, and remember how far it came for a redrive.

    It starts only if the state machine's role may start child executions. The lab runs items inside
    the interpreter, so no StartExecution call would check this.
    """
    machine = env.states.context_object.context_object_data["StateMachine"]["Id"]
    role = env.aws_execution_details.role_arn
    try:
        authorizer.require(role, map_run_needs(machine), {})
    except AccessDenied as denied:
        raise _map_run_failed(env, StatesErrorNameType.StatesRuntime, str(denied)) from denied
    # Only the first map of a redriven execution goes on with a Map Run.
    # All frames of an execution share the pool of records.
    shared = env.map_run_record_pool_manager.__dict__
    done = shared.pop("items_done", None)
    if done is not None:
        eval_input.map_run_record.__dict__["items_done"] = done
    shared["map_state"] = eval_input.state_name
    _moto_map_run(self, env, eval_input)


def _is_exceeded(record: Any, items: int) -> bool:
    """Whether more of a Map Run's items failed than it tolerates."""
    failed = record.item_counter.failed.get() + record.item_counter.timed_out.get()
    if not failed:
        return False
    count, percentage = record.tolerated_failure_count, record.tolerated_failure_percentage
    # Each given threshold can fail the Map Run; with none given, any failed item does.
    by_count = count not in (None, 0)
    by_share = percentage not in (None, 0.0)
    too_many = by_count and failed > count
    too_large_a_share = by_share and failed * 100.0 / items > percentage
    return too_many or too_large_a_share or not (by_count or by_share)


def _map_run_failed(
    env: Environment, kind: StatesErrorNameType, cause: str
) -> FailureEventException:
    return FailureEventException(
        failure_event=FailureEvent(
            env=env,
            error_name=StatesErrorName(typ=kind),
            event_type=HistoryEventType.MapRunFailed,
            event_details=EventDetails(  # type: ignore[typeddict-item]
                executionFailedEventDetails=ExecutionFailedEventDetails(
                    error=kind.to_name(), cause=cause
                )
            ),
        )
    )


def eval_pool(self: Any, job: Any, worker_frame: Environment) -> None:
    """Work through the items in a loop; moto's recursion fails at a few hundred items.

    The loop checks before each item that the execution still runs, so that a stopped one starts
    no more items. The Map Run fails at once when more items failed than it tolerates.
    """
    done = _items_done(self._map_run_record)
    while job is not None:
        if job.job_index in done:
            # A redrive runs only the items that did not succeed.
            job.job_output = {}
            self._map_run_record.item_counter.total.count()
            self._map_run_record.item_counter.succeeded.count()
        elif not worker_frame.is_running():
            job.job_output = None
            self._map_run_record.item_counter.aborted.count()
        else:
            frame = worker_frame.open_inner_frame()
            # The execution of an item has a history of its own, and moto's items share one.
            frame.event_manager = EventManager()
            child = MapChild(self._map_run_record.map_state_machine_arn, frame)
            children_of(self._map_run_record).append(child)
            self._eval_job(env=frame, job=job)
            child.stop_date = child.stop_date or now()
            worker_frame.delete_frame(frame)
            if job.job_output is not None and _has_succeeded(frame):
                done.add(job.job_index)
        if worker_frame.is_running() and _is_exceeded(
            self._map_run_record, self._job_pool._jobs_number
        ):
            job.job_output = _map_run_failed(
                worker_frame,
                StatesErrorNameType.StatesExceedToleratedFailureThreshold,
                "The specified tolerated failure threshold was exceeded",
            )
        failed = isinstance(job.job_output, Exception) or self.stopped()
        following = None if failed else self._job_pool.next_job()
        if following is None:
            # Delete the frame before closing the job: the map state waits for jobs, not workers.
            self._env.delete_frame(worker_frame)
        self._job_pool.close_job(job)
        job = following


def _has_succeeded(frame: Environment) -> bool:
    """Whether the program of an item came to its end."""
    return isinstance(frame.program_state(), ProgramEnded)


def _items_done(record: Any) -> set[int]:
    """The positions of a Map Run's items that have succeeded."""
    done: set[int] = record.__dict__.setdefault("items_done", set())
    return done


def continue_map_run(before: Environment, env: Environment, state: str) -> None:
    """Let a redriven execution go on with the Map Run that its unfinished state had begun.

    On AWS the unsuccessful items go on with the state that they did not finish. Here they begin
    again with their first state.
    """
    earlier = before.map_run_record_pool_manager
    if earlier.__dict__.get("map_state") == state:
        done = _items_done(list(earlier.get_all())[-1])
        env.map_run_record_pool_manager.__dict__["items_done"] = done


def wait_interval(self: WaitFunction, env: Environment, wait_seconds: float) -> None:
    """Wait by the monotonic clock; moto counts whole seconds and may wait one too many."""
    deadline = time.monotonic() + wait_seconds
    while (remaining := deadline - time.monotonic()) > 0 and env.is_running():
        env.program_state_event.wait(remaining)


def parse(definition: str) -> Any:
    """A program of its own for each execution: one that ran has state of its run."""
    program, tree = parsed(definition)
    return copy.deepcopy(program), tree


# A parse takes a quarter of a second, a copy a twentieth of that.
@functools.lru_cache(maxsize=8)
def parsed(definition: str) -> tuple[Any, Any]:
    """Parse a definition with moto's parser, after writing its numbers in a form that it reads.

    Raises the parser's errors.
    """
    program, tree = _moto_parse(json.dumps(_readable(json.loads(definition))))
    return program, tree


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
