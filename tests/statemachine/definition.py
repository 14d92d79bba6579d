"""Read the state machine's definition."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lint.definition import placeholders as placeholders_of
from lint.definition import states

__all__ = ["DEFINITION", "ROOT", "definition", "placeholders", "states"]

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "statemachine" / "benchmark.asl.yaml"


def definition(substitutions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The definition, with substitutions applied as SAM does."""
    text = DEFINITION.read_text()
    for name, value in (substitutions or {}).items():
        text = text.replace(f"${{{name}}}", value)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def placeholders() -> set[str]:
    """The names of the definition's substitutions."""
    return placeholders_of(DEFINITION.read_text())
