"""The spine between racks: a learning switch with a delay. Sockets replace the racks' devices."""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from lab.fabric import relay

DELAY = 1_000_000  # nanoseconds
HEADER = bytes(relay.VNET_HEADER_BYTES)
ONE, OTHER, BROADCAST = b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x02", b"\xff" * 6


@dataclass
class Spine:
    """Three racks and the relay between them."""

    racks: list[socket.socket]
    taps: list[int]
    held: deque[tuple[int, int, bytes]] = field(default_factory=deque)
    where: dict[bytes, int] = field(default_factory=dict)

    def carry(self, rack: int, frame: bytes) -> list[int]:
        """Send a frame in `rack`. Returns the racks that it reaches unchanged."""
        self.racks[rack].send(frame)
        relay._receive(self.taps[rack], self.held, self.where, DELAY)
        _, source, kept = self.held.popleft()
        relay._send(kept, source, self.taps, self.where)
        reached = []
        for number, end in enumerate(self.racks):
            try:
                assert end.recv(relay.LARGEST_FRAME_BYTES) == frame
                reached.append(number)
            except BlockingIOError:
                continue
        return reached


@pytest.fixture
def spine() -> Iterator[Spine]:
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    yield Spine([rack for rack, _ in pairs], [tap.fileno() for _, tap in pairs])
    for pair in pairs:
        for end in pair:
            end.close()


def frame(destination: bytes, source: bytes, payload: bytes = b"content") -> bytes:
    return HEADER + destination + source + b"\x08\x00" + payload


def test_an_unknown_destination_is_looked_for_in_every_other_rack(spine: Spine) -> None:
    assert spine.carry(0, frame(OTHER, ONE)) == [1, 2]


def test_a_destination_that_was_heard_of_is_reached_alone(spine: Spine) -> None:
    spine.carry(2, frame(BROADCAST, OTHER))
    assert spine.carry(0, frame(OTHER, ONE)) == [2]
    assert spine.carry(2, frame(ONE, OTHER)) == [0]


def test_a_broadcast_always_reaches_every_other_rack(spine: Spine) -> None:
    spine.carry(2, frame(BROADCAST, OTHER))
    assert spine.carry(2, frame(BROADCAST, OTHER)) == [0, 1]


def test_a_frame_for_its_own_rack_is_not_sent_back(spine: Spine) -> None:
    spine.carry(0, frame(BROADCAST, OTHER))
    assert spine.carry(0, frame(OTHER, ONE)) == []


def test_a_large_segment_stays_whole_with_its_header(spine: Spine) -> None:
    segment = b"\1\0\0\0\0\0\0\0\0\0" + frame(BROADCAST, ONE, os.urandom(64_000))[10:]
    assert spine.carry(0, segment) == [1, 2]


def test_every_frame_is_held_for_the_delay_in_the_order_of_arrival(spine: Spine) -> None:
    sent = [frame(OTHER, ONE, b"%d" % number) for number in range(10)]
    for one in sent:
        spine.racks[0].send(one)
    before = time.monotonic_ns()
    relay._receive(spine.taps[0], spine.held, spine.where, DELAY)
    after = time.monotonic_ns()
    assert [kept for _, _, kept in spine.held] == sent
    due = [moment for moment, _, _ in spine.held]
    assert due == sorted(due)
    assert before + DELAY <= due[0]
    assert due[-1] <= after + DELAY


def test_a_full_spine_drops_frames_instead_of_growing(
    spine: Spine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MOST_FRAMES", 3)
    for number in range(5):
        spine.racks[0].send(frame(OTHER, ONE, b"%d" % number))
    relay._receive(spine.taps[0], spine.held, spine.where, DELAY)
    assert len(spine.held) == 3


def test_a_rack_that_takes_nothing_costs_only_its_own_frames(spine: Spine) -> None:
    spine.racks[1].close()
    spine.racks[0].send(frame(OTHER, ONE))
    relay._receive(spine.taps[0], spine.held, spine.where, DELAY)
    _, source, kept = spine.held.popleft()
    relay._send(kept, source, spine.taps, spine.where)
    assert spine.racks[2].recv(100) == kept
