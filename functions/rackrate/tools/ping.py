"""Round-trip times by ICMP echo. No server is needed, because the kernel answers.

Project: [ping of iputils](https://github.com/iputils/iputils).

- **Value**: the median of the round-trip times.
- **Samples** `rtt`: the time of every answered packet, in the order of sending. A packet that was
  answered twice counts once, with its first answer. Lost packets have no sample. Without any
  answer there is no measurement.
- **Losses**: `loss_ratio` is the share of packets without an answer. After the last packet, ping
  waits one interval or twice the longest round-trip time, whichever is longer. An answer that comes
  later counts as lost.
- A packet is 28 bytes larger than its payload, and 48 by IPv6. A payload of 8972 bytes makes a
  packet of 9000, one byte less than the jumbo frame's 9001.
- **Resolution**: ping prints three digits, but no less than 1 µs
  ([`gather_statistics`](https://github.com/iputils/iputils/blob/master/ping/ping_common.c)). So a
  time of 12.3 ms is known to 0.1 ms.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    LOSS_RATIO,
    Detail,
    Measurement,
    Metric,
    ParseError,
    TestBase,
    without_summary,
)

_REPLY = re.compile(
    r"^(?:\[(\d{1,12}\.\d+)\] )?\d+ bytes from .*icmp_seq=(\d{1,5}) ttl=\d+"
    r" time=(\d{1,12}(?:\.\d{1,6})?) ms( \(DUP!\))?$",
    re.ASCII,
)
_SUMMARY = re.compile(r"^(\d{1,9}) packets transmitted, (\d{1,9}) received", re.ASCII)
_EXTREMES = re.compile(
    r"^rtt min/avg/max/mdev = (\d{1,12}\.\d+)/[0-9.]+/(\d{1,12}\.\d+)/[0-9.]+ ms", re.ASCII
)
# Besides its errors, a reply that ping marks: `(BAD CHECKSUM!)`, `(DIFFERENT ADDRESS!)`.
_MARKED = " bytes from "
_COMPLAINT = re.compile(
    r"^(?:\[\d+\.\d+\] )?((?:ping: |From .* icmp_seq=\d+ ).*"
    rf"|\d+{_MARKED}.*\((?!DUP!)[A-Za-z ]+!?\))$",
    re.ASCII | re.MULTILINE,
)
_SHORT_REASON = 200
#: Part of iputils' message if the kernel does not let this user send echo requests.
_MAY_NOT_PING = "cap_net_raw"


class Test(TestBase):
    """A latency test; its value is the median of its round-trip times."""

    programs: ClassVar[Mapping[str, str]] = {"ping": "iputils-ping"}
    details: ClassVar[tuple[Detail, ...]] = (
        LOSS_RATIO,
        Detail("transmitted", int, "echo requests sent", column="transmitted_packets"),
        Detail("received", int, "echo replies received", column="received_packets"),
        Detail("duplicates", int, "echo replies received again", column="duplicate_packets"),
        *EXTREMES_AND_MEAN,
        Detail(
            "first_reply_at_epoch_seconds",
            float,
            "when the first reply came, by the client's clock",
        ),
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "rtt": {"count": 30, "interval_seconds": 0.2},
    }
    through_service: ClassVar[bool] = False
    # Lets any group send ICMP echo requests without a capability. Kubernetes lists it as safe.
    sysctls: ClassVar[Mapping[str, str]] = {"net.ipv4.ping_group_range": "0 2147483647"}

    tool: Literal["ping"] = "ping"
    # Sequence numbers have 16 bits, so more packets would repeat numbers.
    count: Annotated[int, Field(ge=1, le=65_535)] = 30
    """Number of echo requests (`-c`)."""
    # iputils does not let ordinary users go below 2 ms.
    interval_seconds: Annotated[float, Field(ge=0.002, le=60)] = 0.2
    """Time from one request to the next (`-i`)."""
    # iputils measures no time with less than 16 bytes. An IPv4 packet takes at most 65 507.
    size_bytes: Annotated[int, Field(ge=16, le=65_507)] = 56
    """Payload of a request, without the 8 bytes of its ICMP header (`-s`)."""
    dont_fragment: bool = False
    """Forbids fragments (`-M do`). A request larger than the path's MTU is then lost."""

    def argv(self, server: str) -> list[str]:
        """The command line: numeric output, a timestamp on each line, 2 s for a first reply."""
        return [
            *("ping", "-n", "-D", "-c", str(self.count), "-i", f"{self.interval_seconds:.6g}"),
            *("-W", "2", "-s", str(self.size_bytes)),
            *(("-M", "do") if self.dont_fragment else ()),
            server,
        ]

    @property
    def expected_seconds(self) -> float:
        """How long the test sends traffic, in seconds."""
        return (self.count - 1) * self.interval_seconds

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The round-trip time."""
        return (Metric("rtt", "s", "lower", "median", step=1e-6, digits=3, samples="rtt"),)

    @property
    def server(self) -> None:
        """None, because the kernel replies."""

    def warm_up(self) -> Self:
        """A few packets within at most a second."""
        count = max(1, min(self.count, 5, int(1 / self.interval_seconds)))
        return self.model_copy(update={"count": count})


def parse(text: str, test: Test) -> Measurement:
    """Parse ping's output. Some packets may be lost; their share is a detail of the measurement.

    Raises:
        ParseError: there is no reply or no summary, the replies do not match the summary, or ping
            sent fewer packets than requested. An interrupted ping also prints a summary and exits
            with 0.
    """
    if _MAY_NOT_PING in text:
        raise ParseError(
            "this node lets ordinary users send no ICMP echo requests; set"
            ' net.ipv4.ping_group_range to "0 2147483647" there, as systemd 243 and later do, or'
            " ping between pods"
        )
    seconds_of: dict[int, float] = {}
    duplicates: list[float] = []
    first_reply_at: float | None = None
    summary: re.Match[str] | None = None
    extremes: re.Match[str] | None = None
    for line in text.splitlines():
        if (reply := _REPLY.match(line)) is not None:
            seconds = round(float(reply[3]) / 1000, 9)
            if seconds == 0:
                raise ParseError(
                    f"ping printed a time of zero for packet {reply[2]}: it is below ping's"
                    " resolution, or the clock was set back"
                )
            if reply[4] is not None:
                duplicates.append(seconds)
                continue
            seconds_of[int(reply[2])] = seconds
            if first_reply_at is None and reply[1] is not None:
                first_reply_at = float(reply[1])
        elif (found := _SUMMARY.match(line)) is not None:
            summary = found
        elif (found := _EXTREMES.match(line)) is not None:
            extremes = found
    if summary is None:
        raise ParseError(_complaint(text) or without_summary("ping", text))
    transmitted, received = int(summary[1]), int(summary[2])
    if transmitted == 0 or received == 0:
        words = f"ping: none of {transmitted} packets was answered"
        if (complaint := _complaint(text)) and _MARKED in complaint:
            words = f"ping: none of {transmitted} packets has a valid reply"
        raise ParseError(": ".join(filter(None, (words, complaint))))
    if transmitted < test.count:
        raise ParseError(f"ping was interrupted after {transmitted} of {test.count} packets")
    if len(seconds_of) != received or received > transmitted or transmitted > test.count:
        if (complaint := _complaint(text)) and _MARKED in complaint:
            raise ParseError(f"ping does not vouch for a reply: {complaint}")
        raise ParseError(
            f"ping's summary tells of {received} replies to {transmitted} packets, "
            f"but there are {len(seconds_of)} replies to {test.count}"
        )
    samples = tuple(seconds_of[number] for number in sorted(seconds_of))
    if extremes is not None:
        _compare(min(*samples, *duplicates, math.inf), extremes[1])
        _compare(max(*samples, *duplicates, 0), extremes[2])
    details: dict[str, float | int | str] = {
        "transmitted": transmitted,
        "received": received,
        "duplicates": len(duplicates),
        "loss_ratio": (transmitted - received) / transmitted,
        "min_seconds": min(samples),
        "mean_seconds": statistics.fmean(samples),
        "max_seconds": max(samples),
    }
    if first_reply_at is not None:
        details["first_reply_at_epoch_seconds"] = first_reply_at
    return Measurement({"rtt": statistics.median(samples)}, {"rtt": samples}, details=details)


def _compare(seconds: float, summary: str) -> None:
    """Check the smallest or largest of the packets' times, in three digits, against the summary."""
    told = float(summary) / 1000
    if abs(told - seconds) > max(0.01 * told, 2e-6):
        raise ParseError(f"ping's summary says {told:.6f} s where the replies say {seconds:.6f} s")


def _complaint(text: str) -> str | None:
    found = _COMPLAINT.search(text)
    return found[1][:_SHORT_REASON] if found is not None else None
