"""iperf3: TCP throughput from client to server (https://software.es.net/iperf/)."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from rackrate.tools.base import Interval, Measurement, Metric, ParseError, Server, TestBase

PORT = 5201


class Test(TestBase):
    """A throughput test; its value is the receiver's mean over the whole test."""

    __test__: ClassVar[bool] = False
    tool: Literal["iperf3"] = "iperf3"
    streams: Annotated[int, Field(ge=1, le=128)] = 1  # 128 is iperf3's own limit
    seconds: Annotated[int, Field(ge=1, le=3600)] = 10

    def argv(self, server: str) -> list[str]:
        """The client's command line."""
        return [
            *("iperf3", "--client", server, "--port", str(PORT), "--json"),
            *("--time", str(self.seconds), "--parallel", str(self.streams)),
            *("--connect-timeout", "5000"),  # milliseconds
        ]

    @property
    def expected_seconds(self) -> float:
        """How long the test sends traffic."""
        return float(self.seconds)

    @property
    def flows(self) -> int:
        """One flow for each stream."""
        return self.streams

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Throughput."""
        return (Metric("throughput", "bit/s", "higher", "receiver's mean"),)

    @property
    def server(self) -> Server:
        """A server that serves one client at a time.

        When a client vanishes without a word, the server gives up after 15 s without data, instead
        of refusing every later client.
        """
        return Server(
            "iperf3", ("iperf3", "--server", "--port", str(PORT), "--rcv-timeout", "15000"), PORT
        )

    @property
    def offered_bits_per_second(self) -> float | None:
        """As fast as it can."""
        return None

    def warm_up(self) -> Self:
        """One second."""
        return self.model_copy(update={"seconds": 1})


def server_argv() -> list[str]:
    """The server's command line, for who does not yet ask the test for it."""
    return list(Test(name="any").server.argv)


def parse(text: str, test: Test) -> Measurement:
    """Reads the report of `iperf3 --json`.

    iperf3 exits with 0 and prints a report even when it could not measure, and an interrupted
    client reports a receiver that got nothing; neither is a measurement.

    Raises:
        ParseError: empty, truncated or foreign output, an error report, or nothing received.
    """
    if not text.strip():
        raise ParseError("iperf3 printed nothing")
    try:
        report = json.loads(text)
    except ValueError as error:
        raise ParseError(f"iperf3's report is truncated or is not JSON: {error}") from None
    if not isinstance(report, dict):
        raise ParseError("iperf3's report is not a JSON object")
    if report.get("error"):
        raise ParseError(f"iperf3: {report['error']}")
    received = _number(report, "end", "sum_received", "bits_per_second")
    seconds = _number(report, "end", "sum_received", "seconds")
    if received <= 0:
        raise ParseError("iperf3: the receiver got nothing")
    # The last packets may take a little longer or arrive a little earlier than the clock says.
    if seconds < test.seconds * 0.9:
        raise ParseError(f"iperf3: the test ended after {seconds:.1f} s of {test.seconds} s")
    details: dict[str, float | int | str] = {
        "seconds": seconds,
        "received_bytes": int(_number(report, "end", "sum_received", "bytes")),
        "sent_bits_per_second": _number(report, "end", "sum_sent", "bits_per_second"),
    }
    sent = report["end"]["sum_sent"]
    if "retransmits" in sent:  # absent where the kernel does not count them
        details["retransmits"] = int(_number(report, "end", "sum_sent", "retransmits"))
    for ours, theirs in (
        ("client_cpu_percent", "host_total"),
        ("server_cpu_percent", "remote_total"),
    ):
        value = report["end"].get("cpu_utilization_percent", {}).get(theirs)
        if isinstance(value, int | float):
            details[ours] = float(value)
    congestion = report["end"].get("sender_tcp_congestion")
    if isinstance(congestion, str):
        details["tcp_congestion_control"] = congestion
    series = tuple(
        Interval(
            _number(interval, "sum", "start"),
            _number(interval, "sum", "end"),
            _number(interval, "sum", "bits_per_second"),
        )
        for interval in report.get("intervals", [])
    )
    version = report["start"].get("version")
    return Measurement(
        {"throughput": received},
        series=series,
        details=details,
        version=version if isinstance(version, str) else None,
    )


def _number(report: Any, *path: str) -> float:
    value = report
    for key in path:
        if not isinstance(value, dict) or key not in value:
            raise ParseError(f"iperf3's report lacks {'.'.join(path)}")
        value = value[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ParseError(f"iperf3's report has no number in {'.'.join(path)}")
    return float(value)
