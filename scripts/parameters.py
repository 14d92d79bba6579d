"""Generate docs/parameters.md, the reference of the stack's parameters.

Its sources are the two root templates, and docs/updates.yaml for what a change on an existing stack
does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from cfnlint.decode import decode

from rackrate_text.words import listed
from scripts.markdown import ROOT, bullet, prose, with_part

OWN_CLUSTER, EXISTING_CLUSTER = ROOT / "template.yaml", ROOT / "existing-cluster.yaml"
REFERENCE = ROOT / "docs" / "parameters.md"
UPDATES = ROOT / "docs" / "updates.yaml"

#: What happens to a stack, in the words of the reference.
_OUTCOMES = {"kept": "kept", "nodes": "replaced", "replaced": "replaced", "refused": "refused"}
_INTERFACE = "AWS::CloudFormation::Interface"
_CHECKS = "## Checks before anything is created\n\n" + prose(
    "CloudFormation checks each parameter first. Then the resource `Preflight` checks what"
    " parameters mean together, and what only AWS knows: zones and strategies of the instance type,"
    " addresses in a subnet, the existing cluster. It reports all errors in one message, which"
    " `sam deploy` prints."
)


def load(path: Path) -> dict[str, Any]:
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


def render(
    own: Mapping[str, Any],
    existing: Mapping[str, Any],
    updates: Mapping[str, list[dict[str, Any]]],
) -> str:
    """The reference as Markdown: a section for each parameter, and the forms' order.

    Args:
        own: the template of a stack with a cluster of its own.
        existing: the template of a stack that uses a cluster. Of its parameters only those have a
            section that the other template lacks, or describes in other words.
        updates: what changes of each parameter do.

    Raises:
        KeyError: `updates` lacks a parameter.
    """
    parameters = own["Parameters"]
    parts = [
        "\n\n".join(
            [f"## {title}", *(_section(name, parameters[name], updates[name]) for name in names)]
        )
        for title, names in groups(own)
    ]
    others = {
        name: parameter
        for name, parameter in existing["Parameters"].items()
        if parameter != parameters.get(name)
    }
    same = [f"[`{name}`](#{name.lower()})" for name in existing["Parameters"] if name not in others]
    parts.append(
        "\n\n".join(
            [
                "## In a cluster that exists",
                prose(
                    "`existing-cluster.yaml` has these parameters. It also has"
                    f" {listed(same)}, as above."
                ),
                *(
                    _section(name, parameter, updates[name], is_other=name in parameters)
                    for name, parameter in others.items()
                ),
            ]
        )
    )
    forms = [
        *form(own, "The console's form"),
        "",
        *form(existing, "The console's form for a cluster that exists"),
    ]
    return "\n\n".join([*parts, _CHECKS, "\n".join(forms)]) + "\n"


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


def form(template: Mapping[str, Any], title: str) -> list[str]:
    """The console's form as text: the labels of each group, linked to their sections."""
    labels = template.get("Metadata", {}).get(_INTERFACE, {}).get("ParameterLabels", {})
    lines = [f"## {title}"]
    for group, names in groups(template):
        lines += ["", f"**{group}**", ""]
        for number, name in enumerate(names, start=1):
            label = labels.get(name, {}).get("default", name)
            lines.append(f"{number}. [`{name}`](#{name.lower()}): {label}")
    return lines


def _section(
    name: str,
    parameter: Mapping[str, Any],
    updates: list[dict[str, Any]],
    *,
    is_other: bool = False,
) -> str:
    """A parameter's section; `is_other` says that the other template has one of the name."""
    facts = [
        f"Default: {_code(parameter.get('Default'))} ({parameter['Type']})",
        f"Takes: {_takes(parameter)}",
    ]
    if "AllowedPattern" in parameter:
        facts.append(f"Pattern: {_code(parameter['AllowedPattern'])}")
    facts += [
        f"On an existing stack ({_OUTCOMES[change['outcome']]}): {change['effect']}"
        for change in ([] if is_other else updates)
        if change["effect"]
    ]
    texts = [prose(str(parameter.get("Description", ""))), "\n".join(map(bullet, facts))]
    title = f"### `{name}` in a cluster that exists" if is_other else f"### `{name}`"
    return "\n\n".join([title, *filter(None, texts)])


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


def _code(value: Any) -> str:
    return "empty" if value in ("", None) else f"`{value}`"


def documents() -> dict[Path, str]:
    """The generated page by path."""
    return {
        REFERENCE: with_part(
            REFERENCE.read_text("utf-8"),
            "parameters",
            render(load(OWN_CLUSTER), load(EXISTING_CLUSTER), load_updates()),
        )
    }
