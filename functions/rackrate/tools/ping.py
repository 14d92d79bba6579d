"""ping of iputils: round-trip times by ICMP echo (https://github.com/iputils/iputils)."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from rackrate.tools.base import Measurement, Metric, ParseError, TestBase

_REPLY = re.compile(r"icmp_seq=(\d+) ttl=\d+ time=([0-9.]+) ms( \(DUP!\))?$")
_SUMMARY = re.compile(r"^(\d+) packets transmitted, (\d+) received")
_SHORT_REASON = 200


class Test(TestBase):
    """A latency test; its value is the median of its round-trip times."""

    __test__: ClassVar[bool] = False
    # Lets any group send ICMP echo requests without a capability; one of Kubernetes' safe sysctls.
    sysctls: ClassVar[Mapping[str, str]] = {"net.ipv4.ping_group_range": "0 2147483647"}

    tool: Literal["ping"] = "ping"
    count: Annotated[int, Field(ge=1, le=100_000)] = 30
    # iputils refuses less than 2 ms to ordinary users.
    interval_seconds: Annotated[float, Field(ge=0.002, le=60)] = 0.2

    def argv(self, server: str) -> list[str]:
        """The command line: numeric output, a time stamp on each line, 2 s for the last reply."""
        return [
            *("ping", "-n", "-D", "-c", str(self.count)),
            *("-i", f"{self.interval_seconds:.6g}", "-W", "2", server),
        ]

    @property
    def expected_seconds(self) -> float:
        """How long the test sends traffic."""
        return (self.count - 1) * self.interval_seconds

    @property
    def flows(self) -> int:
        """Throughput does not matter."""
        return 0

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The round-trip time."""
        return (Metric("rtt", "s", "lower", "median", samples="rtt"),)

    @property
    def server(self) -> None:
        """The kernel answers."""

    @property
    def offered_bits_per_second(self) -> float | None:
        """What the packets amount to on the wire is next to nothing."""
        return 0.0

    def warm_up(self) -> Self:
        """A few packets, a second at most."""
        count = max(1, min(self.count, 5, int(1 / self.interval_seconds)))
        return self.model_copy(update={"count": count})


def parse(text: str, test: Test) -> Measurement:
    """Reads what ping printed. Some packets may be lost; the share is a detail of the measurement.

    Raises:
        ParseError: no reply at all, no summary, or fewer packets sent than the test asks for: an
            interrupted ping prints a summary too, and exits with 0.
    """
    if not text.strip():
        raise ParseError("ping printed nothing")
    seconds_of: dict[int, float] = {}
    transmitted: int | None = None
    for line in text.splitlines():
        if (reply := _REPLY.search(line)) is not None:
            if reply[3] is None:
                try:
                    seconds_of[int(reply[1])] = round(float(reply[2]) / 1000, 9)
                except ValueError:
                    raise ParseError(f"ping printed a time that is no number: {reply[2]}") from None
        elif (summary := _SUMMARY.match(line)) is not None:
            transmitted = int(summary[1])
    if transmitted is None:
        complaint = next((line for line in text.splitlines() if line.startswith("ping: ")), None)
        if complaint is not None:
            raise ParseError(complaint[:_SHORT_REASON])
        raise ParseError("ping's output is truncated: it has no summary")
    if transmitted == 0 or not seconds_of:
        raise ParseError(f"ping: none of {transmitted} packets was answered")
    if transmitted < test.count:
        raise ParseError(f"ping was interrupted after {transmitted} of {test.count} packets")
    samples = tuple(seconds_of.values())
    return Measurement(
        {"rtt": statistics.median(samples)},
        {"rtt": samples},
        details={
            "transmitted": transmitted,
            "received": len(samples),
            "min_seconds": min(samples),
            "mean_seconds": statistics.fmean(samples),
            "max_seconds": max(samples),
        },
    )
