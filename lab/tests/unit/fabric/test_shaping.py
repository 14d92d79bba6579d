"""The link's caps: the leaf of the tree for each frame, and the rate of each leaf."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fabric import shaping
from lab.fabric.shaping import (
    EnaExpress,
    Limits,
    Peer,
    class_commands,
    classifier,
    classifier_command,
    egress_commands,
    ipv6_block,
)
from lab.tests.unit.fabric.bpf import run

BLOCKS = [ipaddress.IPv4Network("10.0.33.0/26"), ipaddress.IPv4Network("10.0.33.128/26")]
PEERS = [Peer(block, same_cluster_group=True) for block in BLOCKS]
PROGRAM = classifier(PEERS)
TCP, UDP, ICMP = 6, 17, 1
DEFAULT = 0x10000 | shaping.DEFAULT_CLASS

ports = st.integers(1, 65535)
addresses = st.ip_addresses(v=4)
in_group = st.sampled_from(BLOCKS).flatmap(lambda net: st.ip_addresses(network=net))
outside = addresses.filter(lambda found: not any(found in block for block in BLOCKS))
protocols = st.sampled_from([TCP, UDP])
options = st.integers(0, 10).map(lambda words: b"\1" * 4 * words)  # up to 40 bytes of NOP


def frame(
    source: ipaddress.IPv4Address,
    destination: ipaddress.IPv4Address,
    protocol: int,
    from_port: int,
    to_port: int,
    extra: bytes = b"",
) -> bytes:
    """An Ethernet frame with an IPv4 packet. `extra` are options of its header."""
    header = struct.pack(
        ">BBHHHBBH4s4s",
        *(0x40 | 5 + len(extra) // 4, 0, 40 + len(extra), 1, 0, 64, protocol, 0),
        *(source.packed, destination.packed),
    )
    transport = struct.pack(">HH", from_port, to_port) + bytes(16)
    return bytes(12) + b"\x08\x00" + header + extra + transport


def frame_of_ipv6(
    source: ipaddress.IPv6Address,
    destination: ipaddress.IPv6Address,
    protocol: int,
    from_port: int,
    to_port: int,
) -> bytes:
    """An Ethernet frame with an IPv6 packet without extension headers."""
    header = struct.pack(">IHBB", 6 << 28, 20, protocol, 64) + source.packed + destination.packed
    return bytes(12) + b"\x86\xdd" + header + struct.pack(">HH", from_port, to_port) + bytes(16)


def leaf(class_id: int) -> tuple[int, int]:
    """The set of leaves that a class belongs to, and its number in the set."""
    assert class_id >> 16 == 1, "the class is one of the tree's own, 1:"
    minor = class_id & 0xFFFF
    base = minor & ~(shaping.LEAVES - 1)
    return base, minor - base


@given(outside, outside, protocols, ports, ports, options)
def test_a_flow_and_its_reverse_share_a_leaf(
    one: ipaddress.IPv4Address,
    other: ipaddress.IPv4Address,
    protocol: int,
    one_port: int,
    other_port: int,
    extra: bytes,
) -> None:
    there = run(PROGRAM, frame(one, other, protocol, one_port, other_port, extra))
    back = run(PROGRAM, frame(other, one, protocol, other_port, one_port))
    assert there == back
    assert leaf(there)[0] == shaping.OUTSIDE_BASE


@given(addresses, in_group, protocols, ports, ports, options)
def test_frames_to_peers_of_the_group_take_the_groups_leaves(
    source: ipaddress.IPv4Address,
    peer: ipaddress.IPv4Address,
    protocol: int,
    from_port: int,
    to_port: int,
    extra: bytes,
) -> None:
    sent = frame(source, peer, protocol, from_port, to_port, extra)
    base, number = leaf(run(PROGRAM, sent))
    assert base == shaping.CLUSTER_BASE
    assert 0 <= number < shaping.LEAVES
    # Without the group the same flow is in the leaf of the same number with the other cap.
    assert leaf(run(classifier([]), sent)) == (shaping.OUTSIDE_BASE, number)


@given(st.sampled_from(BLOCKS), st.integers(1, 2**32 - 1), protocols, ports, ports)
def test_a_flow_of_ipv6_takes_the_leaf_that_it_would_take_by_ipv4(
    block: ipaddress.IPv4Network, number: int, protocol: int, from_port: int, to_port: int
) -> None:
    elsewhere = ipaddress.IPv4Network("10.0.50.0/26")
    for source, destination in ((elsewhere, block), (block, elsewhere)):
        by_ipv6 = frame_of_ipv6(
            ipv6_block(source)[number],
            ipv6_block(destination)[number],
            protocol,
            from_port,
            to_port,
        )
        by_ipv4 = frame(source[1], destination[1], protocol, from_port, to_port)
        assert run(PROGRAM, by_ipv6) == run(PROGRAM, by_ipv4)
    assert run(PROGRAM, frame_of_ipv6(ipv6_block(block)[1], ipv6_block(block)[2], 58, 0, 0)) == (
        DEFAULT
    )


@pytest.mark.parametrize("same_group", [True, False])
@given(in_group, ports, ports, options)
def test_ena_express_takes_its_own_leaves_for_the_protocols_it_is_on_for(
    same_group: bool,
    peer: ipaddress.IPv4Address,
    from_port: int,
    to_port: int,
    extra: bytes,
) -> None:
    """It overrides the cluster group's cap. Enabled for TCP only, it does not change UDP."""
    plain = shaping.CLUSTER_BASE if same_group else shaping.OUTSIDE_BASE
    source = ipaddress.IPv4Address("10.0.40.5")
    for express in (EnaExpress(tcp=True), EnaExpress(tcp=True, udp=True), EnaExpress()):
        program = classifier([Peer(block, same_group, express) for block in BLOCKS])
        for protocol, on in ((TCP, express.tcp), (UDP, express.udp)):
            sent = frame(source, peer, protocol, from_port, to_port, extra)
            base, number = leaf(run(program, sent))
            assert base == (shaping.ENA_EXPRESS_BASE if on else plain)
            assert number == leaf(run(PROGRAM, sent))[1]
        ping = frame(source, peer, ICMP, 8, 0)
        assert run(program, ping) == DEFAULT


def test_ena_express_to_one_peer_leaves_the_others_as_they_are() -> None:
    program = classifier([Peer(BLOCKS[0], False, EnaExpress(tcp=True)), Peer(BLOCKS[1], True)])
    source = ipaddress.IPv4Address("10.0.40.5")
    bases = [
        leaf(run(program, frame(source, next(block.hosts()), TCP, 40000, 5201)))[0]
        for block in (*BLOCKS, ipaddress.IPv4Network("10.0.50.0/26"))
    ]
    assert bases == [shaping.ENA_EXPRESS_BASE, shaping.CLUSTER_BASE, shaping.OUTSIDE_BASE]


@given(outside, st.binary(min_size=0, max_size=80))
def test_what_is_neither_tcp_nor_udp_goes_to_the_default_class(
    destination: ipaddress.IPv4Address, rest: bytes
) -> None:
    ping = frame(destination, destination, ICMP, 8, 0) + rest
    assert run(PROGRAM, ping) == DEFAULT
    arp = bytes(12) + b"\x08\x06" + rest
    assert run(PROGRAM, arp) == DEFAULT


@given(st.binary(max_size=33))
def test_a_truncated_frame_never_gets_a_leaf(start: bytes) -> None:
    assert run(PROGRAM, start) in (0, DEFAULT)


def test_eight_flows_from_neighbouring_ports_have_eight_leaves() -> None:
    """iperf3's streams use consecutive ports. Two streams in one leaf would share one cap."""
    source, destination = map(ipaddress.IPv4Address, ("10.0.32.5", "10.0.40.5"))
    for first in range(32768, 60000, 997):
        taken = {
            run(PROGRAM, frame(source, destination, TCP, first + stream, 5201))
            for stream in range(8)
        }
        assert len(taken) == 8


def of_classes(word: str, lines: Iterable[str]) -> dict[str, str]:
    """The value after a word in the commands of each class, by the class's id."""
    return {
        words[words.index("classid") + 1]: words[words.index(word) + 1]
        for words in map(str.split, lines)
        if words[0] == "class"
    }


def test_every_leaf_a_frame_can_get_exists_and_has_the_cap_of_its_set() -> None:
    limits = Limits.of_instance(10e9, 0.1)
    ceilings = of_classes("ceil", egress_commands("eth0", limits, ena_express=False))
    for number in range(shaping.LEAVES):
        assert ceilings[f"1:{shaping.OUTSIDE_BASE + number:x}"] == "500000000bit"
        assert ceilings[f"1:{shaping.CLUSTER_BASE + number:x}"] == "1000000000bit"
    assert ceilings["1:1"] == "1000000000bit"
    assert len(ceilings) == 2 + 2 * shaping.LEAVES


def test_other_limits_change_every_class_of_a_tree_and_nothing_else() -> None:
    """An omitted class would keep its old limit. Replacing a queue would drop packets."""
    limits = Limits.of_instance(50e9, 0.1)
    for express in (False, True):
        created = egress_commands("eth0", limits, ena_express=express)
        changed = class_commands("eth0", limits.times(0.9), ena_express=express)
        ceilings = of_classes("ceil", changed)
        assert list(ceilings) == list(of_classes("ceil", created))
        assert all(line.startswith("class replace") for line in changed)
        rates = (50, 5, 10, 25)[: 3 + express]
        assert set(ceilings.values()) == {f"{rate * 0.9 * 1e8:.0f}bit" for rate in rates}


def test_a_factor_of_one_restores_the_limits() -> None:
    limits = Limits.of_instance(10e9, 0.1)
    assert limits.times(1) == limits
    assert limits.times(0.9).cluster_flow == pytest.approx(0.9 * limits.cluster_flow)


def test_only_a_node_with_ena_express_has_its_leaves() -> None:
    limits = Limits.of_instance(50e9, 0.1)
    ceilings = of_classes("ceil", egress_commands("eth0", limits, ena_express=True))
    for number in range(shaping.LEAVES):
        assert ceilings[f"1:{shaping.ENA_EXPRESS_BASE + number:x}"] == "2500000000bit"
    assert len(ceilings) == 2 + 3 * shaping.LEAVES


@pytest.mark.parametrize(
    ("gigabits", "flow", "cluster_flow", "ena_express_flow"),
    [(50, 5e9, 10e9, 25e9), (10, 5e9, 10e9, 10e9), (4, 4e9, 4e9, 4e9)],
)
def test_a_flow_is_never_allowed_more_than_its_instance(
    gigabits: float, flow: float, cluster_flow: float, ena_express_flow: float
) -> None:
    limits = Limits.of_instance(gigabits * 1e9, 1)
    assert (limits.flow, limits.cluster_flow) == (flow, cluster_flow)
    assert limits.ena_express_flow == ena_express_flow


def test_the_guaranteed_rates_of_the_leaves_do_not_exceed_the_instance() -> None:
    """htb grants guaranteed rates even past the parent's, which would break the instance's cap."""
    limits = Limits.of_instance(10e9, 0.1)
    rates = of_classes("rate", egress_commands("eth0", limits, ena_express=False))
    leaves = [rates[f"1:{shaping.OUTSIDE_BASE + number:x}"] for number in range(shaping.LEAVES)]
    one_set = sum(int(rate.removesuffix("bit")) for rate in leaves)
    assert one_set <= limits.instance


def test_the_command_carries_the_program_as_tc_reads_it() -> None:
    command = classifier_command("eth0", PEERS)
    text = command.partition('bytecode "')[2].rstrip('"')
    count, *steps = text.split(",")
    assert int(count) == len(steps) == len(PROGRAM)
    assert [tuple(map(int, step.split())) for step in steps] == PROGRAM
