"""Generate the references of plans and campaigns: docs/plan.schema.json and the tables of fields.

The source are the models that check them: `PlanInput`, `ArmChoice`, the model of each tool, and
`CampaignInput`. The tables are in docs/plan.md and docs/campaigns/README.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rackrate import registry
from rackrate.plan.arms import ArmChoice
from rackrate.plan.campaign_fields import CampaignInput
from rackrate.plan.check import MAX_RUN_SECONDS
from rackrate.plan.faults import MAX_PLAN_BYTES
from rackrate.plan.fields import MAX_ARMS, MAX_EARLIER_RUNS, MAX_TESTS, MAX_TRIALS, PlanInput
from rackrate.plan.items import MAX_PAIRS_PER_ITEM, MAX_TRIALS_PER_ITEM
from rackrate.plan.model import CATALOGUE
from rackrate.tools.base import TestBase
from rackrate.workloads.base import MAX_VOLUMES, MAX_VOLUMES_GIB
from rackrate_contract.document import Json
from rackrate_text.units import UNITS
from scripts.markdown import ROOT, bullet, table, with_part

SCHEMA = ROOT / "docs" / "plan.schema.json"
REFERENCE = ROOT / "docs" / "plan.md"
CAMPAIGNS = ROOT / "docs" / "campaigns" / "README.md"
#: The objects that fields take, by the name of their definition.
_OBJECTS = {
    "Blocks": '{"least": n, "most": m}',
    "Draws": '{"least": n, "most": m}',
    "HuntInput": '{"test": name, …}',
    "RandomPairs": '{"random": k}',
    "Volume": '{"storage_class": name, "gib": n}',
}


def schema() -> Json:
    """The JSON Schema of plans.

    It accepts all plans that some stack accepts, because it cannot know the stack's arms.
    """
    root = _tidy(PlanInput.model_json_schema())
    arm, definitions = _definition(ArmChoice)
    definitions = {**root.pop("$defs", {}), **definitions, "Arm": arm}
    branches = [_names_of_catalogue()]
    for tool in registry.names():
        branch, inner = _definition(registry.test_class(tool))
        definitions |= {**inner, tool: _with_tool(branch, tool)}
        branches.append({"$ref": f"#/$defs/{tool}"})
    properties = root["properties"]
    named = {"type": "string", "description": "Name of an arm of the stack."}
    properties["arms"] |= {
        # A missing field means all arms. null is not allowed.
        **_without_null(properties["arms"]),
        "minItems": 1,
        "items": {"oneOf": [named, {"$ref": "#/$defs/Arm"}]},
    }
    del properties["arms"]["default"], properties["arms"]["anyOf"]
    properties["tests"]["items"] = {"oneOf": branches}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan of a rackrate run",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _definition(model: type[BaseModel]) -> tuple[Json, Json]:
    """A model's schema and the definitions that it uses."""
    definition = _tidy(model.model_json_schema())
    return definition, definition.pop("$defs", {})


def _tidy(value: Any) -> Any:
    """Tidy a schema: remove pydantic's titles and put each description on one line."""
    if isinstance(value, list):
        return [_tidy(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    tidy = {
        key: _tidy(entry)
        for key, entry in value.items()
        if not (key == "title" and isinstance(entry, str))
    }
    if isinstance(tidy.get("description"), str):
        tidy["description"] = " ".join(tidy["description"].split())
    return tidy


def _without_null(field: Mapping[str, Any]) -> Json:
    (kind,) = (each for each in field["anyOf"] if each != {"type": "null"})
    return dict(kind)


def _names_of_catalogue() -> Json:
    return {
        "description": "Name of a test of the catalogue.",
        "type": "string",
        "enum": list(CATALOGUE),
    }


def _with_tool(branch: Json, tool: str) -> Json:
    """Add to a tool's schema: `tool` is optional if `name` is one of its tests in the catalogue."""
    described = TestBase.model_fields["tool"].description
    branch["properties"]["tool"]["description"] = described
    names = [name for name, test in CATALOGUE.items() if test["tool"] == tool]
    named: Json = {"properties": {"name": {"enum": names}}, "required": ["name"]}
    return {**branch, "anyOf": [{"required": ["tool"]}, *([named] if names else [])]}


def parts(definition: Mapping[str, Any]) -> dict[str, str]:
    """The generated parts of the page, by the names of their marks.

    Args:
        found: the schema from `schema`.

    Raises:
        ValueError: a field has no description.
    """
    definitions = definition["$defs"]
    branches = [
        f"### {tool}\n\n{definitions[tool]['description']}\n\n{_fields(definitions[tool])}\n\n"
        f"{_metrics(tool)}"
        for tool in registry.names()
    ]
    return {
        "the plan": _fields(definition),
        "an arm": _fields(definitions["Arm"]),
        "limits": _limits(),
        "tests": "\n\n".join([_catalogue(), *branches]),
    }


def _limits() -> str:
    rows = {
        "the plan": f"{MAX_PLAN_BYTES} bytes",
        "arms": f"{MAX_ARMS}",
        "tests": f"{MAX_TESTS}",
        "earlier runs": f"{MAX_EARLIER_RUNS}",
        "trials": f"{MAX_TRIALS:,}",
        "expected seconds of all blocks": f"{MAX_RUN_SECONDS:,}",
        "pairs of one round": f"{MAX_PAIRS_PER_ITEM}",
        "trials of one round": f"{MAX_TRIALS_PER_ITEM:,}",
        "volumes of all members": f"{MAX_VOLUMES:,}",
        "GiB of all these volumes": f"{MAX_VOLUMES_GIB:,}",
    }
    return table(("what", "at most"), rows.items())


def _catalogue() -> str:
    rows = (
        (
            f"`{name}`",
            test["tool"],
            ", ".join(f"`{k}` {_code(v)}" for k, v in test.items() if k != "tool"),
        )
        for name, test in CATALOGUE.items()
    )
    return table(("name", "tool", "options"), rows)


def _metrics(tool: str) -> str:
    """The metrics of a tool's tests in the catalogue, or of its default test if it has none."""
    default, *others = registry.examples(tool)
    named = [test for test in others if test.name in CATALOGUE]
    rows = (
        (f"`{test.name}`", metric.name, metric.unit, metric.better, metric.statistic)
        for test in named or [default]
        for metric in test.metrics
    )
    return table(("test", "measures", "unit", "better", "a trial's value"), rows)


def _fields(described: Mapping[str, Any]) -> str:
    """A model's fields: a table with the first sentence of each, then what else there is to say."""
    required = described.get("required", ())
    rows, details = [], []
    for name, field in described["properties"].items():
        if "description" not in field:
            raise ValueError(f"the field {name} has no description: give its Field one")
        first, *rest = re.split(r"(?<=\.) ", field["description"], maxsplit=1)
        details += [bullet(f"`{name}`: {text}") for text in rest]
        default = "none; required" if name in required else _code(field.get("default"))
        example = field.get("examples", [field.get("const", field.get("default"))])[0]
        rows.append(
            (
                *(f"`{name}`", _type(field), _unit(name), default, _bounds(field)),
                *(first, _code(example)),
            )
        )
    titles = ("field", "type", "unit", "default", "takes", "what it is", "example")
    return "\n\n".join(filter(None, (table(titles, rows), "\n".join(details))))


def _kinds(field: Mapping[str, Any]) -> list[Json]:
    """The types that a field accepts, without null, which only means a missing field."""
    kinds = field.get("anyOf") or field.get("oneOf") or [field]
    return [each for each in kinds if each != {"type": "null"}]


def _type(field: Mapping[str, Any]) -> str:
    return " or ".join(each.get("type", "object") for each in _kinds(field))


def _unit(name: str) -> str:
    events = "1/s" if name.endswith("_per_second") else ""
    return next((unit.name for unit in UNITS.values() if name.endswith(unit.column)), events)


def _bounds(field: Mapping[str, Any]) -> str:
    """The values that a field accepts, in words."""
    words: list[str] = []
    for kind in _kinds(field):
        if "enum" in kind:
            words += [", ".join(_code(value) for value in kind["enum"])]
        if kind.get("type") == "boolean":
            words.append("`true`, `false`")
        if "const" in kind:
            words.append(_code(kind["const"]))
        if "$ref" in kind:
            words.append(f"`{_OBJECTS[kind['$ref'].rpartition('/')[2]]}`")
        if "@sha256:" in kind.get("pattern", ""):
            words.append("`name@sha256:digest`")
        elif "pattern" in kind:
            words.append("lower-case letters, digits and hyphens, no hyphen first or last")
        low, high = kind.get("minimum"), kind.get("maximum")
        over, under = kind.get("exclusiveMinimum"), kind.get("exclusiveMaximum")
        parts = [
            f"at least {low}" if low is not None else "",
            f"more than {over}" if over is not None else "",
            f"at most {high}" if high is not None else "",
            f"less than {under}" if under is not None else "",
            f"{kind.get('minItems', 0)} to {kind['maxItems']} entries"
            if "maxItems" in kind
            else "",
            f"at most {kind['maxLength']} characters" if "maxLength" in kind else "",
        ]
        words += [", ".join(filter(None, parts))]
    return "; ".join(filter(None, words)) or "anything"


def _code(value: Any) -> str:
    return "" if value is None else f"`{json.dumps(value)}`"


def documents() -> dict[Path, str]:
    """The generated files by path."""
    definition = schema()
    page = REFERENCE.read_text("utf-8")
    for name, part in parts(definition).items():
        page = with_part(page, name, part)
    campaigns = CAMPAIGNS.read_text("utf-8")
    fields = _fields(_tidy(CampaignInput.model_json_schema(by_alias=True)))
    return {
        SCHEMA: json.dumps(definition, indent=2) + "\n",
        REFERENCE: page,
        CAMPAIGNS: with_part(campaigns, "the input", fields),
    }
