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
from dataclasses import dataclass, field
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
    complaint,
    extremes_and_mean,
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

    @property
    def title(self) -> str:
        """Echo requests with their rate."""
        return f"pings, {1 / self.interval_seconds:.3g} a second"

    def argv(self, server: str, port: int | None = None) -> list[str]:
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
    replies = _replies(text)
    summaries = [match for line in text.splitlines() if (match := _SUMMARY.match(line))]
    words = complaint("", _COMPLAINT, text)
    if not summaries:
        raise ParseError(words or without_summary("ping", text))
    transmitted, received = map(int, summaries[-1].groups())
    is_marked = words is not None and _MARKED in words
    if transmitted == 0 or received == 0:
        problem = "has a valid reply" if is_marked else "was answered"
        reason = f"ping: none of {transmitted} packets {problem}"
        raise ParseError(": ".join(filter(None, (reason, words))))
    if transmitted < test.count:
        raise ParseError(f"ping was interrupted after {transmitted} of {test.count} packets")
    if len(replies.seconds) != received or received > transmitted or transmitted > test.count:
        if is_marked:
            raise ParseError(f"ping does not vouch for a reply: {words}")
        raise ParseError(
            f"ping's summary tells of {received} replies to {transmitted} packets, "
            f"but there are {len(replies.seconds)} replies to {test.count}"
        )
    samples = tuple(replies.seconds[number] for number in sorted(replies.seconds))
    for extremes in filter(None, map(_EXTREMES.match, text.splitlines())):
        _compare(min(*samples, *replies.duplicates, math.inf), extremes[1])
        _compare(max(*samples, *replies.duplicates, 0), extremes[2])
    details: dict[str, float | int | str] = {
        "transmitted": transmitted,
        "received": received,
        "duplicates": len(replies.duplicates),
        "loss_ratio": (transmitted - received) / transmitted,
        **extremes_and_mean(min(samples), statistics.fmean(samples), max(samples)),
    }
    if replies.first_at is not None:
        details["first_reply_at_epoch_seconds"] = replies.first_at
    return Measurement({"rtt": statistics.median(samples)}, {"rtt": samples}, details=details)


@dataclass
class _Replies:
    """The replies: each packet's time in seconds, those of duplicates, and when the first came."""

    seconds: dict[int, float] = field(default_factory=dict)
    duplicates: list[float] = field(default_factory=list)
    first_at: float | None = None


def _replies(text: str) -> _Replies:
    replies = _Replies()
    for reply in filter(None, map(_REPLY.match, text.splitlines())):
        seconds = round(float(reply[3]) / 1000, 9)
        if seconds == 0:
            raise ParseError(
                f"ping printed a time of zero for packet {reply[2]}: it is below ping's"
                " resolution, or the clock was set back"
            )
        if reply[4] is not None:
            replies.duplicates.append(seconds)
            continue
        replies.seconds[int(reply[2])] = seconds
        if replies.first_at is None and reply[1] is not None:
            replies.first_at = float(reply[1])
    return replies


def _compare(seconds: float, summary: str) -> None:
    """Check the smallest or largest of the packets' times, in three digits, against the summary."""
    printed = float(summary) / 1000
    if abs(printed - seconds) > max(0.01 * printed, 2e-6):
        raise ParseError(
            f"ping's summary says {printed:.6f} s where the replies say {seconds:.6f} s"
        )
