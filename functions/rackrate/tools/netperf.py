"""Request-response transactions per second over TCP, a new connection for each, or UDP.

Project: [netperf](https://github.com/HewlettPackard/netperf). netperf prints no version with its
results.

- **Value**: the transactions completed, divided by the elapsed time. One request is on its way at
  a time, so the rate is the inverse of a transaction's mean time: 10 000 transactions/s are 100 µs
  each.
- **Transaction**: a request and its response. With `tcp-crr`, opening and closing the connection
  belong to it.
- **Percentiles** of the transactions' times are netperf's own and not from raw values, which it
  does not keep. It counts the times in a histogram. The classes are 1 µs wide below 100 µs, 10 µs
  below 1 ms and so on, and netperf interpolates within a class. So a percentile is up to 10 % off
  (`HIST_get_percentile` in its `netlib.c`). They are details and get no verdict. fortio and
  sockperf give percentiles from raw values.
- **Resolution**: netperf counts whole transactions, so a rate is known to one transaction over the
  test's seconds.
- **Losses**: with `udp-rr`, a lost request or response stops netperf for one second (`-e 1`, the
  shortest that it can). So few losses lower the rate a lot. They do not count in the other times.
  `loss_ratio` is the share of requests without a response, except for one that may be on its way
  when the time is up.
- The server uses one port for control and another one for data. It writes no file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    LOSS_RATIO,
    RETRANSMITS,
    SECONDS,
    Detail,
    Measurement,
    Metric,
    ParseError,
    Port,
    Server,
    TimedTest,
    complaint,
    without_summary,
)

CONTROL_PORT = 12865
DATA_PORT = 12866
#: What the client prints, in this order. The command line comes last, so it ends complete output.
SELECTORS = (
    *("TRANSACTION_RATE", "ELAPSED_TIME", "RT_LATENCY", "LOCAL_SEND_CALLS", "LOCAL_BYTES_RECVD"),
    *("LOCAL_TRANSPORT_RETRANS", "REMOTE_TRANSPORT_RETRANS", "MIN_LATENCY", "MEAN_LATENCY"),
    *("MAX_LATENCY", "P50_LATENCY", "P90_LATENCY", "P99_LATENCY", "COMMAND_LINE"),
)
_RANKS = {50: "median", 90: "90th percentile", 99: "99th percentile"}
#: The details that are times, each with its selector. netperf prints whole microseconds of them.
_TIMES = {
    **{f"{which}_seconds": f"{which.upper()}_LATENCY" for which in ("min", "mean", "max")},
    **{f"histogram_p{rank}_seconds": f"P{rank}_LATENCY" for rank in _RANKS},
}

_LINE = re.compile(r"^([A-Z0-9_]{1,40})=(.*)$", re.MULTILINE)
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,6})?|inf", re.ASCII)
_HOST = re.compile(r" -H (\S{1,100}) ")
_COMPLAINT = re.compile(
    r"^(?:netperf: |(?=establish|recv_|resolve_|send_|shutdown_))(.+)$", re.MULTILINE
)


class Test(TimedTest):
    """A request-response test; its value is the rate of the transactions."""

    programs: ClassVar[Mapping[str, str]] = {"netperf": "netperf", "netserver": "netperf"}
    details: ClassVar[tuple[Detail, ...]] = (
        SECONDS,
        LOSS_RATIO,
        RETRANSMITS,
        *EXTREMES_AND_MEAN,
        Detail("transactions", int, "transactions completed"),
        *(
            Detail(f"histogram_p{rank}_seconds", float, f"{words} of latency, from a histogram")
            for rank, words in _RANKS.items()
        ),
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "tcp-rr": {"mode": "tcp-rr", "seconds": 10},
        "tcp-crr": {"mode": "tcp-crr", "seconds": 10},
        "udp-rr": {"mode": "udp-rr", "seconds": 10},
    }

    tool: Literal["netperf"] = "netperf"
    mode: Literal["tcp-rr", "tcp-crr", "udp-rr"] = "tcp-rr"
    """Transactions over one TCP connection, over a new one for each, or over UDP (`-t`)."""
    seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long the test sends (`-l`)."""
    request_bytes: Annotated[int, Field(ge=1, le=65_507)] = 1
    """Size of a request (`-r`)."""
    response_bytes: Annotated[int, Field(ge=1, le=65_507)] = 1
    """Size of a response (`-r`)."""

    @property
    def title(self) -> str:
        """Transactions, of which the next begins when one ends."""
        return "transactions, one after the other"

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The client's command line; the server's data port is fixed."""
        return [
            *("netperf", "-P", "0", "-H", server, "-p", str(port or CONTROL_PORT)),
            *("-t", self.mode.upper().replace("-", "_"), "-l", str(self.seconds), "--"),
            *("-P", f",{DATA_PORT}", "-r", f"{self.request_bytes},{self.response_bytes}"),
            # Without it, netperf waits for a lost response until the test is over.
            *(("-e", "1") if self.mode == "udp-rr" else ()),
            *("-k", ",".join(SELECTORS)),
        ]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The rate of the transactions."""
        step = 1 / self.seconds
        return (Metric("transaction_rate", "transactions/s", "higher", "mean", step=step),)

    @property
    def server(self) -> Server:
        """A server with a process for each client, in the foreground."""
        return Server(
            "netserver",
            ("netserver", "-D", "-p", str(CONTROL_PORT)),
            (Port(CONTROL_PORT), Port(DATA_PORT), Port(DATA_PORT, "UDP")),
        )


def parse(text: str, test: Test) -> Measurement:
    """Parse the client's output: one line for each of `SELECTORS`.

    An interrupted client prints all of them too, and exits with 0.

    Raises:
        ParseError: the output is truncated, from another program or of another test, the
            test ended early, its figures contradict each other, or no request was answered.
    """
    lines = _LINE.findall(text)
    if tuple(name for name, _ in lines) != SELECTORS:
        raise ParseError(complaint("netperf", _COMPLAINT, text) or without_summary("netperf", text))
    printed = dict(lines)
    _require_test(printed.pop("COMMAND_LINE"), test)
    figures = {name: _number(name, figure) for name, figure in printed.items()}
    test.require_time("netperf", figures["ELAPSED_TIME"])
    sent = int(figures["LOCAL_SEND_CALLS"])
    transactions = int(figures["LOCAL_BYTES_RECVD"] / test.response_bytes)
    if not transactions:
        raise ParseError(
            f"netperf: no request was answered: see that no firewall drops port {DATA_PORT}"
        )
    _require_sense(figures, transactions)
    # When the time is up, one request is on its way. It neither succeeded nor failed.
    lost = max(0, sent - transactions - 1)
    if sent < transactions or (lost and test.mode != "udp-rr"):
        raise ParseError("netperf: its requests and its responses do not match")
    return Measurement(
        {"transaction_rate": figures["TRANSACTION_RATE"]},
        details={
            "seconds": figures["ELAPSED_TIME"],
            "transactions": transactions,
            **{detail: figures[name] / 1e6 for detail, name in _TIMES.items()},
            **({"loss_ratio": lost / sent} if test.mode == "udp-rr" else {}),
            **_retransmits(figures, test),
        },
    )


def _require_test(command_line: str, test: Test) -> None:
    """Check that the output is the test's. The program may have another path."""
    host = _HOST.search(command_line)
    argv = [] if host is None else test.argv(host[1])[1:]
    if command_line.split(" ")[1:] != f'{" ".join(argv)}"'.split(" "):
        raise ParseError("netperf's output is truncated or another test's: its arguments differ")


def _number(name: str, figure: str) -> float:
    if not _NUMBER.fullmatch(figure):
        raise ParseError(f"netperf: {name} is {figure[:40]!r}, which is no figure")
    return float(figure)


def _require_sense(figures: Mapping[str, float], transactions: int) -> None:
    """Check figures that say the same in two ways, within their rounding."""
    rate, seconds = figures["TRANSACTION_RATE"], figures["ELAPSED_TIME"]
    # When the time is up, netperf may have a response of a connection that it has not yet closed.
    if abs(rate * seconds - transactions) > rate * 0.006 + 1:
        raise ParseError("netperf: the rate is not that of the transactions and seconds beside it")
    if abs(rate * figures["RT_LATENCY"] - 1e6) > 1e6 * 0.001:
        raise ParseError("netperf: the rate is not that of the mean time beside it")
    least, mean, most = (figures[f"{which}_LATENCY"] for which in ("MIN", "MEAN", "MAX"))
    percentiles = [figures[f"P{rank}_LATENCY"] for rank in _RANKS]
    # A percentile may be anywhere in its class, which has a tenth of the value at most.
    if not (
        least <= mean <= min(most, figures["RT_LATENCY"] * 1.01 + 1)
        and percentiles == sorted(percentiles)
        and least * 0.9 - 1 <= percentiles[0]
        and percentiles[-1] <= most * 1.1 + 1
    ):
        raise ParseError("netperf: the times of the transactions contradict each other")


def _retransmits(figures: Mapping[str, float], test: Test) -> dict[str, int]:
    """Those of both ends, if they are known. With tcp-crr they are of the last connection only."""
    ends = [int(figures[f"{end}_TRANSPORT_RETRANS"]) for end in ("LOCAL", "REMOTE")]
    return {"retransmits": sum(ends)} if test.mode == "tcp-rr" and min(ends) >= 0 else {}
