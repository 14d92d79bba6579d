"""The changes of docs/updates.yaml, with the values that a Region has for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from lab.stack import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "updates.yaml"


@dataclass(frozen=True)
class Change:
    """One change of a parameter, and what it should do; see docs/updates.yaml."""

    parameter: str
    number: int
    outcome: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    replaces: frozenset[str]
    nodes: frozenset[str]
    existing: bool
    late: bool

    @property
    def name(self) -> str:
        """A name for a test."""
        return f"{self.parameter}-{self.number}-{self.outcome}"

    def filled(self, values: Mapping[str, str]) -> Change:
        """The change with values such as {subnet} filled in."""

        def fill(parameters: Mapping[str, str]) -> dict[str, str]:
            return {key: values.get(text.strip("{}"), text) for key, text in parameters.items()}

        return replace(self, before=fill(self.before), after=fill(self.after))


def changes() -> list[Change]:
    """Every change; those that a stack cannot take back come last."""
    result = [
        _change(parameter, number, entry)
        for parameter, entries in yaml.safe_load(DOCUMENT.read_text("utf-8")).items()
        for number, entry in enumerate(entries, 1)
    ]
    # A key first, because another change needs it.
    first = ("KubernetesVersion", "EncryptionKey")
    return sorted(result, key=lambda one: first.index(one.parameter) + 1 if one.late else 0)


def _change(parameter: str, number: int, entry: Mapping[str, Any]) -> Change:
    before = {key: str(value) for key, value in (entry.get("with") or {}).items()}
    if "from" in entry:
        before[parameter] = str(entry["from"])
    return Change(
        parameter,
        number,
        entry["outcome"],
        before,
        {parameter: str(entry["to"]), **(entry.get("also") or {})},
        frozenset(entry.get("replaces") or ()),
        frozenset(entry.get("nodes") or ()),
        entry.get("cluster") == "existing",
        bool(entry.get("late")),
    )
