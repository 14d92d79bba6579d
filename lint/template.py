"""Read a template: its resources, references, conditions and comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cfnlint.template import Template

Scenario = Mapping[str, bool]
#: A place in a template: the path of keys and indices to it.
Place = list[str | int]


def resources(cfn: Template, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The logical id and the resource of all resources of these types."""
    entries = cfn.template.get("Resources")
    for name, resource in (entries if isinstance(entries, dict) else {}).items():
        if isinstance(resource, dict) and resource.get("Type") in kinds:
            yield name, resource


def properties(resource: Mapping[str, Any]) -> dict[str, Any]:
    """A resource's properties. Empty if they are missing or malformed."""
    entries = resource.get("Properties")
    return entries if isinstance(entries, dict) else {}


def walk(value: Any, place: Place | None = None) -> Iterator[tuple[Place, Any]]:
    """A value and all values nested in it, each with its place."""
    place = place or []
    yield place, value
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from walk(entry, [*place, key])
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from walk(entry, [*place, index])


def referred(value: Any) -> set[str]:
    """The logical ids and parameters that a value refers to by `Ref`, `Fn::GetAtt` or `Fn::Sub`."""
    names: set[str] = set()
    for _, inner in walk(value):
        if not isinstance(inner, dict):
            continue
        if isinstance(inner.get("Ref"), str):
            names.add(inner["Ref"])
        attribute = inner.get("Fn::GetAtt")
        if isinstance(attribute, str):
            names.add(attribute.partition(".")[0])
        elif isinstance(attribute, list) and attribute:
            names.add(str(attribute[0]))
        text = inner.get("Fn::Sub")
        text = text[0] if isinstance(text, list) and text else text
        if isinstance(text, str):
            names |= {part.partition("}")[0].partition(".")[0] for part in text.split("${")[1:]}
    return names


def _conditions(value: Any) -> set[str]:
    return {
        inner["Fn::If"][0]
        for _, inner in walk(value)
        if isinstance(inner, dict)
        and isinstance(inner.get("Fn::If"), list)
        and inner["Fn::If"]
        and isinstance(inner["Fn::If"][0], str)
    }


def scenarios(
    cfn: Template, *values: Any, existing: Iterable[Mapping[str, Any]] = ()
) -> Iterator[dict[str, bool]]:
    """All choices outcomes of the conditions in some values.

    Args:
        cfn: the template.
        values: the values to resolve together.
        existing: resources whose own condition is assumed true, because they exist no other way.

    Yields:
        Condition name to outcome. One empty scenario if nothing is conditional.
    """
    choices: dict[str, set[bool]] = {name: set() for value in values for name in _conditions(value)}
    for resource in existing:
        if isinstance(resource.get("Condition"), str):
            choices[resource["Condition"]] = {True}
    outcomes = list(cfn.conditions.build_scenarios(choices)) if choices else [{}]
    yield from outcomes


def source_lines(cfn: Template) -> list[str] | None:
    """The lines of the template's file. None for a template without a file."""
    if not cfn.filename or not Path(cfn.filename).is_file():
        return None
    return Path(cfn.filename).read_text().splitlines()


def line_of(cfn: Template, place: Place) -> int | None:
    """The line, from 0, where a place starts in the template's file."""
    location = cfn.get_location_yaml(cfn.template, place)
    return None if location is None else int(location[0])


def is_commented(lines: list[str], first: int, last: int) -> bool:
    """Whether there is a comment in the lines (from 0, inclusive) or right above the first."""
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return any(line.lstrip().startswith("#") or " # " in line for line in lines[first : last + 1])
