"""Intrinsic functions, conditions, and what a resource refers to."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from lab.aws.cloudformation.coercion import text
from lab.aws.cloudformation.template import TemplateError

_REFERENCE = re.compile(r"\$\{([^}!][^}]*)\}")
_LITERAL = re.compile(r"\$\{!([^}]*)\}")


class _NoValue:
    """The value of Ref AWS::NoValue, which removes a property from the template."""

    def __str__(self) -> str:
        return ""


NO_VALUE = _NoValue()


def sub_names(value: Any) -> list[str]:
    """The names between ${ and } in the argument of Fn::Sub, without its own variables."""
    template, variables = value if isinstance(value, list) else (value, {})
    return [name.strip() for name in _REFERENCE.findall(template) if name.strip() not in variables]


def referenced_names(value: Any, conditions: Mapping[str, bool]) -> set[str]:
    """Logical names that `value` refers to, following only the chosen branch of Fn::If."""
    names: set[str] = set()
    if isinstance(value, list):
        for item in value:
            names |= referenced_names(item, conditions)
    elif isinstance(value, dict):
        if len(value) == 1:
            (function, argument), *_ = value.items()
            if function == "Ref":
                return {argument}
            if function == "Fn::GetAtt":
                target = argument.split(".", 1)[0] if isinstance(argument, str) else argument[0]
                return {target}
            if function == "Fn::Sub":
                names |= {name.split(".", 1)[0] for name in sub_names(argument)}
                if isinstance(argument, list):
                    names |= referenced_names(argument[1], conditions)
                return names
            if function == "Fn::If" and argument[0] in conditions:
                return referenced_names(argument[1 if conditions[argument[0]] else 2], conditions)
        for item in value.values():
            names |= referenced_names(item, conditions)
    return names


class Resolver:
    """Evaluates template values.

    `reference` answers Ref (parameters, pseudo parameters and resources), `attribute` answers
    Fn::GetAtt. Each raises TemplateError for an unknown name.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        *,
        reference: Callable[[str], Any],
        attribute: Callable[[str, str], Any],
    ) -> None:
        self._mappings = template.get("Mappings", {})
        self._declared_conditions = template.get("Conditions", {})
        self._reference = reference
        self._attribute = attribute
        self._evaluating: list[str] = []
        self.conditions: dict[str, bool] = {}

    def evaluate_conditions(self) -> None:
        """Evaluate every declared condition into `conditions`."""
        for name in self._declared_conditions:
            self.condition(name)

    def condition(self, name: str) -> bool:
        """The value of a named condition."""
        if name not in self.conditions:
            if name not in self._declared_conditions:
                raise TemplateError(f"Template error: unresolved condition dependency {name}")
            if name in self._evaluating:
                raise TemplateError(f"Template error: circular condition dependency on {name}")
            self._evaluating.append(name)
            self.conditions[name] = self.truth(self._declared_conditions[name])
            self._evaluating.pop()
        return self.conditions[name]

    def truth(self, expression: Any) -> bool:
        """Evaluate a condition or rule expression."""
        if isinstance(expression, bool):
            return expression
        if not isinstance(expression, dict) or len(expression) != 1:
            raise TemplateError(f"Template error: {expression!r} is not a condition")
        (function, argument), *_ = expression.items()
        match function:
            case "Condition":
                return self.condition(argument)
            case "Fn::Equals":
                left, right = (self.resolve(side) for side in argument)
                return text(left) == text(right)
            case "Fn::Not":
                return not self.truth(argument[0])
            case "Fn::And":
                return all(self.truth(part) for part in argument)
            case "Fn::Or":
                return any(self.truth(part) for part in argument)
            case "Fn::Contains":
                values, value = (self.resolve(side) for side in argument)
                return text(value) in [text(item) for item in values]
        raise TemplateError(f"Template error: {function} is not a condition function")

    def resolve(self, value: Any) -> Any:
        """`value` with every intrinsic function evaluated and NoValue members removed."""
        if isinstance(value, list):
            items = [self.resolve(item) for item in value]
            return [item for item in items if item is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (function, argument), *_ = value.items()
            if function == "Ref":
                return NO_VALUE if argument == "AWS::NoValue" else self._reference(argument)
            if (
                function == "Condition"
                and isinstance(argument, str)
                and (argument in self._declared_conditions)
            ):
                return self.condition(argument)
            if function.startswith("Fn::"):
                return self._function(function, argument)
        members = {name: self.resolve(item) for name, item in value.items()}
        return {name: item for name, item in members.items() if item is not NO_VALUE}

    def _function(self, function: str, argument: Any) -> Any:
        match function:
            case "Fn::GetAtt":
                if isinstance(argument, str):
                    argument = argument.split(".", 1)
                return self._attribute(argument[0], ".".join(map(str, argument[1:])))
            case "Fn::If":
                return self.resolve(argument[1 if self.condition(argument[0]) else 2])
            case "Fn::Sub":
                return self._sub(argument)
            case "Fn::Join":
                parts = self.resolve(argument[1])
                return argument[0].join(text(part) for part in parts)
            case "Fn::Split":
                return text(self.resolve(argument[1])).split(argument[0])
            case "Fn::Select":
                index, items = int(self.resolve(argument[0])), self.resolve(argument[1])
                if not 0 <= index < len(items):
                    raise TemplateError(
                        f"Template error: Fn::Select cannot select nonexistent value at index"
                        f" {index}"
                    )
                return items[index]
            case "Fn::FindInMap":
                return self._find_in_map(argument)
            case "Fn::Base64":
                return base64.b64encode(text(self.resolve(argument)).encode()).decode()
            case "Fn::Cidr":
                block, count, *bits = (self.resolve(item) for item in argument)
                prefix = 32 - int(bits[0] if bits else 8)
                subnets = ipaddress.ip_network(block).subnets(new_prefix=prefix)
                return [str(subnet) for subnet, _ in zip(subnets, range(int(count)), strict=False)]
            case "Fn::Equals" | "Fn::And" | "Fn::Or" | "Fn::Not":
                return self.truth({function: argument})
        raise TemplateError(f"Template error: unsupported function {function}")

    def _find_in_map(self, argument: list[Any]) -> Any:
        name, *path = (self.resolve(item) for item in argument[:3])
        value: Any = self._mappings.get(name)
        for key in path:
            value = value.get(text(key)) if isinstance(value, dict) else None
        if value is None:
            raise TemplateError(
                f"Template error: Unable to get mapping for {name}::{'::'.join(map(str, path))}"
            )
        return value

    def _sub(self, argument: Any) -> str:
        template, variables = argument if isinstance(argument, list) else (argument, {})
        values = {name: text(self.resolve(value)) for name, value in variables.items()}

        def replace(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name in values:
                return values[name]
            if "." in name:
                return text(self._attribute(*name.split(".", 1)))
            return text(self._reference(name))

        return _LITERAL.sub(r"${\1}", _REFERENCE.sub(replace, template))
