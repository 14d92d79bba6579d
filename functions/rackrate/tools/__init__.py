"""The tools that measure. Adding a tool is adding a file to this package.

A tool's module has a class `Test`, a `TestBase` with its parameters, its arguments and what it
expects to take, and a function `parse(text, test) -> Measurement` that raises `ParseError`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from rackrate.tools.base import Interval, Measurement, Metric, ParseError, Server, TestBase

__all__ = [
    "Interval",
    "Measurement",
    "Metric",
    "ParseError",
    "Server",
    "TestBase",
    "load_test",
    "names",
    "parse",
    "test_class",
]


@functools.cache
def names() -> tuple[str, ...]:
    """The names of all tools, sorted."""
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")
    )


def _module(tool: str) -> ModuleType:
    if tool not in names():
        raise KeyError(tool)
    return importlib.import_module(f"{__name__}.{tool}")


def test_class(tool: str) -> type[TestBase]:
    """The model of a tool's tests.

    Raises:
        KeyError: there is no such tool.
    """
    model: type[TestBase] = _module(tool).Test
    return model


def load_test(value: Mapping[str, Any]) -> TestBase:
    """Reads a test that was validated before, as the schedule holds it."""
    return test_class(value["tool"]).model_validate(dict(value))


def parse(test: TestBase, text: str) -> Measurement:
    """Reads what a test's tool printed.

    Raises:
        ParseError: the output holds no complete measurement.
    """
    measurement: Measurement = _module(test.tool).parse(text, test)
    return measurement
