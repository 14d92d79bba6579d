"""The spine where the kernel has no netem: carries frames between racks after a delay.

Each rack has a TAP device on its bridge, with a delay of its own. The relay opens it with
`IFF_VNET_HDR` and offloads, so that TCP's large segments stay whole and there are few frames. The
relay is a learning switch. It holds a frame for the delays of both racks and then writes it, with
its virtio-net header, to the rack where it last saw the destination. When it has not seen the
destination, it writes to every other rack. Between zones it adds the zones' delay.

It runs as a process of its own in the fabric's network namespace: `python -m lab.fabric.relay`. It
reads lines from standard input, each with a device's name, its delay in nanoseconds, and its zone
if it has one, and answers each with `ok` on standard output. A known name gets the new delay.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import fcntl
import heapq
import itertools
import os
import select
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from lab.fabric.luck import BETWEEN_ZONES_SECONDS

BETWEEN_ZONES_NANOSECONDS = round(BETWEEN_ZONES_SECONDS * 1e9)
TUNSETIFF = 0x400454CA
TUNSETOFFLOAD = 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
OFFLOADS = 1 | 2 | 4 | 8  # TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_TSO_ECN
VNET_HEADER_BYTES = 10
LARGEST_FRAME_BYTES = 65536 + 64
# The most frames that the spine holds, far more than a lab sends in one delay. The spine drops
# what exceeds it, as a full queue does.
MOST_FRAMES = 20000
# A timer of a virtual machine fires some tens of microseconds late. While the relay holds few
# frames, as in a latency test, it sets the timer this much early and polls the clock for the rest.
# A stream of frames does not need that precision, and polling would take too much processor time.
SPIN_NANOSECONDS = 60_000
MOST_FRAMES_TO_SPIN_FOR = 4


def open_tap(name: str) -> int:
    """Open a new TAP device whose frames carry a virtio-net header. Returns its descriptor."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
    fcntl.ioctl(tap, TUNSETIFF, request)
    fcntl.ioctl(tap, TUNSETOFFLOAD, OFFLOADS)
    return tap


@dataclass
class Spine:
    """The racks' devices by name, each with its delay and its zone, and the frames on their way.

    A frame that is held has the time when it is due, a number that keeps the order of equal times,
    and the device to which it goes.
    """

    taps: dict[str, int] = field(default_factory=dict)
    delays: dict[int, int] = field(default_factory=dict)
    zones: dict[int, str] = field(default_factory=dict)
    where: dict[bytes, int] = field(default_factory=dict)
    held: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def join(self, tap: int, nanoseconds: int, zone: str = "") -> None:
        """Add a rack's device, or give it another delay. The services' rack is in no zone."""
        self.delays[tap] = nanoseconds
        self.zones[tap] = zone

    def between(self, one: int, other: int) -> int:
        """The delay from one rack to another, in nanoseconds."""
        zones = {self.zones[one], self.zones[other]} - {""}
        further = BETWEEN_ZONES_NANOSECONDS if len(zones) > 1 else 0
        return self.delays[one] + self.delays[other] + further

    def receive(self, tap: int) -> None:
        """Read the waiting frames, note each sender's rack, and hold each frame for its delay."""
        for _ in range(64):
            try:
                frame = os.read(tap, LARGEST_FRAME_BYTES)
            except BlockingIOError:
                return
            now = time.monotonic_ns()
            destination = frame[VNET_HEADER_BYTES : VNET_HEADER_BYTES + 6]
            self.where[frame[VNET_HEADER_BYTES + 6 : VNET_HEADER_BYTES + 12]] = tap
            port = self.where.get(destination)
            for target in self.delays if port is None else (port,):
                if target != tap and len(self.held) < MOST_FRAMES:
                    due = now + self.between(tap, target)
                    heapq.heappush(self.held, (due, next(self._numbers), target, frame))

    def send_first(self) -> None:
        """Write the frame that is due first to its rack."""
        _, _, target, frame = heapq.heappop(self.held)
        # When a rack's device is down or its queue is full, drop the frame as a switch does.
        with contextlib.suppress(OSError):
            os.write(target, frame)


def run() -> None:
    """Carry frames until standard input ends."""
    _prefer_punctuality()
    timer = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK)
    commands = sys.stdin.fileno()
    poller = select.epoll()
    poller.register(commands, select.EPOLLIN)
    poller.register(timer, select.EPOLLIN)
    spine = Spine()
    held = spine.held
    armed_for = 0  # when the frame is due for which the timer is set; 0 while it is not set
    while True:
        for ready, _ in poller.poll():
            if ready == timer:
                with contextlib.suppress(BlockingIOError):
                    os.read(timer, 8)
                armed_for = 0
            elif ready == commands:
                lines = os.read(commands, 4096).decode().splitlines()
                if not lines:
                    return
                for line in lines:
                    name, nanoseconds, *zone = line.split()
                    if name not in spine.taps:
                        spine.taps[name] = open_tap(name)
                        poller.register(spine.taps[name], select.EPOLLIN)
                    spine.join(spine.taps[name], int(nanoseconds), "".join(zone))
                    print("ok", flush=True)
            else:
                spine.receive(ready)
        while held:
            wait = held[0][0] - time.monotonic_ns()
            if wait > SPIN_NANOSECONDS or (wait > 0 and len(held) > MOST_FRAMES_TO_SPIN_FOR):
                break
            if wait <= 0:
                spine.send_first()
        # A frame of a shorter way may be due before the one that the timer is set for.
        if held and not 0 < armed_for <= held[0][0]:
            early = 0 if len(held) > MOST_FRAMES_TO_SPIN_FOR else SPIN_NANOSECONDS
            os.timerfd_settime_ns(timer, initial=max(wait - early, 1))
            armed_for = held[0][0]


def _prefer_punctuality() -> None:
    """Set real-time priority and a fine timer, because lateness here adds to the network delay."""
    with contextlib.suppress(OSError, PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    libc = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)
    pr_set_timerslack = 29
    libc.prctl(pr_set_timerslack, 1, 0, 0, 0)


if __name__ == "__main__":
    run()
