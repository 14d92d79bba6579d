"""Holds what one acceptance recorded against another: shapes, codes and the order of states.

Both made the same calls, because the same script made them. So the answers of AWS and of the lab
to one call can be compared, although every id, name and time differs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acceptance.archive import Archive, Line

#: What differs between any two accounts and times, by what stands for it.
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8,}\b"), "HEX"),
    # CloudFormation's random part of a name; it is cut where the name would be too long.
    (re.compile(r"-[A-Z0-9]{3,}\b"), "-NAME"),
    (re.compile(r"-[a-z0-9]{11,13}(?![a-z0-9])"), "-NAME"),
    (re.compile(r"[A-Za-z0-9+/=_]{40,}"), "TOKEN"),
    (re.compile(r"\d+"), "N"),
)
#: Parameters that are another one in each call, or follow from the content.
_OPAQUE = re.compile(r"token$|^uploadid$|^etag$|^checksumcrc", re.I)
#: The code of a refusal. A role that is seconds old meets it until AWS knows the role.
_REFUSAL = re.compile(r"^(Unauthorized|AccessDenied)")
#: Fields whose values are the states that something goes through.
_STATE = re.compile(r"(?:^|[.])(?:status|\w*Status|state|phase)$")
#: The answers that are a history, and the field by which one thing is followed through it.
_HISTORIES = {"DescribeStackEvents": ("StackEvents", "LogicalResourceId", "ResourceStatus")}


@dataclass
class Answers:
    """The answers to one call, which may have been repeated."""

    codes: list[str] = field(default_factory=list)
    #: The fields of the answers, by the states that they have.
    shapes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    states: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: What its program had last seen of a thing's state when it made the call.
    during: set[str] = field(default_factory=set)


def differences(recorded: Archive, replayed: Archive) -> list[str]:
    """Every difference between the answers of `recorded` and of `replayed`, a sentence each."""
    first, second = _by_call(recorded.calls), _by_call(replayed.calls)
    lines = []
    for call in sorted(first.keys() | second.keys()):
        if call in first and call in second:
            lines += [f"{call}: {text}" for text in _between(first[call], second[call])]
        elif call in first and first[call].during & _seen(second):
            lines.append(f"{call}: only the archive has this call")
        elif call in second and second[call].during & _seen(first):
            lines.append(f"{call}: only the replay made this call")
    before, after = _by_function(recorded.functions), _by_function(replayed.functions)
    for call in sorted(before.keys() | after.keys()):
        codes, again = (_without_first_refusals(each.get(call, set())) for each in (before, after))
        if codes != again:
            lines.append(f"{call}: {_listed(codes)}; in the replay {_listed(again)}")
    return lines


def _by_call(lines: Iterable[Line]) -> Mapping[str, Answers]:
    answers: dict[str, Answers] = defaultdict(Answers)
    last: dict[str, str] = {}
    for line in lines:
        parameters = _constant(json.dumps(_plain(line["parameters"]), sort_keys=True))
        call = f"{line['part']}, {line['program']}: {line['service']} {line['operation']}"
        program = f"{line['part']}, {line['program']}"
        of_call = answers[f"{call} {parameters}"]
        of_call.during.add(last.get(program, ""))
        states = _add(of_call, line)
        if states:
            last[program] = states
    return answers


def _seen(answers: Mapping[str, Answers]) -> set[str]:
    """The states that a record has. What one does in a state that passes soon, another may not."""
    return {"", *(states for of_call in answers.values() for states in of_call.shapes)}


def _add(answers: Answers, line: Line) -> str:
    """Add an answer to those of its call. Returns the states that it has."""
    error = line["error"]
    code = f"{line['status']} {_constant(error['Code'])}" if error else str(line["status"])
    if code not in answers.codes:
        answers.codes.append(code)
    if error:
        return ""
    states = defaultdict(list)
    for path, value in _values(line["answer"]):
        if _STATE.search(path) and isinstance(value, str):
            states[path].append(value)
    single = {path: values[0] for path, values in states.items() if len(values) == 1}
    key = ", ".join(single.values())
    answers.shapes[key] |= set(_paths(line["answer"]))
    history = _HISTORIES.get(line["operation"])
    if history is not None:
        items, name, state = history
        for event in reversed(line["answer"].get(items, [])):
            _follow(answers.states[_constant(str(event.get(name)))], str(event.get(state)))
        return ""
    for path, value in single.items():
        _follow(answers.states[path], value)
    return key


def _follow(states: list[str], state: str) -> None:
    if state not in states:
        states.append(state)


def _between(recorded: Answers, replayed: Answers) -> Iterable[str]:
    if recorded.codes != replayed.codes:
        yield f"codes {', '.join(recorded.codes)}; in the replay {', '.join(replayed.codes)}"
    for key in sorted(recorded.shapes.keys() & replayed.shapes.keys()):
        ever, again = recorded.shapes[key], replayed.shapes[key]
        for path in sorted(ever - again):
            yield f"only the archive's answer has {path}"
        for path in sorted(again - ever):
            yield f"only the replay's answer has {path}"
    for name in sorted(recorded.states.keys() & replayed.states.keys()):
        one, other = recorded.states[name], replayed.states[name]
        common = [state for state in other if state in one]
        if [state for state in one if state in other] != common or one[-1] != other[-1]:
            yield f"{name} is {' → '.join(one)}; in the replay {' → '.join(other)}"


def _by_function(lines: Sequence[Line]) -> Mapping[str, set[str]]:
    """The codes that each call of each function met; "ok" is none."""
    codes: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        call = f"{line['function']} {line.get('call', line.get('level'))}"
        codes[_constant(call)].add(line["error"] or "ok")
    return codes


def _without_first_refusals(codes: set[str]) -> set[str]:
    return {code for code in codes if "ok" not in codes or not _REFUSAL.search(code)}


def _listed(codes: set[str]) -> str:
    return ", ".join(sorted(codes)) or "never called"


def _plain(parameters: Any) -> Any:
    """Parameters without what is opaque; of a list, each different item once."""
    if isinstance(parameters, Mapping):
        return {k: _plain(v) for k, v in parameters.items() if not _OPAQUE.search(k)}
    if isinstance(parameters, list):
        items = {_constant(json.dumps(_plain(each), sort_keys=True)) for each in parameters}
        return sorted(items)
    return parameters


def _constant(text: str) -> str:
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return text


def _values(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _values(each, f"{path}.{_constant(key)}" if path else _constant(key))
    elif isinstance(value, list):
        for each in value:
            yield from _values(each, f"{path}[]")
    else:
        yield path, value


def _paths(response: Any) -> Iterable[str]:
    """Each field with its type; a number may be whole in one answer and not in another."""
    kinds = {int: "number", float: "number", str: "string", bool: "boolean", type(None): "null"}
    return (f"{path} ({kinds[type(value)]})" for path, value in _values(response))
