"""Settings for all tests."""

from __future__ import annotations

import functools
import gc
import importlib
import signal
from types import ModuleType

import botocore.loaders
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# A shell starts what it puts in the background with SIGINT ignored, and children inherit that. The
# commands that tests start are to end at it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Benchmarks measure speed. A deadline here would fail tests on a busy machine. The
# examples are the same in every clone and every run; `make fuzz` looks for new ones.
settings.register_profile(
    "rackrate",
    database=None,
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz", settings.get_profile("rackrate"), derandomize=False, max_examples=1000
)
settings.load_profile("rackrate")

# Hypothesis also draws constants out of our modules, as far as they are loaded. Examples, and what
# a seed stands for, would depend on the tests that ran before in the same process.
_NOTHING = type(providers.GLOBAL_CONSTANTS)()
providers._get_local_constants = lambda: _NOTHING

# Each session would read botocore's descriptions of the services anew, which is a third of the
# time of a command that a test runs in this process. A session's clients only read them.
botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)

# Python's garbage collector would read all that is imported again and again, which took a sixth of
# the processor time of the unit tests.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Collect garbage from now on, but leave out what is there, at the end too.

    Not when the collection of tests is over, which pytest does not tell where processes run them.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def duckdb() -> ModuleType:
    """DuckDB, imported after `gc.freeze`: at the end it complains about what is not freed."""
    return importlib.import_module("duckdb")
