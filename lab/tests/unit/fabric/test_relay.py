"""The spine between racks: a learning switch with a delay. Sockets replace the racks' devices."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from lab.fabric import relay

DELAY = 1_000_000  # nanoseconds
HEADER = bytes(relay.VNET_HEADER_BYTES)
ONE, OTHER, BROADCAST = b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x02", b"\xff" * 6


@dataclass
class Racks:
    """Three racks and the relay between them, whose uplinks take one, two and three delays."""

    ends: list[socket.socket]
    taps: list[int]
    spine: relay.Spine = field(default_factory=relay.Spine)

    def __post_init__(self) -> None:
        for number, tap in enumerate(self.taps, start=1):
            self.spine.join(tap, number * DELAY)

    def carry(self, rack: int, frame: bytes) -> list[int]:
        """Send a frame in `rack`. Returns the racks that it reaches unchanged."""
        self.ends[rack].send(frame)
        self.spine.receive(self.taps[rack])
        while self.spine.held:
            self.spine.send_first()
        reached = []
        for number, end in enumerate(self.ends):
            try:
                assert end.recv(relay.LARGEST_FRAME_BYTES) == frame
                reached.append(number)
            except BlockingIOError:
                continue
        return reached


@pytest.fixture
def racks() -> Iterator[Racks]:
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    yield Racks([rack for rack, _ in pairs], [tap.fileno() for _, tap in pairs])
    for pair in pairs:
        for end in pair:
            end.close()


def frame(destination: bytes, source: bytes, payload: bytes = b"content") -> bytes:
    return HEADER + destination + source + b"\x08\x00" + payload


def test_an_unknown_destination_is_looked_for_in_every_other_rack(racks: Racks) -> None:
    assert racks.carry(0, frame(OTHER, ONE)) == [1, 2]


def test_a_destination_that_was_heard_of_is_reached_alone(racks: Racks) -> None:
    racks.carry(2, frame(BROADCAST, OTHER))
    assert racks.carry(0, frame(OTHER, ONE)) == [2]
    assert racks.carry(2, frame(ONE, OTHER)) == [0]


def test_a_broadcast_always_reaches_every_other_rack(racks: Racks) -> None:
    racks.carry(2, frame(BROADCAST, OTHER))
    assert racks.carry(2, frame(BROADCAST, OTHER)) == [0, 1]


def test_a_frame_for_its_own_rack_is_not_sent_back(racks: Racks) -> None:
    racks.carry(0, frame(BROADCAST, OTHER))
    assert racks.carry(0, frame(OTHER, ONE)) == []


def test_a_large_segment_stays_whole_with_its_header(racks: Racks) -> None:
    segment = b"\1\0\0\0\0\0\0\0\0\0" + frame(BROADCAST, ONE, os.urandom(64_000))[10:]
    assert racks.carry(0, segment) == [1, 2]


def test_frames_of_one_way_are_held_for_both_delays_in_the_order_of_arrival(racks: Racks) -> None:
    racks.carry(1, frame(BROADCAST, OTHER))
    sent = [frame(OTHER, ONE, b"%d" % number) for number in range(10)]
    for one in sent:
        racks.ends[0].send(one)
    before = time.monotonic_ns()
    racks.spine.receive(racks.taps[0])
    after = time.monotonic_ns()
    due = sorted(racks.spine.held)
    assert [held for _, _, _, held in due] == sent
    assert {target for _, _, target, _ in due} == {racks.taps[1]}
    assert before + 3 * DELAY <= due[0][0]
    assert due[-1][0] <= after + 3 * DELAY


def test_frame_of_a_shorter_way_arrives_before_an_earlier_one_of_a_longer_way(racks: Racks) -> None:
    racks.ends[2].send(frame(BROADCAST, OTHER))
    racks.spine.receive(racks.taps[2])
    moments = {target: due for due, _, target, _ in racks.spine.held}
    assert moments[racks.taps[1]] - moments[racks.taps[0]] == DELAY
    racks.spine.send_first()
    assert racks.ends[0].recv(100)
    with pytest.raises(BlockingIOError):
        racks.ends[1].recv(100)


def test_uplink_that_joins_again_has_its_new_delay(racks: Racks) -> None:
    racks.spine.join(racks.taps[0], 100 * DELAY)
    racks.carry(1, frame(BROADCAST, OTHER))
    racks.ends[0].send(frame(OTHER, ONE))
    before = time.monotonic_ns()
    racks.spine.receive(racks.taps[0])
    assert racks.spine.held[0][0] >= before + 102 * DELAY


def test_the_way_between_zones_takes_longer_and_the_services_are_in_no_zone(racks: Racks) -> None:
    near, other, services = racks.taps
    racks.spine.join(near, DELAY, "us-east-1a")
    racks.spine.join(other, DELAY, "us-east-1b")
    assert racks.spine.between(near, other) == 2 * DELAY + relay.BETWEEN_ZONES_NANOSECONDS
    assert racks.spine.between(near, services) == 4 * DELAY
    racks.spine.join(other, DELAY, "us-east-1a")
    assert racks.spine.between(other, near) == 2 * DELAY


def test_a_full_spine_drops_frames_instead_of_growing(
    racks: Racks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MOST_FRAMES", 3)
    for number in range(5):
        racks.ends[0].send(frame(OTHER, ONE, b"%d" % number))
    racks.spine.receive(racks.taps[0])
    assert len(racks.spine.held) == 3


def test_a_rack_that_takes_nothing_costs_only_its_own_frames(racks: Racks) -> None:
    racks.ends[1].close()
    sent = frame(OTHER, ONE)
    racks.ends[0].send(sent)
    racks.spine.receive(racks.taps[0])
    while racks.spine.held:
        racks.spine.send_first()
    assert racks.ends[2].recv(100) == sent
