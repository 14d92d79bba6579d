"""Parameters: defaults, types, constraints, and the template's Rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .intrinsics import Resolver
from .template import TemplateError


def resolve_parameters(
    template: Mapping[str, Any],
    given: Mapping[str, str],
    read_ssm: Callable[[str], str],
) -> dict[str, Any]:
    """Values of the template's parameters, checked. Raises TemplateError naming the parameter."""
    declared: Mapping[str, Any] = template.get("Parameters") or {}
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise TemplateError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    missing = sorted(
        name for name, spec in declared.items() if name not in given and "Default" not in spec
    )
    if missing:
        raise TemplateError(f"Parameters: [{', '.join(missing)}] must have values")
    return {
        name: _value(name, spec, given[name] if name in given else spec["Default"], read_ssm)
        for name, spec in declared.items()
    }


def _value(name: str, spec: Mapping[str, Any], raw: Any, read_ssm: Callable[[str], str]) -> Any:
    kind = str(spec.get("Type", "String"))
    text = ",".join(map(str, raw)) if isinstance(raw, list) else _plain(raw)
    if kind.startswith("AWS::SSM::Parameter::Value"):
        text = read_ssm(text)
        kind = kind.removeprefix("AWS::SSM::Parameter::Value<").removesuffix(">")
    is_list = kind == "CommaDelimitedList" or kind.startswith("List<")
    items = [item.strip() for item in text.split(",")] if is_list and text else []
    for item in items if is_list else [text]:
        _check(name, spec, kind, item)
    return items if is_list else text


def _plain(raw: Any) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return str(raw)


def _check(name: str, spec: Mapping[str, Any], kind: str, value: str) -> None:
    def fail(what: str) -> TemplateError:
        described = spec.get("ConstraintDescription")
        return TemplateError(f"Parameter '{name}' {described or what}".strip())

    allowed = spec.get("AllowedValues")
    if allowed is not None and value not in [_plain(option) for option in allowed]:
        options = ", ".join(_plain(option) for option in allowed)
        raise fail(f"must be one of AllowedValues [{options}], not {value!r}")
    pattern = spec.get("AllowedPattern")
    if pattern is not None and not re.fullmatch(pattern, value):
        raise fail(f"must match pattern {pattern}, which {value!r} does not")
    if "MinLength" in spec and len(value) < int(spec["MinLength"]):
        raise fail(f"must contain at least {spec['MinLength']} characters")
    if "MaxLength" in spec and len(value) > int(spec["MaxLength"]):
        raise fail(f"must contain at most {spec['MaxLength']} characters")
    if kind in ("Number", "List<Number>"):
        try:
            number = float(value)
        except ValueError:
            raise fail(f"must be a number, not {value!r}") from None
        if "MinValue" in spec and number < float(spec["MinValue"]):
            raise fail(f"must be a number not less than {spec['MinValue']}")
        if "MaxValue" in spec and number > float(spec["MaxValue"]):
            raise fail(f"must be a number not greater than {spec['MaxValue']}")


def check_rules(template: Mapping[str, Any], resolver: Resolver) -> None:
    """Evaluate the Rules section. Raises TemplateError with the failed assertions."""
    failed = []
    for name, rule in (template.get("Rules") or {}).items():
        if "RuleCondition" in rule and not resolver.truth(rule["RuleCondition"]):
            continue
        failed += [
            f"Rule {name}: {assertion.get('AssertDescription', assertion['Assert'])}"
            for assertion in rule.get("Assertions", [])
            if not resolver.truth(assertion["Assert"])
        ]
    if failed:
        raise TemplateError("Template validation error: Assertion failed: " + "; ".join(failed))
