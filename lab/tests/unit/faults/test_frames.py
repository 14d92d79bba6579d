"""Rules strike the frames that are meant."""

from __future__ import annotations

import ipaddress
import struct

from lab.faults.frames import IN, OUT, Rule, corrupted, fates, segment_bytes

PLAIN = struct.pack("=BBHHHH", 0, 0, 0, 0, 0, 0)


def frame(source: str = "10.0.0.1", destination: str = "10.0.1.1", size: int = 1000) -> bytes:
    ip = bytearray(size)
    ip[12:16] = ipaddress.IPv4Address(source).packed
    ip[16:20] = ipaddress.IPv4Address(destination).packed
    return PLAIN + bytes(12) + b"\x08\x00" + bytes(ip)


def test_without_rules_a_frame_passes_as_it_is() -> None:
    assert fates([], OUT, frame()) == [(0.0, frame())]


def test_a_share_of_the_frames_is_lost() -> None:
    rule = Rule("lost", 0.25)
    passed = sum(len(fates([rule], OUT, frame())) for _ in range(4000))
    assert 2800 < passed < 3200


def test_a_rule_of_one_direction_spares_the_other() -> None:
    rule = Rule("lost", direction="in")
    assert fates([rule], IN, frame()) == []
    assert fates([rule], OUT, frame())


def test_a_partition_strikes_only_its_peers_in_either_direction() -> None:
    rule = Rule("lost", peers=["10.0.1.0/26"])
    assert fates([rule], OUT, frame("10.0.0.1", "10.0.1.9")) == []
    assert fates([rule], IN, frame("10.0.1.9", "10.0.0.1")) == []
    assert fates([rule], OUT, frame("10.0.0.1", "10.0.2.9"))
    assert fates([rule], IN, frame("10.0.2.9", "10.0.0.1"))


def test_a_partition_of_nodes_lets_arp_pass() -> None:
    arp = PLAIN + bytes(12) + b"\x08\x06" + bytes(28)
    assert fates([Rule("lost", peers=["0.0.0.0/0"])], OUT, arp)


def test_delays_of_two_rules_add_up() -> None:
    rules = [Rule("delayed", delay_seconds=0.1), Rule("delayed", delay_seconds=0.2)]
    (delay, _), *more = fates(rules, OUT, frame())
    assert round(delay, 6) == 0.3
    assert more == []


def test_a_duplicated_frame_comes_twice() -> None:
    assert len(fates([Rule("duplicated")], OUT, frame())) == 2


def test_a_corrupted_frame_differs_in_one_bit_behind_its_ethernet_header() -> None:
    for _ in range(100):
        whole = frame()
        spoiled = corrupted(whole)
        differing = [a ^ b for a, b in zip(whole, spoiled, strict=True) if a != b]
        assert len(differing) == 1
        assert differing[0].bit_count() == 1
        assert spoiled[:24] == whole[:24]


def test_a_frame_above_the_mtu_is_lost_by_the_size_of_its_segments() -> None:
    rule = Rule("too-large", mtu_bytes=1500)
    assert fates([rule], OUT, frame(size=1500))
    assert fates([rule], OUT, frame(size=1501)) == []
    # A large segment of TCP: 54 bytes of headers, and 1446 of data in each packet.
    header = struct.pack("=BBHHHH", 1, 1, 54, 1446, 34, 16)
    large = header + frame(size=20000)[10:]
    assert segment_bytes(large) == 54 + 1446 - 14
    assert fates([rule], OUT, large)
