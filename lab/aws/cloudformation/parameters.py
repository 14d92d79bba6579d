"""Parameters: defaults, types, constraints, and the template's Rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lab.aws.cloudformation.coercion import text
from lab.aws.cloudformation.intrinsics import Resolver
from lab.aws.cloudformation.template import TemplateError

# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
_VALUE_BYTES = 4096
#: What a change set has in place of a value that only its execution yields.
UNKNOWN = "{{changeSet:KNOWN_AFTER_APPLY}}"
_RULE_FUNCTIONS = {"Fn::And", "Fn::Contains", "Fn::Equals", "Fn::Not", "Fn::Or"}


def resolve_parameters(
    template: Mapping[str, Any],
    values: Mapping[str, str],
) -> dict[str, Any]:
    """Values of the template's parameters, checked. Raises TemplateError naming the parameter."""
    declared: Mapping[str, Any] = template.get("Parameters") or {}
    unknown = sorted(set(values) - set(declared))
    if unknown:
        raise TemplateError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    missing = sorted(
        name for name, spec in declared.items() if name not in values and "Default" not in spec
    )
    if missing:
        raise TemplateError(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in values.items():
        if len(value.encode()) > _VALUE_BYTES:
            raise TemplateError(
                f"Parameter '{name}' must contain at most {_VALUE_BYTES} characters"
            )
    return {
        name: _value(name, spec, values[name] if name in values else spec["Default"])
        for name, spec in declared.items()
    }


def _value(name: str, spec: Mapping[str, Any], raw: Any) -> Any:
    kind = str(spec.get("Type", "String"))
    written = text(raw)
    is_list = kind == "CommaDelimitedList" or kind.startswith("List<")
    items = [item.strip() for item in written.split(",")] if is_list and written else []
    for item in [] if UNKNOWN in written else items if is_list else [written]:
        _check(name, spec, kind, item)
    return items if is_list else written


def _check(name: str, spec: Mapping[str, Any], kind: str, value: str) -> None:
    def fail(what: str) -> TemplateError:
        described = spec.get("ConstraintDescription")
        reason = f"failed to satisfy constraint: {described}" if described else what
        return TemplateError(f"Parameter '{name}' {reason}")

    allowed = spec.get("AllowedValues")
    if allowed is not None and value not in map(text, allowed):
        raise fail("must be one of AllowedValues")
    pattern = spec.get("AllowedPattern")
    if pattern is not None and not re.fullmatch(pattern, value):
        raise fail(f"must match pattern {pattern}")
    if "MinLength" in spec and len(value) < int(spec["MinLength"]):
        raise fail(f"must contain at least {spec['MinLength']} characters")
    if "MaxLength" in spec and len(value) > int(spec["MaxLength"]):
        raise fail(f"must contain at most {spec['MaxLength']} characters")
    if kind in ("Number", "List<Number>"):
        try:
            number = float(value)
        except ValueError:
            raise fail("must be a number") from None
        if "MinValue" in spec and number < float(spec["MinValue"]):
            raise fail(f"must be a number not less than {spec['MinValue']}")
        if "MaxValue" in spec and number > float(spec["MaxValue"]):
            raise fail(f"must be a number not greater than {spec['MaxValue']}")


class Rules:
    """The Rules section, which may use only condition functions and functions of its own.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-rules.html
    Of the functions that only rules have, the lab supports Fn::Contains alone.
    """

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        self._rules: Mapping[str, Any] = template.get("Rules") or {}
        self._parameters = parameters

    def check(self, resolver: Resolver) -> None:
        """Evaluate every rule. Raises TemplateError with the failed assertions."""
        failed = []
        for name, rule in self._rules.items():
            when = rule.get("RuleCondition")
            if when is not None:
                self._require_known(when, name)
                if not resolver.truth(when):
                    continue
            for assertion in rule.get("Assertions", []):
                self._require_known(assertion["Assert"], name)
                if not resolver.truth(assertion["Assert"]):
                    message = assertion.get("AssertDescription", assertion["Assert"])
                    failed.append(f"Rule {name}: {message}")
        if failed:
            raise TemplateError("Template validation error: Assertion failed: " + "; ".join(failed))

    def _require_known(self, expression: Any, rule: str) -> None:
        if isinstance(expression, list):
            for item in expression:
                self._require_known(item, rule)
        if not isinstance(expression, dict):
            return
        (function, argument), *_ = expression.items()
        if function == "Ref":
            is_known = argument in self._parameters or str(argument).startswith("AWS::")
        else:
            is_known = function in _RULE_FUNCTIONS
            self._require_known(argument, rule)
        if not is_known:
            raise TemplateError(
                f"Template format error: Rule {rule}: {function} {argument} cannot be used in a"
                " rule"
            )
