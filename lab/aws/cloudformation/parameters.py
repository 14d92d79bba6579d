"""Parameters: defaults, types, constraints, and the template's Rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .intrinsics import Resolver
from .template import TemplateError

# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
_VALUE_BYTES = 4096
_RULE_FUNCTIONS = {
    "Fn::And",
    "Fn::Contains",
    "Fn::EachMemberEquals",
    "Fn::EachMemberIn",
    "Fn::Equals",
    "Fn::Not",
    "Fn::Or",
}


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
    for name, value in given.items():
        if len(value.encode()) > _VALUE_BYTES:
            raise TemplateError(
                f"Parameter '{name}' must contain at most {_VALUE_BYTES} characters"
            )
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
        reason = f"failed to satisfy constraint: {described}" if described else what
        return TemplateError(f"Parameter '{name}' {reason}")

    allowed = spec.get("AllowedValues")
    if allowed is not None and value not in [_plain(option) for option in allowed]:
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
    """The Rules section, which knows functions of its own and none of the template's others.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-rules.html
    `attribute` answers Fn::ValueOf: of a parameter's type, a value of it, and an attribute's name.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        parameters: Mapping[str, Any],
        attribute: Callable[[str, str, str], Any],
    ) -> None:
        self._rules: Mapping[str, Any] = template.get("Rules") or {}
        self._types = {
            name: str(spec.get("Type", "String"))
            for name, spec in (template.get("Parameters") or {}).items()
        }
        self._parameters = parameters
        self._attribute = attribute

    def check(self, resolver: Resolver) -> None:
        """Evaluate every rule. Raises TemplateError with the failed assertions."""
        failed = []
        for name, rule in self._rules.items():
            when = rule.get("RuleCondition")
            if when is not None and not resolver.truth(self._plain(when, name)):
                continue
            failed += [
                f"Rule {name}: {assertion.get('AssertDescription', assertion['Assert'])}"
                for assertion in rule.get("Assertions", [])
                if not resolver.truth(self._plain(assertion["Assert"], name))
            ]
        if failed:
            raise TemplateError("Template validation error: Assertion failed: " + "; ".join(failed))

    def _plain(self, expression: Any, rule: str) -> Any:
        """The expression with the functions of rules alone replaced by their values."""
        if isinstance(expression, list):
            return [self._plain(item, rule) for item in expression]
        if not isinstance(expression, dict):
            return expression
        (function, argument), *_ = expression.items()
        match function:
            case "Fn::RefAll":
                return self._all(argument)
            case "Fn::ValueOf":
                parameter, attribute = argument
                return self._values([parameter], attribute, self._parameters.get(parameter))
            case "Fn::ValueOfAll":
                kind, attribute = argument
                return self._values(self._of_type(kind), attribute, self._all(kind))
            case "Ref" if argument in self._parameters or str(argument).startswith("AWS::"):
                return expression
            case _ if function in _RULE_FUNCTIONS:
                return {function: self._plain(argument, rule)}
        raise TemplateError(
            f"Template format error: Rule {rule}: {function} {argument} cannot be used in a rule"
        )

    def _of_type(self, kind: str) -> list[str]:
        return [
            name for name, declared in self._types.items() if declared in (kind, f"List<{kind}>")
        ]

    def _all(self, kind: str) -> list[Any]:
        found: list[Any] = []
        for name in self._of_type(kind):
            value = self._parameters[name]
            found += value if isinstance(value, list) else [value]
        return found

    def _values(self, parameters: list[str], attribute: str, value: Any) -> Any:
        if not parameters or parameters[0] not in self._types:
            return []
        kind = self._types[parameters[0]].removeprefix("List<").removesuffix(">")
        if isinstance(value, list):
            return [self._attribute(kind, item, attribute) for item in value]
        return self._attribute(kind, str(value), attribute)
