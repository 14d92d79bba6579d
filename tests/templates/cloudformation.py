"""Our templates as plain data, and the results of their functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Never

from lab.aws.cloudformation.intrinsics import Resolver
from lab.aws.cloudformation.template import parse_template
from tests import ROOT

ROOTS = [ROOT / "template.yaml", ROOT / "existing-cluster.yaml"]
TEMPLATES = [*ROOTS, *sorted((ROOT / "templates").glob("*.yaml"))]


def load(path: Path) -> dict[str, Any]:
    """A template as plain data."""
    return parse_template(path.read_text("utf-8"))


def walk(value: Any) -> Iterator[Any]:
    """A value and all values nested in it."""
    yield value
    if isinstance(value, dict):
        for entry in value.values():
            yield from walk(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from walk(entry)


def resolver(template: Mapping[str, Any], parameters: Mapping[str, Any]) -> Resolver:
    """A resolver of a template's functions that refer only to parameters."""

    def unknown(*names: str) -> Never:
        raise AssertionError(f"{' '.join(names)} is no parameter")

    return Resolver(
        template,
        reference=lambda name: parameters[name] if name in parameters else unknown(name),
        attribute=unknown,
    )
