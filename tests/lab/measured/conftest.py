"""Measure when nothing else runs: `scripts/test` names the processes to wait for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.lab.measured.processors import wait_until_quiet
from tests.lab.running import Lab
from tests.lab.waiting import eventually

#: Environment variable with the ids of the processes after whose end measuring begins.
AFTER = "MEASURE_AFTER"
LONGEST_SECONDS = 1800
#: How long to wait for a quiet machine after the end of the other tests.
QUIET_SECONDS = 300


@pytest.fixture(scope="session")
def quiet() -> None:
    """Wait until the other tests are over, and for some time until the machine is quiet."""
    others = [Path("/proc", pid) for pid in os.environ.get(AFTER, "").split()]
    eventually(lambda: not any(other.exists() for other in others), seconds=LONGEST_SECONDS)
    wait_until_quiet(QUIET_SECONDS)


@pytest.fixture(scope="module")
def lab(lab: Lab, quiet: None) -> Lab:
    """The lab of the other tests, which comes up while they end."""
    return lab


@pytest.fixture(scope="module")
def bare_lab(bare_lab: Lab, quiet: None) -> Lab:
    """The lab of the other tests, when all of them have recorded their calls."""
    return bare_lab
