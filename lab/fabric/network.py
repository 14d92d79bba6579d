"""Racks, nodes and the spine: network namespaces, bridges and links, in EC2's shape.

One namespace holds the fabric: a bridge per rack, and the spine that joins the bridges. Every node
is a namespace of its own with one link, `eth0`, to its rack's bridge. Nodes of one cluster
placement group share a rack, and so do nodes of one partition of a partition placement group. Every
other node has its own rack. No rack is in two zones, and partitions share none. The spine carries
frames between racks after the delays of both, which luck decides (`lab.fabric.luck`), and between
zones after a longer one. All addresses of the VPC are on one link, as they seem to be on EC2. A
node routes to its own pods.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import itertools
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pyroute2 import NetNS, netns

from lab.errors import LabError
from lab.fabric.luck import BETWEEN_ZONES_SECONDS, MEAN_RACK, Luck, RackLuck
from lab.fabric.shaping import (
    VPC_IPV6,
    EnaExpress,
    Limits,
    Peer,
    classifier_command,
    egress_commands,
    ingress_command,
    ipv6_block,
)

MTU_BYTES = 9001  # EC2's jumbo frames, the VPC CNI's default
FABRIC = "fabric"
SERVICES_RACK = "services"


@dataclass(frozen=True)
class Placement:
    """Where an instance is placed.

    `rack` names the rack that it shares, None for a rack of its own. `cluster_group` is its cluster
    placement group, None when it is in none. `part` says which rack of a group it is, without the
    group's name, which differs from stack to stack.
    """

    rack: str | None = None
    cluster_group: str | None = None
    part: str = ""

    @classmethod
    def of(
        cls, strategy: str | None, group: str | None, partition: int | None, zone: str = ""
    ) -> Placement:
        """The placement of an instance in a placement group, or in none."""
        if strategy == "cluster":
            return cls(f"group-{group}", cluster_group=group, part="cluster")
        if strategy == "partition":
            # A group has up to seven partitions in each zone; zones share no rack.
            part = f"partition-{partition}"
            return cls(f"group-{group}-{zone}-{part}", part=part)
        return cls()


@dataclass(frozen=True)
class Kin:
    """Who a node is to luck: the `number`-th node of its kind, whatever its address.

    `kind` is the same for the nodes of one node group, and the same in a later lab.
    """

    kind: str
    number: int


@dataclass(frozen=True)
class Rack:
    """A bridge, joined to the spine by an uplink, with the luck of its nodes."""

    number: int
    luck: RackLuck
    zone: str = ""

    @property
    def bridge(self) -> str:
        """The name of its bridge."""
        return f"rack{self.number}"

    @property
    def uplink(self) -> str:
        """The name of its device to the spine."""
        return f"up{self.number}"

    @property
    def downlink(self) -> str:
        """The name of the spine's device to the rack, where the spine is a bridge."""
        return f"down{self.number}"


@dataclass
class Port:
    """A namespace's link to its rack; `limits` are those that its place leaves it."""

    namespace: str
    rack: Rack
    device: str
    address: ipaddress.IPv4Address
    block: ipaddress.IPv4Network
    zone: str
    group: str | None
    ena_express: EnaExpress
    limits: Limits

    @property
    def has_ena_express(self) -> bool:
        """Whether any of its flows use ENA Express."""
        return self.ena_express.tcp or self.ena_express.udp

    def sees(self, other: Port) -> Peer:
        """The other node as a peer in this node's classifier."""
        return Peer(
            block=other.block,
            same_cluster_group=self.group is not None and self.group == other.group,
            ena_express=EnaExpress(
                tcp=self.ena_express.tcp and other.ena_express.tcp,
                udp=self.ena_express.udp and other.ena_express.udp,
            ),
        )


@dataclass
class Network:
    """The fabric of one VPC; `vpc` has its CIDR blocks, the primary one first. Thread-safe.

    `services` is the range of the cluster's services, None where nodes need no way to them. In a
    cluster of IPv6, nodes also have a block of IPv6 addresses, which their pods take.
    """

    vpc: Sequence[ipaddress.IPv4Network]
    luck: Luck
    services: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    ports: dict[str, Port] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._racks: dict[str, Rack] = {}
        self._empty_racks: list[Rack] = []
        self._zone_numbers = itertools.count()
        self._rack_numbers = itertools.count()
        self._times_opened: Counter[str] = Counter()
        self._classifiers: dict[str, str] = {}
        self._relay: subprocess.Popen[str] | None = None
        netns.create(FABRIC)
        with namespace(FABRIC):
            _quiet_ipv6(is_used=False)
        self._netem = _kernel_has_netem(FABRIC)
        with NetNS(FABRIC) as fabric:
            fabric.link("set", index=fabric.link_lookup(ifname="lo")[0], state="up")
            if self._netem:
                _add_bridge(fabric, "spine")
        if not self._netem:
            with namespace(FABRIC):
                self._relay = subprocess.Popen(
                    [sys.executable, "-m", "lab.fabric.relay"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )

    @property
    def spine(self) -> str:
        """What delays the frames between racks, for the records: `netem` or `relay`."""
        return "netem" if self._netem else "relay"

    def attach_services(self, address: ipaddress.IPv4Address) -> None:
        """Join the calling process's namespace, which has the control plane, to the VPC."""
        with self._lock:
            rack = self._rack(SERVICES_RACK, MEAN_RACK, zone="")
            _plug_in("services0", rack, "vpc0", "/proc/self/ns/net")
            subprocess.run(["ip", "link", "set", "vpc0", "up"], check=True)
            own = self._cidr_of(address)
            subprocess.run(
                ["ip", "address", "add", f"{address}/{own.prefixlen}", "dev", "vpc0"], check=True
            )
            for cidr in self.vpc:
                if cidr != own:
                    subprocess.run(["ip", "route", "add", str(cidr), "dev", "vpc0"], check=True)
            if self.has_ipv6:
                own6 = f"{ipv6_block(ipaddress.IPv4Network(address))[1]}/{VPC_IPV6.prefixlen}"
                subprocess.run(["ip", "address", "add", own6, "dev", "vpc0", "nodad"], check=True)

    @property
    def has_ipv6(self) -> bool:
        """Whether pods and services have IPv6 addresses, and only these."""
        return self.services is not None and self.services.version == 6

    def _blocks(self, port: Port) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        """A node's blocks of addresses, each with the node's own first."""
        return [port.block, ipv6_block(port.block)] if self.has_ipv6 else [port.block]

    def _cidr_of(self, address: ipaddress.IPv4Address) -> ipaddress.IPv4Network:
        for cidr in self.vpc:
            if address in cidr:
                return cidr
        raise LabError(
            f"{address} is in none of the VPC's address blocks that the cluster was made with"
            f" ({', '.join(map(str, self.vpc))}): associate a block before the cluster is created."
        )

    def add_node(
        self,
        *,
        name: str,
        block: ipaddress.IPv4Network,
        zone: str,
        placement: Placement,
        kin: Kin,
        ena_express: EnaExpress,
        limits: Limits,
    ) -> Port:
        """Create a namespace `name` with a shaped `eth0` in its rack, and routes for its pods.

        `limits` are EC2's for the instance; the place leaves it a share of them. Raises LabError
        when the block is outside the VPC.
        """
        with self._lock:
            own = self._cidr_of(next(block.hosts()))
            number = next(self._numbers)
            rack = self._rack_of(name, placement, kin, zone)
            limits = limits.times(rack.luck.share * self.luck.host(f"{kin.kind}/{kin.number}"))
            port = Port(
                namespace=name,
                rack=rack,
                device=f"node{number}",
                address=next(block.hosts()),
                block=block,
                zone=zone,
                group=placement.cluster_group,
                ena_express=ena_express,
                limits=limits,
            )
            self._create_namespace(name)
            _plug_in(port.device, rack, "eth0", f"/run/netns/{name}")
            self._configure_link(port, own)
            _tc(FABRIC, [ingress_command(port.device, limits)])
            _tc(name, egress_commands("eth0", limits, ena_express=port.has_ena_express))
            self._route_peers_to(port, "add")
            self.ports[name] = port
            self._classify_again()
            return port

    def _create_namespace(self, name: str) -> None:
        netns.create(name)
        with namespace(name):
            _quiet_ipv6(is_used=self.has_ipv6)
            _sysctl("net/ipv4/ip_forward", "1")
            _sysctl("net/ipv4/conf/all/rp_filter", "0")
            # As systemd does at boot (its sysctl.d/50-default.conf): pods in the node's own
            # network may not set sysctls, and with this one they ping without a capability.
            _sysctl("net/ipv4/ping_group_range", "0 2147483647")

    def _configure_link(self, port: Port, own: ipaddress.IPv4Network) -> None:
        """Give a node its addresses, and routes to the VPC, the services and the peers' pods.

        `own` is the VPC's block that has the node's address.
        """
        with NetNS(port.namespace) as node:
            node.link("set", index=node.link_lookup(ifname="lo")[0], state="up")
            eth0 = node.link_lookup(ifname="eth0")[0]
            node.addr("add", index=eth0, address=str(port.address), mask=own.prefixlen)
            node.link("set", index=eth0, state="up")
            for cidr in self.vpc:
                if cidr != own:
                    node.route("add", dst=str(cidr), oif=eth0)
            if self.has_ipv6:
                mask, own6 = VPC_IPV6.prefixlen, ipv6_block(port.block)[1]
                node.addr("add", index=eth0, address=str(own6), mask=mask)
            if self.services is not None:
                # Instead of the default route of an instance: without any, the kernel refuses
                # what a program on the node sends before kube-proxy's rules see it.
                node.route("add", dst=str(self.services), oif=eth0)
            for peer in self.ports.values():
                for their in self._blocks(peer):
                    node.route("add", dst=str(their), gateway=str(their[1]))

    def _route_peers_to(self, port: Port, verb: Literal["add", "del"]) -> None:
        """Change the routes of the other nodes, and of the calling process, to a node's pods."""
        for peer in self.ports.values():
            with NetNS(peer.namespace) as other:
                for its in self._blocks(port):
                    other.route(verb, dst=str(its), gateway=str(its[1]))
        for its in self._blocks(port):
            command = ["ip", "route", verb, str(its), "via", str(its[1])]
            subprocess.run(command, check=verb == "add")

    def remove_node(self, name: str) -> None:
        """Remove a node's namespace, and its link with it."""
        with self._lock:
            port = self.ports.pop(name, None)
            if port is None:
                return
            self._classifiers.pop(name, None)
            if not any(other.rack == port.rack for other in self.ports.values()):
                self._racks = {key: rack for key, rack in self._racks.items() if rack != port.rack}
                self._empty_racks.append(port.rack)
            netns.remove(name)
            self._route_peers_to(port, "del")
            self._classify_again()

    def set_link(self, name: str, *, up: bool) -> None:
        """Take a node's link down or up at its rack. Nothing for a node that has ended."""
        with self._lock:
            port = self.ports.get(name)
            if port is None:
                return
            with NetNS(FABRIC) as fabric:
                for index in fabric.link_lookup(ifname=port.device):
                    fabric.link("set", index=index, state="up" if up else "down")

    def stop(self) -> None:
        """Remove every namespace and end the relay."""
        for name in list(self.ports):
            self.remove_node(name)
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()
        # The kernel removes a namespace's links some time after the namespace. The next network
        # needs the name of this link at once.
        subprocess.run(["ip", "link", "delete", "vpc0"], check=False, capture_output=True)
        netns.remove(FABRIC)

    def _classify_again(self) -> None:
        """Update the classifiers of the nodes whose peers changed."""
        for port in self.ports.values():
            peers = [port.sees(other) for other in self.ports.values() if other is not port]
            command = classifier_command("eth0", peers)
            if self._classifiers.get(port.namespace) != command:
                _tc(port.namespace, [command])
                self._classifiers[port.namespace] = command

    def _rack_of(self, name: str, placement: Placement, kin: Kin, zone: str) -> Rack:
        """The rack of a node: its group's, or its own. An empty group draws another place."""
        if placement.rack is None:
            return self._rack(f"alone-{name}", self.luck.rack(f"{kin.kind}/{kin.number}"), zone)
        if placement.rack in self._racks:
            return self._racks[placement.rack]
        drawn = f"{kin.kind}/{placement.part}"
        self._times_opened[drawn] += 1
        luck = self.luck.rack(f"{drawn}/{self._times_opened[drawn]}")
        return self._rack(placement.rack, luck, zone)

    def _rack(self, key: str, luck: RackLuck, zone: str) -> Rack:
        """A rack with this luck: an empty bridge, or a new one that is joined to the spine."""
        if self._empty_racks:
            rack = dataclasses.replace(self._empty_racks.pop(), luck=luck, zone=zone)
            self._join_zone(rack)
            self._delay(rack)
        else:
            rack = Rack(next(self._rack_numbers), luck, zone)
            self._build(rack)
        self._racks[key] = rack
        return rack

    def _build(self, rack: Rack) -> None:
        with NetNS(FABRIC) as fabric:
            _add_bridge(fabric, rack.bridge)
            if self._netem:
                peer = {"ifname": rack.downlink, "mtu": MTU_BYTES}
                fabric.link("add", ifname=rack.uplink, kind="veth", mtu=MTU_BYTES, peer=peer)
            self._join_zone(rack)
            self._delay(rack)
            fabric.link("set", index=fabric.link_lookup(ifname=rack.uplink)[0], mtu=MTU_BYTES)
            _enslave(fabric, rack.uplink, rack.bridge)

    def _join_zone(self, rack: Rack) -> None:
        """With netem, plug the rack into its zone's part of the spine; the relay knows zones."""
        if not self._netem:
            return
        part = f"spine-{rack.zone}" if rack.zone else "spine"
        with NetNS(FABRIC) as fabric:
            if not fabric.link_lookup(ifname=part):
                self._add_zone(fabric, part)
            _enslave(fabric, rack.downlink, part)

    def _add_zone(self, fabric: NetNS, part: str) -> None:
        """Add a zone's part of the spine, whose frames to other zones are delayed as they leave."""
        number = next(self._zone_numbers)
        near, far = f"zone{number}", f"region{number}"
        peer = {"ifname": far, "mtu": MTU_BYTES}
        _add_bridge(fabric, part)
        fabric.link("add", ifname=near, kind="veth", mtu=MTU_BYTES, peer=peer)
        _enslave(fabric, near, part)
        _enslave(fabric, far, "spine")
        _tc(FABRIC, [_netem_command(near, BETWEEN_ZONES_SECONDS)])

    def _delay(self, rack: Rack) -> None:
        """Give the rack's uplink its delay; without netem, the relay makes the uplink first."""
        if self._relay is None:
            _tc(FABRIC, delay_commands(rack))
            return
        assert self._relay.stdin is not None
        assert self._relay.stdout is not None
        self._relay.stdin.write(f"{rack.uplink} {rack.luck.uplink_seconds * 1e9:.0f} {rack.zone}\n")
        self._relay.stdin.flush()
        if self._relay.stdout.readline().strip() != "ok":
            raise LabError(
                "The relay between the racks did not start: look at the lab's log, and "
                "check that /dev/net/tun can be opened."
            )


def delay_commands(rack: Rack) -> list[str]:
    """The lines for `tc -batch` that delay what leaves a rack and what enters it."""
    ends = (rack.uplink, rack.downlink)
    return [_netem_command(device, rack.luck.uplink_seconds) for device in ends]


def _netem_command(device: str, seconds: float) -> str:
    return f"qdisc replace dev {device} root netem delay {seconds * 1e6:.0f}us limit 20000"


@contextlib.contextmanager
def namespace(name: str) -> Iterator[None]:
    """Run the calling thread in another network namespace while the context lasts."""
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


def _plug_in(device: str, rack: Rack, inside: str, path: str) -> None:
    """Join a namespace, by its path, to a rack's bridge by a link that it calls `inside`."""
    peer = {"ifname": inside, "mtu": MTU_BYTES, "net_ns_fd": path}
    with NetNS(FABRIC) as fabric:
        fabric.link("add", ifname=device, kind="veth", mtu=MTU_BYTES, peer=peer)
        _enslave(fabric, device, rack.bridge)


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


def _quiet_ipv6(*, is_used: bool) -> None:
    """Keep router solicitations and duplicate address detection out of the measured traffic."""
    if is_used:
        _sysctl("net/ipv6/conf/default/accept_dad", "0")
        # A router sends no solicitations.
        _sysctl("net/ipv6/conf/all/forwarding", "1")
        return
    with contextlib.suppress(FileNotFoundError):
        _sysctl("net/ipv6/conf/all/disable_ipv6", "1")
        _sysctl("net/ipv6/conf/default/disable_ipv6", "1")


def _sysctl(name: str, value: str) -> None:
    # /proc/sys/net is that of the calling thread's network namespace, which `namespace` sets.
    Path("/proc/sys", name).write_text(value, encoding="ascii")


def _tc(name: str, lines: Sequence[str]) -> None:
    with namespace(name):
        shape(lines)


def shape(lines: Sequence[str], enter: Sequence[str] = ()) -> None:
    """Run lines of `tc -batch`, by default in the calling thread's network namespace.

    `enter` is a command that runs another in a namespace. Raises LabError.
    """
    done = subprocess.run(
        [*enter, "tc", "-batch", "-"],
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
