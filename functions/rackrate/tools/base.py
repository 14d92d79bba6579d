"""The base classes of the tools."""

from __future__ import annotations

import math
import re
import statistics
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from rackrate.histograms import Histogram
from rackrate_contract.verdicts import Better
from rackrate_text.units import quantity, unit_of

#: Containers are named after their tests, so a test's name has to be a DNS label.
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


#: The most bytes that a tool's output may take in a container's log. The kubelet rotates the log at
#: 10 MiB (containerLogMaxSize), and rotated output is lost. Each line takes about 40 bytes more in
#: the log than the tool printed.
LOG_BYTES = 8_000_000

#: More than any network carries or counts.
MOST = 1e18  # an exabit or an exabyte
#: More values of a kind than a log has room for, more intervals than an hour has seconds, and more
#: characters than a name or a version has, come from no tool.
_MOST_VALUES, _MOST_INTERVALS, _MOST_CHARACTERS = 100_000, 10_000, 253


#: So much of a program's own words is part of a message.
SHORT_REASON = 300
#: The share of a rate that a client may miss.
_MISSING = 0.1
_USAGE = re.compile(r"^(?:\S+ ){0,2}usage\b", re.MULTILINE | re.IGNORECASE)


class ParseError(ValueError):
    """A tool's output has no complete measurement; the message says why."""


def complaint(program: str, pattern: re.Pattern[str], text: str) -> str | None:
    """What a program says is wrong, after its name; None if it says nothing.

    Args:
        program: the program; empty if its words contain its name.
        pattern: a complaint; its group, or all of it if there is none, has the program's words.
        text: the output.
    """
    if (match := pattern.search(text)) is None:
        return None
    words = match[match.lastindex or 0].strip()[:SHORT_REASON]
    return f"{program}: {words}" if program else words


def without_summary(tool: str, text: str) -> str:
    """Why output has no summary, if the tool gives no reason that its parser knows."""
    if _USAGE.search(text):
        return f"{tool} does not know one of its arguments: it printed its usage"
    last = text.rstrip().rpartition("\n")[2].strip()
    return f"{tool}'s output is truncated: it has no summary and ends with {last!r:.100}"


def require_rate(
    tool: str, sent: float, planned: float, counted: str, remedy: str, *, beyond: float = 1.0
) -> None:
    """Check that a client kept its rate. What it did not send is in none of its figures.

    Args:
        tool: the program.
        sent: how much it sent.
        planned: how much the rate makes in the time of the test.
        counted: what is counted, such as `requests`.
        remedy: what to change in the plan.
        beyond: the share of values beyond the highest percentile. A tenth of these may be missing.

    Raises:
        ParseError: it sent too little, or more than one percent too much.
    """
    if not planned * (1 - _MISSING * beyond) - 1 <= sent <= planned * 1.01 + 1:
        raise ParseError(
            f"{tool} did not keep the rate: it sent {sent:.0f} {counted} instead of {planned:.0f};"
            f" {remedy}"
        )


def require_same(
    tool: str, log: str, times: Sequence[float], printed: tuple[float, float, float], within: float
) -> None:
    """See that a summary is that of the times in a log.

    Args:
        tool: the tool.
        log: what the times are in.
        times: the times; at least one.
        printed: the shortest, the longest and the mean time of the summary.
        within: how far they may differ.

    Raises:
        ParseError: they differ more.
    """
    figures = {"shortest": min(times), "longest": max(times), "mean": statistics.fmean(times)}
    for (what, seconds), figure in zip(figures.items(), printed, strict=True):
        if not abs(seconds - figure) <= within:
            raise ParseError(f"{tool}'s summary and its {log} do not agree on the {what} time")


def refusal(problem: str, remedy: str) -> PydanticCustomError:
    """The error of a field that conflicts with other fields.

    Args:
        problem: what is wrong with the field's value, as a phrase that follows the field's name.
        remedy: what to do about it; also in the error's context as `remedy`.
    """
    return PydanticCustomError(
        "rule", "{problem}; {remedy}", {"problem": problem, "remedy": remedy}
    )


def require_values(
    values: float,
    what: str,
    most: int,
    info: ValidationInfo,
    *,
    used: float | None = None,
    fewer: str = "lower it or seconds",
    more: str = "raise it or seconds",
) -> None:
    """Check that the raw values of a trial fit into a log and suffice for its percentiles.

    Args:
        values: how many a trial prints.
        what: what they are, such as `requests`.
        most: how many a container's log may hold.
        info: the validation of the last of the fields that decide it, with `seconds` and
            `percentiles` before it.
        used: how many of them count, if not all.
        fewer: the remedy for too many.
        more: the remedy for too few.
    """
    trial = f"{what} with seconds {info.data['seconds']}"
    if values > most:
        raise refusal(
            f"makes {values:.0f} {trial}, more than the {most} that a container's log may hold",
            fewer,
        )
    percentiles = info.data["percentiles"]
    used = values if used is None else used
    if used < (least := least_values(percentiles, info.context)):
        raise refusal(
            f"leaves {used:.0f} {trial}, too few for {', '.join(percentiles) or 'a median'}, which"
            f" takes {least}",
            more,
        )


def interval_seconds(seconds: int, streams: int, *, bytes_per_interval: int) -> int:
    """The reporting interval of a tool: one second, or more if the log would be too long.

    Args:
        seconds: the test's duration.
        streams: number of streams in each report.
        bytes_per_interval: size of one stream's report in a container's log.
    """
    return max(1, math.ceil(seconds * streams * bytes_per_interval / LOG_BYTES))


@dataclass(frozen=True)
class Metric:
    """A quantity that a test measures.

    Attributes:
        name: `throughput`, `rtt`, `latency`, `latency_p99`, ...
        unit: `bit/s`, `s`, another of `rackrate_text.units.UNITS`, or a count per second, such as
            `transactions/s`.
        better: the direction that is better.
        statistic: how a trial's value is computed, in words: `receiver's mean`, `median`.
        step: the distance of two neighboring values that the tool can tell, in the unit.
        digits: the significant digits that the tool prints, if its steps grow with the value; None
            if they do not.
        samples: the key of the raw values for pooled percentiles in `Measurement.samples`, or of
            their histogram in `Measurement.histograms`; None when there are none.
        share: of a percentile the share of the raw values up to it; None for other metrics.

    Raises:
        ValueError: there is no such unit, or the step is not positive.
    """

    name: str
    unit: str
    better: Better
    statistic: str
    step: float
    digits: int | None = None
    samples: str | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        unit_of(self.unit)
        if not 0 < self.step < math.inf:
            raise ValueError(f"the step of {self.name} is {self.step}, which is no distance")

    def resolution_at(self, value: float) -> float:
        """The distance from a positive value to the next one that the tool can tell, in the unit.

        A smaller difference between two values is a matter of rounding.
        """
        if self.digits is None:
            return self.step
        last_digit: float = 10.0 ** (math.floor(math.log10(value)) + 1 - self.digits)
        return max(self.step, last_digit)

    def require_positive(self, value: float) -> None:
        """Check the value of a trial, of which a ratio has to be computed.

        Raises:
            ParseError: the value is zero, or no number.
        """
        if 0 < value < math.inf:
            return
        if value != 0:
            raise ParseError(f"{self.name} is {value}, which no measurement can be")
        if self.better == "higher":
            raise ParseError(f"nothing was transferred: {self.name} is zero")
        least = quantity(self.step, self.unit)
        raise ParseError(f"{self.name} is zero, which is below the tool's resolution of {least}")


def throughput(statistic: str, step: float) -> Metric:
    """The rate of a test that sends as much as it can, and the distance between its values."""
    return Metric("throughput", "bit/s", "higher", statistic, step)


@dataclass(frozen=True)
class Throughput:
    """The traffic of a throughput test.

    Attributes:
        flows: number of flows (5-tuples) in each direction.
        forward: whether the client sends to the server.
        reverse: whether the server sends to the client.
        offered_bits_per_second: the test's own rate limit in each direction, summed over the flows;
            None for as fast as possible.
    """

    flows: int
    forward: bool = True
    reverse: bool = False
    offered_bits_per_second: float | None = None

    @property
    def directions(self) -> int:
        """The number of directions in which it sends at the same time."""
        return int(self.forward) + int(self.reverse)


@dataclass(frozen=True, order=True)
class Port:
    """A port that a server listens on."""

    number: int
    protocol: Literal["TCP", "UDP"] = "TCP"


@dataclass(frozen=True)
class Server:
    """The server that a test needs on the other node.

    Attributes:
        name: the container's name; tests with the same server share it.
        argv: the command line, which runs without a shell. Its program may differ from the
            client's.
        ports: the ports that clients connect to. The first one is open when the server is ready;
            others may open during a test.
    """

    name: str
    argv: tuple[str, ...]
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Detail:
    """A figure that a tool reports besides its metrics, and its column in the tables of trials.

    Attributes:
        name: its key in `Measurement.details`, which includes the unit of a quantity.
        kind: the type of its values.
        text: its description for people.
        column: its column's name, where `name` alone would be unclear.
    """

    name: str
    kind: type[int] | type[float] | type[str]
    text: str
    column: str = ""

    @property
    def column_name(self) -> str:
        """The name of its column."""
        return self.column or self.name


# Details of several tools. A column has the same meaning for all tools.
SECONDS = Detail("seconds", float, "how long the tool measured")
SENT_BYTES = Detail("sent_bytes", int, "bytes sent")
RECEIVED_BYTES = Detail("received_bytes", int, "bytes received")
RETRANSMITS = Detail("retransmits", int, "segments retransmitted")
CONGESTION_WINDOWS = (
    Detail("congestion_window_mean_bytes", float, "mean of the intervals' congestion windows"),
    Detail("congestion_window_max_bytes", int, "largest congestion window of an interval"),
)
REQUESTS = (
    Detail("requests", int, "requests answered"),
    Detail("requests_per_second", float, "rate of the answered requests"),
)
LOSS_RATIO = Detail("loss_ratio", float, "share of lost packets, messages or connections")
EXTREMES_AND_MEAN = (
    Detail("min_seconds", float, "shortest round trip or latency"),
    Detail("mean_seconds", float, "mean round trip or latency"),
    Detail("max_seconds", float, "longest round trip or latency"),
)

MEMBERS_CPU = (
    Detail(
        "members_cpu_percent",
        float,
        "CPU time of the workload's members, mean over the members; 100 % is one CPU",
    ),
    Detail(
        "busiest_member_cpu_percent",
        float,
        "CPU time of the member that used most; 100 % is one CPU",
    ),
)


@dataclass(frozen=True)
class Interval:
    """One interval of a trial's series, summed over all streams.

    Attributes:
        start_seconds, end_seconds: time since the start of the first interval that counts.
        bits_per_second: rate that the client counted; the sum of both directions if bidirectional.
        retransmits: retransmitted segments, if the client is the sender and reports them.
        congestion_window_bytes: congestion window at the interval's end, summed over the streams.
    """

    start_seconds: float
    end_seconds: float
    bits_per_second: float
    retransmits: int | None = None
    congestion_window_bytes: int | None = None

    @property
    def numbers(self) -> tuple[float, ...]:
        """All its known numbers."""
        return tuple(number for number in astuple(self) if number is not None)


@dataclass(frozen=True)
class Measurement:
    """The measurement of one trial.

    Attributes:
        values: the trial's value of each metric of its test, in the metric's unit.
        samples: raw values by kind, in SI units, e.g. {"rtt": (0.0001, ...)}; empty if none.
        histograms: histograms of raw values by kind, in SI units, of tools that print no single
            values.
        series: the trial's rate and TCP state in each interval.
        details: further figures, with their units in their names.
        version: the tool's version, if its output has it.

    Raises:
        ParseError: a number is not finite, negative, or larger than any network allows, there are
            too many values, or intervals are out of order.
    """

    values: Mapping[str, float]
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    series: tuple[Interval, ...] = ()
    details: Mapping[str, float | int | str] = field(default_factory=dict)
    version: str | None = None

    def __post_init__(self) -> None:
        for name, number in (
            *self.values.items(),
            *((name, number) for name, numbers in self.samples.items() for number in numbers),
            *((name, number) for name, each in self.histograms.items() for number in each.values),
            *((name, value) for name, value in self.details.items() if not isinstance(value, str)),
            *(("an interval", number) for each in self.series for number in each.numbers),
        ):
            if not 0 <= number <= MOST:
                raise ParseError(f"{name} is {number}, which no measurement can be")
        if max(map(len, self.samples.values()), default=0) > _MOST_VALUES:
            raise ParseError("there are more values than a log has room for")
        if len(self.series) > _MOST_INTERVALS:
            raise ParseError(f"there are {len(self.series)} intervals, more than any test reports")
        texts = [self.version, *(each for each in self.details.values() if isinstance(each, str))]
        if max(len(each or "") for each in texts) > _MOST_CHARACTERS:
            raise ParseError("a name or a version is too long to be one")
        reached = 0.0
        for each in self.series:
            if not reached <= each.start_seconds < each.end_seconds:
                raise ParseError(f"the interval from {each.start_seconds} s is out of order")
            reached = each.end_seconds


#: The percentiles of raw values that may be metrics, and the share of the values up to each.
PERCENTILES = {"p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
PercentileName = Literal["p90", "p95", "p99", "p99.9"]
#: So many values have to be expected beyond a percentile; so many are needed for a median. With
#: fewer, a block has or has not a burst beyond its percentile, and six blocks tell too little.
_BEYOND, _FOR_A_MEDIAN = 5, 20


def least_for(share: float) -> int:
    """The fewest raw values for a verdict or an interval of the percentile above this share."""
    return round(_BEYOND / (1 - share))


#: The validation context of a test from a stored plan, which was valid when its run began.
STORED = "stored"


def least_values(percentiles: Sequence[PercentileName], context: str | None = None) -> int:
    """The fewest raw values that a trial needs for a median and these percentiles.

    A stored test needs none: its plan must stay readable when the rule changes, and its verdicts
    have no interval if its values are too few.
    """
    if context == STORED:
        return 0
    return max([_FOR_A_MEDIAN, *(least_for(PERCENTILES[name]) for name in percentiles)])


def nearest_rank(ordered: Sequence[float], quantile: float) -> float:
    """The smallest value that is not below a share of the values.

    Args:
        ordered: the values, sorted; at least one.
        quantile: the share, above 0 and at most 1.
    """
    return ordered[max(0, math.ceil(quantile * len(ordered)) - 1)]


def sum_if_known[Number: (int, float)](numbers: Iterable[Number | None]) -> Number | None:
    """The sum, or None if a number is unknown."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


def extremes_and_mean(least: float, mean: float, most: float) -> dict[str, float]:
    """The details `EXTREMES_AND_MEAN`, in seconds."""
    return {"min_seconds": least, "mean_seconds": mean, "max_seconds": most}


def congestion_windows(series: Sequence[Interval]) -> dict[str, float]:
    """The details `CONGESTION_WINDOWS` of a series; none if it has no windows."""
    windows = [each.congestion_window_bytes for each in series]
    known = [window for window in windows if window is not None]
    if not known:
        return {}
    return {
        "congestion_window_mean_bytes": statistics.fmean(known),
        "congestion_window_max_bytes": max(known),
    }


def merged_remainder(series: Sequence[Interval]) -> tuple[Interval, ...]:
    """The series, with a short last interval merged into the one before.

    A test ends a little after its last full interval. The traffic of that remainder, which is often
    shorter than a millisecond, would look like a sudden change of rate.
    """
    if len(series) < 2:
        return tuple(series)
    *rest, before, last = series
    full, remainder = (each.end_seconds - each.start_seconds for each in (before, last))
    if remainder >= full / 2 or full + remainder <= 0:  # out of order, which is an error later
        return tuple(series)
    bits = before.bits_per_second * full + last.bits_per_second * remainder
    retransmits = [each.retransmits for each in (before, last) if each.retransmits is not None]
    return (
        *rest,
        Interval(
            before.start_seconds,
            last.end_seconds,
            bits / (full + remainder),
            sum(retransmits) if retransmits else None,
            before.congestion_window_bytes
            if last.congestion_window_bytes is None
            else last.congestion_window_bytes,
        ),
    )


class TestBase(BaseModel, ABC):
    """A test: a tool with its parameters. Subclasses add the parameters."""

    __test__: ClassVar[bool] = False  # pytest would take the name for a test case
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,  # docs/plan.md is generated from them
    )

    #: The programs that the test and its server start, each with its Debian package, or with the
    #: path of its Go module, which has a slash, or with its crate: `crate:latte-cli`.
    programs: ClassVar[Mapping[str, str]]
    #: The details that a measurement may have besides the metrics, as `parse` reads them.
    details: ClassVar[tuple[Detail, ...]] = ()
    #: Whether its programs are so large that an image for other tests is made without them.
    large: ClassVar[bool] = False
    #: Predefined tests, which a plan may name, and their options.
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    #: A sentence on the versions of the tool with one thread for all streams, and a remedy; None if
    #: no version has that.
    one_thread: ClassVar[tuple[str, str] | None] = None
    #: How long its program takes beyond the time in which it sends, in seconds.
    ending_seconds: ClassVar[float] = 0.15
    #: Whether the load comes from the stack's load nodes, where it has them.
    uses_load_nodes: ClassVar[bool] = False
    #: Whether the test can reach its server through a Service. ICMP cannot.
    through_service: ClassVar[bool] = True
    #: Whether the test can measure against an endpoint outside the cluster.
    to_endpoint: ClassVar[bool] = True
    #: Whether its pods look up names by the cluster's DNS.
    uses_cluster_dns: ClassVar[bool] = False
    #: Why the tool does not measure between IPv6 addresses, as what follows its name, and a remedy;
    #: None if it does. A tool is said to do so once it has run in an IPv6 cluster
    #: (tests/lab/test_ipv6.py). Its server listens on both families with the same command line.
    no_ipv6: ClassVar[tuple[str, str] | None] = None
    #: The nodes' architectures (`kubernetes.io/arch`) on which the tool does not measure what the
    #: test says, each with the reason and a remedy.
    no_architecture: ClassVar[Mapping[str, tuple[str, str]]] = {}
    #: Kernel settings that the tool needs in the pod's own network namespace.
    sysctls: ClassVar[Mapping[str, str]] = {}

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=40, examples=["tcp-4"])]
    """The test's name in this run and its results."""
    tool: str
    """The tool that measures. Optional if the name is in the catalogue."""

    @property
    def title(self) -> str:
        """The test in words that follow from its parameters, such as `8 flows`."""
        sent = self.throughput
        if sent is None:
            return self.tool
        rate = sent.offered_bits_per_second
        flows = "one flow" if sent.flows == 1 else f"{sent.flows} flows"
        flows += "" if sent.forward else " from the server"
        return f"{flows} at {quantity(rate, 'bit/s')}" if rate else flows

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """What the test measures; the first is the primary one."""

    @property
    def primary(self) -> Metric:
        """The test's primary metric, which `value` of a trial refers to."""
        return self.metrics[0]

    @abstractmethod
    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The client's command line; no shell interprets it.

        Args:
            server: the server's IP address.
            port: the port of an endpoint's server, if it is not that of `server`.
        """

    @property
    @abstractmethod
    def server(self) -> Server | None:
        """The server on the other node; None if the kernel there replies."""

    @property
    @abstractmethod
    def expected_seconds(self) -> float:
        """How long the test sends traffic, in seconds."""

    @classmethod
    def all_details(cls) -> tuple[Detail, ...]:
        """The details that a trial may have, also those that its tool does not report."""
        return cls.details

    @property
    def member_count(self) -> int | None:
        """The number of a workload's members, to each of which its rates refer; None for a tool."""
        return None

    @property
    def throughput(self) -> Throughput | None:
        """The traffic of a throughput test; None for other tests."""
        return None

    def threads(self, version: str | None) -> int:
        """The number of threads that move data at each end; the maximum for an unknown version.

        Args:
            version: the version as the tool prints it, such as `iperf 3.12`.
        """
        sent = self.throughput
        return 1 if sent is None else sent.flows * sent.directions

    @abstractmethod
    def warm_up(self) -> Self:
        """The same test with the same name, shortened to about a second."""


class TimedTest(TestBase):
    """A test that measures for a time that its plan gives."""

    if TYPE_CHECKING:
        # Each tool has the field; here it would precede those that its validators read.
        seconds: int

    @property
    def expected_seconds(self) -> float:
        """How long the test sends traffic, in seconds."""
        return float(self.seconds)

    def require_time(self, program: str, seconds: float) -> None:
        """Raise ParseError if a program measured less than nine tenths of the time."""
        if not seconds >= self.seconds * 0.9:
            raise ParseError(f"{program}: the test ended after {seconds:.1f} s of {self.seconds} s")

    def warm_up(self) -> Self:
        """The same for one second."""
        return self.model_copy(update={"seconds": 1})


class LatencyTest(TestBase):
    """A test with many raw values of one kind, `latency`, in each trial.

    Its metrics are their median, `latency`, and percentiles, such as `latency_p99`.
    """

    #: What a raw value is, as a phrase.
    latency: ClassVar[str]
    #: The smallest difference between two raw values, in seconds.
    latency_step: ClassVar[float]
    #: The significant digits of a raw value, if its steps grow with it.
    latency_digits: ClassVar[int | None] = None

    percentiles: Annotated[
        tuple[PercentileName, ...], Field(strict=False, max_length=len(PERCENTILES))
    ] = ("p99",)
    """Percentiles that are metrics besides the median: `p90`, `p95`, `p99`, `p99.9`. Each needs
    enough raw values in a trial: five beyond it, such as 500 for `p99`."""

    @field_validator("percentiles")
    @classmethod
    def _each_once(cls, value: tuple[PercentileName, ...]) -> tuple[PercentileName, ...]:
        if len(set(value)) < len(value):
            raise refusal("names a percentile twice", "name each once")
        return value

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The median and the percentiles of the raw values."""
        named = {"latency": "median"} | {
            metric: f"{name.removeprefix('p')}th percentile"
            for metric, name in self.percentile_metrics.items()
        }
        return tuple(
            Metric(
                *(name, "s", "lower", f"{which} {self.latency}"),
                step=self.latency_step,
                digits=self.latency_digits,
                samples="latency",
                share=PERCENTILES[self.percentile_metrics[name]] if name != "latency" else None,
            )
            for name, which in named.items()
        )

    @property
    def percentile_metrics(self) -> dict[str, PercentileName]:
        """The percentiles that are metrics, by the metric's name."""
        return {f"latency_{name.replace('.', '_')}": name for name in self.percentiles}

    def values_of(self, ordered: Sequence[float]) -> dict[str, float]:
        """The metrics' values in the unit of the raw values: the median, and each percentile.

        Args:
            ordered: the raw values in any unit, sorted; at least one.
        """
        return {"latency": statistics.median(ordered)} | {
            metric: nearest_rank(ordered, PERCENTILES[name])
            for metric, name in self.percentile_metrics.items()
        }
