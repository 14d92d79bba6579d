"""The labs of the tests: one for each process of pytest, with the stack deployed as users find it.

Processes run side by side (`--numprocesses 2`), each with a lab in a cache of its own. Tests
that measure are in tests/lab/measured, which runs alone: other work on the machine would be in the
figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from lab import daemon, stack
from lab.errors import LabError
from lab.up import bring_up, prepare
from tests.lab import permissions
from tests.lab.machine import Traces, lab_processes, private_cache, what_is_left
from tests.lab.running import Lab
from tests.lab.shared_stack import SharedStack
from tests.lab.toggles import Toggles, toggles_of

HERE = Path(__file__).parent
# Decides the nodes' places, so that a test that fails because of them fails again.
SEED = 7
HOST_NETWORK = "the nodes' own network"
# Which files share a lab; all others share one too. A process that has finished a group takes the
# next in the order of PLACES: the longest first.
GROUPS = {
    "test_lost_and_stopped_runs": "changes",
    "test_faulty_runs": "changes",
    "test_stack_updates": "changes",
    "test_existing_cluster": "changes",
    "test_cni_versions": "changes",
    "test_campaigns": "changes",
    "test_daemon": "no stack",
    "test_acceptance": "no stack",
    "test_access": HOST_NETWORK,
    "test_docs": HOST_NETWORK,
    "test_experiments": HOST_NETWORK,
    "test_node_options": "options of nodes",
    "test_network_options": "options of the network",
    "test_workloads": "workloads",
    "test_ipv6": "IPv6",
}
SHARED = "shared stack"
PLACES = [SHARED, *dict.fromkeys(GROUPS.values())]


def group_of(path: Path) -> str:
    """The group of a test's file."""
    return GROUPS.get(path.stem, SHARED)


def needs_host_network(path: Path) -> bool:
    """Does a file need a stack whose pods may be in the network of their nodes?

    Each of its runs starts ten more containers on each node, which read the node's interfaces.
    """
    return "measured" in path.parts or group_of(path) == HOST_NETWORK


class PerLab(LoadScopeScheduling):
    """Gives each process whole groups of files: a group needs one lab for all of its tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(Path(nodeid.partition("::")[0]))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> PerLab:
    """Distribute by lab when pytest runs in several processes."""
    return PerLab(config, log)


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run whose processes come after this one starts records of its own."""
    if not hasattr(session.config, "workerinput") and not alone(session.config):
        permissions.forget(session.config.option.markexpr)


def alone(config: pytest.Config) -> bool:
    """Are only the measuring tests run, after the others?"""
    paths = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return all(path.is_relative_to(HERE / "measured") for path in paths)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need root. Order them by what measures, then by group.

    Those without the mark `core` are of `make test-rest`.
    """

    def place(item: pytest.Item) -> tuple[bool, int, bool]:
        stem = item.path.stem
        group = -1 if "measured" in item.path.parts else PLACES.index(group_of(item.path))
        # The one reads what all others did, the other deletes the stack of its group.
        return stem == "test_permissions", group, stem == "test_existing_cluster"

    own = [item for item in items if item.path.is_relative_to(HERE)]
    for item in own:
        item.add_marker(pytest.mark.lab)
        if item.get_closest_marker("core") is None:
            item.add_marker(pytest.mark.rest)
    items[:] = [item for item in items if item not in own] + sorted(own, key=place)


class Labs:
    """The one lab of this process, brought up by the first test that needs it."""

    def __init__(self, directory: Path, *, with_large: bool) -> None:
        self._directory, self._before = directory, Traces.now()
        self._with_large = with_large
        self.up: Lab | None = None
        self._packaged: stack.Packaged | None = None

    def start(self, *, deployed: bool, host_network: bool = False) -> Lab:
        """The lab, with the default stack when it is to be deployed.

        The stack is deployed if there is none, and updated if it has another `HostNetwork`.
        """
        if self.up is None:
            # The build needs nothing of the lab.
            with ThreadPoolExecutor(max_workers=1) as pool:
                building = pool.submit(stack.build)
                status = bring_up(
                    say, tied=True, deploy=False, seed=SEED, with_large=self._with_large
                )
                self.up = Lab(status, self._directory)
                building.result()
            self._packaged = stack.package(self.up.status)
        if not deployed:
            return self.up
        parameters = {"HostNetwork": str(host_network).lower()}
        if not self.up.has_stack:
            try:
                stack.deploy(self.up.status, say, parameters=parameters, packaged=self._packaged)
            except LabError:
                stack.delete(self.up.status, say)  # so that only this file fails, and says why
                raise
            self.up = Lab(self.up.status, self._directory, self.up.policies)
        elif not (shared := SharedStack(self.up)).given.items() >= parameters.items():
            shared.update(**parameters)
        else:
            return self.up
        permissions.remember(self.up)
        return self.up

    def stop(self, name: str, session: pytest.Session) -> None:
        """Take the lab down: nothing of it may be left but the record of its calls."""
        if self.up is None:
            return
        record = permissions.of_lab(self.up, session.items)
        permissions.write(record, session.config.option.markexpr, name)
        processes, keeper = lab_processes(), daemon.keeper_pid()
        daemon.stop()
        if keeper is not None:
            os.waitpid(keeper, 0)
        assert what_is_left(self._before, processes) == {}


def say(step: str) -> None:
    """Tell what a lab is doing while it comes up."""
    print(step, file=sys.stderr)


@pytest.fixture(scope="session")
def labs(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Labs]:
    """Where the process gets its lab. When the tests are over, the lab goes down."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        prepare(say)
        os.environ["XDG_CACHE_HOME"] = str(private_cache(worker))
    files = {item.path.stem for item in request.session.items}
    labs = Labs(tmp_path_factory.mktemp("runs"), with_large="test_workloads" in files)
    try:
        yield labs
    finally:
        labs.stop(worker or "alone", request.session)


@pytest.fixture(scope="module")
def lab(labs: Labs, request: pytest.FixtureRequest) -> Lab:
    """The lab with the stack deployed as a user would find it."""
    return labs.start(deployed=True, host_network=needs_host_network(request.path))


@pytest.fixture(scope="module")
def bare_lab(labs: Labs) -> Lab:
    """The lab for tests that deploy stacks of their own."""
    return labs.start(deployed=False)


@pytest.fixture(scope="module")
def toggles(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Toggles:
    """Deploys stacks in the lab of the test's file."""
    return toggles_of(lab, tmp_path_factory.mktemp("taskcat"))
