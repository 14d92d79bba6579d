"""Racks, nodes and the spine: network namespaces, bridges and links, in EC2's shape.

One namespace holds the fabric: a bridge per rack, and the spine that joins them. Every node is a
namespace of its own with one link, `eth0`, to its rack's bridge. Nodes of one cluster placement
group share a rack; any other node has a rack to itself. Frames between racks cross the spine after
a fixed delay. All addresses of the VPC are on one link, as they seem to be on EC2; a node's pods
are reached through the node.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyroute2 import NetNS, netns

from lab.errors import LabError
from lab.fabric.shaping import (
    Limits,
    classifier_command,
    egress_commands,
    ingress_command,
)

MTU_BYTES = 9001  # EC2's jumbo frames, which the VPC CNI uses by default
SPINE_DELAY_SECONDS = 150e-6  # each way; with it the lab's round trip is EC2's published 0.46 ms
FABRIC = "fabric"
SERVICES_RACK = "services"


@dataclass
class Port:
    """A namespace's link to its rack."""

    namespace: str
    rack: str
    device: str
    address: ipaddress.IPv4Address
    block: ipaddress.IPv4Network
    group: str | None
    limits: Limits | None


@dataclass
class Network:
    """The fabric of one VPC. Thread-safe."""

    vpc: ipaddress.IPv4Network
    spine_delay_seconds: float = SPINE_DELAY_SECONDS
    ports: dict[str, Port] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._racks: dict[str, str] = {}
        self._relay: subprocess.Popen[str] | None = None
        netns.create(FABRIC)
        with namespace(FABRIC):
            _quiet_ipv6()
        self._netem = _kernel_has_netem(FABRIC)
        with NetNS(FABRIC) as fabric:
            fabric.link("set", index=fabric.link_lookup(ifname="lo")[0], state="up")
            if self._netem:
                _add_bridge(fabric, "spine")
        if not self._netem:
            with namespace(FABRIC):
                self._relay = subprocess.Popen(
                    [sys.executable, "-m", "lab.fabric.relay", str(self.spine_delay_seconds)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )

    @property
    def spine(self) -> str:
        """How frames between racks are delayed, for the records: `netem` or `relay`."""
        return "netem" if self._netem else "relay"

    def attach_services(self, address: ipaddress.IPv4Address) -> None:
        """Join the namespace of the calling process, where the control plane is, to the VPC."""
        with self._lock:
            rack = self._rack(SERVICES_RACK)
            with NetNS(FABRIC) as fabric:
                fabric.link(
                    "add",
                    ifname="services0",
                    kind="veth",
                    mtu=MTU_BYTES,
                    peer={"ifname": "vpc0", "mtu": MTU_BYTES, "net_ns_fd": "/proc/self/ns/net"},
                )
                _enslave(fabric, "services0", rack)
            subprocess.run(["ip", "link", "set", "vpc0", "up"], check=True)
            subprocess.run(
                ["ip", "address", "add", f"{address}/{self.vpc.prefixlen}", "dev", "vpc0"],
                check=True,
            )

    def add_node(
        self,
        *,
        name: str,
        block: ipaddress.IPv4Network,
        cluster_group: str | None,
        limits: Limits,
    ) -> Port:
        """A namespace `name` with `eth0` in its rack, shaped, and routes to and from its pods.

        `cluster_group` is the cluster placement group whose rack it shares, None for a rack of its
        own.
        """
        with self._lock:
            number = next(self._numbers)
            rack = self._rack(f"group-{cluster_group}" if cluster_group else f"alone-{name}")
            port = Port(
                namespace=name,
                rack=rack,
                device=f"node{number}",
                address=next(block.hosts()),
                block=block,
                group=cluster_group,
                limits=limits,
            )
            netns.create(name)
            with namespace(name):
                _quiet_ipv6()
                _sysctl("net/ipv4/ip_forward", "1")
                _sysctl("net/ipv4/conf/all/rp_filter", "0")
            with NetNS(FABRIC) as fabric:
                fabric.link(
                    "add",
                    ifname=port.device,
                    kind="veth",
                    mtu=MTU_BYTES,
                    peer={
                        "ifname": "eth0",
                        "mtu": MTU_BYTES,
                        "net_ns_fd": f"/run/netns/{name}",
                    },
                )
                _enslave(fabric, port.device, rack)
            with NetNS(name) as node:
                node.link("set", index=node.link_lookup(ifname="lo")[0], state="up")
                eth0 = node.link_lookup(ifname="eth0")[0]
                node.addr("add", index=eth0, address=str(port.address), mask=self.vpc.prefixlen)
                node.link("set", index=eth0, state="up")
                for peer in self.ports.values():
                    node.route("add", dst=str(peer.block), gateway=str(peer.address))
            _tc(FABRIC, [ingress_command(port.device, limits)])
            _tc(name, egress_commands("eth0", limits))
            for peer in self.ports.values():
                with NetNS(peer.namespace) as other:
                    other.route("add", dst=str(block), gateway=str(port.address))
            subprocess.run(["ip", "route", "add", str(block), "via", str(port.address)], check=True)
            self.ports[name] = port
            self._classify_again(cluster_group, name)
            return port

    def remove_node(self, name: str) -> None:
        """Take away a node's namespace, and with it its link."""
        with self._lock:
            port = self.ports.pop(name, None)
            if port is None:
                return
            netns.remove(name)
            subprocess.run(["ip", "route", "del", str(port.block)], check=False)
            for peer in self.ports.values():
                with NetNS(peer.namespace) as other:
                    other.route("del", dst=str(port.block), gateway=str(port.address))
            self._classify_again(port.group, None)

    def stop(self) -> None:
        """Take away every namespace and the relay."""
        for name in list(self.ports):
            self.remove_node(name)
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()
        netns.remove(FABRIC)

    def _classify_again(self, group: str | None, newcomer: str | None) -> None:
        members = [
            port
            for port in self.ports.values()
            if port.namespace == newcomer or (group is not None and port.group == group)
        ]
        for port in members:
            peers = [
                other.block
                for other in self.ports.values()
                if group is not None and other.group == group and other is not port
            ]
            _tc(port.namespace, [classifier_command("eth0", peers)])

    def _rack(self, key: str) -> str:
        """The bridge of a rack, made and joined to the spine when it is new."""
        if key in self._racks:
            return self._racks[key]
        number = len(self._racks)
        rack, uplink = f"rack{number}", f"up{number}"
        with NetNS(FABRIC) as fabric:
            _add_bridge(fabric, rack)
            if self._relay is not None:
                assert self._relay.stdin is not None
                assert self._relay.stdout is not None
                self._relay.stdin.write(f"{uplink}\n")
                self._relay.stdin.flush()
                if self._relay.stdout.readline().strip() != "ok":
                    raise LabError(
                        "The relay between the racks did not start: look at the lab's log, and "
                        "check that /dev/net/tun can be opened."
                    )
            else:
                peer = {"ifname": f"down{number}", "mtu": MTU_BYTES}
                fabric.link("add", ifname=uplink, kind="veth", mtu=MTU_BYTES, peer=peer)
                _enslave(fabric, f"down{number}", "spine")
            fabric.link("set", index=fabric.link_lookup(ifname=uplink)[0], mtu=MTU_BYTES)
            _enslave(fabric, uplink, rack)
        if self._netem:
            # Every frame between racks enters the spine exactly once: the whole delay lies there.
            microseconds = self.spine_delay_seconds * 1e6
            _tc(
                FABRIC,
                [f"qdisc add dev {uplink} root netem delay {microseconds:.0f}us limit 20000"],
            )
        self._racks[key] = rack
        return rack


@contextlib.contextmanager
def namespace(name: str) -> Iterator[None]:
    """Run the calling thread in another network namespace for the length of the block."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    target = os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.setns(target, os.CLONE_NEWNET)
        yield
    finally:
        os.setns(own, os.CLONE_NEWNET)
        os.close(target)
        os.close(own)


def _add_bridge(fabric: NetNS, name: str) -> None:
    # Multicast snooping would add queries of its own to the measured traffic.
    fabric.link("add", ifname=name, kind="bridge", mtu=MTU_BYTES, br_mcast_snooping=0)
    fabric.link("set", index=fabric.link_lookup(ifname=name)[0], state="up")


def _enslave(fabric: NetNS, device: str, bridge: str) -> None:
    index = fabric.link_lookup(ifname=device)[0]
    fabric.link("set", index=index, master=fabric.link_lookup(ifname=bridge)[0], state="up")


def _kernel_has_netem(name: str) -> bool:
    attempt = subprocess.run(
        ["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "netem"],
        capture_output=True,
        check=False,
    )
    if attempt.returncode == 0:
        _tc(name, ["qdisc del dev lo root"])
    return attempt.returncode == 0


def _quiet_ipv6() -> None:
    """No router solicitations and no duplicate address detection beside the measured traffic."""
    with contextlib.suppress(FileNotFoundError):
        _sysctl("net/ipv6/conf/all/disable_ipv6", "1")
        _sysctl("net/ipv6/conf/default/disable_ipv6", "1")


def _sysctl(name: str, value: str) -> None:
    # /proc/sys/net shows the namespace of the reading thread's process; thread-self is needed
    # because the namespace was entered by one thread only.
    Path("/proc/sys", name).write_text(value, encoding="ascii")


def _tc(name: str, lines: list[str]) -> None:
    with namespace(name):
        done = subprocess.run(
            ["tc", "-batch", "-"],
            input="\n".join(lines) + "\n",
            text=True,
            capture_output=True,
            check=False,
        )
    if done.returncode != 0:
        raise LabError(
            f"The kernel refused the lab's traffic shaping ({done.stderr.strip()[-300:]}): it "
            "needs sch_htb, sch_tbf and cls_bpf; load these modules or use a kernel that has them."
        )
