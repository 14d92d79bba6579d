"""Write docs/plan.schema.json and docs/plan.md, the references of plans, from the models.

The models are those that check plans, of `rackrate.plan_fields` and of each tool.

Usage: .venv/bin/python -m scripts.plan_reference
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "functions"))

from rackrate import plan, plan_fields, tools  # noqa: E402
from rackrate.schedule import MAX_PAIRS_PER_ITEM  # noqa: E402

SCHEMA = ROOT / "docs" / "plan.schema.json"
REFERENCE = ROOT / "docs" / "plan.md"

Json = dict[str, Any]

#: The unit a field's name ends with, and how the reference writes it.
_UNITS = {
    "bits_per_second": "bit/s",
    "messages_per_second": "1/s",
    "seconds": "s",
    "bytes": "byte",
}
_HEAD = """\
# Plans

<!-- Generated from the models that check plans by `make docs`; a test fails when it is stale. -->

A plan says what one run measures. It is the input of the state machine and the file of
`rackrate run --plan`. `{}` is a good plan; every field has a default. A plan with mistakes is
refused as a whole: every mistake is named with its path and a remedy, and nothing is started.

[plan.schema.json](plan.schema.json) is the same as a JSON Schema (draft 2020-12), for editors and
for programs that write plans. What only the stack knows (its arms, how many nodes are Ready) is
checked when the run starts. [plans/](plans/README.md) holds a plan for each of the experiments
rackrate is made for.
"""
_BEHAVIOUR = f"""\
## Pairs, directions and load

| pairing | pairs of an arm with n nodes | rounds of a block, together |
|---|---|---|
| `"one"` | 1, drawn by the seed | 1 |
| `"ring"` | n (1 if n is 2) | 2 if n is even, 3 if it is odd (1 if n is 2) |
| `"mesh"` | n (n - 1) / 2 | n - 1 if n is even, n if it is odd |
| `{{"random": k}}` | k, drawn by the seed | k divided by n / 2, rounded up |

`"load": "isolated"` measures one pair of each arm at a time, so that pairs do not disturb each
other, in as many rounds as there are pairs. `"load": "together"` measures all pairs of a round at
once: with a mesh or a ring that loads the network between all nodes. `"direction": "both"` doubles
the rounds.

A claim about a placement strategy rests on several pairs, or on several deployments; one pair tells
of its two nodes. `ring`, `mesh` and `random` are how to get several.

## Order

Tests and rounds are shuffled anew in each block, by the seed. Arms of different nodes are measured
at the same time. Arms of the same nodes take turns in every block, on the same pairs; their order
is drawn for two blocks at a time and is turned round in the second, so that none of two comes first
more often.

Block 0 is the warm-up: every pair once, with a second or so of the plan's first test. Nothing of it
is in a verdict. If pairs cannot talk the run says which; if they are more than `tolerated_loss` of
all, it ends with `LinksDown` before it measures anything.

## Pods or hosts

An arm's `client_network` and `server_network` say whether its pods have a network of their own,
behind the cluster's CNI, or use that of their node. Three arms on the same nodes (`host-to-host`,
`host-to-pod`, `pod-to-host`) show what the CNI costs each way. The stack must allow it with
`HostNetwork=true`, since the Pod Security Standard `restricted` does not.

## Before and after

Some experiments change the cluster between two runs: an add-on's version, the kernel, the number of
nodes. Run a plan, make the change, run the same plan again with the first run's id:

```sh title="AWS only"
rackrate run --plan docs/plans/e3-cni-upgrade.json --name before
aws eks update-addon --cluster-name CLUSTER --addon-name vpc-cni --addon-version VERSION \\
    --resolve-conflicts OVERWRITE
jq '.compare_with = "before"' docs/plans/e3-cni-upgrade.json > after.json
rackrate run --plan after.json --name after
```

Instead of the id, `compare_with` takes the name of a baseline (`rackrate baseline set`): the stored
plan then has the id it stood for. No file can hold an id beforehand, so no plan in `plans/` has
`compare_with`. Two runs that are over are compared by `rackrate compare`. The earlier run must
have ended as succeeded or degraded. At least one test and one arm must be the same; a test of the
same name with other options is refused.

## Limits

| what | at most |
|---|---|
| the plan | {plan.MAX_PLAN_BYTES} bytes |
| arms | {plan_fields.MAX_ARMS} |
| tests | {plan_fields.MAX_TESTS} |
| trials | {plan_fields.MAX_TRIALS:,} |
| expected seconds of all blocks | {plan.MAX_RUN_SECONDS:,} |
| pairs of one round | {MAX_PAIRS_PER_ITEM} |
"""


def schema() -> Json:
    """The JSON Schema of plans.

    It takes every plan that the stack could take; it cannot know what the stack has.
    """
    root = _tidy(plan_fields.PlanModel.model_json_schema())
    arm, definitions = _definition(plan_fields.ArmModel)
    definitions = {**root.pop("$defs", {}), **definitions, "Arm": arm}
    branches = [_names_of_catalogue()]
    for tool in tools.names():
        branch, inner = _definition(tools.test_class(tool))
        definitions |= {**inner, tool: _with_tool(branch, tool)}
        branches.append({"$ref": f"#/$defs/{tool}"})
    properties = root["properties"]
    named = {"type": "string", "description": "Name of an arm of the stack."}
    properties["arms"] |= {
        # Leaving it out means all arms; there is no other word for it.
        **_without_null(properties["arms"]),
        "minItems": 2,
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
    """A model's schema and the definitions it uses."""
    found = _tidy(model.model_json_schema())
    return found, found.pop("$defs", {})


def _tidy(value: Any) -> Any:
    """A schema without the titles that pydantic makes of names, and with one-line descriptions."""
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
        "enum": list(plan.CATALOGUE),
    }


def _with_tool(branch: Json, tool: str) -> Json:
    """The tool may be left out where the name is that of one of its tests in the catalogue."""
    described = tools.TestBase.model_fields["tool"].description
    branch["properties"]["tool"]["description"] = described
    known = [name for name, test in plan.CATALOGUE.items() if test["tool"] == tool]
    named: Json = {"properties": {"name": {"enum": known}}, "required": ["name"]}
    return {**branch, "anyOf": [{"required": ["tool"]}, *([named] if known else [])]}


def render(found: Mapping[str, Any]) -> str:
    """The reference as Markdown.

    Args:
        found: the schema, as `schema` makes it.

    Raises:
        ValueError: a field has no description.
    """
    definitions = found["$defs"]
    lines = [_HEAD, "## The plan\n", *_table(found)]
    lines += ["\n### An arm, as an object of `arms`\n", *_table(definitions["Arm"])]
    lines += ["\n", _BEHAVIOUR, "## Tests\n", *_catalogue(), ""]
    for tool in tools.names():
        branch = definitions[tool]
        lines += [f"### {tool}\n", f"{branch['description']}\n", *_table(branch), ""]
        lines += [*_metrics(tool), ""]
    return "\n".join(lines).replace("\n\n\n", "\n\n").rstrip() + "\n"


def _catalogue() -> Iterator[str]:
    yield (
        "A test is a tool with its options. These have names; an object with such a name takes over"
    )
    yield "what it does not say itself.\n"
    yield "| name | tool | options |"
    yield "|---|---|---|"
    for name, test in plan.CATALOGUE.items():
        options = ", ".join(f"`{k}` {_code(v)}" for k, v in test.items() if k != "tool")
        yield f"| `{name}` | {test['tool']} | {options} |"


def _metrics(tool: str) -> Iterator[str]:
    """What a tool's tests of the catalogue measure."""
    yield "| test | measures | unit | better | a trial's value |"
    yield "|---|---|---|---|---|"
    for name, options in plan.CATALOGUE.items():
        if options["tool"] == tool:
            for metric in tools.load_test({"name": name, **options}).metrics:
                yield (
                    f"| `{name}` | {metric.name} | {metric.unit} | {metric.better} |"
                    f" {metric.statistic} |"
                )


def _table(model: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | type | unit | default | takes | what it is | example |"
    yield "|---|---|---|---|---|---|---|"
    required = model.get("required", ())
    for name, field in model["properties"].items():
        if "description" not in field:
            raise ValueError(f"the field {name} has no description: give its Field one")
        default = "none; required" if name in required else _code(field.get("default"))
        example = field.get("examples", [field.get("const", field.get("default"))])[0]
        cells = (
            *(f"`{name}`", _type(field), _unit(name), default, _bounds(field)),
            *(field["description"], _code(example)),
        )
        yield "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _kinds(field: Mapping[str, Any]) -> list[Json]:
    """What a field may be, apart from null, which only means that it is left out."""
    kinds = field.get("anyOf") or field.get("oneOf") or [field]
    return [each for each in kinds if each != {"type": "null"}]


def _type(field: Mapping[str, Any]) -> str:
    return " or ".join(each.get("type", "object") for each in _kinds(field))


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")


def _bounds(field: Mapping[str, Any]) -> str:
    """What a field takes, in words."""
    words: list[str] = []
    for kind in _kinds(field):
        if "enum" in kind:
            words += [", ".join(_code(value) for value in kind["enum"])]
        if kind.get("type") == "boolean":
            words.append("`true`, `false`")
        if "const" in kind:
            words.append(_code(kind["const"]))
        if "$ref" in kind:
            words.append('`{"random": k}`')
        if "pattern" in kind:
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


def _cell(text: str) -> str:
    """A text that stays in its cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ").strip()


def documents() -> dict[Path, str]:
    """The two files, as they should be."""
    found = schema()
    return {SCHEMA: json.dumps(found, indent=2) + "\n", REFERENCE: render(found)}


def main() -> None:
    """Write both references."""
    for path, text in documents().items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
