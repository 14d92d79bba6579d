"""The time of a TCP handshake towards a server and port, such as a gateway's or a database's.

Project: [curl](https://curl.se). curl connects `count` times, one connection after the other. It
sends nothing and closes each connection at once.

- **Value**: the median of the handshakes' times.
- **Samples** `handshake`: the time of each established connection, in the order of connecting. It
  is a round trip, and what curl and the kernel take: 0.05 to 0.1 ms on a loopback interface. It is
  curl's `time_connect` without `time_namelookup`.
- **Losses**: a connection is lost if it is refused, or not established when the next one is due. It
  has no sample. `loss_ratio` is the share of lost connections. If all are lost, there is no
  measurement. TCP repeats a lost packet of the handshake after a second, so its connection is lost.
- **What listens there**: any server, at the port of the plan's `endpoint`. Without such a port it
  is fortio's server, as for `requests`.
- **What the server sees**: connections that say nothing. A server may log them, or refuse a client
  after some, as MySQL and MariaDB do (`max_connect_errors`, 100 by default).
- **Resolution**: curl prints microseconds.
- `--telnet-option NONE` is no option of telnet, so curl closes a connection once it is established
  (exit code 49). A URL has its number as the user's name, which is not sent. The last URL is a
  file, which makes curl's own exit code 0. `--verbose` tells why a connection failed.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from rackrate.tools import fortio
from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    LOSS_RATIO,
    Detail,
    Measurement,
    Metric,
    ParseError,
    Server,
    TestBase,
    complaint,
    extremes_and_mean,
    without_summary,
)

_SERVER = fortio.Test(name="server").server
_FORMAT = "%{stderr}%{time_connect} %{time_namelookup} %{exitcode} %{url}\\n"
_ATTEMPT = re.compile(
    r"^(\d{1,5}\.\d{6}) (\d{1,5}\.\d{6}) (\d{1,3}) telnet://(\d{1,5})@(\S{1,60})$",
    re.ASCII | re.MULTILINE,
)
_END = re.compile(r"^0\.000000 \d{1,5}\.\d{6} 0 file:///dev/null\n?\Z", re.ASCII | re.MULTILINE)
_FAILURE = re.compile(
    r"^\* (?:connect to .{1,200} failed|Immediate connect fail for .{1,60}): (.{1,100})$",
    re.MULTILINE,
)
_COMPLAINT = re.compile(r"^curl: (.{1,200})$", re.MULTILINE)
#: curl's exit codes (curl(1)): it connected and met the option; it could not connect; it took
#: longer than `--max-time`.
_CONNECTED, _FAILED, _TOO_LONG = "49", "7", "28"


class Test(TestBase):
    """A test of connecting; its value is the median of the handshakes' times."""

    programs: ClassVar[Mapping[str, str]] = {"curl": "curl", **fortio.Test.programs}
    details: ClassVar[tuple[Detail, ...]] = (
        LOSS_RATIO,
        Detail("attempts", int, "connections attempted", column="connection_attempts"),
        Detail("connected", int, "connections established", column="connections_established"),
        *EXTREMES_AND_MEAN,
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "connect": {"count": 30, "connections_per_second": 5},
    }

    tool: Literal["connect"] = "connect"
    # A connection takes 500 bytes of a container's log.
    count: Annotated[int, Field(ge=1, le=10_000)] = 30
    """Number of connections."""
    connections_per_second: Annotated[int, Field(ge=1, le=20)] = 5
    """Rate of the connections (`--rate`). Each may take until the next is due (`--max-time`)."""

    @property
    def title(self) -> str:
        """Connections with their rate."""
        return f"connections, {self.connections_per_second} a second"

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The command line, with a URL for all connections, whose number curl counts."""
        host = f"[{server}]" if ":" in server else server
        rate = self.connections_per_second
        return [
            *("curl", "--silent", "--verbose", "--rate", f"{rate}/s"),
            *("--max-time", f"{1 / rate:.3f}", "--telnet-option", "NONE"),
            *("--write-out", _FORMAT, "--output", "/dev/null"),
            f"telnet://[1-{self.count}]@{host}:{port or fortio.PORTS['tcp']}",
            "file:///dev/null",
        ]

    @property
    def expected_seconds(self) -> float:
        """How long the test connects, in seconds."""
        return self.count / self.connections_per_second

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The handshake's time."""
        return (Metric("handshake", "s", "lower", "median", step=1e-6, samples="handshake"),)

    @property
    def server(self) -> Server:
        """fortio's server, to which nothing is sent."""
        return _SERVER

    def warm_up(self) -> Self:
        """A few connections within at most a second."""
        count = min(self.count, 5, self.connections_per_second)
        return self.model_copy(update={"count": count})


def parse(text: str, test: Test) -> Measurement:
    """Parse curl's line for each connection. Some may be lost; their share is a detail.

    Raises:
        ParseError: the output is truncated, from another program or of another test, no
            connection was established, or curl failed in another way.
    """
    attempts = _ATTEMPT.findall(text)
    if not _END.search(text):
        interrupted = f"curl was interrupted after {len(attempts)} of {test.count} connections"
        raise ParseError(
            complaint("curl", _COMPLAINT, text)
            or (interrupted if attempts else without_summary("curl", text))
        )
    if [int(number) for *_, number, _ in attempts] != list(range(1, test.count + 1)):
        raise ParseError(f"curl made {len(attempts)} of {test.count} connections")
    samples = []
    for connected, resolved, code, number, _ in attempts:
        if float(connected) == 0 and code in (_FAILED, _TOO_LONG):
            continue
        seconds = round(float(connected) - float(resolved), 6)
        if code != _CONNECTED or seconds <= 0:
            raise ParseError(f"curl: connection {number} ended with exit code {code}")
        samples.append(seconds)
    if not samples:
        raise ParseError(_why_none(text, attempts[-1][-1], test))
    return Measurement(
        {"handshake": statistics.median(samples)},
        {"handshake": tuple(samples)},
        details={
            "attempts": len(attempts),
            "connected": len(samples),
            "loss_ratio": (len(attempts) - len(samples)) / len(attempts),
            **extremes_and_mean(min(samples), statistics.fmean(samples), max(samples)),
        },
    )


def _why_none(text: str, server: str, test: Test) -> str:
    """Why no connection was established, by what the kernel said to the last that it refused."""
    if not (reasons := _FAILURE.findall(text)):
        return f"no answer from {server} within {1 / test.connections_per_second:.3g} s"
    if reasons[-1] == "Connection refused":
        return f"nobody listens on {server}: connection refused"
    return f"{server} cannot be reached: {reasons[-1].lower()}"
