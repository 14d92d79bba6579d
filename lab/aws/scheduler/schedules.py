"""Schedules that run: their target is a state machine, started with the schedule's role."""

from __future__ import annotations

import datetime
import json
import logging
import re
import threading
import uuid
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.scheduler.exceptions import ValidationException
from moto.scheduler.models import EventBridgeSchedulerBackend, Schedule, scheduler_backends

from lab.aws.account import ACCOUNT_ID, REGION, arn
from lab.aws.clients import ClientFactory
from lab.aws.clock import now
from lab.aws.iam.identity import assume_role, trusts
from lab.aws.scheduler.expressions import BadExpression, Expression, parse

LOG = logging.getLogger(__name__)

_TICK_SECONDS = 0.5
_SERVICE = "scheduler.amazonaws.com"
_STATE_MACHINE = re.compile(r"arn:[^:]+:states:[^:]+:\d{12}:stateMachine:\S+")

_moto_create = EventBridgeSchedulerBackend.create_schedule
_moto_update = EventBridgeSchedulerBackend.update_schedule


@dataclass
class _Clock:
    """A schedule as it was last seen, and when it is due next."""

    seen: tuple[Any, ...]
    expression: Expression
    started: datetime.datetime
    due: datetime.datetime | None


class Schedules:
    """Runs the schedules of the Region. `clock` returns the time."""

    def __init__(self, endpoint_url: str, clock: Callable[[], datetime.datetime] = now) -> None:
        self._endpoint_url, self._clock = endpoint_url, clock
        self._clocks: dict[str, _Clock] = {}
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="scheduler", daemon=True).start()

    def stop(self) -> None:
        """Run no more schedules."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_TICK_SECONDS):
            try:
                self._tick()
            except Exception:
                LOG.exception("scheduler")

    def _tick(self) -> None:
        groups = scheduler_backends[ACCOUNT_ID][REGION].schedule_groups.values()
        schedules = {s.arn: s for group in list(groups) for s in list(group.schedules.values())}
        for removed in self._clocks.keys() - schedules.keys():
            del self._clocks[removed]
        for schedule in schedules.values():
            self._advance(schedule)

    def _advance(self, schedule: Schedule) -> None:
        """Invoke the target if the schedule is due, once however long ago it was."""
        zone = zoneinfo.ZoneInfo(schedule.schedule_expression_timezone)
        moment = self._clock().astimezone(zone)
        clock = self._clocks.get(schedule.arn)
        seen = (schedule.schedule_expression, str(zone), schedule.start_date, schedule.state)
        if clock is None or clock.seen != seen:
            started = max(moment, _moment(schedule.start_date, moment))
            expression = parse(schedule.schedule_expression)
            before = moment - datetime.timedelta(microseconds=1)
            clock = _Clock(seen, expression, started, expression.due_after(before, started))
            self._clocks[schedule.arn] = clock
        if clock.due is None or moment < clock.due:
            return
        due, clock.due = clock.due, clock.expression.due_after(moment, clock.started)
        ends = schedule.end_date is not None and due > _moment(schedule.end_date, due)
        if schedule.state == "ENABLED" and not ends:
            try:
                self._invoke(schedule, due)
            except Exception as error:
                LOG.warning("schedule %s: %s", schedule.name, error)

    def _invoke(self, schedule: Schedule, due: datetime.datetime) -> None:
        target = schedule.target
        clients = ClientFactory(self._endpoint_url, assume_role(target["RoleArn"], "scheduler"))
        attributes = {
            "schedule-arn": schedule.arn,
            "scheduled-time": due.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "execution-id": str(uuid.uuid4()),
            "attempt-number": "1",
        }
        text = target.get("Input") or "{}"
        for name, value in attributes.items():
            text = text.replace(f"<aws.scheduler.{name}>", value)
        clients.get("stepfunctions").start_execution(stateMachineArn=target["Arn"], input=text)


def _moment(value: Any, default: datetime.datetime) -> datetime.datetime:
    """A time of the API, seconds since 1970, in the zone of the default, which None means."""
    if value is None:
        return default
    return datetime.datetime.fromtimestamp(float(value), tz=default.tzinfo)


# -- what is refused


def _check(request: Mapping[str, Any]) -> None:
    """Refuse a schedule that EventBridge Scheduler would refuse. Raises ValidationException."""
    try:
        parse(request["schedule_expression"])
    except BadExpression as error:
        raise ValidationException(str(error)) from error
    zone = request.get("schedule_expression_timezone") or "UTC"
    if zone not in zoneinfo.available_timezones():
        raise ValidationException(f"Invalid ScheduleExpressionTimezone {zone}.")
    window = request.get("flexible_time_window") or {}
    if (window.get("Mode") == "FLEXIBLE") != bool(window.get("MaximumWindowInMinutes")):
        raise ValidationException(
            "MaximumWindowInMinutes is required in FLEXIBLE mode, and only there."
        )
    target = request["target"]
    if not _STATE_MACHINE.fullmatch(target["Arn"]):
        raise ValidationException(f"{target['Arn']}: the lab's schedules start state machines only")
    text = target.get("Input")
    if text:
        try:
            json.loads(text)
        except ValueError as error:
            raise ValidationException("Target Input must be valid JSON.") from error
    if not _may_be_assumed(target["RoleArn"], request):
        raise ValidationException(
            "The execution role you provide must allow AWS EventBridge Scheduler to assume the"
            " role."
        )


def _may_be_assumed(role_arn: str, request: Mapping[str, Any]) -> bool:
    group = arn("scheduler", f"schedule-group/{request.get('group_name') or 'default'}")
    context = {"aws:sourceaccount": [ACCOUNT_ID], "aws:sourcearn": [group]}
    return trusts(role_arn, _SERVICE, context)


def create_schedule(self: EventBridgeSchedulerBackend, **request: Any) -> Schedule:
    _check(request)
    return _moto_create(self, **request)


def update_schedule(self: EventBridgeSchedulerBackend, **request: Any) -> Schedule:
    _check(request)
    return _moto_update(self, **request | {"state": request.get("state") or "ENABLED"})
