"""Generate docs/parameters.md, the reference of the stack's parameters.

Its sources are template.yaml, and docs/updates.yaml for what a change on an existing stack does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from cfnlint.decode import decode

from scripts.markdown import ROOT, bullet, prose, with_part

TEMPLATE = ROOT / "template.yaml"
REFERENCE = ROOT / "docs" / "parameters.md"
UPDATES = ROOT / "docs" / "updates.yaml"

#: What happens to a stack, in the words of the reference.
_OUTCOMES = {"kept": "kept", "nodes": "replaced", "replaced": "replaced", "refused": "refused"}
_INTERFACE = "AWS::CloudFormation::Interface"


def load(path: Path = TEMPLATE) -> dict[str, Any]:
    """Read a template as plain data, with short forms such as `!Ref` in their full form.

    Raises:
        ValueError: the file is not a template.
    """
    template, faults = decode(str(path))
    if template is None or faults:
        raise ValueError(f"{path}: {'; '.join(str(fault) for fault in faults)}")
    return dict(template)


def load_updates(path: Path = UPDATES) -> dict[str, list[dict[str, Any]]]:
    """Read what changes of each parameter do to a stack that exists."""
    return dict(yaml.safe_load(path.read_text("utf-8")))


def render(template: Mapping[str, Any], updates: Mapping[str, list[dict[str, Any]]]) -> str:
    """The reference as Markdown: a section for each group, the checks, and the form's order.

    Raises:
        KeyError: `updates` lacks a parameter.
    """
    parameters = template["Parameters"]
    parts = [
        "\n\n".join(
            [f"## {title}", *(_section(name, parameters[name], updates[name]) for name in names)]
        )
        for title, names in groups(template)
    ]
    return "\n\n".join([*parts, _checks(template), "\n".join(form(template))]) + "\n"


def groups(template: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The title and the parameters of each group, in the order of the console's form.

    Parameters without a group come last, as in the console.
    """
    interface = template.get("Metadata", {}).get(_INTERFACE, {})
    left = dict.fromkeys(template["Parameters"])
    for group in interface.get("ParameterGroups", []):
        for name in group["Parameters"]:
            left.pop(name, None)
        yield str(group["Label"]["default"]), list(group["Parameters"])
    if left:
        yield "Other parameters", list(left)


def form(template: Mapping[str, Any]) -> list[str]:
    """The console's form as text: the labels of each group, linked to their sections."""
    labels = template.get("Metadata", {}).get(_INTERFACE, {}).get("ParameterLabels", {})
    lines = ["## The console's form"]
    for title, names in groups(template):
        lines += ["", f"**{title}**", ""]
        for number, name in enumerate(names, start=1):
            label = labels.get(name, {}).get("default", name)
            lines.append(f"{number}. [`{name}`](#{name.lower()}): {label}")
    return lines


def _section(name: str, parameter: Mapping[str, Any], updates: list[dict[str, Any]]) -> str:
    facts = [
        f"Default: {_code(parameter.get('Default'))} ({parameter['Type']})",
        f"Takes: {_takes(parameter)}",
    ]
    if "AllowedPattern" in parameter:
        facts.append(f"Pattern: {_code(parameter['AllowedPattern'])}")
    facts += [
        f"On an existing stack ({_OUTCOMES[change['outcome']]}): {change['effect']}"
        for change in updates
        if change["effect"]
    ]
    texts = [prose(str(parameter.get("Description", ""))), "\n".join(map(bullet, facts))]
    return "\n\n".join([f"### `{name}`", *filter(None, texts)])


def _takes(parameter: Mapping[str, Any]) -> str:
    """The values that a parameter accepts, in the template's words if it has any."""
    if "AllowedValues" in parameter:
        return ", ".join(_code(value) for value in parameter["AllowedValues"])
    parts = []
    if "ConstraintDescription" in parameter:
        text = str(parameter["ConstraintDescription"]).removeprefix("must be ")
        # An ellipsis is a part of an example.
        parts.append(text if text.endswith("...") else text.removesuffix("."))
    elif "MinValue" in parameter or "MaxValue" in parameter:
        parts.append(f"{parameter.get('MinValue', '')} to {parameter.get('MaxValue', 'any')}")
    else:
        parts.append("anything")
    if "MinLength" in parameter:
        parts.append(f"at least {parameter['MinLength']} characters")
    if "MaxLength" in parameter:
        parts.append(f"at most {parameter['MaxLength']} characters")
    return "; ".join(parts)


def _checks(template: Mapping[str, Any]) -> str:
    checks = [
        bullet(f"{_when(rule)}: {assertion['AssertDescription']}")
        for rule in template.get("Rules", {}).values()
        for assertion in rule["Assertions"]
    ]
    return "\n\n".join(
        [
            "## Checks before anything is created",
            prose(
                "CloudFormation checks these combinations of parameters first. Each line names the"
                " condition and the message."
            ),
            "\n".join(checks),
            prose(
                "The resource `Preflight` comes next. It checks what only AWS knows: zones and"
                " strategies of the instance type, addresses in a subnet, the existing cluster. It"
                " reports all errors in one message, which `sam deploy` prints."
            ),
        ]
    )


def _when(rule: Mapping[str, Any]) -> str:
    return f"If {_words(rule['RuleCondition'])}" if "RuleCondition" in rule else "Always"


def _words(condition: Any) -> str:
    """A condition in words.

    Raises:
        ValueError: the condition uses a function that this one does not know.
    """
    if not isinstance(condition, dict):
        return _code(condition)
    ((function, arguments),) = condition.items()
    match function:
        case "Ref":
            return f"`{arguments}`"
        case "Fn::Equals":
            return f"{_words(arguments[0])} is {_words(arguments[1])}"
        case "Fn::Not":
            inner = arguments[0]
            if "Fn::Equals" in inner:
                one, other = inner["Fn::Equals"]
                return f"{_words(one)} is not {_words(other)}"
            return f"not ({_words(inner)})"
        case "Fn::And":
            return " and ".join(_words(each) for each in arguments)
        case "Fn::Or":
            return " or ".join(_words(each) for each in arguments)
        case "Fn::Contains":
            return f"{_words(arguments[1])} is one of {', '.join(map(_code, arguments[0]))}"
    raise ValueError(f"{function} in a RuleCondition has no words yet")


def _code(value: Any) -> str:
    return "empty" if value in ("", None) else f"`{value}`"


def documents() -> dict[Path, str]:
    """The generated page by path."""
    return {
        REFERENCE: with_part(
            REFERENCE.read_text("utf-8"), "parameters", render(load(), load_updates())
        )
    }
