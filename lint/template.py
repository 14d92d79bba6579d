"""Read a template as CloudFormation does: resolve its conditions and its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cfnlint.template import Template

Scenario = Mapping[str, bool]
#: A place in a template: the path of keys and indices to it.
Place = list[str | int]

#: Marks a value that `AWS::NoValue` removes.
REMOVED = object()


def resources(cfn: Template, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The logical id and the resource of all resources of these types."""
    found = cfn.template.get("Resources")
    for name, resource in (found if isinstance(found, dict) else {}).items():
        if isinstance(resource, dict) and resource.get("Type") in kinds:
            yield name, resource


def properties(resource: Mapping[str, Any]) -> dict[str, Any]:
    """A resource's properties. Empty if they are missing or malformed."""
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
    """Only these properties of an object, or all of them if the object itself is conditional."""
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
    """All possible outcomes of the conditions in some values.

    Args:
        cfn: the template.
        values: the values to resolve together.
        given: resources whose own condition is assumed true, because otherwise they do not exist.

    Yields:
        Condition name to outcome. One empty scenario if nothing is conditional.
    """
    wanted: dict[str, set[bool]] = {name: set() for value in values for name in _conditions(value)}
    for resource in given:
        if isinstance(resource.get("Condition"), str):
            wanted[resource["Condition"]] = {True}
    found = list(cfn.conditions.build_scenarios(wanted)) if wanted else [{}]
    yield from found


def resolve(value: Any, scenario: Scenario) -> Any:
    """Resolve a value's conditions in a scenario. Returns `REMOVED` if nothing is left of it."""
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
    """Resolve an object in a scenario. Returns {} if it is not an object or is removed."""
    found = resolve(value, scenario)
    return found if isinstance(found, dict) else {}


def possible(
    cfn: Template, kind: str, *names: str, within: str | None = None
) -> Iterator[tuple[str, dict[str, Any], Scenario]]:
    """All resources of a type, in each of their scenarios.

    Args:
        cfn: the template.
        kind: the type.
        names: the properties to resolve. The number of scenarios grows with them.
        within: the property that contains these, if they are not the resource's own.

    Yields:
        Logical id, the properties in a scenario, and the scenario.
    """
    for logical_id, resource in resources(cfn, kind):
        held = properties(resource)
        part = pick(held if within is None else held.get(within), *names)
        for scenario in scenarios(cfn, part, given=[resource]):
            yield logical_id, resolved(part, scenario), scenario


def largest(cfn: Template, value: Any) -> float | None:
    """The largest possible number. Infinite for an unbounded parameter, None if unknown."""
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
