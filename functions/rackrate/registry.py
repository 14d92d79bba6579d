"""The registry of tools and workloads: every module of the two packages, found by its name."""

from __future__ import annotations

import functools
import importlib
import operator
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from rackrate import tools, workloads
from rackrate.tools.base import (
    PERCENTILES,
    STORED,
    Detail,
    LatencyTest,
    Measurement,
    Metric,
    ParseError,
    TestBase,
)


@functools.cache
def _packages() -> Mapping[str, str]:
    """The package of each tool and workload, by its name."""
    return {
        module.name: package.__name__
        for package in (tools, workloads)
        for module in pkgutil.iter_modules(package.__path__)
        if module.name != "base"
    }


def names() -> tuple[str, ...]:
    """The names of all tools and workloads, sorted."""
    return tuple(sorted(_packages()))


def module(tool: str) -> ModuleType:
    """A tool's module.

    Raises:
        KeyError: there is no such tool.
    """
    return importlib.import_module(f"{_packages()[tool]}.{tool}")


def test_class(tool: str) -> type[TestBase]:
    """The model of a tool's tests.

    Raises:
        KeyError: there is no such tool.
    """
    model: type[TestBase] = module(tool).Test
    return model


def load_test(value: Mapping[str, Any]) -> TestBase:
    """Read a test from the schedule, where it was stored after validation."""
    return test_class(value["tool"]).model_validate(dict(value), context=STORED)


def catalogue() -> dict[str, dict[str, Any]]:
    """The predefined tests of all tools, which a plan may name without giving their options."""
    return {
        name: {"tool": tool, **options}
        for tool in names()
        for name, options in test_class(tool).catalogue.items()
    }


def details() -> tuple[Detail, ...]:
    """The details of all tools, each once."""
    return tuple(dict.fromkeys(each for tool in names() for each in test_class(tool).all_details()))


def examples(tool: str) -> tuple[TestBase, ...]:
    """A tool's test with default options, and its tests in the catalogue.

    A test with percentiles has all of them as metrics in a further example.
    """
    named = dict(test_class(tool).catalogue)
    if issubclass(test_class(tool), LatencyTest):
        named["percentiles"] = {"percentiles": tuple(PERCENTILES)}
    return tuple(
        load_test({"name": name, "tool": tool, **options})
        for name, options in {"default": {}, **named}.items()
    )


def metrics(*of: str) -> tuple[Metric, ...]:
    """The metrics of the examples of the given tools, or of all tools, each once, as first met."""
    by_name: dict[tuple[str, str], Metric] = {}
    for tool in of or names():
        for test in examples(tool):
            for metric in test.metrics:
                by_name.setdefault((metric.name, metric.unit), metric)
    return tuple(by_name.values())


def parse(test: TestBase, text: str) -> Measurement:
    """Parse the output of a test's tool. The values of the metrics are finite and positive.

    Raises:
        ParseError: the output has no complete measurement.
    """
    if not text.strip():
        raise ParseError(f"{test.tool} printed nothing")
    measurement: Measurement = module(test.tool).parse(text, test)
    for metric in test.metrics:
        metric.require_positive(measurement.values[metric.name])
    return measurement


#: A test of any tool with all its options. The field `tool` selects the model.
if TYPE_CHECKING:
    AnyTest = TestBase
else:
    AnyTest = Annotated[
        functools.reduce(operator.or_, map(test_class, names())), Field(discriminator="tool")
    ]
