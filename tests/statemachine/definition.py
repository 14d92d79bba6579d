"""Read the state machines' definitions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lint.definition import placeholders as placeholders_of
from lint.definition import states
from tests import ROOT

__all__ = ["CAMPAIGN", "COMPARISON", "DEFINITION", "definition", "placeholders", "states"]

DEFINITION = ROOT / "statemachine" / "benchmark.asl.yaml"
CAMPAIGN = ROOT / "statemachine" / "campaign.asl.yaml"
COMPARISON = ROOT / "statemachine" / "comparison.asl.yaml"


def definition(
    substitutions: Mapping[str, str] | None = None, path: Path = DEFINITION
) -> dict[str, Any]:
    """A definition, with substitutions applied as SAM does."""
    text = path.read_text()
    for name, value in (substitutions or {}).items():
        text = text.replace(f"${{{name}}}", value)
    loaded: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    return loaded


def placeholders(path: Path = DEFINITION) -> set[str]:
    """The names of a definition's substitutions."""
    return placeholders_of(path.read_text())
