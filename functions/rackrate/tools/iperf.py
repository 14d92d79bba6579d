"""Throughput by TCP with iperf 2, for comparison with results published with it.

Project: [iperf 2](https://sourceforge.net/projects/iperf2/). The server serves any number of
clients.

- **Value**: the rate of the last `[SUM]` line, or of the single stream's last line. This is **the
  sender's** figure: the client counts the bytes that it wrote to its sockets, including those
  still in its buffers at the end. Measure for ten seconds or more, or use iperf3: in the
  captures below, 32 streams reach up to 1.09 Gbit/s on a link of 1 Gbit/s in two seconds.
- **Reverse**: the value is **the receiver's** figure. There are no retransmits and no congestion
  window, which the server alone knows. While the captures below were made, the server of 2.1.8
  crashed in 2 of some 60 such runs, that of 2.2.1 in none of 20. Such a trial is lost and repeated.
- **Series**: throughput, retransmits and congestion window of each interval.
- `--format b` is the only format without rounding. `--interval` is at most half of `--time`.
- **Resolution**: iperf 2 writes 128 KiB at a time (`-l` in its
  [manual](https://iperf2.sourceforge.io/iperf-manpage.html)) and counts whole writes, except for
  some that the test's end cut. So a rate is known to one write over the test's seconds.
- iperf 2 reports windows in KiB. Its output does not contain its version.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rackrate.tools.base import (
    CONGESTION_WINDOWS,
    RECEIVED_BYTES,
    RETRANSMITS,
    SECONDS,
    SENT_BYTES,
    Detail,
    Interval,
    Measurement,
    Metric,
    ParseError,
    Port,
    Server,
    Throughput,
    TimedTest,
    complaint,
    congestion_windows,
    interval_seconds,
    merged_remainder,
    sum_if_known,
    throughput,
    without_summary,
)

PORT = 5001
#: The size of a write to a socket, in whole numbers of which iperf counts.
WRITE_BYTES = 131_072
_LOG_BYTES_PER_INTERVAL = 180  # a line of at most 140 characters, and the log's own 40

# The report of a stream, or of all streams: [SUM] or, since 2.2, [SUM-<streams>]. A stream has a *
# if the client receives:
# [  1] 0.0000-1.0000 sec  61472828 Bytes  491782624 bits/sec  469/0    0    401K/2176(11) us
_LINE = re.compile(
    r"^\[ *(?P<id>\*?\d+|SUM(?:-\d+)?)\] (?P<start>\d{1,9}\.\d{1,9})-(?P<end>\d{1,9}\.\d{1,9}) sec"
    r" +(?P<bytes>\d{1,18}) Bytes +(?P<rate>\d{1,18}) bits/sec(?P<enhanced>.*)\n",
    re.MULTILINE | re.ASCII,
)
# Writes and failed writes, retransmits, then (2.2: bytes in flight/) congestion window/RTT.
_ENHANCED = re.compile(
    r"^ +\d+/\d+ +(?P<retransmits>\d{1,15})"
    r"(?: +(?:\d+K\(\d+\)/)?(?P<window>\d{1,15})K(?:\(\d+\))?/(?P<rtt>\d{1,15})(?:\(\d+\))? us)?",
    re.ASCII,
)
_COMPLAINT = re.compile(
    r"^.*\b(?:failed|refused|unreachable|timed out|Unknown host|unrecognized option|ERROR)\b.*$",
    re.MULTILINE,
)


class Test(TimedTest):
    """A throughput test; its value is the sender's mean over all streams."""

    programs: ClassVar[Mapping[str, str]] = {"iperf": "iperf"}
    details: ClassVar[tuple[Detail, ...]] = (
        SECONDS,
        SENT_BYTES,
        RECEIVED_BYTES,
        RETRANSMITS,
        *CONGESTION_WINDOWS,
        Detail("rtt_mean_seconds", float, "mean of TCP's estimates of the round-trip time"),
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "iperf2-32": {"streams": 32, "seconds": 10},
    }

    tool: Literal["iperf"] = "iperf"
    streams: Annotated[int, Field(ge=1, le=128)] = 1
    """Parallel streams, each a flow (`--parallel`)."""
    reverse: bool = False
    """The server sends and the client receives (`--reverse`)."""
    seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long the test sends (`--time`)."""

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The client's command line; `--format b` is the only format without rounding."""
        interval: float = interval_seconds(
            self.seconds, self.streams + 1, bytes_per_interval=_LOG_BYTES_PER_INTERVAL
        )
        if interval == self.seconds:
            # If the interval is as long as the test, iperf sometimes prints only the summary. The
            # parser could not tell it from the first interval of truncated output.
            interval /= 2
        return [
            *("iperf", "--client", server, "--port", str(port or PORT)),
            *("--parallel", str(self.streams), "--time", str(self.seconds)),
            *("--interval", f"{interval:g}", "--enhanced", "--format", "b"),
            *(("--reverse",) if self.reverse else ()),
        ]

    @property
    def throughput(self) -> Throughput:
        """One flow for each stream."""
        return Throughput(self.streams, forward=not self.reverse, reverse=self.reverse)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Throughput."""
        counting = "receiver" if self.reverse else "sender"
        words = f"{counting}'s mean, over all streams"
        return (throughput(words, step=WRITE_BYTES * 8 / self.seconds),)

    @property
    def server(self) -> Server:
        """A server for any number of simultaneous clients, of both IPv4 and IPv6."""
        argv = ("iperf", "--server", "--ipv6_domain", "--port", str(PORT))
        return Server("iperf", argv, (Port(PORT),))


@dataclass(frozen=True)
class _Report:
    """One line of a report."""

    start: float
    end: float
    sent_bytes: int
    bits_per_second: float
    retransmits: int | None
    window_bytes: int | None
    rtt_seconds: float | None


def parse(text: str, test: Test) -> Measurement:
    """Parse the client's output: the reports of the intervals, then the report of the whole test.

    iperf exits with 0 and prints its banner even if it could not connect. An interrupted client
    prints a summary. Both are rejected.

    Raises:
        ParseError: the output is truncated or from another program, a stream is missing, the
            test ended early, or nothing was sent.
    """
    streams: dict[str, list[_Report]] = defaultdict(list)
    sums: list[_Report] = []
    for line in _LINE.finditer(text):
        (sums if line["id"].startswith("SUM") else streams[line["id"]]).append(_report(line))
    if not streams:
        raise ParseError(complaint("iperf", _COMPLAINT, text) or without_summary("iperf", text))
    totals = [_total(reports) for reports in streams.values()]
    total = _total(sums) if test.streams > 1 else totals[0]
    if len(streams) < test.streams:
        words = f"iperf: {len(streams)} of {test.streams} streams reported"
        raise ParseError(": ".join(filter(None, (words, complaint("iperf", _COMPLAINT, text)))))
    if len(streams) > test.streams:
        raise ParseError(f"iperf: {len(streams)} streams where the test asks for {test.streams}")
    if total is None or None in totals:
        raise ParseError(complaint("iperf", _COMPLAINT, text) or without_summary("iperf", text))
    for each in (total, *(report for report in totals if report is not None)):
        test.require_time("iperf", each.end)
    if total.bits_per_second <= 0:
        raise ParseError("iperf: nothing was sent")
    if total.sent_bytes != sum(each.sent_bytes for each in totals if each is not None):
        raise ParseError("iperf: the streams' bytes are not those of their sum")
    if abs(total.sent_bytes * 8 / total.end - total.bits_per_second) > total.bits_per_second * 0.01:
        raise ParseError("iperf: the rate is not that of the bytes and seconds beside it")
    intervals = {number: reports[:-1] for number, reports in streams.items()}
    series = _series(sums[:-1] if test.streams > 1 else next(iter(intervals.values())), intervals)
    return Measurement(
        {"throughput": total.bits_per_second},
        series=series,
        details=_details(test, total, totals, intervals, series),
    )


def _report(line: re.Match[str]) -> _Report:
    enhanced = _ENHANCED.match(line["enhanced"])
    fields = enhanced.groupdict() if enhanced is not None else {}
    return _Report(
        float(line["start"]),
        float(line["end"]),
        int(line["bytes"]),
        float(line["rate"]),
        int(fields["retransmits"]) if fields.get("retransmits") else None,
        int(fields["window"]) * 1024 if fields.get("window") else None,
        round(int(fields["rtt"]) * 1e-6, 9) if fields.get("rtt") else None,
    )


def _total(reports: Sequence[_Report]) -> _Report | None:
    """The report of the whole test: the last report, and the second that starts at time zero."""
    from_start = [each for each in reports if each.start == 0]
    return reports[-1] if len(from_start) == 2 and reports[-1] is from_start[-1] else None


def _series(
    sums: Iterable[_Report], intervals: Mapping[str, Sequence[_Report]]
) -> tuple[Interval, ...]:
    """The intervals, summed over the streams; only the streams' own lines have their windows."""
    at: dict[float, list[_Report]] = defaultdict(list)
    for reports in intervals.values():
        for each in reports:
            at[each.start].append(each)
    series = []
    for each in sums:
        parts = at[each.start]
        complete = len(parts) == len(intervals)
        series.append(
            Interval(
                each.start,
                each.end,
                each.bits_per_second,
                sum_if_known(part.retransmits for part in parts) if complete else None,
                sum_if_known(part.window_bytes for part in parts) if complete else None,
            )
        )
    return merged_remainder(series)


def _details(
    test: Test,
    total: _Report,
    totals: Sequence[_Report | None],
    intervals: Mapping[str, Sequence[_Report]],
    series: Sequence[Interval],
) -> dict[str, float | int | str]:
    details: dict[str, float | int | str] = {
        "seconds": total.end,
        "received_bytes" if test.reverse else "sent_bytes": total.sent_bytes,
        **congestion_windows(series),
    }
    # iperf 2.0 does not sum retransmits. iperf 2.1 does not report those after the last interval.
    counted = [
        sum_if_known(each.retransmits for reports in intervals.values() for each in reports),
        sum_if_known(each.retransmits if each is not None else None for each in totals),
    ]
    if known := [number for number in counted if number is not None]:
        details["retransmits"] = max(known)
    if rtts := [
        each.rtt_seconds
        for reports in intervals.values()
        for each in reports
        if each.rtt_seconds is not None
    ]:
        details["rtt_mean_seconds"] = statistics.fmean(rtts)
    return details
