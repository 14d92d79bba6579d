"""A quick subset of `make test-faults`: one run that meets several faults."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest

from lab import faults
from tests.faults.acts import delete_owner, several, signal_tool
from tests.faults.catalogue import Case
from tests.faults.scene import Scene
from tests.faults.trying import attempt
from tests.lab.running import Lab

pytestmark = pytest.mark.core


@contextlib.contextmanager
def one_after_the_other(scene: Scene) -> Iterator[None]:
    """AWS throttles while the servers go, functions crash and a client dies."""
    with faults.inject("api-throttled", on="dynamodb:*", rate=0.2):
        delete_owner(scene)
        scene.begins_block(3)
        with several("function-crash", times=2)(scene):
            pass
        scene.begins_block(5)
        with signal_tool("client", signal.SIGKILL)(scene):
            yield


def test_a_run_that_is_throttled_crashes_and_loses_its_servers_loses_no_trial(lab: Lab) -> None:
    tried = attempt(lab, Case("several faults", one_after_the_other), "faults")
    assert (tried.lost, tried.left, tried.wrong) == (0, (), ()), tried
    assert tried.measured == tried.planned == 24
