"""The spine where the kernel has no netem: carries frames between racks after a fixed delay.

Each rack has a TAP device on its bridge. The relay opens it with `IFF_VNET_HDR` and offloads, so
that TCP's large segments stay whole and there are few frames. The relay is a learning switch. It
holds a frame for the delay and then writes it, with its virtio-net header, to the rack where it
last saw the destination. When it has not seen the destination, it writes to every other rack.

It runs as a process of its own in the fabric's network namespace: `python -m lab.fabric.relay
DELAY_SECONDS`. It reads device names, one a line, from standard input and answers each with `ok` on
standard output.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
TUNSETOFFLOAD = 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_TSO_ECN = 1, 2, 4, 8
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
    fcntl.ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)
    return tap


def run(delay_seconds: float) -> None:
    """Carry frames until standard input ends."""
    _prefer_punctuality()
    delay = round(delay_seconds * 1e9)
    timer = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK)
    commands = sys.stdin.fileno()
    poller = select.epoll()
    poller.register(commands, select.EPOLLIN)
    poller.register(timer, select.EPOLLIN)
    taps: list[int] = []
    where: dict[bytes, int] = {}
    held: deque[tuple[int, int, bytes]] = deque()
    armed = False
    while True:
        for ready, _ in poller.poll():
            if ready == timer:
                with contextlib.suppress(BlockingIOError):
                    os.read(timer, 8)
                armed = False
            elif ready == commands:
                names = os.read(commands, 4096).decode().split()
                if not names:
                    return
                for name in names:
                    tap = open_tap(name)
                    taps.append(tap)
                    poller.register(tap, select.EPOLLIN)
                    print("ok", flush=True)
            else:
                _receive(ready, held, where, delay)
        while held:
            wait = held[0][0] - time.monotonic_ns()
            if wait > SPIN_NANOSECONDS or (wait > 0 and len(held) > MOST_FRAMES_TO_SPIN_FOR):
                break
            if wait <= 0:
                _, source, frame = held.popleft()
                _send(frame, source, taps, where)
        if held and not armed:
            early = 0 if len(held) > MOST_FRAMES_TO_SPIN_FOR else SPIN_NANOSECONDS
            os.timerfd_settime_ns(timer, initial=max(wait - early, 1))
            armed = True


def _receive(
    tap: int, held: deque[tuple[int, int, bytes]], where: dict[bytes, int], delay: int
) -> None:
    """Read the waiting frames, note each sender's rack, and hold each frame for the delay."""
    for _ in range(64):
        try:
            frame = os.read(tap, LARGEST_FRAME_BYTES)
        except BlockingIOError:
            return
        sender = frame[VNET_HEADER_BYTES + 6 : VNET_HEADER_BYTES + 12]
        where[sender] = tap
        if len(held) < MOST_FRAMES:
            held.append((time.monotonic_ns() + delay, tap, frame))


def _send(frame: bytes, source: int, taps: list[int], where: dict[bytes, int]) -> None:
    destination = frame[VNET_HEADER_BYTES : VNET_HEADER_BYTES + 6]
    known = where.get(destination)
    targets = [tap for tap in taps if tap != source] if known is None else [known]
    for tap in targets:
        if tap != source:
            # When a rack's device is down or its queue is full, drop the frame as a switch does.
            with contextlib.suppress(OSError):
                os.write(tap, frame)


def _prefer_punctuality() -> None:
    """Set real-time priority and a fine timer, because lateness here adds to the network delay."""
    with contextlib.suppress(OSError, PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    libc = ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)
    pr_set_timerslack = 29
    libc.prctl(pr_set_timerslack, 1, 0, 0, 0)


if __name__ == "__main__":
    run(float(sys.argv[1]))
