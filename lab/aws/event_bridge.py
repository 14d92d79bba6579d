"""EventBridge: events of the lab's services reach their rules' targets; schedules run."""

from __future__ import annotations

import datetime
import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moto.awslambda_simple.models import lambda_simple_backends
from moto.events.models import Rule, events_backends

if TYPE_CHECKING:
    from .services import Services

LOG = logging.getLogger(__name__)

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86400}
_PLACEHOLDER = re.compile(r"<([^<>\s]+)>")
_TICK_SECONDS = 1.0


class EventRouter:
    """Matches events with the rules of the default bus and delivers them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stopped = threading.Event()
        self._due: dict[str, float] = {}
        self._complained: set[str] = set()
        threading.Thread(target=self._run_schedules, name="schedules", daemon=True).start()

    def stop(self) -> None:
        """Run no more schedules."""
        self._stopped.set()

    def put(
        self, *, source: str, detail_type: str, resources: Sequence[str], detail: Mapping[str, Any]
    ) -> None:
        """Give an event to every enabled rule whose pattern matches."""
        event = self._event(source, detail_type, resources, detail)
        for rule in self._rules():
            if rule.state == "ENABLED" and rule.event_pattern.get_pattern():
                self.offer(rule, event)

    def offer(self, rule: Rule, event: Mapping[str, Any]) -> None:
        """Deliver an event to a rule's targets if the pattern matches."""
        if rule.event_pattern.matches_event(event):  # type: ignore[arg-type]
            for target in rule.targets:
                self._deliver(rule, target, event)

    def _event(
        self, source: str, detail_type: str, resources: Sequence[str], detail: Mapping[str, Any]
    ) -> dict[str, Any]:
        now = datetime.datetime.now(tz=datetime.UTC)
        return {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": detail_type,
            "source": source,
            "account": self._services.account_id,
            "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": self._services.region,
            "resources": list(resources),
            "detail": dict(detail),
        }

    def _rules(self) -> list[Rule]:
        backend = events_backends[self._services.account_id][self._services.region]
        return list(backend.event_buses["default"].rules.values())

    # -- targets

    def _deliver(self, rule: Rule, target: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        arn = target["Arn"]
        try:
            payload = _input(target, event)
            service = arn.split(":")[2]
            match service:
                case "lambda":
                    self._require_permission(rule, arn)
                    self._services.lambda_runtime.invoke_event(arn, payload.encode())
                case "states":
                    self._services.clients.get("stepfunctions").start_execution(
                        stateMachineArn=arn, input=payload
                    )
                case "sns":
                    self._services.clients.get("sns").publish(TopicArn=arn, Message=payload)
                case "sqs":
                    sqs = self._services.clients.get("sqs")
                    queue = sqs.get_queue_url(QueueName=arn.rsplit(":", 1)[1])
                    sqs.send_message(QueueUrl=queue["QueueUrl"], MessageBody=payload)
                case _:
                    raise NotImplementedError(f"targets of {service} are not supported")
        except Exception as error:
            LOG.warning("rule %s, target %s: %s", rule.name, arn, error)

    def _require_permission(self, rule: Rule, arn: str) -> None:
        """The function's policy must let EventBridge in, as on AWS."""
        backend = lambda_simple_backends[self._services.account_id][self._services.region]
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
        now = time.monotonic()
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
            due = self._due.setdefault(rule.arn, now + period)
            if now < due:
                continue
            self._due[rule.arn] = now + period
            if rule.state == "ENABLED":
                event = self._event("aws.events", "Scheduled Event", [rule.arn], {})
                for target in rule.targets:
                    self._deliver(rule, target, event)


def _input(target: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """What a target receives: the event, a part of it, a constant, or a template filled in."""
    if target.get("Input"):
        return str(target["Input"])
    if target.get("InputPath"):
        return json.dumps(_at(event, target["InputPath"]))
    transformer = target.get("InputTransformer")
    if not transformer:
        return json.dumps(event)
    values = {name: _at(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}
    values["aws.events.event"] = event
    values["aws.events.event.json"] = event
    template = str(transformer["InputTemplate"])

    def replace(match: re.Match[str]) -> str:
        if match[1] not in values:
            return match[0]
        value = values[match[1]]
        quotes = len(re.findall(r'(?<!\\)"', template[: match.start()]))
        if quotes % 2 == 0:
            return json.dumps(value)
        text = value if isinstance(value, str) else json.dumps(value)
        return json.dumps(text)[1:-1]

    return _PLACEHOLDER.sub(replace, template)


def _at(event: Any, path: str) -> Any:
    found = event
    for part in path.removeprefix("$").split("."):
        if part:
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def install(router: EventRouter) -> None:
    """Let PutEvents deliver through the router."""

    def send_to_targets(
        self: Rule, original_event: Mapping[str, Any], transform_input: bool = True
    ) -> None:
        if self.state == "ENABLED" and self.event_pattern.get_pattern():
            router.offer(self, original_event)

    Rule.send_to_targets = send_to_targets  # type: ignore[method-assign]
