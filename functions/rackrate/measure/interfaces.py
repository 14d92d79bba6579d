"""What a node's network interface is: its driver, queues and MTU. Pure.

The inputs are the texts of `ethtool --driver`, of `ethtool --show-channels` and of
`/sys/class/net/<interface>/mtu`. A text that tells nothing gives the reason why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rackrate.foreign import plain
from rackrate_contract.arms import Interface

#: The parts of a reading, and the command that prints each for an interface.
DRIVER = ("ethtool", "--driver")
QUEUES = ("ethtool", "--show-channels")

_UNTOLD = frozenset({"", "n/a", "N/A"})
_MAXIMUMS, _CURRENT = "Pre-set maximums:", "Current hardware settings:"
_MTU_PATH = "/sys/class/net/{}/mtu"
_REASON_LENGTH = 120


class Unreadable(ValueError):
    """A text does not have the expected format."""


class Driver(NamedTuple):
    """An interface's driver; None where `ethtool --driver` prints nothing."""

    name: str
    version: str | None
    firmware: str | None
    bus: str | None


class Queues(NamedTuple):
    """Pairs of queues of an interface: in use, and at most."""

    used: int
    most: int | None


def driver(text: str) -> Driver:
    """Read `ethtool --driver <interface>`.

    A driver without a version of its own prints the kernel's release, as ENA's upstream driver has
    done since Linux 5.7.

    Raises:
        Unreadable: the text names no driver.
    """
    fields = _fields(text.splitlines())
    name = fields.get("driver")
    if name is None:
        raise Unreadable(_printed(text))
    return Driver(
        name, fields.get("version"), fields.get("firmware-version"), fields.get("bus-info")
    )


def queues(text: str) -> Queues:
    """Read `ethtool --show-channels <interface>`.

    A combined channel is a receive and a transmit queue; ENA has had only such channels since 2.2.
    Where a driver has separate ones, the receive queues count.

    Raises:
        Unreadable: the text has no number of queues in use.
    """
    _, separator, rest = text.partition(_MAXIMUMS)
    maximums, current, used = rest.partition(_CURRENT)
    number = _channels(used) if separator and current else None
    if number is None:
        raise Unreadable(_printed(text))
    return Queues(number, _channels(maximums))


def mtu_command(interfaces: Iterable[str]) -> list[str]:
    """The command that prints the MTU of each interface that there is."""
    return ["cat", *(_MTU_PATH.format(name) for name in interfaces)]


def mtus(text: str, interfaces: Sequence[str]) -> dict[str, int]:
    """Read what `mtu_command` printed: the MTUs in bytes, by interface.

    `cat` prints a number for each file, and an error that names the path for each missing one.

    Raises:
        Unreadable: it is not clear which number is whose.
    """
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if line and not _is_number(line)]
    there = [
        name for name in interfaces if not any(_MTU_PATH.format(name) in line for line in errors)
    ]
    numbers = [int(line) for line in lines if _is_number(line)]
    if len(numbers) != len(there):
        raise Unreadable(_printed(text))
    return dict(zip(there, numbers, strict=True))


def interface(driver_text: str, queues_text: str, mtu: int | str) -> Interface:
    """The facts about an interface, and why some are unknown.

    Args:
        driver_text: what `ethtool --driver` printed.
        queues_text: what `ethtool --show-channels` printed.
        mtu: the MTU in bytes, or why it is unknown.
    """
    unknown = []
    try:
        facts = driver(driver_text)
    except Unreadable as error:
        facts = None
        unknown.append(f"driver: {error}")
    try:
        channels = queues(queues_text)
    except Unreadable as error:
        channels = None
        unknown.append(f"queues: {error}")
    if isinstance(mtu, str):
        unknown.append(f"MTU: {mtu}")
    return Interface(
        driver=facts and facts.name,
        driver_version=facts and facts.version,
        firmware=facts and facts.firmware,
        bus=facts and facts.bus,
        mtu=mtu if isinstance(mtu, int) else None,
        queues=channels and channels.used,
        most_queues=channels and channels.most,
        unknown="; ".join(unknown) or None,
    )


def _fields(lines: Iterable[str]) -> Mapping[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {
        name.strip(): plain(value, _REASON_LENGTH)
        for name, _, value in pairs
        if value.strip() not in _UNTOLD
    }


def _channels(text: str) -> int | None:
    fields = _fields(text.splitlines())
    for name in ("Combined", "RX"):
        value = fields.get(name, "")
        if _is_number(value) and int(value) > 0:
            return int(value)
    return None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) is not None


def _printed(text: str) -> str:
    """What a program printed instead, in one line."""
    return plain(text, _REASON_LENGTH) or "nothing was printed"
