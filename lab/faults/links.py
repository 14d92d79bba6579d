"""Faults of the fabric's links: of a node's, and of a rack's to the others."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from pyroute2 import NetNS

from lab.errors import LabError
from lab.fabric.network import FABRIC, MTU_BYTES, Port, namespace
from lab.faults.frames import Rule
from lab.faults.leases import Injector, Order
from lab.faults.programs import Target
from lab.nodes.cluster import RunningCluster
from lab.nodes.node import Node

DELAY_MILLISECONDS = 100.0
INTERNET_MTU_BYTES = 1500
FLAP_SECONDS = 2.0
_END_SECONDS = 5.0


@dataclass
class _Carrier:
    """A running `lab.faults.frames`, and what it does."""

    process: subprocess.Popen[str]
    bridge: str
    rules: list[Rule] = field(default_factory=list)

    def obey(self) -> None:
        """Send it the rules. Raises LabError when it does not take them."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        rules = [dataclasses.asdict(rule) for rule in self.rules]
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(rules) + "\n")
            self.process.stdin.flush()
        if self.process.stdout.readline().strip() != "ok":
            raise LabError("The fault could not take a link's place: look at the lab's log.")


class Links:
    """The devices whose frames are spoiled; one carrier per device, whatever the rules."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._carriers: dict[str, _Carrier] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def injectors(self) -> Mapping[str, Injector]:
        """The faults by name."""
        injectors: dict[str, Injector] = {
            "link-flapping": self._flap,
            "partition": partial(self._spoil, _of_node, _partition),
            "mtu-mismatch": partial(self._spoil, _of_node, _too_large),
        }
        for what in ("lost", "delayed", "duplicated", "corrupted"):
            injectors[f"packets-{what}"] = partial(self._spoil, _of_node, _plain(what))
            injectors[f"racks-{what}"] = partial(self._spoil, _of_rack, _plain(what))
        return injectors

    @contextlib.contextmanager
    def _spoil(
        self,
        device_of: Callable[[Port], str],
        rule_of: Callable[[Order, RunningCluster, Node], Rule],
        order: Order,
    ) -> Iterator[None]:
        cluster = self._target.cluster
        with contextlib.ExitStack() as undo:
            devices: dict[str, tuple[Node, Port]] = {}
            for node in self._target.nodes(order.on):
                port = cluster.network.ports[node.spec.name]
                devices[device_of(port)] = node, port  # nodes of one rack have one uplink
            for device, (node, port) in devices.items():
                rule = rule_of(order, cluster, node)
                self._add(device, port.rack.bridge, rule)
                undo.callback(self._remove, device, rule)
                order.hit()
            yield

    def _add(self, device: str, bridge: str, rule: Rule) -> None:
        with self._lock:
            carrier = self._carriers.get(device)
            if carrier is None:
                carrier = self._interpose(device, bridge)
                self._carriers[device] = carrier
            carrier.rules.append(rule)
            carrier.obey()

    def _remove(self, device: str, rule: Rule) -> None:
        with self._lock:
            carrier = self._carriers[device]
            carrier.rules.remove(rule)
            if carrier.rules:
                carrier.obey()
                return
            del self._carriers[device]
            _enslave(device, carrier.bridge)
            assert carrier.process.stdin is not None
            carrier.process.stdin.close()
            try:
                carrier.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                carrier.process.kill()
                carrier.process.wait()

    def _interpose(self, device: str, bridge: str) -> _Carrier:
        tap = f"fault{next(self._numbers)}"
        with namespace(FABRIC):
            process = subprocess.Popen(
                [sys.executable, "-m", "lab.faults.frames", device, tap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        carrier = _Carrier(process, bridge)
        try:
            carrier.obey()
            with NetNS(FABRIC) as fabric:
                fabric.link("set", index=fabric.link_lookup(ifname=tap)[0], mtu=MTU_BYTES)
            _enslave(device, None)
            _enslave(tap, bridge)
        except BaseException:
            _enslave(device, bridge)
            process.kill()
            process.wait()
            raise
        return carrier

    @contextlib.contextmanager
    def _flap(self, order: Order) -> Iterator[None]:
        network = self._target.cluster.network
        names = [node.spec.name for node in self._target.nodes(order.on)]
        period = order.number("period", FLAP_SECONDS)

        def set_all(*, up: bool) -> None:
            for name in names:
                network.set_link(name, up=up)

        def flap() -> None:
            while not order.over.wait(order.rate * period):
                if order.rate < 1:
                    set_all(up=True)
                    order.over.wait((1 - order.rate) * period)
                    order.hit()
                    set_all(up=False)

        # Whoever injects the fault finds the links down.
        order.hit()
        set_all(up=False)
        flapper = threading.Thread(target=flap, name="fault-link", daemon=True)
        flapper.start()
        try:
            yield
        finally:
            order.over.set()
            flapper.join()
            set_all(up=True)


def _of_node(port: Port) -> str:
    return port.device


def _of_rack(port: Port) -> str:
    return port.rack.uplink


def _plain(what: str) -> Callable[[Order, RunningCluster, Node], Rule]:
    def rule(order: Order, _: RunningCluster, __: Node) -> Rule:
        return Rule(
            what,
            order.rate,
            # What leaves a node still lacks its checksum, so it cannot be spoiled there.
            direction="in" if what == "corrupted" else _direction(order),
            delay_seconds=order.number("delay_ms", DELAY_MILLISECONDS) / 1e3,
            jitter_seconds=order.number("jitter_ms", 0.0) / 1e3,
        )

    return rule


def _partition(order: Order, cluster: RunningCluster, node: Node) -> Rule:
    match order.options.get("peers", "nodes"):
        case "nodes":
            others = (port.block for port in cluster.network.ports.values())
            peers = [str(block) for block in others if block != node.spec.block]
        case "control-plane":
            peers = [str(ipaddress.IPv4Network(cluster.control_plane.address))]
        case "everyone":
            peers = []
        case other:
            raise LabError(f"peers is nodes, control-plane or everyone, not {other!r}.")
    return Rule("lost", order.rate, direction=_direction(order), peers=peers)


def _too_large(order: Order, _: RunningCluster, __: Node) -> Rule:
    mtu = int(order.number("mtu", INTERNET_MTU_BYTES))
    return Rule("too-large", order.rate, direction=_direction(order), mtu_bytes=mtu)


def _direction(order: Order) -> str:
    direction = order.options.get("direction", "both")
    if direction not in ("in", "out", "both"):
        raise LabError(f"direction is in, out or both, not {direction!r}.")
    return direction


def _enslave(device: str, bridge: str | None) -> None:
    """Put a device into a bridge and up, or out of any. A node that has ended has no device."""
    with NetNS(FABRIC) as fabric:
        indices = fabric.link_lookup(ifname=device)
        master = fabric.link_lookup(ifname=bridge)[0] if bridge else 0
        if indices:
            fabric.link("set", index=indices[0], master=master)
            if bridge:
                fabric.link("set", index=indices[0], state="up")
