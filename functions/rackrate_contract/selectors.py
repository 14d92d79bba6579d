"""Which nodes an arm has, and which taints its pods tolerate: Kubernetes' text forms, parsed. Pure.

Sources: the syntax of label selectors
(https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/), and of taints as
`kubectl taint` writes them
(https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_KEY = re.compile(rf"(?:(?P<prefix>{_DNS_LABEL}(?:\.{_DNS_LABEL})*)/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_PREFIX_LENGTH = 253
_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^=!<>\s]+)\s*(?P<operator>!=|==|=|>|<)\s*(?P<value>[^=!<>]*)")
_OPERATORS: dict[str, Operator] = {"!=": "NotIn", ">": "Gt", "<": "Lt"}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FORMS = (
    "write conditions such as key=value, key!=value, key, !key, key in (a,b), key notin (a,b),"
    " key>1 or key<1, separated by commas"
)
_TOLERATION_FORMS = (
    "write taints such as key=value:NoSchedule, key:NoSchedule, key=value or key, separated by"
    " commas"
)


class Unparsable(ValueError):
    """A text is no selector or no list of tolerations.

    Attributes:
        problem: what is wrong with it.
        remedy: how to write it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}; {remedy}")


@dataclass(frozen=True, order=True)
class Requirement:
    """One condition on a node's labels, as in a node affinity's `matchExpressions`.

    Attributes:
        key: the label's key.
        operator: `NotIn` and `DoesNotExist` also select nodes that lack the label. `Gt` and `Lt`
            select nodes whose label is a larger or a smaller whole number.
        values: the values of `In` and `NotIn`, sorted, each once; the whole number of `Gt` and
            `Lt`; empty for the others.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case "NotIn" if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            case "Gt":
                return f"{self.key}>{self.values[0]}"
            case "Lt":
                return f"{self.key}<{self.values[0]}"
        return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"


@dataclass(frozen=True)
class Selector:
    """A label selector: nodes match that meet every requirement. Its text is `str(selector)`.

    Attributes:
        requirements: sorted, each once, so that selectors of the same meaning are mostly equal.
    """

    requirements: tuple[Requirement, ...]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Read a selector's text. `str` of the result is its shortest form, with sorted keys.

        Raises:
            Unparsable: it is empty or no selector.
        """
        parts = [part.strip() for part in _split(text)]
        if not text.strip():
            raise Unparsable("it is empty and would select every node", _FORMS)
        return cls(tuple(sorted({_requirement(part) for part in parts})))

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def values_of(self, key: str) -> tuple[str, ...]:
        """The values that a label must have one of; empty where the selector does not say."""
        values = [set(r.values) for r in self.requirements if (r.key, r.operator) == (key, "In")]
        return tuple(sorted(set.intersection(*values))) if values else ()

    @property
    def affinity(self) -> dict[str, Any]:
        """The `affinity` of a pod that may only run on the nodes.

        A node selector could only name exact values.
        """
        expressions = [
            {"key": each.key, "operator": each.operator}
            | ({"values": list(each.values)} if each.values else {})
            for each in self.requirements
        ]
        terms = [{"matchExpressions": expressions}]
        return {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
        }


def _split(text: str) -> list[str]:
    """The parts between the commas outside parentheses."""
    return re.split(r",(?![^()]*\))", text)


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        operator: Operator = "In" if match["operator"] == "in" else "NotIn"
        values = {_value(value.strip(), part) for value in match["values"].split(",")}
        return Requirement(_key(match["key"], part), operator, tuple(sorted(values)))
    if match := _EQUALITY.fullmatch(part):
        value = _value(match["value"].strip(), part)
        operator = _OPERATORS.get(match["operator"], "In")
        # Kubernetes reads both sides as integers of 64 bits, and a label has no sign.
        if operator in ("Gt", "Lt") and not (value.isdecimal() and int(value) < 2**63):
            raise Unparsable(f"{value!r} in {part!r} is no whole number", _FORMS)
        return Requirement(_key(match["key"], part), operator, (value,))
    if part.startswith("!"):
        return Requirement(_key(part[1:].strip(), part), "DoesNotExist")
    return Requirement(_key(part, part), "Exists")


def _key(key: str, part: str, remedy: str = _FORMS) -> str:
    match = _KEY.fullmatch(key)
    if match is None or len(match["prefix"] or "") > _PREFIX_LENGTH:
        what = f"{key!r} in {part!r}" if key != part else repr(part)
        raise Unparsable(f"{what} is no label key" if part else "a condition is empty", remedy)
    return key


def _value(value: str, part: str, remedy: str = _FORMS) -> str:
    if not _VALUE.fullmatch(value):
        raise Unparsable(f"{value!r} in {part!r} is no label value", remedy)
    return value


def _read(value: object) -> object:
    return Selector.parse(value) if isinstance(value, str) else value


#: A selector in a document; JSON has its text.
SelectorField = Annotated[
    Selector,
    BeforeValidator(_read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]


# -- taints


@dataclass(frozen=True)
class Toleration:
    """The taints that a pod tolerates.

    Attributes:
        key: the taints' key.
        value: their value; None tolerates every value.
        effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`; None tolerates every effect.
    """

    key: str
    value: str | None = None
    effect: str | None = None

    def covers(self, taint: Mapping[str, str]) -> bool:
        """Whether it tolerates a taint of a node's `spec.taints`."""
        return (
            self.key == taint["key"]
            and self.value in (None, taint.get("value", ""))
            and self.effect in (None, taint["effect"])
        )

    @property
    def manifest(self) -> dict[str, str]:
        """The entry of a pod's `tolerations`."""
        return {
            "key": self.key,
            "operator": "Exists" if self.value is None else "Equal",
            **({} if self.value is None else {"value": self.value}),
            **({} if self.effect is None else {"effect": self.effect}),
        }


def parse_tolerations(text: str) -> tuple[Toleration, ...]:
    """Read taints as `kubectl taint` writes them, separated by commas; none in an empty text.

    Raises:
        Unparsable: the text has another form.
    """
    if not text.strip():
        return ()
    return tuple(dict.fromkeys(_toleration(part.strip()) for part in text.split(",")))


def _toleration(part: str) -> Toleration:
    taint, colon, effect = part.partition(":")
    key, equals, value = taint.partition("=")
    if colon and effect not in _EFFECTS:
        problem = f"{effect!r} in {part!r} is no effect of a taint ({', '.join(_EFFECTS)})"
        raise Unparsable(problem, _TOLERATION_FORMS)
    return Toleration(
        _key(key, part, _TOLERATION_FORMS),
        _value(value, part, _TOLERATION_FORMS) if equals else None,
        effect or None,
    )


def taint_text(taint: Mapping[str, str]) -> str:
    """A taint as `parse_tolerations` reads it, such as `dedicated=bench:NoSchedule`."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
