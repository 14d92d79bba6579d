"""Lookups by the cluster's DNS: their latency at a constant rate, or how many it answers.

Project: [dnsperf of DNS-OARC](https://www.dns-oarc.net/tools/dnsperf).

- **Who answers**: the name server of the client pod's `/etc/resolv.conf`, as for any pod of the
  cluster. That is the Service `kube-dns`, so kube-proxy is in the path, or NodeLocal DNSCache where
  the cluster has it. `dns_server` is its address. Behind it are the pods of CoreDNS on any nodes;
  `dns_nodes` of the results names them. The server of a pair has no part in it.
- **What a verdict says**: a placement group moves the clients only. CoreDNS may run on a node of
  one arm, even on a client's own, or of none. A difference between arms with different nodes
  includes that. The test is meant for what all clients share: a campaign over modes of kube-proxy,
  replicas or versions of CoreDNS, or runs [before and after](plan.md#before-and-after) a change.
- **Reported time**: from sending a query until its response. Queries leave at their planned times,
  however long others take, so a stall counts for all queries that it delays.
- **Values**: at a rate the median and percentiles (nearest rank) of the raw values. Without a rate
  (`queries_per_second: null`) the responses per second; their times are then mostly those of the
  client's own queue, so there are no percentiles.
- **Samples** `latency`: every query's time. A lost query counts with five seconds, after which a
  pod's resolver would ask again. The parser compares the times with dnsperf's own summary.
- **Resolution**: dnsperf prints microseconds.
- **Losses**: `loss_ratio` is the share of queries without a response within five seconds. Without
  any response there is no measurement, nor if a response is an error, such as for an unknown name.
- **Sockets**: kube-proxy chooses a pod of CoreDNS for each socket, and keeps to it. So `sockets`
  has to be a few times the number of these pods.
- It asks for IPv4 addresses (`A`), and in a cluster of IPv6 for these (`AAAA`).
- dnsperf reads queries from a file only. A shell writes it into the pod's `/tmp`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, ValidationInfo, field_validator

from rackrate.tools.base import (
    EXTREMES_AND_MEAN,
    LOG_BYTES,
    LOSS_RATIO,
    REQUESTS,
    SECONDS,
    Detail,
    LatencyTest,
    Measurement,
    Metric,
    ParseError,
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

#: After so long a query is lost (`-t`). It is the time after which glibc's resolver asks again
#: (resolv.conf(5), `timeout`).
LOST_SECONDS = 5
#: A query's line at a rate, without its name.
_LINE_BYTES = len("> NOERROR  AAAA 0.000000\n")
_MOST_OUTSTANDING = 65_536
_QUERIES = "/tmp/queries"
#: Writes the queries, finds the name server, and becomes dnsperf. The shell reads none of the
#: arguments.
_ASK = (
    f'printf "%s" "$0" > {_QUERIES};'
    ' while read -r key server _; do [ "$key" = nameserver ] && break; done < /etc/resolv.conf;'
    ' exec "$@" -s "$server"'
)

_VERSION = re.compile(r"^Version (\d[0-9.]{0,20})$", re.MULTILINE)
_COMMAND = re.compile(r"^\[Status\] Command line: (.{1,400}) -s (\S{1,253})$", re.MULTILINE)
_ANSWER = re.compile(r"^> ([A-Z0-9]{1,20}) (\S{1,253}) A(?:AAA)? (\d{1,4}\.\d{6})$", re.ASCII)
_LOST = re.compile(r"^> T (\S{1,253}) A(?:AAA)?$")
_END = "[Status] Testing complete (time limit)"
_COUNT = re.compile(r"^  Queries (sent|completed|lost): +(\d{1,12})(?: |$)", re.MULTILINE)
_CODES = re.compile(r"^  Response codes: {7}(.*)$", re.MULTILINE)
_CODE = re.compile(r"([A-Z0-9]{1,20}) (\d{1,12}) \(\d{1,3}\.\d\d%\)")
_RUN_TIME = re.compile(r"^  Run time \(s\): {9}(\d{1,6}\.\d{6})$", re.MULTILINE)
_RATE = re.compile(r"^  Queries per second:   (\d{1,12}\.\d{6})$", re.MULTILINE)
_TIMES = re.compile(
    r"^  Average Latency \(s\):  (\d{1,4}\.\d{6}) \(min (\d{1,4}\.\d{6}), max (\d{1,4}\.\d{6})\)$",
    re.MULTILINE,
)
#: The last line, of two responses or more.
_DEVIATION = re.compile(r"^  Latency StdDev \(s\):   \d{1,4}\.\d{6}$", re.MULTILINE)
_NO_SERVER = re.compile(r"^invalid server address ?$", re.MULTILINE)
_COMPLAINT = re.compile(
    r"^(?:Error: |Warning: |dnsperf: |sh: |(?=invalid ))(.{1,200})$", re.MULTILINE
)

Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9_]([-a-z0-9_.]*[a-z0-9_.])?$",
        max_length=253,
        examples=["kube-dns.kube-system.svc.cluster.local"],
    ),
]


class Test(TimedTest, LatencyTest):
    """A test of the cluster's DNS; its values are times at a rate, or the highest rate."""

    latency: ClassVar[str] = "of the time from query to response"
    latency_step: ClassVar[float] = 1e-6

    programs: ClassVar[Mapping[str, str]] = {"dnsperf": "dnsperf", "sh": "dash"}
    details: ClassVar[tuple[Detail, ...]] = (
        SECONDS,
        *REQUESTS,
        LOSS_RATIO,
        *EXTREMES_AND_MEAN,
        Detail("dns_server", str, "address of the name server that was asked"),
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "dns": {"queries_per_second": 1000},
        "dns-rate": {"queries_per_second": None},
    }
    through_service: ClassVar[bool] = False  # it always goes through that of the cluster's DNS
    to_endpoint: ClassVar[bool] = False
    uses_cluster_dns: ClassVar[bool] = True

    tool: Literal["dnsperf"] = "dnsperf"
    seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long the test sends (`-l`)."""
    names: Annotated[tuple[Name, ...], Field(strict=False, min_length=1, max_length=100)] = (
        "kubernetes.default.svc.cluster.local",
    )
    """Full names whose addresses it looks up, in turn."""
    queries_per_second: Annotated[int | None, Field(ge=1, le=50_000, validate_default=True)] = 1000
    """Rate of the queries (`-Q`). `null`: as many as are answered."""
    outstanding: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Without a rate, how many queries are unanswered at a time (`-q`)."""
    sockets: Annotated[int, Field(ge=1, le=256)] = 16
    """Number of sockets that take turns (`-c`). All queries of one have the same source port."""

    @property
    def title(self) -> str:
        """Queries with their rate."""
        rate = self.queries_per_second
        return (
            "DNS queries, as fast as possible" if rate is None else f"DNS queries, {rate} a second"
        )

    @field_validator("queries_per_second")
    @classmethod
    def _neither_too_many_nor_too_few(cls, value: int | None, info: ValidationInfo) -> int | None:
        if not {"percentiles", "seconds", "names"} <= info.data.keys():
            return value  # the other fields have errors of their own
        if value is None:
            if info.data["percentiles"] not in ((), ("p99",)):
                raise refusal(
                    "cannot be null with percentiles, because only a rate has raw values",
                    "set a rate, or remove percentiles",
                )
            return value
        most = LOG_BYTES // (_LINE_BYTES + max(map(len, info.data["names"])))
        require_values(value * info.data["seconds"], "queries", most, info)
        return value

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The client's command line. The cluster's DNS answers, and not a server of the run."""
        kind = "AAAA" if ":" in server else "A"
        queries = "".join(f"{name} {kind}\n" for name in self.names)
        return ["sh", "-c", _ASK, queries, *self.command]

    @property
    def command(self) -> list[str]:
        """dnsperf's own command line without the name server."""
        rate = self.queries_per_second
        if rate is None:
            pace = ["-q", str(self.outstanding)]
        else:
            # So many that a rate never waits for responses.
            pace = ["-v", "-Q", str(rate), "-q", str(min(rate * LOST_SECONDS, _MOST_OUTSTANDING))]
        return [
            *("dnsperf", "-d", _QUERIES, "-l", str(self.seconds), "-t", str(LOST_SECONDS)),
            *("-c", str(self.sockets), *pace),
        ]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The median and the percentiles of the raw values, or the highest rate."""
        if self.queries_per_second is not None:
            return super().metrics
        step = 1 / self.seconds
        return (Metric("lookup_rate", "lookups/s", "higher", "mean", step=step),)

    @property
    def server(self) -> None:
        """None, because the cluster's DNS answers."""

    def warm_up(self) -> Self:
        """One second, with enough queries for a median."""
        rate = self.queries_per_second
        if rate is not None:
            rate = max(least_values(()), min(rate, 1000))
        shorter = {"seconds": 1, "queries_per_second": rate, "percentiles": ()}
        return self.model_copy(update=shorter)


def parse(text: str, test: Test) -> Measurement:
    """Parse the summary and, at a rate, each query's line.

    Raises:
        ParseError: the output is truncated, from another program or of another test, the
            test ended early, no query was answered, a response is an error, the rate was not kept,
            or the lines and the summary contradict each other.
    """
    version, command = _VERSION.search(text), _COMMAND.search(text)
    if version is None or command is None:
        raise ParseError(_complaint(text) or without_summary("dnsperf", text))
    if command[1] != " ".join(test.command):
        raise ParseError("dnsperf's output is of another test: its arguments differ")
    lines, end, last_lines = text.partition(f"\n{_END}\n")
    if not end:
        if "[Status] Testing complete (interruption)" in text:
            raise ParseError("dnsperf was interrupted")
        raise ParseError(_complaint(text) or without_summary("dnsperf", text))
    counts = {name: int(number) for name, number in _COUNT.findall(last_lines)}
    if counts.keys() != {"sent", "completed", "lost"}:
        raise ParseError("dnsperf's summary is truncated or garbled")
    sent, answered, lost = counts["sent"], counts["completed"], counts["lost"]
    if sent != answered + lost:
        raise ParseError("dnsperf: its queries and its responses do not match")
    if not answered:
        raise ParseError(
            _complaint(text)
            or f"dnsperf: none of {sent} queries to {command[2]} was answered: see that CoreDNS "
            "runs and that no network policy keeps pods from it"
        )
    summary = _summary(last_lines, answered)
    test.require_time("dnsperf", summary.seconds)
    samples: list[float] = []
    if test.queries_per_second is not None:
        planned = test.queries_per_second * summary.seconds
        require_rate("dnsperf", sent, planned, "queries", "lower queries_per_second")
        times = _times(lines, test)
        _require_same(times, summary, sent, answered)
        samples = [LOST_SECONDS * 1.0 if each is None else each for each in times]
    if (summary.least if samples else summary.most) == 0:
        raise ParseError("dnsperf printed a time of zero, which is below its resolution")
    return Measurement(
        test.values_of(sorted(samples)) if samples else {"lookup_rate": summary.rate},
        {"latency": tuple(samples)} if samples else {},
        details={
            "seconds": summary.seconds,
            "requests": answered,
            "requests_per_second": summary.rate,
            "loss_ratio": lost / sent,
            **extremes_and_mean(summary.least, summary.mean, summary.most),
            "dns_server": command[2],
        },
        version=f"dnsperf {version[1]}",
    )


class _Summary(NamedTuple):
    """The summary's figures of the responses: the test's time, responses a second, their times."""

    seconds: float
    rate: float
    mean: float
    least: float
    most: float


def _summary(lines: str, answered: int) -> _Summary:
    """The summary, whose figures agree with each other and with the number of responses."""
    matches = [each.search(lines) for each in (_CODES, _RUN_TIME, _RATE, _TIMES, _DEVIATION)]
    if None in matches:
        raise ParseError("dnsperf's summary is truncated or garbled")
    codes, run_time, rate, times, _ = (each for each in matches if each is not None)
    summary = _Summary(float(run_time[1]), float(rate[1]), *map(float, times.groups()))
    _require_answers(codes[1], answered)
    if abs(summary.rate * summary.seconds - answered) > 1:
        raise ParseError("dnsperf: the rate is not that of the responses and seconds beside it")
    if not summary.least <= summary.mean <= summary.most:
        raise ParseError("dnsperf: the times of the responses contradict each other")
    return summary


def _require_same(
    times: Sequence[float | None], summary: _Summary, sent: int, answered: int
) -> None:
    """Check each query's time against the summary. dnsperf cuts a mean to a microsecond."""
    known = [each for each in times if each is not None]
    if len(known) != answered or len(times) != sent:
        raise ParseError(
            f"dnsperf's summary tells of {answered} responses to {sent} queries, but its lines "
            f"of {len(known)} to {len(times)}"
        )
    printed = (summary.least, summary.most, summary.mean)
    require_same("dnsperf", "lines", known, printed, within=1.01e-6)


def _times(lines: str, test: Test) -> list[float | None]:
    """Each query's time in seconds; None for one that was lost."""
    times: list[float | None] = []
    for line in lines.split("\n"):
        if match := _ANSWER.match(line):
            name, seconds = match[2], float(match[3])
        elif lost := _LOST.match(line):
            name, seconds = lost[1], None
        elif line.startswith(">"):
            raise ParseError("dnsperf's lines of queries are truncated or garbled")
        else:
            continue
        if name not in test.names:
            raise ParseError(f"dnsperf's output is of another test: it asks for {name}")
        times.append(seconds)
    return times


def _require_answers(codes: str, answered: int) -> None:
    """Check that all responses are answers, and no errors of DNS."""
    numbers = Counter({code: int(number) for code, number in _CODE.findall(codes)})
    if numbers.total() != answered:
        raise ParseError("dnsperf: its response codes do not add up to its responses")
    if errors := {code: number for code, number in numbers.items() if code != "NOERROR"}:
        listed = ", ".join(f"{code} {number}" for code, number in sorted(errors.items()))
        remedy = ": name full names that exist" if "NXDOMAIN" in errors else ""
        raise ParseError(f"dnsperf: of {answered} responses some are errors ({listed}){remedy}")


def _complaint(text: str) -> str | None:
    if _NO_SERVER.search(text):
        return "dnsperf: the pod has no name server in its /etc/resolv.conf"
    return complaint("dnsperf", _COMPLAINT, text)
