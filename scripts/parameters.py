"""The reference of the stack's parameters, docs/parameters.md, made of template.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cfnlint.decode import decode

from scripts.markdown import ROOT, table, with_part

TEMPLATE = ROOT / "template.yaml"
REFERENCE = ROOT / "docs" / "parameters.md"

_INTERFACE = "AWS::CloudFormation::Interface"


def load(path: Path = TEMPLATE) -> dict[str, Any]:
    """A template as plain data, with short forms such as `!Ref` written out.

    Raises:
        ValueError: it is no template.
    """
    template, faults = decode(str(path))
    if template is None or faults:
        raise ValueError(f"{path}: {'; '.join(str(fault) for fault in faults)}")
    return dict(template)


def render(template: Mapping[str, Any]) -> str:
    """The reference as Markdown: a table for each group, what is checked, and the form's order."""
    parameters = template["Parameters"]
    titles = ("parameter", "type", "default", "takes", "what it is")
    parts = [
        f"## {title}\n\n{table(titles, (_cells(name, parameters[name]) for name in names))}\n"
        for title, names in groups(template)
    ]
    return "\n".join([*parts, *_checks(template), "", *form(template)]) + "\n"


def groups(template: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The title and the parameters of each group, in the order of the console's form.

    Parameters that are in no group come last, as they do in the console.
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
    """The lines that show the console's form: each group with its labels and the defaults."""
    labels = template.get("Metadata", {}).get(_INTERFACE, {}).get("ParameterLabels", {})
    lines = ["## The console's form"]
    for title, names in groups(template):
        lines += ["", f"**{title}**", ""]
        for number, name in enumerate(names, start=1):
            label = labels.get(name, {}).get("default", name)
            default = template["Parameters"][name].get("Default")
            lines.append(f"{number}. {label} (`{name}`): {_code(default)}")
    return lines


def _cells(name: str, parameter: Mapping[str, Any]) -> list[str]:
    return [
        f"`{name}`",
        str(parameter["Type"]),
        _code(parameter.get("Default")),
        _takes(parameter),
        str(parameter.get("Description", "")),
    ]


def _takes(parameter: Mapping[str, Any]) -> str:
    """What a parameter takes, in words where the template has them."""
    if "AllowedValues" in parameter:
        return ", ".join(_code(value) for value in parameter["AllowedValues"])
    parts = []
    if "ConstraintDescription" in parameter:
        parts.append(str(parameter["ConstraintDescription"]).removeprefix("must be ").rstrip("."))
    elif "MinValue" in parameter or "MaxValue" in parameter:
        parts.append(f"{parameter.get('MinValue', '')} to {parameter.get('MaxValue', 'any')}")
    else:
        parts.append("anything")
    if "MinLength" in parameter:
        parts.append(f"at least {parameter['MinLength']} characters")
    if "MaxLength" in parameter:
        parts.append(f"at most {parameter['MaxLength']} characters")
    if "AllowedPattern" in parameter:
        parts.append(f"pattern {_code(parameter['AllowedPattern'])}")
    return "; ".join(parts)


def _checks(template: Mapping[str, Any]) -> Iterator[str]:
    yield "## What is refused before anything is created\n"
    yield table(
        ("when", "what you read"),
        (
            (
                _words(rule["RuleCondition"]) if "RuleCondition" in rule else "always",
                str(assertion["AssertDescription"]),
            )
            for rule in template.get("Rules", {}).values()
            for assertion in rule["Assertions"]
        ),
    )
    yield ""
    yield (
        "What only AWS knows (zones and strategies of a type, addresses in a subnet, the cluster\n"
        "that exists) the preflight stack refuses first of all, with a message of the same kind."
    )


def _words(condition: Any) -> str:
    """A condition in words.

    Raises:
        ValueError: it uses a function that nobody has taught this one.
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
    """The page, as it should be."""
    return {REFERENCE: with_part(REFERENCE.read_text("utf-8"), "parameters", render(load()))}
