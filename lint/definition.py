"""Read a definition in the Amazon States Language (JSONPath), and walk through it.

https://states-language.net/spec.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

State = Mapping[str, Any]

#: IAM's name of a service where it differs from the integration's.
_IAM_SERVICES = {"sfn": "states", "cloudwatchlogs": "logs", "eventbridge": "events"}
#: IAM's name of an action where it differs from the integration's.
_IAM_ACTIONS = {("lambda", "invoke"): "InvokeFunction", ("s3", "listObjectsV2"): "ListBucket"}
#: What a task needs besides to wait for the end of the execution that it starts (Step Functions,
#: "IAM policies for calling Step Functions workflow executions").
_TO_AWAIT_EXECUTIONS = (
    "states:DescribeExecution",
    "states:StopExecution",
    "events:PutTargets",
    "events:PutRule",
    "events:DescribeRule",
)


@dataclass(frozen=True)
class Call:
    """A state's call of a service.

    Attributes:
        state: the state's name.
        action: the IAM action, such as `lambda:InvokeFunction`.
        function: the FunctionName of a Lambda call.
    """

    state: str
    action: str
    function: str | None = None


def read(path: Path) -> dict[str, Any]:
    """Read a definition as plain data."""
    # The loader in C needs a seventh of the time for a state machine.
    return dict(yaml.load(path.read_text(), yaml.CSafeLoader))


def placeholders(text: str) -> set[str]:
    """The names of the substitutions in a text, written as `${Name}`."""
    return set(re.findall(r"\$\{(\w+)\}", text))


def states(definition: Any) -> Iterator[tuple[str, State]]:
    """Every state at any depth: those of maps' processors and of branches too."""
    entries = definition.get("States") if isinstance(definition, dict) else None
    for name, state in (entries if isinstance(entries, dict) else {}).items():
        if isinstance(state, dict):
            yield name, state
            inner = (state.get("ItemProcessor"), state.get("Iterator"), *state.get("Branches", []))
            for part in inner:
                yield from states(part)


def calls(definition: Mapping[str, Any]) -> Iterator[Call]:
    """All calls of services in the definition, as IAM actions of the machine's role."""
    for name, state in states(definition):
        resource = state.get("Resource")
        if state.get("Type") == "Task" and isinstance(resource, str):
            yield _call(name, resource, state)
            if re.search(r":states:startExecution\.sync(:2)?$", resource):
                yield from (Call(name, action) for action in _TO_AWAIT_EXECUTIONS)
        for key in ("ItemReader", "ResultWriter"):
            part = state.get(key)
            if isinstance(part, dict) and isinstance(part.get("Resource"), str):
                yield _call(name, part["Resource"], part)
        processor = state.get("ItemProcessor")
        config = processor.get("ProcessorConfig") if isinstance(processor, dict) else None
        if isinstance(config, dict) and config.get("Mode") == "DISTRIBUTED":
            # A Distributed Map starts a child execution of the machine for each item. A redrive
            # of the execution redrives those that failed (Step Functions developer guide, "IAM
            # policies for using Distributed Map states").
            yield Call(name, "states:StartExecution")
            yield Call(name, "states:RedriveExecution")
            yield Call(name, "states:DescribeExecution")


def _call(name: str, resource: str, state: State) -> Call:
    integration = re.search(r":states:[^:]*:[^:]*:(?:aws-sdk:)?(\w+):(\w+)", resource)
    if integration is None:
        # The resource is a function's ARN, or a substitution for one.
        return Call(name, "lambda:InvokeFunction", resource)
    service, action = integration.groups()
    iam_service = _IAM_SERVICES.get(service, service)
    iam_action = _IAM_ACTIONS.get((service, action), action[0].upper() + action[1:])
    arguments = state.get("Parameters")
    function = arguments.get("FunctionName") if isinstance(arguments, dict) else None
    return Call(name, f"{iam_service}:{iam_action}", function if service == "lambda" else None)
