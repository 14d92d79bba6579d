"""EventBridge: delivers events of the lab's services to rules' targets, and runs schedules."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from moto.awslambda_simple.models import lambda_simple_backends
from moto.events.models import Rule, events_backends

from lab.aws.account import ACCOUNT_ID, REGION
from lab.aws.awslambda.runtime import LambdaRuntime
from lab.aws.clock import now
from lab.faults.leases import Injector, Orders

LOG = logging.getLogger(__name__)

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
_OTHER_INPUTS = {"Input", "InputPath", "InputTransformer"}
_TICK_SECONDS = 1.0


class EventRouter:
    """Matches events with the rules of the default bus and delivers them."""

    def __init__(self, runtime: LambdaRuntime) -> None:
        self._runtime = runtime
        self._stopped = threading.Event()
        self._due: dict[str, float] = {}
        self._losses = Orders()
        self._complained: set[str] = set()
        threading.Thread(target=self._run_schedules, name="schedules", daemon=True).start()

    def stop(self) -> None:
        """Stop running schedules."""
        self._stopped.set()

    def put(
        self, *, source: str, detail_type: str, resources: Sequence[str], detail: Mapping[str, Any]
    ) -> None:
        """Deliver an event to the targets of every enabled rule whose pattern matches."""
        # Schedules go on.
        if any(order.on == source and order.strikes() for order in self._losses):
            return
        event = self._event(source, detail_type, resources, detail)
        for rule in self._rules():
            pattern = rule.event_pattern
            if rule.state != "ENABLED" or not pattern.get_pattern():
                continue
            if pattern.matches_event(event):  # type: ignore[arg-type]
                for target in rule.targets:
                    self._deliver(rule, target, event)

    @property
    def injectors(self) -> Mapping[str, Injector]:
        """The faults by name."""
        return {"event-lost": self._losses.obeying}

    def _event(
        self, source: str, detail_type: str, resources: Sequence[str], detail: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": detail_type,
            "source": source,
            "account": ACCOUNT_ID,
            "time": now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": REGION,
            "resources": list(resources),
            "detail": dict(detail),
        }

    def _rules(self) -> list[Rule]:
        backend = events_backends[ACCOUNT_ID][REGION]
        return list(backend.event_buses["default"].rules.values())

    # -- targets

    def _deliver(self, rule: Rule, target: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        arn = target["Arn"]
        try:
            if arn.split(":")[2] != "lambda" or _OTHER_INPUTS & set(target):
                raise NotImplementedError("only functions that take the event are targets here")
            self._require_permission(rule, arn)
            self._runtime.invoke_event(arn, json.dumps(event).encode())
        except Exception as error:
            LOG.warning("rule %s, target %s: %s", rule.name, arn, error)

    def _require_permission(self, rule: Rule, arn: str) -> None:
        """Check that the function's policy lets the rule invoke it, as on AWS."""
        backend = lambda_simple_backends[ACCOUNT_ID][REGION]
        function = backend.get_function(arn)
        for statement in function.policy.statements:
            principal = statement.get("Principal", {})
            if isinstance(principal, dict) and principal.get("Service") != "events.amazonaws.com":
                continue
            condition = statement.get("Condition", {})
            sources = [
                value
                for operands in condition.values()
                for key, value in operands.items()
                if key.lower() == "aws:sourcearn"
            ]
            if not sources or rule.arn in sources:
                return
        raise PermissionError(
            f"the policy of {function.function_name} does not let events.amazonaws.com invoke it"
            f" for {rule.arn}"
        )

    # -- schedules

    def _run_schedules(self) -> None:
        while not self._stopped.wait(_TICK_SECONDS):
            try:
                self._tick()
            except Exception:
                LOG.exception("schedules")

    def _tick(self) -> None:
        moment = time.monotonic()
        rules = [rule for rule in self._rules() if rule.scheduled_expression]
        for arn in set(self._due) - {rule.arn for rule in rules}:
            del self._due[arn]
        for rule in rules:
            match = _RATE.fullmatch(rule.scheduled_expression or "")
            if match is None:
                if rule.arn not in self._complained:
                    self._complained.add(rule.arn)
                    LOG.warning(
                        "rule %s: %s is not run; only rate(...) is",
                        rule.name,
                        rule.scheduled_expression,
                    )
                continue
            period = int(match[1]) * _UNIT_SECONDS[match[2]]
            due = self._due.setdefault(rule.arn, moment + period)
            if moment < due:
                continue
            self._due[rule.arn] = moment + period
            if rule.state == "ENABLED":
                event = self._event("aws.events", "Scheduled Event", [rule.arn], {})
                for target in rule.targets:
                    self._deliver(rule, target, event)
