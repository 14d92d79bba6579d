"""Request-response latency at a constant rate over TCP, HTTP or gRPC.

Project: [Fortio](https://github.com/fortio/fortio). The server serves any number of clients of all
three protocols.

- **Reported time**: from sending a request until its response is complete. A connection has one
  request at a time. If a request has to wait because the one before is still unanswered, its time
  counts from the moment at which the rate planned it. So a stall counts for all requests that it
  delayed, and not only for one (coordinated omission).
- **Values**: the median and percentiles (nearest rank) of the raw values.
- **Samples** `latency`: every request's time. The parser compares what Fortio logged for each
  request (`-access-log-file`) with Fortio's own summary.
- **Resolution**: Fortio logs each request's time to the microsecond. Its histogram is coarser, and
  is not used.
- **Rate**: the connections share the requests evenly and take turns (`-uniform`). With 16
  connections and 1000 requests per second each sends every 16 ms, so a response may take that
  long. If responses take longer, or a stall lasts until the end, Fortio sends fewer requests than
  planned. Such a test has no value, because the missing requests would be the slowest.
- `requests`, `http` and `grpc` have the same rate and connections, so that they differ in nothing
  but the protocol.
- **Number of samples**: `seconds` times `requests_per_second` may be at most 50 000, because a
  container's log is limited. Five have to lie beyond each percentile: p99 needs 500, p99.9 5000.
- A test in which a request failed has no value, because the failed request's time is unknown.
- `/dev/stdout` works in a container as user 65532 with a read-only root file system, because the
  container runtime gives the pipe behind it to that user.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    PERCENTILES,
    REQUESTS,
    SECONDS,
    SHORT_REASON,
    Detail,
    LatencyTest,
    Measurement,
    ParseError,
    Port,
    Server,
    TimedTest,
    complaint,
    extremes_and_mean,
    least_values,
    refusal,
    require_rate,
    require_same,
    require_values,
    without_summary,
)

#: Fortio's own ports.
PORTS = {"tcp": 8078, "grpc": 8079, "http": 8080}
#: The most raw values of a trial. A container's log has room for about half as many again (150
#: bytes each in 10 MiB).
MAX_REQUESTS = 50_000

_RUN_TYPES = {"tcp": "TCP", "http": "HTTP", "grpc": "GRPC Ping"}
_REQUEST = re.compile(
    r'^\{"latency":(\d{1,7}\.\d{6}),"timestamp":(\d{10,20}),"thread":(\d{1,6}),"iter":(\d{1,9}),'
    r'"ok":(true|false),"details":"([^\n]{0,500})"\}$',
    re.ASCII,
)
# A line of Fortio's own log, or what an option that it does not know is answered with.
_COMPLAINT = re.compile(
    r'"level":"(?:err|crit|fatal|warn)[a-z]*",.{0,200}?"msg":"((?:[^"\\\n]|\\.){1,400})'
    r"|(?:flag provided but not defined|invalid value |At most )[^\n]{0,200}",
    re.ASCII,
)
# Fortio logs a request's time rounded to the microsecond.
_ROUNDING = 0.6e-6


class Test(TimedTest, LatencyTest):
    """A request-response test; its values are the median and percentiles."""

    latency: ClassVar[str] = "of the time from request to response"
    latency_step: ClassVar[float] = 1e-6

    # It waits for the last responses.
    ending_seconds: ClassVar[float] = 0.25
    programs: ClassVar[Mapping[str, str]] = {"fortio": "fortio.org/fortio"}
    details: ClassVar[tuple[Detail, ...]] = (
        SECONDS,
        *REQUESTS,
        Detail("delayed_ratio", float, "share of requests that waited for the response before"),
        *EXTREMES_AND_MEAN,
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # More blocks tell more of a p99 than longer tests. Thirty and more requests are above it.
        "requests": {"connections": 16, "requests_per_second": 1000, "seconds": 3},
        "requests-loaded": {"connections": 32, "requests_per_second": 2000, "seconds": 4},
        "http": {"protocol": "http", "connections": 16, "requests_per_second": 1000},
        "grpc": {"protocol": "grpc", "connections": 16, "requests_per_second": 1000},
    }

    tool: Literal["fortio"] = "fortio"
    protocol: Literal["tcp", "http", "grpc"] = "tcp"
    """What carries the requests: an echo over TCP, HTTP/1.1 or gRPC, without TLS."""
    seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long the test sends (`-t`)."""
    message_bytes: Annotated[int, Field(ge=1, le=65_536)] = 64
    """Size of a request's payload, which the response repeats (`-payload-size`)."""
    requests_per_second: Annotated[int, Field(ge=1, le=50_000, validate_default=True)] = 1000
    """Rate of the requests, all connections together (`-qps`)."""
    connections: Annotated[int, Field(ge=1, le=1000, validate_default=True)] = 16
    """Number of connections, each with one request at a time (`-c`)."""

    @property
    def title(self) -> str:
        """Requests with their rate."""
        return f"requests, {self.requests_per_second} a second"

    @field_validator("requests_per_second")
    @classmethod
    def _neither_too_many_nor_too_few(cls, value: int, info: ValidationInfo) -> int:
        if not {"percentiles", "seconds"} <= info.data.keys():
            return value  # the other fields have errors of their own
        require_values(value * info.data["seconds"], "requests", MAX_REQUESTS, info)
        return value

    @field_validator("connections")
    @classmethod
    def _each_with_two_requests(cls, value: int, info: ValidationInfo) -> int:
        if not {"seconds", "requests_per_second"} <= info.data.keys():
            return value
        requests = info.data["requests_per_second"] * info.data["seconds"]
        if requests < 2 * value:
            raise refusal(
                f"has {value} for {requests} requests, and each connection needs two or more",
                "lower it, or raise requests_per_second",
            )
        return value

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The client's command line; the log of all requests goes to standard output."""
        port = port or PORTS[self.protocol]
        target = f"[{server}]:{port}" if ":" in server else f"{server}:{port}"
        scheme = "" if self.protocol == "grpc" else f"{self.protocol}://"
        return [
            *("fortio", "load", "-quiet", "-uniform"),
            *(("-grpc", "-ping") if self.protocol == "grpc" else ()),
            *("-c", str(self.connections), "-qps", str(self.requests_per_second)),
            *("-t", f"{self.seconds}s", "-payload-size", str(self.message_bytes)),
            *("-access-log-file", "/dev/stdout", "-json", "-", f"{scheme}{target}"),
        ]

    @property
    def server(self) -> Server:
        """A server for any number of clients of each protocol."""
        return Server(
            "fortio",
            (
                *("fortio", "server", "-quiet", "-tcp-port", str(PORTS["tcp"])),
                *("-grpc-port", str(PORTS["grpc"]), "-http-port", str(PORTS["http"])),
                *("-udp-port", "disabled", "-redirect-port", "disabled"),
                *("-ui-path", "", "-echo-debug-path", ""),
            ),
            tuple(map(Port, PORTS.values())),
        )

    def warm_up(self) -> Self:
        """One second, at a rate with enough requests for every connection and a median."""
        rate = max(least_values(()), 2 * self.connections, min(self.requests_per_second, 1000))
        shorter = {"seconds": 1, "requests_per_second": rate, "percentiles": ()}
        return self.model_copy(update=shorter)


class _Histogram(BaseModel):
    Count: int
    Min: float
    Max: float
    Avg: float


class _Summary(BaseModel):
    """What is used of Fortio's JSON: https://github.com/fortio/fortio, `RunnerResults`.

    `ActualDuration` is in nanoseconds.
    """

    RunType: str
    RequestedQPS: str
    ActualDuration: int
    NumThreads: int
    Version: str
    DurationHistogram: _Histogram


@dataclass(frozen=True)
class _Request:
    """A line of the log.

    Attributes:
        sent: when it was sent, in nanoseconds since the epoch.
        latency: its time until the response, in seconds.
        connection: the number of its connection.
        number: its number on the connection, from 0.
    """

    sent: int
    latency: float
    connection: int
    number: int


def parse(text: str, test: Test) -> Measurement:
    """Parse the log of all requests, and compare it with the summary.

    Raises:
        ParseError: the output is truncated, from another program or of another test, a
            request failed, the test ended early, the rate was not kept, or the log does not match
            the summary.
    """
    requests, rest = _requests(text)
    summary = _summary(rest)
    if (
        summary.RunType.removesuffix(f" PayloadLength={test.message_bytes}")
        != _RUN_TYPES[test.protocol]
        or summary.NumThreads != test.connections
        or summary.RequestedQPS != str(test.requests_per_second)
    ):
        raise ParseError(
            f"fortio's report is of another test: {summary.RunType} with {summary.NumThreads} "
            f"connections and {summary.RequestedQPS} requests per second"
        )
    seconds = summary.ActualDuration / 1e9
    test.require_time("fortio", seconds)
    _compare([each.latency for each in requests], summary.DurationHistogram)
    sent = [each.sent for each in requests]
    if max(sent) - min(sent) > summary.ActualDuration:
        raise ParseError("fortio's log has requests from outside of the test's time")
    require_rate(
        *("fortio", len(requests), test.connections * _requests_of_connection(test), "requests"),
        "raise connections or lower requests_per_second",
        beyond=min((1 - PERCENTILES[name] for name in test.percentiles), default=1.0),
    )
    delays = _delays(requests, test)
    times = [each.latency + delay for each, delay in zip(requests, delays, strict=True)]
    ordered = sorted(times)
    if ordered[0] == 0:
        raise ParseError("fortio's log has a time of zero, which is below its resolution")
    return Measurement(
        test.values_of(ordered),
        {"latency": tuple(times)},
        details={
            "seconds": seconds,
            "requests": len(times),
            "requests_per_second": len(times) / seconds,
            "delayed_ratio": sum(delay > 0 for delay in delays) / len(delays),
            **extremes_and_mean(ordered[0], statistics.fmean(times), ordered[-1]),
        },
        version=f"fortio {summary.Version}",
    )


def _requests(text: str) -> tuple[list[_Request], list[str]]:
    """The requests of the log, none of which failed, and the lines that are none."""
    requests: list[_Request] = []
    failed: list[str] = []
    rest: list[str] = []
    for line in text.split("\n"):
        if match := _REQUEST.match(line):
            requests.append(_Request(int(match[2]), float(match[1]), int(match[3]), int(match[4])))
            if match[5] == "false":
                failed.append(match[6][:SHORT_REASON])
        elif line.startswith('{"latency"'):
            raise ParseError("fortio's log of requests is truncated or garbled")
        else:
            rest.append(line)
    if failed:
        raise ParseError(
            f"{len(failed)} of {len(requests)} requests failed: {_complaint(rest) or failed[0]}"
        )
    return requests, rest


def _summary(lines: Sequence[str]) -> _Summary:
    try:
        first = lines.index("{")
        last = lines.index("}", first)
    except ValueError:
        raise ParseError(_complaint(lines) or without_summary("fortio", "\n".join(lines))) from None
    # A container's log has the lines of both outputs as they come. Fortio indents its summary.
    within = [line for line in lines[first + 1 : last] if line.startswith("  ")]
    try:
        return _Summary.model_validate(json.loads("\n".join(["{", *within, "}"])))
    except (ValueError, RecursionError, ValidationError):
        raise ParseError("fortio's summary is garbled") from None


def _compare(latencies: Sequence[float], summary: _Histogram) -> None:
    if not latencies or summary.Count != len(latencies):
        raise ParseError(
            f"fortio's summary tells of {summary.Count} requests, but its log has {len(latencies)}"
        )
    printed = (summary.Min, summary.Max, summary.Avg)
    require_same("fortio", "log", latencies, printed, _ROUNDING)


def _requests_of_connection(test: Test) -> int:
    return test.requests_per_second * test.seconds // test.connections


def _delays(requests: Sequence[_Request], test: Test) -> list[float]:
    """How long each request waited for the response before it on its connection, in seconds.

    Fortio plans request `i` of a connection for `i + i / (n - 1)` intervals after the connection's
    start, with `n` requests on each connection (`runOne` in its `periodic/periodic.go`). It never
    sends before that, so the most punctual request tells the start. After a wait it sends at once.
    A timer that fires late is the client's matter, and no delay.
    """
    each = _requests_of_connection(test)
    interval = test.connections / test.requests_per_second * 1e9 * (1 + 1 / (each - 1))
    started: dict[int, float] = {}
    for request in requests:
        start = request.sent - request.number * interval
        started[request.connection] = min(start, started.get(request.connection, start))
    answered: dict[int, float] = {}
    seen: Counter[int] = Counter()
    delays = []
    for request in requests:
        if request.number != seen[request.connection] or request.connection >= test.connections:
            raise ParseError("fortio's log of requests is truncated or garbled: one is missing")
        seen[request.connection] += 1
        planned = started[request.connection] + request.number * interval
        waited = planned < answered.get(request.connection, 0.0) <= request.sent
        # As exact as the times in the log.
        delays.append(round((request.sent - planned) / 1000) / 1e6 if waited else 0.0)
        answered[request.connection] = request.sent + request.latency * 1e9
    return delays


def _complaint(lines: Sequence[str]) -> str | None:
    return complaint("fortio", _COMPLAINT, "\n".join(lines))
