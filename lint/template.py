"""Reads a template as CloudFormation would: condition by condition, value by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cfnlint.conditions import UnknownSatisfisfaction
from cfnlint.template import Template

Scenario = Mapping[str, bool]
#: Where something is in a template: the keys and indices that lead there.
Place = list[str | int]

#: What is left of a value that `AWS::NoValue` removes.
REMOVED = object()


def resources(cfn: Template, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Logical id and resource of every resource of these types."""
    found = cfn.template.get("Resources")
    for name, resource in (found if isinstance(found, dict) else {}).items():
        if isinstance(resource, dict) and resource.get("Type") in kinds:
            yield name, resource


def properties(resource: Mapping[str, Any]) -> dict[str, Any]:
    """A resource's properties; none if they are missing or malformed."""
    found = resource.get("Properties")
    return found if isinstance(found, dict) else {}


def parameters(cfn: Template) -> dict[str, dict[str, Any]]:
    """The template's well-formed parameters."""
    found = cfn.template.get("Parameters")
    return {
        name: parameter
        for name, parameter in (found if isinstance(found, dict) else {}).items()
        if isinstance(parameter, dict)
    }


def walk(value: Any, place: Place | None = None) -> Iterator[tuple[Place, Any]]:
    """A value and everything in it, each with its place."""
    place = place or []
    yield place, value
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from walk(entry, [*place, key])
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from walk(entry, [*place, index])


def referred(value: Any) -> set[str]:
    """The logical ids and parameters a value refers to by `Ref`, `Fn::GetAtt` or `Fn::Sub`."""
    found: set[str] = set()
    for _, inner in walk(value):
        if not isinstance(inner, dict):
            continue
        if isinstance(inner.get("Ref"), str):
            found.add(inner["Ref"])
        attribute = inner.get("Fn::GetAtt")
        if isinstance(attribute, str):
            found.add(attribute.partition(".")[0])
        elif isinstance(attribute, list) and attribute:
            found.add(str(attribute[0]))
        text = inner.get("Fn::Sub")
        text = text[0] if isinstance(text, list) and text else text
        if isinstance(text, str):
            found |= {part.partition("}")[0].partition(".")[0] for part in text.split("${")[1:]}
    return found


def pick(value: Any, *names: str) -> Any:
    """Only these properties of an object; all of one that is itself conditional."""
    if not isinstance(value, dict) or "Fn::If" in value:
        return value
    return {name: value[name] for name in names if name in value}


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
    cfn: Template, *values: Any, given: Iterable[Mapping[str, Any]] = ()
) -> Iterator[dict[str, bool]]:
    """Every possible outcome of the conditions in some values.

    Args:
        cfn: the template.
        values: what is looked at together.
        given: resources whose own condition holds, because only then do they exist.

    Yields:
        Condition name to outcome; one empty scenario where nothing is conditional.
    """
    wanted: dict[str, set[bool]] = {name: set() for value in values for name in _conditions(value)}
    for resource in given:
        if isinstance(resource.get("Condition"), str):
            wanted[resource["Condition"]] = {True}
    found = list(cfn.conditions.build_scenarios(wanted)) if wanted else [{}]
    yield from found


def resolve(value: Any, scenario: Scenario) -> Any:
    """A value as it is in a scenario, without conditions; `REMOVED` where nothing is left of it."""
    if isinstance(value, dict):
        chosen = value.get("Fn::If")
        if isinstance(chosen, list) and len(chosen) == 3 and chosen[0] in scenario:
            return resolve(chosen[1] if scenario[chosen[0]] else chosen[2], scenario)
        if value.get("Ref") == "AWS::NoValue":
            return REMOVED
        kept = {key: resolve(entry, scenario) for key, entry in value.items()}
        return {key: entry for key, entry in kept.items() if entry is not REMOVED}
    if isinstance(value, list):
        return [entry for entry in (resolve(e, scenario) for e in value) if entry is not REMOVED]
    return value


def resolved(value: Any, scenario: Scenario) -> dict[str, Any]:
    """An object as it is in a scenario; empty where it is no object or not there at all."""
    found = resolve(value, scenario)
    return found if isinstance(found, dict) else {}


def possible(
    cfn: Template, kind: str, *names: str, within: str | None = None
) -> Iterator[tuple[str, dict[str, Any], Scenario]]:
    """Every resource of a type as it can be.

    Args:
        cfn: the template.
        kind: the type.
        names: the properties to look at; the number of scenarios grows with them.
        within: the property that holds these, where they are not the resource's own.

    Yields:
        Logical id, the properties as they are in a scenario, and the scenario.
    """
    for logical_id, resource in resources(cfn, kind):
        held = properties(resource)
        part = pick(held if within is None else held.get(within), *names)
        for scenario in scenarios(cfn, part, given=[resource]):
            yield logical_id, resolved(part, scenario), scenario


def possible_values(cfn: Template, value: Any, scenario: Scenario) -> set[str] | None:
    """What a value can be in a scenario: itself, or what its parameter allows.

    Returns:
        None where nothing is known of it.
    """
    if isinstance(value, str | int):
        return {str(value)}
    name = value.get("Ref") if isinstance(value, dict) else None
    allowed = parameters(cfn).get(str(name), {}).get("AllowedValues")
    if not isinstance(allowed, list):
        return None
    return {str(each) for each in allowed if _can_be(cfn, str(name), str(each), scenario)}


def _can_be(cfn: Template, parameter: str, value: str, scenario: Scenario) -> bool:
    try:
        return bool(cfn.conditions.satisfiable(dict(scenario), {parameter: value}))
    except UnknownSatisfisfaction:
        return True


def largest(cfn: Template, value: Any) -> float | None:
    """The largest number a value can be; infinite for an unbounded parameter, None if unknown."""
    if isinstance(value, int | str):
        return float(value) if str(value).isdecimal() else None
    parameter = parameters(cfn).get(str(value.get("Ref"))) if isinstance(value, dict) else None
    if parameter is None:
        return None
    if isinstance(parameter.get("AllowedValues"), list):
        numbers = [str(each) for each in parameter["AllowedValues"] if str(each).isdecimal()]
        return max(map(float, numbers), default=None)
    return float(parameter.get("MaxValue", "inf"))


def source_lines(cfn: Template) -> list[str] | None:
    """The lines of the template's file; None for a template that comes from no file."""
    if not cfn.filename or not Path(cfn.filename).is_file():
        return None
    return Path(cfn.filename).read_text().splitlines()


def line_of(cfn: Template, place: Place) -> int | None:
    """The line, from 0, where something starts in the template's file."""
    location = cfn.get_location_yaml(cfn.template, place)
    return None if location is None else int(location[0])


def is_commented(lines: list[str], first: int, last: int) -> bool:
    """Is there a comment between two lines (from 0, both included), or right above the first?"""
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return any(line.lstrip().startswith("#") or " # " in line for line in lines[first : last + 1])
