"""EC2's two bandwidth limits as Linux queueing disciplines: one per flow and one per instance.

EC2 limits a single flow (5-tuple) to 5 Gb/s, to 10 Gb/s between instances of one cluster placement
group, and to 25 Gb/s between two instances that both have ENA Express, in one zone or across zones.
All flows together may use the instance's own bandwidth (AWS EC2 user guide, "Amazon EC2 instance
network bandwidth" and "Improve network performance between EC2 instances with ENA Express"). Here
the instance is an htb class. It has 256 leaves, each with the limit of a flow,
and a hash of a flow's ports chooses its leaf. There are three sets of leaves: for peers of the same
cluster placement group, for peers with ENA Express, and for all other peers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field

FLOW_BITS_PER_SECOND = 5e9
CLUSTER_FLOW_BITS_PER_SECOND = 10e9
ENA_EXPRESS_FLOW_BITS_PER_SECOND = 25e9

#: The IPv6 addresses of all VPCs of the lab, of the range for documentation (RFC 3849).
VPC_IPV6 = ipaddress.IPv6Network("2001:db8::/64")

LEAVES = 256
DEFAULT_CLASS = 0x2
OUTSIDE_BASE = 0x100  # leaves 1:100 to 1:1ff: peers outside the cluster placement group
CLUSTER_BASE = 0x200  # leaves 1:200 to 1:2ff: peers of the same group
ENA_EXPRESS_BASE = 0x300  # leaves 1:300 to 1:3ff: peers with ENA Express, if this node has it

# A leaf may send this much at once: two of TCP's largest segments (64 KiB each). A larger burst
# would raise a trial's mean noticeably: 128 KiB is 0.03 % of three seconds at 1 Gb/s.
BURST_BYTES = 131072
# The queue of a leaf, about 16 ms at 500 Mb/s. It drops frames when it is full, as a real one does.
QUEUE_BYTES = 1 << 20
QUANTUM_BYTES = 65536


@dataclass(frozen=True)
class Limits:
    """The limits of one node's link, already scaled, in bits per second."""

    instance: float
    flow: float
    cluster_flow: float
    ena_express_flow: float

    @classmethod
    def of_instance(cls, instance_bits_per_second: float, scale: float) -> Limits:
        """EC2's documented limits times the lab's scale."""
        return cls(
            instance=instance_bits_per_second * scale,
            flow=min(FLOW_BITS_PER_SECOND, instance_bits_per_second) * scale,
            cluster_flow=min(CLUSTER_FLOW_BITS_PER_SECOND, instance_bits_per_second) * scale,
            ena_express_flow=min(ENA_EXPRESS_FLOW_BITS_PER_SECOND, instance_bits_per_second)
            * scale,
        )

    def times(self, factor: float) -> Limits:
        """All limits multiplied by a factor, for an experiment with a known outcome."""
        return Limits(*(limit * factor for limit in astuple(self)))


def ipv6_block(block: ipaddress.IPv4Network) -> ipaddress.IPv6Network:
    """The /96 of a node in a cluster of IPv6, whose bytes 8 to 11 are those of its IPv4 block."""
    return ipaddress.IPv6Network((int(VPC_IPV6[0]) | int(block[0]) << 32, 96))


@dataclass(frozen=True)
class EnaExpress:
    """Whether TCP flows and UDP flows use ENA Express."""

    tcp: bool = False
    udp: bool = False


@dataclass(frozen=True, order=True)
class Peer:
    """Another node. `block` holds it and its pods; `ena_express` says what both nodes use."""

    block: ipaddress.IPv4Network
    same_cluster_group: bool = False
    ena_express: EnaExpress = field(default=EnaExpress(), compare=False)


def egress_commands(device: str, limits: Limits, *, ena_express: bool) -> list[str]:
    """The lines for `tc -batch` that shape what a node sends."""
    queues = [
        f"qdisc replace dev {device} parent 1:{base + leaf:x} bfifo limit {QUEUE_BYTES}"
        for base, _ in _sets(limits, ena_express)
        for leaf in range(LEAVES)
    ]
    return [
        f"qdisc replace dev {device} root handle 1: htb default {DEFAULT_CLASS:x}",
        *class_commands(device, limits, ena_express=ena_express),
        *queues,
    ]


def class_commands(device: str, limits: Limits, *, ena_express: bool) -> list[str]:
    """The lines for `tc -batch` that set the limits of a tree's classes, even of a tree in use."""
    # Each leaf has a small guaranteed rate and the limit as its ceiling. The leaves borrow from the
    # instance's class in turn, so flows share the instance evenly.
    rate = limits.instance / LEAVES
    return [
        _class(device, "1:", "1:1", limits.instance, limits.instance),
        _class(device, "1:1", f"1:{DEFAULT_CLASS:x}", rate, limits.instance),
        *(
            _class(device, "1:1", f"1:{base + leaf:x}", rate, ceiling)
            for base, ceiling in _sets(limits, ena_express)
            for leaf in range(LEAVES)
        ),
    ]


def _sets(limits: Limits, ena_express: bool) -> list[tuple[int, float]]:
    """The sets of leaves that a node has: the number of the first leaf, and each leaf's limit."""
    sets = [(OUTSIDE_BASE, limits.flow), (CLUSTER_BASE, limits.cluster_flow)]
    return [*sets, (ENA_EXPRESS_BASE, limits.ena_express_flow)] if ena_express else sets


def ingress_command(device: str, limits: Limits) -> str:
    """The line for `tc -batch` that limits what a node receives, at its port in the rack."""
    return (
        f"qdisc replace dev {device} root tbf rate {limits.instance:.0f}bit "
        f"burst {2 * BURST_BYTES} limit {4 * QUEUE_BYTES}"
    )


def classifier_command(device: str, peers: Iterable[Peer]) -> str:
    """The line for `tc -batch` that sorts frames into leaves by their destination and ports."""
    program = classifier(sorted(peers))
    code = ",".join(" ".join(str(number) for number in step) for step in program)
    return (
        f"filter replace dev {device} parent 1: protocol all prio 1 handle 1 "
        f'bpf bytecode "{len(program)},{code}"'
    )


# Classic BPF (linux/filter.h): operation codes that the classifier uses.
_JA, _LDX_IMM = 0x05, 0x01
_LDH, _LDB, _LD = 0x28, 0x30, 0x20  # load from an absolute offset: half word, byte, word
_LDX_MSH = 0xB1  # X = the IP header's length
_LDH_IND = 0x48  # load half word from X + offset
_ST, _LDX_MEM, _LD_IMM = 0x02, 0x61, 0x00
_AND, _XOR_X, _ADD_X = 0x54, 0xAC, 0x0C
_JEQ = 0x15
_RET_K, _RET_A = 0x06, 0x16

_ETHERTYPE, _IP = 12, 14
_TCP, _UDP = 6, 17


type Step = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Family:
    """Where a version of IP has what the classifier reads, as offsets in the frame.

    `destination` is that of the bytes that identify the node: the address of IPv4, and those bytes
    of an IPv6 address that `ipv6_block` copies it to. `load_length` sets X to the length of the
    IP header.
    """

    ethertype: int
    protocol: int
    destination: int
    load_length: Step


_IPV4 = _Family(0x0800, 23, 30, (_LDX_MSH, 0, 0, _IP))
_IPV6 = _Family(0x86DD, 20, 46, (_LDX_IMM, 0, 0, 40))


def classifier(peers: Sequence[Peer]) -> list[Step]:
    """A classic BPF program: (code, jump if true, jump if false, operand) for each step.

    It returns the class of an Ethernet frame. For TCP and UDP over IP it hashes (source port xor
    destination port). So a flow and its reverse have the same leaf, and many flows use many leaves
    whichever side has the well-known port. Everything else goes to the default class, where only
    the instance's limit applies.
    """
    of_ipv6 = _of_family(_IPV6, peers)
    return [
        (_LDH, 0, 0, _ETHERTYPE),
        (_JEQ, 1, 0, _IPV6.ethertype),
        (_JA, 0, 0, len(of_ipv6)),
        *of_ipv6,
        *_of_family(_IPV4, peers),
    ]


def _of_family(family: _Family, peers: Sequence[Peer]) -> list[Step]:
    default = (_RET_K, 0, 0, 0x10000 | DEFAULT_CLASS)
    steps: list[Step] = [
        (_LDH, 0, 0, _ETHERTYPE),
        (_JEQ, 1, 0, family.ethertype),
        default,
        (_LDB, 0, 0, family.protocol),
        (_JEQ, 2, 0, _TCP),
        (_JEQ, 1, 0, _UDP),
        default,
        # M[0] = the base of the leaves, unless a peer below matches
        (_LD_IMM, 0, 0, 0x10000 | OUTSIDE_BASE),
        (_ST, 0, 0, 0),
    ]
    for peer in peers:
        if peer.same_cluster_group:
            steps += _for_peer(family, peer, CLUSTER_BASE)
        for number, used in ((_TCP, peer.ena_express.tcp), (_UDP, peer.ena_express.udp)):
            if used:
                chosen = _for_peer(family, peer, ENA_EXPRESS_BASE)
                steps += [(_LDB, 0, 0, family.protocol), (_JEQ, 0, len(chosen), number), *chosen]
    steps += [
        family.load_length,
        (_LDH_IND, 0, 0, _IP),
        (_ST, 0, 0, 1),
        (_LDH_IND, 0, 0, _IP + 2),
        (_LDX_MEM, 0, 0, 1),
        (_XOR_X, 0, 0, 0),
        (_AND, 0, 0, LEAVES - 1),
        (_LDX_MEM, 0, 0, 0),
        (_ADD_X, 0, 0, 0),
        (_RET_A, 0, 0, 0),
    ]
    return steps


def _for_peer(family: _Family, peer: Peer, base: int) -> list[Step]:
    """The steps that set M[0] to the base of the leaves when the frame is for the peer."""
    return [
        (_LD, 0, 0, family.destination),
        (_AND, 0, 0, int(peer.block.netmask)),
        (_JEQ, 0, 2, int(peer.block.network_address)),
        (_LD_IMM, 0, 0, 0x10000 | base),
        (_ST, 0, 0, 0),
    ]


def _class(device: str, parent: str, identity: str, rate: float, ceiling: float) -> str:
    return (
        f"class replace dev {device} parent {parent} classid {identity} htb "
        f"rate {rate:.0f}bit ceil {ceiling:.0f}bit burst {BURST_BYTES} cburst {BURST_BYTES} "
        f"quantum {QUANTUM_BYTES}"
    )
