"""The wording of a plan's faults: pydantic's errors and JSON values in the user's terms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rackrate.errors import Fault
from rackrate.plan.campaign_fields import CampaignInput, Draws, HuntInput
from rackrate.plan.fields import Blocks, PlanInput, RandomPairs
from rackrate.workloads.base import Volume, WorkloadTest
from rackrate_text.names import ID_WORDS, is_id
from rackrate_text.words import listed, nearest

#: The longest input of a run or a campaign.
MAX_PLAN_BYTES = 32 * 1024
_PLAIN_KEY = re.compile(r"\$?[\w-]{1,60}")
#: The fields of each input that take values of several kinds, with the model of the kind that is an
#: object.
_UNIONS: Mapping[type[BaseModel], Mapping[str, type[BaseModel] | None]] = {
    PlanInput: {"blocks": Blocks, "pairing": RandomPairs, "compare_with": None},
    CampaignInput: {"draws": Draws},
    WorkloadTest: {"storage": Volume},
}
#: The fields that take one kind of object.
_OBJECTS: Mapping[str, type[BaseModel]] = {"hunt": HuntInput}
#: What to do about a list that is too long, where it is not to make several runs.
_TOO_LONG = {"compare_with": "name fewer", "pool": "name fewer"}
#: The words for a bound, its name in pydantic's error, and what to write instead.
_BOUNDS = {
    "greater_than": ("more than", "gt", "larger"),
    "greater_than_equal": ("at least", "ge", "larger"),
    "less_than": ("less than", "lt", "smaller"),
    "less_than_equal": ("at most", "le", "smaller"),
}
#: What to do with a field that another execution takes.
_ELSEWHERE = {
    "compare": "give it to the state machine of the stack's output ComparisonStateMachineArn, or"
    " run `rackrate compare`",
}
_REMEDIES = {
    "int_type": "write a whole number, without quotes",
    "int_from_float": "write a whole number, without a fraction",
    "float_type": "write a number, without quotes",
    "string_type": "write a text, in quotes",
    "bool_type": "write true or false, without quotes",
    "list_type": "write a list, in square brackets",
    "missing": "add it",
}


class Faults(list[Fault]):
    """The faults of an input, in the order in which they were found."""

    def add(self, path: str, problem: str, remedy: str) -> None:
        """Add a fault."""
        self.append(Fault(path, problem, remedy))

    def add_unknown(
        self, path: str, problem: str, name: object, known: Iterable[str], otherwise: str = ""
    ) -> None:
        """Add the fault of a name that is none of those that are known."""
        problem = f"{problem} {shown(name)}{nearest(str(name), known)}"
        self.add(path, problem, f"use one of {listed(known, 'or')}{otherwise}")


def read_fields[Model: BaseModel](
    raw: object, model: type[Model], faults: Faults, remedy_of_size: str
) -> Model:
    """The valid fields of an input; invalid ones have their defaults.

    Args:
        raw: the input without what Step Functions adds.
        model: the model of its fields.
        faults: where faults are added.
        remedy_of_size: what to do about an input that is too large.
    """
    if not isinstance(raw, dict):
        faults.add("$", f"must be an object, not {kind_of(raw)}", "write {} or an object of fields")
        return model()
    size = len(json.dumps(raw))
    if size > MAX_PLAN_BYTES:
        faults.add("$", f"is {size} bytes long, more than {MAX_PLAN_BYTES}", remedy_of_size)
        return model()
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        faults += faults_of(error, model, "")
        wrong = {str(detail["loc"][0]) for detail in error.errors()}
        return model.model_validate({k: v for k, v in raw.items() if k not in wrong})


def named_twice(entry: Any, path: str, names: set[str], remedy: str) -> list[Fault]:
    """The fault of an arm or a test whose name is among the names; adds it to them."""
    name = entry if isinstance(entry, str) else name_of(entry)
    if name in names:
        path = path if isinstance(entry, str) else f"{path}.name"
        return [Fault(path, f"the name {shown(name)} is used twice", remedy)]
    if name is not None:
        names.add(name)
    return []


def name_of(entry: Any) -> str | None:
    """The name in an entry of a list, which may be any JSON value; None if it has none."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def faults_of(error: ValidationError, model: type[BaseModel], prefix: str) -> Faults:
    """Pydantic's errors as faults, each with its path and our wording.

    Args:
        error: the validation error.
        model: the model that raised it.
        prefix: the path of the validated value, with its dot; empty for the plan itself.
    """
    faults = Faults()
    unions = next((each for known, each in _UNIONS.items() if issubclass(model, known)), {})
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        fields: Iterable[str] = names_of_fields(model)
        if (union := str(location[0])) in unions:
            # The second part is pydantic's tag for the branch of the union that it tried.
            location = (location[0], *location[2:])
            fields = branch.model_fields if (branch := unions[union]) else ()
        elif issubclass(model, CampaignInput) and union in _OBJECTS:
            fields = _OBJECTS[union].model_fields
        path = prefix + _path(location)
        faults.add(path, *_wording(detail, path, fields))
    return faults


def _wording(detail: ErrorDetails, path: str, fields: Iterable[str]) -> tuple[str, str]:
    """The problem and the remedy of one of pydantic's errors.

    Args:
        detail: the error.
        path: its path in the input.
        fields: the fields that its object may have.
    """
    kind, context = detail["type"], detail.get("ctx", {})
    value = detail["input"]
    match kind:
        case "rule":  # a tool's own message about options that conflict
            problem, remedy = context["problem"], context["remedy"]
        case "extra_forbidden":
            problem = "is not a field here" + nearest(str(detail["loc"][-1]), fields)
            remedy = _ELSEWHERE.get(path) or f"remove it, or use one of {listed(fields, 'or')}"
        case "missing":
            problem, remedy = "is missing", _REMEDIES[kind]
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            words, bound, size = _BOUNDS[kind]
            problem = f"must be {words} {context[bound]}, not {shown(value)}"
            remedy = f"write a {size} number"
        case "literal_error":
            problem = f"must be {context['expected']}, not {shown(value)}"
            remedy = "use one of these"
            if path == "pairing":
                remedy += ', or {"random": number of pairs}'
        case "string_pattern_mismatch":
            problem = f"{shown(value)} is not a name"
            remedy = "use lower-case letters, digits and hyphens, no hyphen first or last"
        case "string_too_long":
            problem = f"is longer than {context['max_length']} characters"
            remedy = "shorten it"
        case "string_too_short":
            problem, remedy = "is empty", "write something, or leave it out"
        case "too_short":
            problem, remedy = "is empty", "name at least one, or leave it out"
        case "too_long":
            problem = f"has more than {context['max_length']} entries"
            remedy = _TOO_LONG.get(path, "split it into several runs")
        case _:
            message = detail["msg"].removeprefix("Input ").replace("should", "must")
            problem = f"{message}, not {kind_of(value)}"
            remedy = _REMEDIES.get(kind, "correct it")
    return problem, remedy


def whole_numbers(value: Any) -> Any:
    """A JSON value whose whole numbers are integers: `6.0` is one to JSON and its schemas."""
    match value:
        case dict():
            return {name: whole_numbers(each) for name, each in value.items()}
        case list():
            return [whole_numbers(each) for each in value]
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
    return value


def names_of_fields(model: type[BaseModel]) -> list[str]:
    """The names of a model's fields as an input writes them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _path(location: Sequence[int | str]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            path += f".{part}" if path else part
        else:
            path += f"[{json.dumps(part[:60])}]"
    return path


def kind_of(value: object) -> str:
    """The type of a JSON value, in the user's terms."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {shown(value)}"
        case str():
            return f"the text {shown(value)}"
        case list():
            return "a list"
    return "an object"


def shown(value: object) -> str:
    """A value, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_name(execution: str, faults: Faults) -> None:
    """Refuse an execution whose name cannot be an id. Step Functions permits more names."""
    if not is_id(execution):
        remedy = f"start it under {ID_WORDS}"
        faults.add("$", f"the execution's name {shown(execution)} cannot be an id", remedy)
