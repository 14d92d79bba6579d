"""Faults of the cluster's programs, and of whole nodes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol

from lab.errors import LabError
from lab.faults.leases import Injector, Order
from lab.nodes.cluster import RunningCluster
from lab.nodes.node import Node
from lab.nodes.process import Process
from lab.waiting import until

_CONTROL_PLANE = {
    "api-server": "kube-apiserver",
    "etcd": "etcd",
    "scheduler": "kube-scheduler",
    "controller-manager": "kube-controller-manager",
}
_BACK_SECONDS = 15.0
# Less than whoever takes the fault back waits for the answer.
_READY_SECONDS = 30.0


class HasCluster(Protocol):
    """What has the machine's cluster, if there is one (`lab.nodes.host.Host`)."""

    @property
    def cluster(self) -> RunningCluster | None:
        """The cluster that is up."""


class Target:
    """The cluster that faults strike, and its nodes by what people call them."""

    def __init__(self, machine: HasCluster) -> None:
        self._machine = machine

    @property
    def cluster(self) -> RunningCluster:
        """The cluster that is up. Raises LabError without one."""
        cluster = self._machine.cluster
        if cluster is None:
            raise LabError("The lab has no cluster yet: deploy a stack first.")
        return cluster

    def nodes(self, on: str) -> list[Node]:
        """A node by name, those with a label key=value, the first, or all. Raises LabError."""
        nodes = self.cluster.nodes
        key, equals, value = on.partition("=")
        if on in ("all", "first"):
            chosen = nodes if on == "all" else nodes[:1]
        elif equals:
            chosen = [node for node in nodes if node.spec.labels.get(key) == value]
        else:
            chosen = [node for node in nodes if node.spec.name == on]
        if not chosen:
            names = ", ".join(node.spec.name for node in nodes) or "none yet"
            raise LabError(f"No node is called {on!r} or has such a label: the lab has {names}.")
        return chosen


def injectors(target: Target) -> Mapping[str, Injector]:
    """The faults by name."""
    result: dict[str, Injector] = {"node-lost": partial(_node_lost, target)}
    kinds = {"killed": _killed, "frozen": _frozen, "stopped": _stopped}
    for ending, fault in kinds.items():
        for name in ("kubelet", "containerd", *_CONTROL_PLANE):
            result[f"{name}-{ending}"] = partial(_on_programs, fault, target, name)
    return result


@contextlib.contextmanager
def _on_programs(
    fault: Callable[[Sequence[Process]], AbstractContextManager[None]],
    target: Target,
    name: str,
    order: Order,
) -> Iterator[None]:
    if name in _CONTROL_PLANE:
        programs = [target.cluster.control_plane.program(_CONTROL_PLANE[name])]
    else:
        programs = [node.program(name) for node in target.nodes(order.on)]
    with fault(programs):
        order.hits += len(programs)
        yield


@contextlib.contextmanager
def _killed(programs: Sequence[Process]) -> Iterator[None]:
    for program in programs:
        program.signal(signal.SIGKILL)
    yield
    _await(programs)


@contextlib.contextmanager
def _frozen(programs: Sequence[Process]) -> Iterator[None]:
    for program in programs:
        program.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for program in programs:
            program.signal(signal.SIGCONT)


@contextlib.contextmanager
def _stopped(programs: Sequence[Process]) -> Iterator[None]:
    for program in programs:
        program.hold()
    try:
        yield
    finally:
        for program in programs:
            program.let()
        _await(programs)


@contextlib.contextmanager
def _node_lost(target: Target, order: Order) -> Iterator[None]:
    cluster, nodes = target.cluster, target.nodes(order.on)
    with contextlib.ExitStack() as undo:
        for node in nodes:
            undo.callback(_await_ready, cluster, node, node.program("kubelet"))
        links = undo.enter_context(contextlib.ExitStack())
        for node in nodes:
            # The link first: what a node that loses its power does is not seen by others.
            links.callback(cluster.network.set_link, node.spec.name, up=True)
            cluster.network.set_link(node.spec.name, up=False)
            order.hit()
        for node in nodes:
            kubelet, containerd = node.program("kubelet"), node.program("containerd")
            undo.enter_context(_stopped([kubelet]))
            with contextlib.suppress(OSError):
                node.end_containers()
            # As at a boot, the kubelet starts after containerd; it gives up without.
            undo.callback(_await_containerd, node, containerd)
            undo.enter_context(_stopped([containerd]))
        # And both after the network. A kubelet that began without would be NotReady for 10 s.
        undo.callback(links.close)
        yield


def _await(programs: Sequence[Process]) -> None:
    """Wait until the programs run again, unless their node or their cluster has ended."""
    until(
        lambda: all(program.running or program.stopped for program in programs),
        seconds=_BACK_SECONDS,
    )


def _await_containerd(node: Node, containerd: Process) -> None:
    until(lambda: containerd.stopped or node.containerd_answers(), seconds=_BACK_SECONDS)


def _await_ready(cluster: RunningCluster, node: Node, kubelet: Process) -> None:
    """Wait until its kubelet has reported the node Ready. Until then the API server repeats
    what the kubelet reported before the fault.
    """

    def is_ready() -> bool:
        # The API server may be struck too.
        with contextlib.suppress(OSError):
            return cluster.is_ready(node.spec.name, since=kubelet.started_at)
        return False

    until(lambda: kubelet.stopped or is_ready(), seconds=_READY_SECONDS, poll_seconds=0.2)
