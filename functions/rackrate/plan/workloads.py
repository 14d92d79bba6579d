"""Where the members and the load of a workload are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rackrate.tools.base import TestBase
from rackrate.workloads.base import WorkloadTest
from rackrate_contract.arms import Arm, Node

#: A member's host name is a DNS label.
_LABEL_LENGTH = 63


class Places(NamedTuple):
    """The nodes of a workload in an arm, by name.

    Attributes:
        members: each with a member, in the members' order.
        loaders: each with a load pod.
    """

    members: tuple[str, ...]
    loaders: tuple[str, ...]


def workloads(tests: Iterable[TestBase]) -> list[WorkloadTest]:
    """The workloads among tests, in their order."""
    return [test for test in tests if isinstance(test, WorkloadTest)]


def pair_tests(tests: Iterable[TestBase]) -> list[TestBase]:
    """The tests of pairs of nodes, in their order."""
    return [test for test in tests if not isinstance(test, WorkloadTest)]


def places(test: WorkloadTest, arm: Arm, load_nodes: Sequence[Node]) -> Places:
    """The nodes of a workload in an arm.

    Members are on the first nodes by name. Load pods are on the first load nodes, or without load
    nodes on the arm's nodes after the members'.
    """
    names = sorted(arm.node_names)
    members, others = names[: test.member_count], names[test.member_count :]
    sources = sorted(node.name for node in load_nodes) or others
    return Places(tuple(members), tuple(sources[: test.loader_count]))


def host_names(test: WorkloadTest, arm: str, short: str) -> list[str]:
    """The host names of a workload's members in an arm.

    Args:
        test: the workload.
        arm: the arm's name.
        short: what identifies the workload in the arm where their names are too long.
    """
    most = len(str(test.member_count - 1)) + 1
    name = f"{test.name}-{arm}"
    base = name if len(name) + most <= _LABEL_LENGTH else f"member-{short}"
    return [f"{base}-{index}" for index in range(test.member_count)]
