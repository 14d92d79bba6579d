"""Reads the state machine's definition and walks through it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "statemachine" / "benchmark.asl.yaml"

Scope = Mapping[str, Any]


def definition(substitutions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The definition, with substitutions made as SAM makes them."""
    text = DEFINITION.read_text()
    for name, value in (substitutions or {}).items():
        text = text.replace(f"${{{name}}}", value)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def placeholders() -> set[str]:
    """The names of the substitutions the definition asks for."""
    return set(re.findall(r"\$\{(\w+)\}", DEFINITION.read_text()))


def scopes(scope: Scope, name: str = "the machine") -> Iterator[tuple[str, Scope]]:
    """Each part with a StartAt and States of its own: the machine, and each map's processor."""
    yield name, scope
    for state_name, state in scope["States"].items():
        if state["Type"] == "Map":
            yield from scopes(state["ItemProcessor"], state_name)


def states(scope: Scope) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every state at any depth."""
    for _, part in scopes(scope):
        yield from part["States"].items()


def successors(state: Mapping[str, Any]) -> set[str]:
    """The states that may come right after a state."""
    found = {state[key] for key in ("Next", "Default") if key in state}
    found |= {choice["Next"] for choice in state.get("Choices", [])}
    return found | {catcher["Next"] for catcher in state.get("Catch", [])}
