"""The plan: what a run measures. Pure: takes the input and what the cluster has, returns a plan.

Every mistake is found at once and told with its path in the input, so that a user corrects a plan
in one go.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rackrate import tools
from rackrate.errors import Fault, InvalidPlan
from rackrate.settings import Arm
from rackrate.tools import TestBase

#: Tests a plan may name without saying what they are.
CATALOGUE: Mapping[str, Mapping[str, Any]] = {
    "tcp-1": {"tool": "iperf3", "streams": 1, "seconds": 10},
    "tcp-8": {"tool": "iperf3", "streams": 8, "seconds": 10},
    "rtt": {"tool": "ping", "count": 30, "interval_seconds": 0.2},
}
DEFAULT_TESTS = ("tcp-1", "tcp-8", "rtt")

#: Limits. The state machine stops a run after two days; a plan may ask for half of that.
MAX_PLAN_BYTES = 32 * 1024
MAX_TESTS = 20
MAX_TRIALS = 100_000
MAX_TRAFFIC_SECONDS = 86_400
LEAST_NODES = 2

Pairing = Literal["one", "all"]
_PLAIN_KEY = re.compile(r"[\w-]{1,60}")


class PlanModel(BaseModel):
    """The plan's fields as the input has them; `tests` are read one by one, for better messages."""

    model_config = ConfigDict(extra="forbid", strict=True)

    arms: list[str] | None = None
    baseline: str | None = None
    tests: Annotated[list[Any], Field(min_length=1, max_length=MAX_TESTS)] = list(DEFAULT_TESTS)
    blocks: Annotated[int, Field(ge=1, le=1000)] = 6
    pairing: Pairing = "one"
    seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    threshold: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.05
    tolerated_loss: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.1
    dry_run: bool = False


@dataclass(frozen=True)
class Plan:
    """A valid plan, with every default filled in.

    Attributes:
        arms: the arms to measure, the baseline among them.
        baseline: the name of the arm the others are compared with.
        tests: what each pair runs in each block.
        blocks: how often everything is repeated.
        pairing: `one` pair of each arm in a block, in turn, or `all` pairs of each arm.
        seed: decides every order that is left to chance.
        threshold: a difference smaller than this share does not matter.
        tolerated_loss: share of trials that may be lost before the run counts as failed.
        dry_run: stop after planning?
    """

    arms: tuple[Arm, ...]
    baseline: str
    tests: tuple[TestBase, ...]
    blocks: int
    pairing: Pairing
    seed: int
    threshold: float
    tolerated_loss: float
    dry_run: bool

    def to_json(self) -> dict[str, Any]:
        """The plan as an input that says everything."""
        return {
            "arms": [arm.name for arm in self.arms],
            "baseline": self.baseline,
            "tests": [test.model_dump() for test in self.tests],
            "blocks": self.blocks,
            "pairing": self.pairing,
            "seed": self.seed,
            "threshold": self.threshold,
            "tolerated_loss": self.tolerated_loss,
            "dry_run": self.dry_run,
        }


def check_plan(
    raw: object, *, stack_arms: Sequence[Arm], nodes: Mapping[str, int], run_id: str
) -> Plan:
    """Reads and checks a plan.

    Args:
        raw: the execution's input, any JSON value.
        stack_arms: the arms the stack has.
        nodes: number of Ready nodes of each of those arms, by name.
        run_id: gives the seed of a plan that has none, so that a repeated call plans the same.

    Raises:
        InvalidPlan: with every fault.
    """
    faults: list[Fault] = []
    model = _read_fields(raw, faults)
    given = raw if isinstance(raw, dict) else {}
    arms = _choose_arms(model, given, stack_arms, nodes, faults)
    baseline = _choose_baseline(model, arms, stack_arms, faults)
    tests = _read_tests(model.tests, faults)
    if not faults:
        _check_size(model, arms, tests, nodes, faults)
    if faults:
        raise InvalidPlan(faults)
    return Plan(
        arms=tuple(arms),
        baseline=baseline,
        tests=tuple(tests),
        blocks=model.blocks,
        pairing=model.pairing,
        seed=zlib.crc32(run_id.encode()) if model.seed is None else model.seed,
        threshold=model.threshold,
        tolerated_loss=model.tolerated_loss,
        dry_run=model.dry_run,
    )


def _read_fields(raw: object, faults: list[Fault]) -> PlanModel:
    """The fields that are right; defaults stand in for those that are not."""
    if not isinstance(raw, dict):
        faults.append(
            Fault("$", f"must be an object, not {_kind(raw)}", "write {} or an object of fields")
        )
        return PlanModel()
    size = len(json.dumps(raw))
    if size > MAX_PLAN_BYTES:
        faults.append(
            Fault(
                "$",
                f"is {size} bytes long, more than {MAX_PLAN_BYTES}",
                "leave out what the defaults say already, or split it into several runs",
            )
        )
        return PlanModel()
    try:
        return PlanModel.model_validate(raw)
    except ValidationError as error:
        faults.extend(_faults_of(error, PlanModel, ""))
        wrong = {str(detail["loc"][0]) for detail in error.errors()}
        return PlanModel.model_validate({k: v for k, v in raw.items() if k not in wrong})


def _choose_arms(
    model: PlanModel,
    given: Mapping[str, Any],
    stack_arms: Sequence[Arm],
    nodes: Mapping[str, int],
    faults: list[Fault],
) -> list[Arm]:
    by_name = {arm.name: arm for arm in stack_arms}
    named = list(by_name) if model.arms is None else model.arms
    arms: list[Arm] = []
    for index, name in enumerate(named):
        path = f"arms[{index}]"
        if name not in by_name:
            faults.append(
                Fault(path, f"there is no arm {_shown(name)}", f"use one of {_listed(by_name)}")
            )
        elif named.index(name) < index:
            faults.append(Fault(path, f"the arm {name!r} is named twice", "name each arm once"))
        else:
            arms.append(by_name[name])
            if nodes[name] < LEAST_NODES:
                faults.append(
                    Fault(
                        path,
                        f"the arm {name!r} has {_count(nodes[name], 'Ready node')}; a pair needs"
                        f" {LEAST_NODES}",
                        f"wait for, repair or enlarge the {by_name[name].whereabouts}",
                    )
                )
    if model.arms is not None and len(named) < 2:
        faults.append(
            Fault("arms", "a comparison needs two arms", f"name two of {_listed(by_name)}")
        )
    if given.get("arms", ()) is None:
        faults.append(
            Fault("arms", "must be a list, not null", "leave it out to measure every arm")
        )
    return arms


def _choose_baseline(
    model: PlanModel, arms: Sequence[Arm], stack_arms: Sequence[Arm], faults: list[Fault]
) -> str:
    names = [arm.name for arm in arms]
    if model.baseline is None:
        chosen = next((arm.name for arm in arms if arm.baseline), None)
        if chosen is None and len(arms) >= 2 and not any(arm.baseline for arm in arms):
            faults.append(
                Fault(
                    "baseline",
                    "none of the chosen arms is the stack's baseline",
                    f"name one of {_listed(names)}",
                )
            )
        return chosen or ""
    if model.baseline not in names:
        known = names or [arm.name for arm in stack_arms]
        faults.append(
            Fault(
                "baseline",
                f"{_shown(model.baseline)} is not among the arms of the plan",
                f"use one of {_listed(known)}",
            )
        )
    return model.baseline


def _read_tests(entries: Sequence[Any], faults: list[Fault]) -> list[TestBase]:
    tests: list[TestBase] = []
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"tests[{index}]"
        test = _read_test(entry, path, faults)
        name = entry if isinstance(entry, str) else _name_of(entry)
        if name is not None and name in names:
            faults.append(
                Fault(
                    path if isinstance(entry, str) else f"{path}.name",
                    f"the name {_shown(name)} is used twice",
                    "give each test a name of its own",
                )
            )
        if name is not None:
            names.add(name)
        if test is not None:
            tests.append(test)
    return tests


def _name_of(entry: Any) -> str | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def _read_test(entry: Any, path: str, faults: list[Fault]) -> TestBase | None:
    if isinstance(entry, str):
        if entry in CATALOGUE:
            return tools.load_test({"name": entry, **CATALOGUE[entry]})
        faults.append(
            Fault(
                path,
                f"there is no test {_shown(entry)}",
                f"use one of {_listed(CATALOGUE)}, or an object with a name and a tool",
            )
        )
        return None
    if not isinstance(entry, dict):
        faults.append(
            Fault(
                path,
                f"must be a name or an object, not {_kind(entry)}",
                f"use one of {_listed(CATALOGUE)}, or an object with a name and a tool",
            )
        )
        return None
    name = _name_of(entry)
    known = CATALOGUE.get(name or "", {})
    tool = entry.get("tool", known.get("tool"))
    if tool is None:
        if "name" not in entry:
            faults.append(Fault(f"{path}.name", "is missing", "give the test a name"))
        faults.append(
            Fault(
                f"{path}.tool",
                "is missing, and the name is none of the catalogue's",
                f"use one of {_listed(tools.names())}, or one of the names {_listed(CATALOGUE)}",
            )
        )
        return None
    if not isinstance(tool, str) or tool not in tools.names():
        faults.append(
            Fault(
                f"{path}.tool",
                f"there is no tool {_shown(tool)}",
                f"use one of {_listed(tools.names())}",
            )
        )
        return None
    # What the catalogue says of a test holds only for its own tool.
    defaults = known if known.get("tool") == tool else {"tool": tool}
    model = tools.test_class(tool)
    try:
        return model.model_validate({**defaults, **entry})
    except ValidationError as error:
        faults.extend(_faults_of(error, model, f"{path}."))
        return None


def _check_size(
    model: PlanModel,
    arms: Sequence[Arm],
    tests: Sequence[TestBase],
    nodes: Mapping[str, int],
    faults: list[Fault],
) -> None:
    pairs = {
        arm.name: 1 if model.pairing == "one" else nodes[arm.name] * (nodes[arm.name] - 1) // 2
        for arm in arms
    }
    rounds = max(
        1 if model.pairing == "one" else nodes[arm.name] - 1 + nodes[arm.name] % 2 for arm in arms
    )
    trials = model.blocks * len(tests) * sum(pairs.values())
    if trials > MAX_TRIALS:
        faults.append(
            Fault(
                "blocks",
                f"the plan has {trials} trials, more than {MAX_TRIALS}",
                "ask for fewer blocks, fewer tests or the pairing 'one'",
            )
        )
    seconds = model.blocks * rounds * sum(test.expected_seconds for test in tests)
    if seconds > MAX_TRAFFIC_SECONDS:
        faults.append(
            Fault(
                "blocks",
                f"the plan would measure for {seconds:.0f} s, more than {MAX_TRAFFIC_SECONDS} s",
                "ask for fewer blocks or shorter tests",
            )
        )


_REMEDIES = {
    "int_type": "write a whole number, without quotes",
    "int_from_float": "write a whole number, without a fraction",
    "float_type": "write a number, without quotes",
    "string_type": "write a text, in quotes",
    "bool_type": "write true or false, without quotes",
    "list_type": "write a list, in square brackets",
    "missing": "add it",
}


def _faults_of(error: ValidationError, model: type[BaseModel], prefix: str) -> list[Fault]:
    """Pydantic's errors in our words, each at its path."""
    faults: list[Fault] = []
    for detail in error.errors(include_url=False):
        path = prefix + _path(detail["loc"])
        kind, context = detail["type"], detail.get("ctx", {})
        value = detail["input"]
        match kind:
            case "extra_forbidden":
                problem = "is not a field here"
                remedy = f"remove it, or use one of {_listed(model.model_fields)}"
            case "missing":
                problem, remedy = "is missing", _REMEDIES[kind]
            case "greater_than":
                problem = f"must be more than {context['gt']}, not {value!r}"
                remedy = "write a larger number"
            case "greater_than_equal":
                problem = f"must be at least {context['ge']}, not {value!r}"
                remedy = "write a larger number"
            case "less_than":
                problem = f"must be less than {context['lt']}, not {value!r}"
                remedy = "write a smaller number"
            case "less_than_equal":
                problem = f"must be at most {context['le']}, not {value!r}"
                remedy = "write a smaller number"
            case "literal_error":
                problem = f"must be {context['expected']}, not {_shown(value)}"
                remedy = "use one of these"
            case "string_pattern_mismatch":
                problem = f"{_shown(value)} is not a name"
                remedy = "use lower-case letters, digits and hyphens, no hyphen first or last"
            case "string_too_long":
                problem = f"is longer than {context['max_length']} characters"
                remedy = "shorten it"
            case "too_short":
                problem, remedy = "is empty", "name at least one, or leave it out"
            case "too_long":
                problem = f"has more than {context['max_length']} entries"
                remedy = "split it into several runs"
            case _:
                message = detail["msg"].removeprefix("Input ").replace("should", "must")
                problem = f"{message}, not {_kind(value)}"
                remedy = _REMEDIES.get(kind, "correct it")
        faults.append(Fault(path, problem, remedy))
    return faults


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


def _kind(value: object) -> str:
    """A JSON value's kind, as a user would call it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {_shown(value)}"
        case list():
            return "a list"
    return "an object"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(names: Any) -> str:
    return ", ".join(str(name) for name in names)
