"""What every tool has in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from rackrate_text.units import unit_of

#: A container is named after its test, so a test's name is a DNS label.
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


#: A container's log is rotated at 10 MiB (kubelet's containerLogMaxSize), and what was rotated away
#: is lost. A line costs some 40 bytes more there than the tool printed. Lines are bounded so that
#: even then a log is not full.
LOG_BYTES = 8_000_000

_MOST = 1e18  # an exabit or an exabyte


class ParseError(ValueError):
    """A tool's output holds no complete measurement; the message says why."""


def refusal(problem: str, remedy: str) -> PydanticCustomError:
    """The error of a field that does not go with the others.

    Args:
        problem: what is wrong with the field's value, continuing the field's name.
        remedy: what to do about it; also in the error's context as `remedy`.
    """
    return PydanticCustomError(
        "rule", "{problem}; {remedy}", {"problem": problem, "remedy": remedy}
    )


def interval_seconds(seconds: int, streams: int, *, bytes_per_interval: int) -> int:
    """How often a tool should report: each second, or less often if the log would be too long.

    Args:
        seconds: the test's duration.
        streams: how many streams are reported each time.
        bytes_per_interval: what the report of one stream takes in a container's log.
    """
    return max(1, math.ceil(seconds * streams * bytes_per_interval / LOG_BYTES))


#: Which way of a metric is better.
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Metric:
    """A quantity that a test measures.

    Attributes:
        name: `throughput`, `rtt`, `latency`, `latency_p99`, ...
        unit: `bit/s`, `s`, another of `rackrate_text.units.UNITS`, or things per second, such as
            `transactions/s`.
        better: which way is better.
        statistic: how a trial's value comes about, for people: `receiver's mean`, `median`.
        samples: the key in `Measurement.samples` of the raw values that percentiles may be pooled
            from; None when there are none.

    Raises:
        ValueError: there is no such unit.
    """

    name: str
    unit: str
    better: Better
    statistic: str
    samples: str | None = None

    def __post_init__(self) -> None:
        unit_of(self.unit)


@dataclass(frozen=True)
class Throughput:
    """What a test of throughput sends.

    Attributes:
        flows: how many flows (5-tuples) carry it in each direction.
        forward: does the client send to the server?
        reverse: does the server send to the client?
        offered_bits_per_second: the rate it limits itself to in each direction, all flows together;
            None: as fast as it can.
    """

    flows: int
    forward: bool = True
    reverse: bool = False
    offered_bits_per_second: float | None = None

    @property
    def directions(self) -> int:
        """In how many directions it sends at a time."""
        return int(self.forward) + int(self.reverse)


@dataclass(frozen=True, order=True)
class Port:
    """A port that a server listens on."""

    number: int
    protocol: Literal["TCP", "UDP"] = "TCP"


@dataclass(frozen=True)
class Server:
    """What must listen on the other side of a test.

    Attributes:
        name: names the container; tests with the same server share it.
        argv: the command line; no shell reads it. The program need not be the client's.
        ports: the ports that clients connect to.
    """

    name: str
    argv: tuple[str, ...]
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Detail:
    """A figure that a tool tells beyond its metrics, and its column in the tables of trials.

    Attributes:
        name: its key in `Measurement.details`; the unit of a quantity is in it.
        kind: what its values are.
        text: what it is, for people.
        column: its column, where the name by itself would not say what is counted.
    """

    name: str
    kind: type[int] | type[float] | type[str]
    text: str
    column: str = ""

    @property
    def column_name(self) -> str:
        """The column it is in."""
        return self.column or self.name


# What several tools tell; a column means the same whichever tool filled it.
SECONDS = Detail("seconds", float, "how long the tool measured")
SENT_BYTES = Detail("sent_bytes", int, "bytes sent")
RETRANSMITS = Detail("retransmits", int, "segments sent again")
CONGESTION_WINDOWS = (
    Detail("congestion_window_mean_bytes", float, "mean of the intervals' congestion windows"),
    Detail("congestion_window_max_bytes", int, "the largest of them"),
)
LOSS_RATIO = Detail("loss_ratio", float, "share of packets or messages lost")
EXTREMES_AND_MEAN = (
    Detail("min_seconds", float, "the shortest round trip or latency"),
    Detail("mean_seconds", float, "their mean"),
    Detail("max_seconds", float, "the longest of them"),
)


@dataclass(frozen=True)
class Interval:
    """One interval of a trial's series, of all streams together.

    Attributes:
        start_seconds, end_seconds: since the first interval that counts began.
        bits_per_second: what the client counted; of a bidirectional test both directions.
        retransmits: segments sent again, where the client is the sender and knows.
        congestion_window_bytes: at the interval's end, summed over the streams.
    """

    start_seconds: float
    end_seconds: float
    bits_per_second: float
    retransmits: int | None = None
    congestion_window_bytes: int | None = None

    @property
    def numbers(self) -> tuple[float, ...]:
        """All its numbers that are known."""
        known = (
            self.start_seconds,
            self.end_seconds,
            self.bits_per_second,
            self.retransmits,
            self.congestion_window_bytes,
        )
        return tuple(number for number in known if number is not None)


@dataclass(frozen=True)
class Measurement:
    """What one trial measured.

    Attributes:
        values: the trial's value of each metric of its test, in the metric's unit.
        samples: raw values by kind, in SI units, e.g. {"rtt": (0.0001, ...)}; empty if none.
        series: the trial's course, interval by interval.
        details: further figures, their units in their names.
        version: the tool's own version, where its output tells.

    Raises:
        ParseError: a number that is not finite, below zero, or beyond any network, or intervals
            that are out of order.
    """

    values: Mapping[str, float]
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    series: tuple[Interval, ...] = ()
    details: Mapping[str, float | int | str] = field(default_factory=dict)
    version: str | None = None

    def __post_init__(self) -> None:
        for name, number in (
            *self.values.items(),
            *((name, number) for name, numbers in self.samples.items() for number in numbers),
            *((name, value) for name, value in self.details.items() if not isinstance(value, str)),
            *(("an interval", number) for each in self.series for number in each.numbers),
        ):
            if not 0 <= number <= _MOST:
                raise ParseError(f"{name} is {number}, which no measurement can be")
        reached = 0.0
        for each in self.series:
            if not reached <= each.start_seconds < each.end_seconds:
                raise ParseError(f"the interval from {each.start_seconds} s is out of order")
            reached = each.end_seconds


def merged_remainder(series: Sequence[Interval]) -> tuple[Interval, ...]:
    """The series with a last interval that is no more than a remainder merged into the one before.

    A test ends a little after its last full interval. What is sent in the rest of a second or so
    (often less than a millisecond) would look like a sudden change of rate.
    """
    if len(series) < 2:
        return tuple(series)
    *rest, before, last = series
    full, remainder = (each.end_seconds - each.start_seconds for each in (before, last))
    if remainder >= full / 2:
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
        use_attribute_docstrings=True,  # docs/plan.md tells what they say
    )

    #: The programs that the test and its server start, each with the Debian package that has it.
    programs: ClassVar[Mapping[str, str]]
    #: What a measurement may tell beyond the metrics.
    details: ClassVar[tuple[Detail, ...]] = ()
    #: Tests that a plan may name without saying what they are, and their options.
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    #: Which versions of the tool have one thread for all streams, and what to do about it, in
    #: words; None where no version has.
    one_thread: ClassVar[tuple[str, str] | None] = None
    #: Kernel settings of the pod's own network namespace the tool needs.
    sysctls: ClassVar[Mapping[str, str]] = {}

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=40, examples=["tcp-4"])]
    """The test's name in this run and its results."""
    tool: str
    """The tool that measures; may be left out where the name is of the catalogue."""

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """What the test measures; the first is the primary one."""

    @property
    def primary(self) -> Metric:
        """The metric that a test's value without further words is of."""
        return self.metrics[0]

    @abstractmethod
    def argv(self, server: str) -> list[str]:
        """The command line against a server's IP address; no shell reads it."""

    @property
    @abstractmethod
    def server(self) -> Server | None:
        """What must listen on the other side; None: the kernel there answers."""

    @property
    @abstractmethod
    def expected_seconds(self) -> float:
        """How long the test sends traffic."""

    @property
    def throughput(self) -> Throughput | None:
        """What it sends, if throughput is what it measures; None for a test of something else."""
        return None

    def threads(self, version: str | None) -> int:
        """How many threads move its data at each end, at most where the version is unknown.

        Args:
            version: the tool's own words on its version, such as `iperf 3.12`.
        """
        sent = self.throughput
        return 1 if sent is None else sent.flows * sent.directions

    @abstractmethod
    def warm_up(self) -> Self:
        """The same test of the same name, a second or so long."""
