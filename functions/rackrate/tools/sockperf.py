"""Request-response latency of a program over TCP or UDP, including its sockets and wake-ups.

Project: [sockperf](https://github.com/Mellanox/sockperf).

- **Reported time**: the **round trip** of a request and its response, from before sending to after
  receiving. By default sockperf halves it and calls that latency, which is right only if both ways
  take the same time. `--full-rtt` keeps the whole round trip.
- **Values**: the median and percentiles (nearest rank) of the raw values. The parser compares
  the median and the 99th percentile with sockperf's summary.
- **Samples** `latency`: every response's round trip, to the nanosecond. sockperf leaves out the
  first 400 ms and the last 50 ms.
- **Resolution**: sockperf logs the times of sending and receiving with nine decimals of a second,
  so a round trip is known to the nanosecond.
- **Rate**: under load the client sends at its rate, whatever the server does. If it sent less, the
  test has no value. In `ping-pong` each request waits for the response before, so the rate is a
  maximum: a peer 5 ms away gets 200 requests a second. A stall then counts for one request.
- **arm64**: before 3.9 sockperf does not keep to `--mps` there
  ([issue 155](https://github.com/Mellanox/sockperf/issues/155)), and Debian has 3.7. So the plan
  is refused if an arm has such nodes.
- **Number of samples**: `seconds` times `messages_per_second`, divided by `reply_every`, may be at
  most 50 000, because a container's log is limited. Five have to lie beyond each percentile:
  p99 needs 500, p99.9 5000.
- `/dev/stdout` works in a container as user 65532 with a read-only root file system, because the
  container runtime gives the pipe behind it to that user.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    LOSS_RATIO,
    SECONDS,
    Detail,
    LatencyTest,
    Measurement,
    ParseError,
    Port,
    Server,
    TimedTest,
    complaint,
    extremes_and_mean,
    refusal,
    require_rate,
    require_values,
    without_summary,
)

PORT = 11111
#: The most raw values of a trial. A container's log has room for about twice as many (88 bytes each
#: in 10 MiB).
MAX_RESPONSES = 50_000
# sockperf leaves out the responses of the first 400 ms and of the last 50 ms.
_LEFT_OUT_SECONDS = 0.45

_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_SUMMARY = tuple(
    re.compile(pattern, re.MULTILINE | re.ASCII)
    for pattern in (
        r"== version #(?P<version>\S{1,80}) ==",
        r"^sockperf: \[Total Run\] RunTime=(?P<seconds>[0-9.]{1,20}) sec;"
        r".*? SentMessages=(?P<sent_in_all>\d{1,18});",
        r"^sockperf: \[Valid Duration\] RunTime=[0-9.]+ sec; SentMessages=(?P<sent>\d{1,18});",
        r"^sockperf: # dropped messages = (?P<dropped>\d{1,15});"
        r" # duplicated messages = (?P<duplicated>\d{1,15});"
        r" # out-of-order messages = (?P<out_of_order>\d{1,15})$",
        r"^sockperf: Total (?P<observations>\d{1,15}) observations;",
        r"^sockperf: ---> <MIN> observation = +(?P<smallest>[0-9.]{1,20})$",
        r"^sockperf: ---> <MAX> observation = +(?P<largest>[0-9.]{1,20})$",
        r"^sockperf: ---> percentile 50\.000 = +(?P<median>[0-9.]{1,20})$",
        r"^sockperf: ---> percentile 99\.000 = +(?P<p99>[0-9.]{1,20})$",
    )
)
_HEADER = "packet, txTime(sec), rxTime(sec), rtt(usec)\n"
_ROW = re.compile(
    r"^(\d{1,9}), (\d{1,12})\.(\d{9}), (\d{1,12})\.(\d{9}), (\d{1,12}\.\d{1,9})$", re.ASCII
)
# Another thread's message at the end may appear anywhere in the log, even within a row.
_INTERJECTION = re.compile(r"sockperf: Test end(?:ed| \(interrupted by [^)\n]{1,60}\))\n")
_END = re.compile(r"^-{10,}$")
_COMPLAINT = re.compile(r"sockperf: (?:ERROR|No |Test end before|'-).*")
#: The fault of versions before 3.9 on arm64, and their words for it.
UNPACED = "sockperf does not keep to --mps on arm64 before 3.9"
_UNPACED = "_seqN > m_maxSequenceNo"


class Test(TimedTest, LatencyTest):
    """A request-response test; its values are the median and percentiles."""

    latency: ClassVar[str] = "of the round trip of request and response"
    latency_step: ClassVar[float] = 1e-9

    programs: ClassVar[Mapping[str, str]] = {"sockperf": "sockperf"}
    # It sends before its seconds begin, and waits for late responses after them.
    ending_seconds: ClassVar[float] = 2.3
    details: ClassVar[tuple[Detail, ...]] = (
        SECONDS,
        LOSS_RATIO,
        Detail("sent_messages", int, "messages sent"),
        Detail("responses", int, "messages answered"),
        Detail("dropped_messages", int, "messages without an answer"),
        Detail("duplicated_messages", int, "messages answered again"),
        Detail("out_of_order_messages", int, "messages answered out of order"),
        *EXTREMES_AND_MEAN,
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "latency": {"mode": "ping-pong", "seconds": 10},
        "latency-loaded": {
            "mode": "under-load",
            "seconds": 10,
            "messages_per_second": 50_000,
            "reply_every": 100,
        },
    }

    no_ipv6: ClassVar[tuple[str, str] | None] = (
        "takes no IPv6 addresses before 3.8",
        "use fortio, such as the tests 'requests' and 'requests-loaded'",
    )
    no_architecture: ClassVar[Mapping[str, tuple[str, str]]] = {
        "arm64": (UNPACED, "use fortio, such as the tests 'requests' and 'requests-loaded'")
    }

    tool: Literal["sockperf"] = "sockperf"
    mode: Literal["ping-pong", "under-load"] = "ping-pong"
    """`ping-pong` waits for each response before the next request; `under-load` does not."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """What carries the messages (`--tcp`)."""
    seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long the test sends (`--time`)."""
    # sockperf's own header takes 14 bytes.
    message_bytes: Annotated[int, Field(ge=14, le=65_507)] = 64
    """Size of a message, including sockperf's own header (`--msg-size`)."""
    reply_every: Annotated[int, Field(ge=1, le=1_000_000, validate_default=True)] = 1
    """Under load the server answers one message out of this many (`--reply-every`)."""
    messages_per_second: Annotated[int, Field(ge=1, le=10_000_000, validate_default=True)] = 1000
    """Rate of the requests (`--mps`). In `ping-pong` it is the maximum."""

    @property
    def title(self) -> str:
        """Messages with their rate."""
        return f"messages, {self.messages_per_second} a second"

    @field_validator("reply_every")
    @classmethod
    def _only_under_load(cls, value: int, info: ValidationInfo) -> int:
        if value != 1 and info.data.get("mode") == "ping-pong":
            raise refusal(
                "has a meaning only under load: in ping-pong each message is answered",
                "remove it, or set mode to 'under-load'",
            )
        return value

    @field_validator("messages_per_second")
    @classmethod
    def _neither_too_many_nor_too_few(cls, value: int, info: ValidationInfo) -> int:
        if not {"percentiles", "seconds", "reply_every"} <= info.data.keys():
            return value  # the other fields have errors of their own
        seconds, reply_every = info.data["seconds"], info.data["reply_every"]
        require_values(
            value * seconds / reply_every,
            f"responses with reply_every {reply_every}",
            MAX_RESPONSES,
            info,
            used=value * (seconds - _LEFT_OUT_SECONDS) / reply_every,
            fewer="lower it or seconds, or raise reply_every under load",
            more="raise it or seconds, or lower reply_every",
        )
        return value

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The client's command line; the log of all messages goes to standard output."""
        return [
            *("sockperf", self.mode, "--ip", server, "--port", str(port or PORT)),
            *(("--tcp",) if self.protocol == "tcp" else ()),
            *("--time", str(self.seconds), "--msg-size", str(self.message_bytes)),
            *("--mps", str(self.messages_per_second)),
            *(("--reply-every", str(self.reply_every)) if self.mode == "under-load" else ()),
            *("--full-rtt", "--full-log", "/dev/stdout"),
        ]

    @property
    def server(self) -> Server:
        """A server for any number of clients of one protocol."""
        return Server(
            f"sockperf-{self.protocol}",
            (
                *("sockperf", "server", "--port", str(PORT)),
                *(("--tcp",) if self.protocol == "tcp" else ()),
            ),
            (Port(PORT, "TCP" if self.protocol == "tcp" else "UDP"),),
        )

    def warm_up(self) -> Self:
        """One second at the default rate, because a low rate would give too few responses."""
        usual = {"messages_per_second": 1000, "reply_every": 1, "percentiles": ()}
        return self.model_copy(update={"seconds": 1, **usual})


def parse(text: str, test: Test) -> Measurement:
    """Parse the summary and the log of all messages. All figures come from the log.

    Raises:
        ParseError: the output is truncated or from another program, there is no response,
            the test ended early, or the log does not match the summary.
    """
    before, header, log = _COLOUR.sub("", text).partition(_HEADER)
    summary: dict[str, str] = {}
    for match in filter(None, (pattern.search(before) for pattern in _SUMMARY)):
        summary |= match.groupdict()
    if not {"observations", "seconds"} <= summary.keys():
        raise ParseError(_complaint(before) or without_summary("sockperf", before))
    seconds = _number(summary["seconds"])
    test.require_time("sockperf", seconds)
    if test.mode == "under-load":
        sent, planned = int(summary["sent_in_all"]), test.messages_per_second * seconds
        require_rate("sockperf", sent, planned, "messages", "lower messages_per_second")
    if not header:
        raise ParseError("sockperf's output has no log of the messages' round trips")
    nanoseconds = _log(_INTERJECTION.sub("", log).split("\n"))
    if not nanoseconds:
        raise ParseError("sockperf: no message was answered")
    if len(nanoseconds) != int(summary["observations"]):
        raise ParseError(
            f"sockperf's summary tells of {summary['observations']} responses, "
            f"but its log has {len(nanoseconds)}"
        )
    ordered = sorted(nanoseconds)
    _compare("shortest", ordered[:1], summary.get("smallest"))
    _compare("longest", ordered[-1:], summary.get("largest"))
    _compare("median", _around(ordered, 0.5), summary.get("median"))
    _compare("99th percentile", _around(ordered, 0.99), summary.get("p99"))
    samples = tuple(each / 1e9 for each in nanoseconds)
    dropped = int(summary.get("dropped", 0))
    details: dict[str, float | int | str] = {
        "seconds": seconds,
        "responses": len(samples),
        "dropped_messages": dropped,
        "duplicated_messages": int(summary.get("duplicated", 0)),
        "out_of_order_messages": int(summary.get("out_of_order", 0)),
        "loss_ratio": dropped / (len(samples) + dropped),
        **extremes_and_mean(ordered[0] / 1e9, statistics.fmean(samples), ordered[-1] / 1e9),
    }
    if "sent" in summary:
        details["sent_messages"] = int(summary["sent"])
    return Measurement(
        {name: value / 1e9 for name, value in test.values_of(ordered).items()},
        {"latency": samples},
        details=details,
        version=f"sockperf {summary['version']}" if "version" in summary else None,
    )


def _number(printed: str) -> float:
    try:
        return float(printed)
    except ValueError:
        raise ParseError("sockperf's summary has a number that is none") from None


def _log(lines: Sequence[str]) -> list[int]:
    """The round trips of the log of all messages, in nanoseconds.

    Args:
        lines: the lines after the log's header.
    """
    round_trips: list[int] = []
    for number, line in enumerate(lines):
        if _END.match(line):
            return round_trips
        row = _ROW.match(line)
        if row is None or row[1] != str(number):
            raise ParseError(f"sockperf's log of messages is truncated or garbled: row {number}")
        sent, received = int(row[2] + row[3]), int(row[4] + row[5])
        round_trip = received - sent
        if round_trip == 0:
            raise ParseError(
                f"sockperf's log has a round trip of zero in row {number}, which is below its"
                " resolution"
            )
        if round_trip < 0 or abs(round_trip - float(row[6]) * 1000) > 2:
            raise ParseError(f"sockperf's log contradicts itself in row {number}")
        round_trips.append(round_trip)
    raise ParseError("sockperf's log of messages is truncated: it has no end")


def _around(ordered: Sequence[int], quantile: float) -> Sequence[int]:
    """The values next to a quantile's rank, because sockperf rounds the rank to the nearest."""
    rank = int(0.5 + quantile * len(ordered))
    return ordered[max(0, rank - 2) : rank + 1]


def _compare(what: str, nanoseconds: Sequence[int], printed: str | None) -> None:
    figure = math.nan if printed is None else _number(printed) * 1000
    # sockperf truncates to nanoseconds and computes with the processor's ticks.
    if not nanoseconds[0] - 2 <= figure <= nanoseconds[-1] + 2:
        raise ParseError(f"sockperf's summary and its log do not agree on the {what} round trip")


def _complaint(text: str) -> str | None:
    words = complaint("", _COMPLAINT, text)
    return f"{words}: {UNPACED}" if words is not None and _UNPACED in words else words
