"""One lab for all tests that use it, with the stack deployed as a user would find it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import daemon
from lab.up import bring_up
from tests.lab.machine import Traces, lab_processes, what_is_left
from tests.lab.running import Lab

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need root. Those that need the machine to themselves come first. The updates
    of the stack that all share come after those that measure with it, and the toggles last: they
    delete it.
    """
    own = [item for item in items if item.path.is_relative_to(HERE)]
    for item in own:
        item.add_marker(pytest.mark.lab)
    shared = [item for item in own if "lab" in getattr(item, "fixturenames", ())]
    alone = [item for item in own if item not in shared]
    last = ("test_stack_updates", "test_toggles")
    shared.sort(key=lambda item: last.index(stem) + 1 if (stem := item.path.stem) in last else 0)
    items[:] = [item for item in items if item not in own] + alone + shared


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab. When the tests are over it goes down, and nothing of it may be left."""
    before = Traces.now()
    status = bring_up(lambda step: print(step, file=sys.stderr), tied=True)
    processes = lab_processes()
    try:
        yield Lab(status, tmp_path_factory.mktemp("runs"))
        processes |= lab_processes()
    finally:
        keeper = daemon.keeper_pid()
        daemon.stop()
    if keeper is not None:
        os.waitpid(keeper, 0)
    assert what_is_left(before, processes) == {}
