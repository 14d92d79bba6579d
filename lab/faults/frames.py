"""Stands between a device of the fabric and its bridge, and spoils frames by rules.

Not every kernel has netem. So this program takes the device's place in the bridge with a TAP
device, and carries each frame from one to the other, with its virtio-net header, so that large
segments stay whole. The caps stay where they are: those of a node's link are in the node and on
the device.

It runs as a process of its own in the fabric's namespace: `python -m lab.faults.frames DEVICE TAP`.
It reads rules from standard input, a line with a JSON list at a time, answers each line with `ok`,
and ends with standard input. The TAP device goes with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import ipaddress
import itertools
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.fabric.relay import (
    LARGEST_FRAME_BYTES,
    MOST_FRAMES,
    OFFLOADS,
    TUNSETOFFLOAD,
    VNET_HEADER_BYTES,
    open_tap,
)

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_ETH_P_ALL, _ETH_P_IP = 3, 0x0800
_ETHERNET_BYTES = 14
_BUFFER_BYTES = 16 << 20
#: What the device sends, and what it receives.
OUT, IN = "out", "in"


@dataclass(frozen=True)
class Rule:
    """What happens to a share of the frames in a direction, of all peers or of some networks.

    `what` is lost, delayed, duplicated, corrupted, or too-large: lost above `mtu_bytes`.
    """

    what: str
    share: float = 1.0
    direction: str = "both"
    peers: Sequence[str] = ()
    delay_seconds: float = 0.0
    jitter_seconds: float = 0.0
    mtu_bytes: int = 0

    def concerns(self, direction: str, frame: bytes) -> bool:
        """Does the rule strike this frame? Chance decides on each."""
        if self.direction not in ("both", direction):
            return False
        if self.peers and not self._is_peer(direction, frame):
            return False
        if self.mtu_bytes and segment_bytes(frame) <= self.mtu_bytes:
            return False
        return random.random() < self.share

    def _is_peer(self, direction: str, frame: bytes) -> bool:
        start = VNET_HEADER_BYTES
        if struct.unpack_from("!H", frame, start + 12)[0] != _ETH_P_IP:
            return False
        address = ipaddress.IPv4Address(
            frame[start + 30 : start + 34] if direction == OUT else frame[start + 26 : start + 30]
        )
        return any(address in ipaddress.IPv4Network(peer) for peer in self.peers)


def segment_bytes(frame: bytes) -> int:
    """The IP packet's size on the wire; of a large segment, that of the packets it becomes."""
    _, kind, headers, segment = struct.unpack_from("=BBHH", frame)
    if kind:
        return int(headers + segment - _ETHERNET_BYTES)
    return len(frame) - VNET_HEADER_BYTES - _ETHERNET_BYTES


def corrupted(frame: bytes) -> bytes:
    """The frame with one bit flipped behind its Ethernet header; its checksum is left as it is."""
    at = random.randrange(VNET_HEADER_BYTES + _ETHERNET_BYTES, len(frame))
    changed = bytearray(frame)
    changed[at] ^= 1 << random.randrange(8)
    return bytes(changed)


def fates(rules: Sequence[Rule], direction: str, frame: bytes) -> list[tuple[float, bytes]]:
    """What becomes of a frame: each copy that goes on, with its delay in seconds."""
    delay, copies = 0.0, 1
    for rule in rules:
        if not rule.concerns(direction, frame):
            continue
        match rule.what:
            case "lost" | "too-large":
                return []
            case "delayed":
                delay += rule.delay_seconds + random.uniform(0, rule.jitter_seconds)
            case "duplicated":
                copies += 1
            case "corrupted":
                frame = corrupted(frame)
    return [(delay, frame)] * copies


@dataclass
class Carrier:
    """The two ends, and the frames on their way from one to the other."""

    device: socket.socket
    tap: int
    rules: list[Rule] = field(default_factory=list)
    held: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def obey(self, rules: list[Rule]) -> None:
        """Use these rules from now on."""
        # A frame to be corrupted needs a finished checksum, so the kernel must not leave it to us.
        whole = any(rule.what == "corrupted" for rule in rules)
        fcntl.ioctl(self.tap, TUNSETOFFLOAD, 0 if whole else OFFLOADS)
        self.rules = rules

    def carry(self, ready: int) -> None:
        """Read the frames that wait at one end, and send or hold each."""
        source = self.device.fileno()
        direction, target = (OUT, self.tap) if ready == source else (IN, source)
        for _ in range(64):
            try:
                frame = os.read(ready, LARGEST_FRAME_BYTES)
            except BlockingIOError:
                return
            for delay, copy in fates(self.rules, direction, frame):
                if delay == 0:
                    _write(target, copy)
                elif len(self.held) < MOST_FRAMES:
                    due = time.monotonic() + delay
                    heapq.heappush(self.held, (due, next(self._numbers), target, copy))

    def send_due(self) -> float | None:
        """Send the frames that are due; returns the seconds until the next, None without one."""
        while self.held:
            wait = self.held[0][0] - time.monotonic()
            if wait > 0:
                return wait
            _, _, target, frame = heapq.heappop(self.held)
            _write(target, frame)
        return None


def _write(target: int, frame: bytes) -> None:
    # A full queue or a link that is down drops the frame.
    with contextlib.suppress(OSError):
        os.write(target, frame)


def open_device(name: str) -> socket.socket:
    """A socket for the frames that arrive at a device, and for those that leave by it."""
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    device.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    device.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    for option in (socket.SO_RCVBUF, 33):  # 33 is SO_RCVBUFFORCE: above the machine's limit
        with contextlib.suppress(PermissionError):
            device.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    device.setblocking(False)
    device.bind((name, _ETH_P_ALL))
    return device


def run(device_name: str, tap_name: str) -> None:
    """Carry frames until standard input ends."""
    carrier = Carrier(open_device(device_name), open_tap(tap_name))
    commands = sys.stdin.fileno()
    poller = select.epoll()
    for descriptor in (commands, carrier.device.fileno(), carrier.tap):
        poller.register(descriptor, select.EPOLLIN)
    wait: float | None = None
    while True:
        for ready, _ in poller.poll(wait):
            if ready == commands:
                line = sys.stdin.readline()
                if not line:
                    return
                carrier.obey([Rule(**rule) for rule in json.loads(line)])
                print("ok", flush=True)
            else:
                # While a link is down, reading fails once.
                with contextlib.suppress(OSError):
                    carrier.carry(ready)
        wait = carrier.send_due()


if __name__ == "__main__":
    run(*sys.argv[1:3])
