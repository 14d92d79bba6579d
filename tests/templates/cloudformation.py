"""Reads CloudFormation templates, whose short forms plain YAML loaders refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Never

import yaml

from lab.aws.cloudformation.intrinsics import Resolver

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = [ROOT / "template.yaml", *sorted((ROOT / "templates").glob("*.yaml"))]


class _Loader(yaml.SafeLoader):
    """Turns `!Ref x` into `{"Ref": "x"}` and `!Sub x` into `{"Fn::Sub": "x"}`."""


def _short_form(loader: _Loader, tag: str, node: yaml.Node) -> dict[str, Any]:
    name = tag if tag in ("Ref", "Condition") else f"Fn::{tag}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        if tag == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {name: value}


_Loader.add_multi_constructor("!", _short_form)


def load(path: Path) -> dict[str, Any]:
    """A template as plain data."""
    loaded: dict[str, Any] = yaml.load(path.read_text(), Loader=_Loader)
    return loaded


def walk(value: Any) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    if isinstance(value, dict):
        for entry in value.values():
            yield from walk(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from walk(entry)


def resolver(template: Mapping[str, Any], parameters: Mapping[str, Any]) -> Resolver:
    """Carries out the functions of a template that refer to parameters alone."""

    def unknown(*names: str) -> Never:
        raise AssertionError(f"{' '.join(names)} is no parameter")

    return Resolver(
        template,
        reference=lambda name: parameters[name] if name in parameters else unknown(name),
        attribute=unknown,
        import_value=unknown,
        zones=unknown,
    )
