"""IAM policies: whether they allow an action on a resource, by AWS's evaluation logic.

moto's evaluator treats a condition that does not hold as a denial, and it knows neither NotResource
nor permissions boundaries. So the lab has an evaluator of its own.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The condition keys of a request in lower case, each with its values.
Context = Mapping[str, Sequence[str]]

_VARIABLE = re.compile(r"\$\{([^}]+)\}")


class UnknownOperator(Exception):
    """A condition operator that the lab does not evaluate."""


@functools.lru_cache(4096)
def pattern(text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile a pattern with IAM's wildcards: * for any characters, ? for one."""
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in text)
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def as_list(value: Any) -> list[Any]:
    """An element of a policy as a list; a policy may write one value without a list."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class Statement:
    """One statement of an identity-based policy."""

    effect: str
    actions: tuple[str, ...]
    not_actions: tuple[str, ...]
    resources: tuple[str, ...]
    not_resources: tuple[str, ...]
    condition: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Statement:
        """Read a statement of a policy document."""
        return cls(
            str(document["Effect"]),
            tuple(as_list(document.get("Action"))),
            tuple(as_list(document.get("NotAction"))),
            tuple(as_list(document.get("Resource"))),
            tuple(as_list(document.get("NotResource"))),
            document.get("Condition") or {},
        )

    def applies(self, action: str, resource: str, context: Context) -> bool:
        """Whether the statement applies to this request. Raises UnknownOperator."""
        return (
            self._speaks_of_action(action)
            and self._speaks_of_resource(resource, context)
            and holds(self.condition, context)
        )

    def _speaks_of_action(self, action: str) -> bool:
        if self.not_actions:
            return not any(_matches(item, action, ignore_case=True) for item in self.not_actions)
        return any(_matches(item, action, ignore_case=True) for item in self.actions)

    def _speaks_of_resource(self, resource: str, context: Context) -> bool:
        if self.not_resources:
            return not any(_matches(_filled(i, context), resource) for i in self.not_resources)
        return any(_matches(_filled(item, context), resource) for item in self.resources)


def statements(policy: str | Mapping[str, Any]) -> list[Statement]:
    """The statements of a policy document, given as JSON or parsed."""
    document = json.loads(policy) if isinstance(policy, str) else policy
    return [Statement.of(item) for item in as_list(document.get("Statement"))]


@dataclass(frozen=True)
class Policies:
    """All policies of one principal; `boundary` is None when there is no boundary."""

    identity: tuple[Statement, ...]
    boundary: tuple[Statement, ...] | None = None

    def refusal(self, action: str, resource: str, context: Context) -> str | None:
        """Why the request is refused, in AWS's words; None when it is allowed."""
        every = self.identity + (self.boundary or ())
        if _any(every, "Deny", action, resource, context):
            return "with an explicit deny in an identity-based policy"
        if not _any(self.identity, "Allow", action, resource, context):
            return f"because no identity-based policy allows the {action} action"
        if self.boundary is not None and not _any(
            self.boundary, "Allow", action, resource, context
        ):
            return f"because no permissions boundary allows the {action} action"
        return None


def _any(
    among: Iterable[Statement], effect: str, action: str, resource: str, context: Context
) -> bool:
    return any(
        statement.effect == effect and statement.applies(action, resource, context)
        for statement in among
    )


def _matches(text: str, value: str, *, ignore_case: bool = False) -> bool:
    return pattern(text, ignore_case=ignore_case).fullmatch(value) is not None


def _filled(text: str, context: Context) -> str:
    """Replace policy variables by their values; a variable without a value matches nothing."""
    if "${" not in text:
        return text
    return _VARIABLE.sub(
        lambda variable: (context.get(variable[1].lower()) or ["\0unknown\0"])[0],
        text,
    )


def holds(condition: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    """Whether every operator of a condition holds. Raises UnknownOperator."""
    return all(
        _operator_holds(operator, key.lower(), [_word(v) for v in as_list(expected)], context)
        for operator, keys in condition.items()
        for key, expected in keys.items()
    )


def _operator_holds(operator: str, key: str, expected: list[str], context: Context) -> bool:
    values = context.get(key)
    quantifier, _, name = operator.rpartition(":")
    if name == "Null":
        return (values is None) == (expected[0] == "true")
    optional = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    negated = "Not" in name
    compare = _COMPARISONS.get(name.replace("Not", ""))
    if compare is None:
        raise UnknownOperator(f"condition operator {operator} is not evaluated by the lab")
    if values is None:
        # An absent key satisfies negated operators, IfExists, and ForAllValues; never ForAnyValue.
        return optional or quantifier == "ForAllValues" or (negated and not quantifier)
    filled = [_filled(item, context) for item in expected]
    matches = [any(compare(item, value) for item in filled) != negated for value in values]
    if quantifier == "ForAnyValue":
        return any(matches)
    return all(matches)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(expected: str, value: str) -> bool:
    return float(expected) == float(value)


_COMPARISONS: dict[str, Any] = {
    "StringEquals": lambda wanted, value: wanted == value,
    "StringEqualsIgnoreCase": lambda wanted, value: wanted.lower() == value.lower(),
    "StringLike": _matches,
    "ArnEquals": _matches,
    "ArnLike": _matches,
    "Bool": lambda wanted, value: wanted.lower() == value.lower(),
    "NumericEquals": _number,
    "NumericLessThan": lambda wanted, value: float(value) < float(wanted),
    "NumericLessThanEquals": lambda wanted, value: float(value) <= float(wanted),
    "NumericGreaterThan": lambda wanted, value: float(value) > float(wanted),
    "NumericGreaterThanEquals": lambda wanted, value: float(value) >= float(wanted),
}
