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
class Scope:
    """A part of a definition with its own StartAt and States.

    Attributes:
        name: "the machine", or the name of its map or parallel state.
        start: its first state.
        states: its states by name.
    """

    name: str
    start: str | None
    states: Mapping[str, State]


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
    """Read a definition as plain data.

    Raises:
        ValueError: the file cannot be read, or is not an object with States.
    """
    try:
        # The loader in C needs a seventh of the time for a state machine.
        loaded = yaml.load(path.read_text(), yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(loaded, dict) or not isinstance(loaded.get("States"), dict):
        raise ValueError("it has no States")
    return loaded


def placeholders(text: str) -> set[str]:
    """The names of the substitutions in a text, written as `${Name}`."""
    return set(re.findall(r"\$\{(\w+)\}", text))


def scopes(definition: Mapping[str, Any], name: str = "the machine") -> Iterator[Scope]:
    """The machine itself, and each map's processor and each branch in it, at any depth."""
    states = definition.get("States")
    known = states if isinstance(states, dict) else {}
    found = {name: state for name, state in known.items() if isinstance(state, dict)}
    yield Scope(name, definition.get("StartAt"), found)
    for state_name, state in found.items():
        for key in ("ItemProcessor", "Iterator"):
            if isinstance(state.get(key), dict):
                yield from scopes(state[key], state_name)
        for branch in state.get("Branches", []):
            if isinstance(branch, dict):
                yield from scopes(branch, state_name)


def states(definition: Mapping[str, Any]) -> Iterator[tuple[str, State]]:
    """Every state at any depth."""
    for scope in scopes(definition):
        yield from scope.states.items()


def successors(state: State) -> set[str]:
    """The states that can follow a state."""
    found = {state[key] for key in ("Next", "Default") if key in state}
    found |= {choice["Next"] for choice in state.get("Choices", []) if "Next" in choice}
    return found | {catcher["Next"] for catcher in state.get("Catch", []) if "Next" in catcher}


def reachable(scope: Scope) -> set[str]:
    """All states on paths from the start, including names that the scope does not define."""
    reached: set[str] = set()
    front = {scope.start} - {None}
    while front:
        name = str(front.pop())
        reached.add(name)
        front |= successors(scope.states.get(name, {})) - reached
    return reached


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
