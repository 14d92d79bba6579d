"""TCP or UDP throughput with iperf3, whose server serves one client at a time.

Project: [iperf3](https://software.es.net/iperf/).

- **Value**: the rate that the receiver counted (`end.sum_received.bits_per_second`). In a
  bidirectional test it is the sum of both directions; the details have each direction.
- **Resolution**: by TCP iperf3 counts blocks of 128 KiB (`--length` in its
  [manual](https://software.es.net/iperf/invoking.html)), by UDP datagrams. So a rate is known to
  one of these over the test's seconds. In the captures below, 3.9 and 3.12 also count parts of one.
- **Series**: all intervals that were not omitted. Each has the throughput that the client counted
  (in both directions if there are two). If the client is the sender, it also has retransmits and
  the congestion window summed over the streams. A last interval shorter than half an interval is
  merged into the one before.
- `--interval` is a second. It is longer if the report would exceed a container's log (10 MiB).
- `bits_per_second` is the rate of all streams together. iperf3's own argument is the share of one
  stream. A client that sends UDP at less than nine tenths of it has no value. For TCP it is a
  maximum: TCP sends less where the network takes less, and that is the value.
- **UDP**: `out_of_order_packets` is what the client received out of order, since iperf3 does not
  send the server's count back ([issue 469](https://github.com/esnet/iperf/issues/469)). Losses are
  absent where iperf3 does not know them: with `omit_seconds`, before 3.14 those of the client's
  datagrams include the omitted time, and late datagrams of that time can make more arrivals than
  were sent ([issue 412](https://github.com/esnet/iperf/issues/412)).
- **Versions**: since 3.16 each stream has its own thread. From 3.10 on the server takes
  `--rcv-timeout`. 3.9 does not report what the receiver got by UDP or in the second direction, so
  such tests are refused. Figures that iperf3 could not determine are absent.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from rackrate.tools.base import (
    CONGESTION_WINDOWS,
    LOG_BYTES,
    LOSS_RATIO,
    MOST,
    RECEIVED_BYTES,
    RETRANSMITS,
    SECONDS,
    SENT_BYTES,
    SHORT_REASON,
    Detail,
    Interval,
    Measurement,
    Metric,
    ParseError,
    Port,
    Server,
    Throughput,
    TimedTest,
    congestion_windows,
    interval_seconds,
    merged_remainder,
    refusal,
    require_rate,
    sum_if_known,
    throughput,
)

PORT = 5201
#: The size of TCP's blocks, and of UDP's datagrams at most if the path's MTU decides: that of EC2's
#: jumbo frames without the headers of IP and UDP.
BLOCK_BYTES, DATAGRAM_BYTES = 131_072, 9001 - 28
# The report of one stream in one interval: 16 lines of JSON, plus 40 bytes a line in the log.
_LOG_BYTES_PER_INTERVAL = 1300
_LONGEST_INTERVAL_SECONDS = 60  # iperf3's own limit
_LEAST_BITS_PER_SECOND = 1000
_STREAMS_IN_THREADS_SINCE = (3, 16)
# Since then the receiver tells the sender what it lost in the omitted time.
_LOSSES_WITHOUT_OMITTED = (3, 14)
# iperf3 prints warnings to standard error, such as for datagrams larger than a packet.
_WARNING = re.compile(r"\s*warning: [^\n]*\n", re.IGNORECASE)
_COMPLAINT = re.compile(r"^iperf3: .+$", re.MULTILINE)


class Test(TimedTest):
    """A throughput test; its value is the receiver's mean over the whole test."""

    programs: ClassVar[Mapping[str, str]] = {"iperf3": "iperf3"}
    details: ClassVar[tuple[Detail, ...]] = (
        SECONDS,
        Detail("sent_bits_per_second", float, "rate that the sender counted"),
        Detail(
            "forward_bits_per_second", float, "rate from client to server in a bidirectional test"
        ),
        Detail(
            "reverse_bits_per_second", float, "rate from server to client in a bidirectional test"
        ),
        SENT_BYTES,
        RECEIVED_BYTES,
        RETRANSMITS,
        *CONGESTION_WINDOWS,
        Detail("mss_bytes", int, "TCP's maximum segment size"),
        Detail("tcp_congestion_control", str, "TCP's congestion control, such as `cubic`"),
        Detail("packets", int, "datagrams sent"),
        Detail("lost_packets", int, "datagrams lost"),
        Detail("out_of_order_packets", int, "datagrams that the client received out of order"),
        Detail("jitter_seconds", float, "jitter of datagrams, mean over the streams"),
        LOSS_RATIO,
        Detail("client_cpu_percent", float, "the client's CPU time; 100 % is one CPU"),
        Detail("server_cpu_percent", float, "the server's CPU time; 100 % is one CPU"),
        Detail("started_at_epoch_seconds", int, "when it started, by the client's clock"),
    )
    catalogue: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Ten seconds of traffic in the lab narrowed no interval that matters (docs/tools.md).
        "tcp-1": {"streams": 1, "seconds": 3},
        "tcp-8": {"streams": 8, "seconds": 3},
        # A single flow of any current instance type can carry this rate.
        "udp-1": {
            "protocol": "udp",
            "streams": 1,
            "seconds": 10,
            "bits_per_second": 1_000_000_000,
        },
    }
    one_thread: ClassVar[tuple[str, str] | None] = (
        "before 3.16 iperf3 has one thread for all its streams",
        "see that the tool image has iperf3 3.16 or later, or use iperf",
    )

    tool: Literal["iperf3"] = "iperf3"
    protocol: Literal["tcp", "udp"] = "tcp"
    """What carries the data (`--udp`); UDP needs `bits_per_second`."""
    streams: Annotated[int, Field(ge=1, le=128)] = 1  # 128 is iperf3's own limit
    """Parallel streams, each a flow (`--parallel`)."""
    reverse: bool = False
    """The server sends and the client receives (`--reverse`)."""
    bidirectional: Annotated[bool, Field(validate_default=True)] = False
    """Both sides send at the same time (`--bidir`)."""
    seconds: Annotated[int, Field(ge=1, le=3600, validate_default=True)] = 10
    """How long the test sends (`--time`)."""
    omit_seconds: Annotated[int, Field(ge=0, le=60)] = 0
    """Time sent before `seconds` and left out of the result (`--omit`), for TCP's slow start."""
    # From Linux's minimum to iperf3's own limit.
    mss_bytes: Annotated[
        int | None, Field(ge=88, le=9216, examples=[1400], validate_default=True)
    ] = None
    """TCP's maximum segment size (`--set-mss`). By default the path's MTU decides."""
    window_bytes: Annotated[int | None, Field(ge=1024, le=536_870_912, examples=[4_194_304])] = None
    """Size of the socket buffers (`--window`). By default the kernel tunes them."""
    length_bytes: Annotated[
        int | None, Field(ge=16, le=65_507, examples=[1400], validate_default=True)
    ] = None
    """Size of a UDP datagram (`--length`). By default the path's MTU decides."""
    bits_per_second: Annotated[
        int | None,
        Field(
            ge=_LEAST_BITS_PER_SECOND,
            le=1_000_000_000_000,
            examples=[1_000_000_000],
            validate_default=True,
        ),
    ] = None
    """Rate of all streams together (`--bitrate`). By default TCP sends as fast as it can."""

    @field_validator("bidirectional")
    @classmethod
    def _one_direction_or_both(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("reverse"):
            raise refusal("does not go with reverse", "set only one of them")
        return value

    @field_validator("seconds")
    @classmethod
    def _no_longer_than_the_log(cls, value: int, info: ValidationInfo) -> int:
        streams = info.data.get("streams", 1) * (2 if info.data.get("bidirectional") else 1)
        interval = interval_seconds(value, streams, bytes_per_interval=_LOG_BYTES_PER_INTERVAL)
        if interval > _LONGEST_INTERVAL_SECONDS:
            most = LOG_BYTES * _LONGEST_INTERVAL_SECONDS // (streams * _LOG_BYTES_PER_INTERVAL)
            raise refusal(
                f"makes a report longer than a container's log with {streams} streams",
                f"set seconds to {most} or less, or lower streams",
            )
        return value

    @field_validator("mss_bytes")
    @classmethod
    def _segments_are_tcps(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("protocol") == "udp":
            raise refusal("has a meaning only for TCP", "remove it, or set length_bytes")
        return value

    @field_validator("length_bytes")
    @classmethod
    def _datagrams_are_udps(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("protocol") == "tcp":
            raise refusal(
                "is the length of a datagram and has a meaning only for UDP",
                "remove it, or set protocol to 'udp'",
            )
        return value

    @field_validator("bits_per_second")
    @classmethod
    def _udp_needs_a_rate(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is None:
            if info.data.get("protocol") == "udp":
                raise refusal(
                    "is missing: UDP has no congestion control that would find a rate",
                    "set the rate of all streams together",
                )
            return None
        streams = info.data.get("streams", 1)
        if value < streams * _LEAST_BITS_PER_SECOND:
            raise refusal(
                f"is less than {_LEAST_BITS_PER_SECOND} for each of {streams} streams",
                f"set it to {streams * _LEAST_BITS_PER_SECOND} or more, or lower streams",
            )
        return value

    def argv(self, server: str, port: int | None = None) -> list[str]:
        """The client's command line; its rate is that of each stream."""
        optional: list[str] = []
        if self.protocol == "udp":
            optional += ["--udp"]
        if self.reverse:
            optional += ["--reverse"]
        if self.bidirectional:
            optional += ["--bidir"]
        for option, value in (
            ("--omit", self.omit_seconds or None),
            ("--set-mss", self.mss_bytes),
            ("--window", self.window_bytes),
            ("--length", self.length_bytes),
            ("--bitrate", self.bits_per_second and self.bits_per_second // self.streams),
        ):
            if value is not None:
                optional += [option, str(value)]
        return [
            *("iperf3", "--client", server, "--port", str(port or PORT), "--json"),
            *("--time", str(self.seconds), "--parallel", str(self.streams)),
            *("--interval", str(self._interval_seconds)),
            *("--connect-timeout", "5000"),  # milliseconds
            *optional,
        ]

    @property
    def _interval_seconds(self) -> int:
        return interval_seconds(
            self.seconds, self._reported_streams, bytes_per_interval=_LOG_BYTES_PER_INTERVAL
        )

    @property
    def expected_seconds(self) -> float:
        """How long the test sends traffic, in seconds."""
        return float(self.seconds + self.omit_seconds)

    @property
    def _reported_streams(self) -> int:
        """The number of streams in a report, which has both directions if both send."""
        return self.streams * (2 if self.bidirectional else 1)

    @property
    def throughput(self) -> Throughput:
        """One flow for each stream and direction. The rate applies to each direction."""
        return Throughput(
            self.streams,
            forward=self.bidirectional or not self.reverse,
            reverse=self.bidirectional or self.reverse,
            offered_bits_per_second=self.bits_per_second,
        )

    def threads(self, version: str | None) -> int:
        """One thread for each stream since 3.16; before, one thread for all streams.

        Source: its release notes, https://github.com/esnet/iperf/releases/tag/3.16.
        """
        known = _version(version)
        if known is None or known >= _STREAMS_IN_THREADS_SINCE:
            return self._reported_streams
        return 1

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Throughput."""
        both = ", both directions together" if self.bidirectional else ""
        counted = BLOCK_BYTES if self.protocol == "tcp" else self.length_bytes or DATAGRAM_BYTES
        return (throughput(f"receiver's mean{both}", step=counted * 8 / self.seconds),)

    @property
    def server(self) -> Server:
        """A server that serves one client at a time.

        If a client disappears without closing its connection, the server gives up after 15 s
        without data. Otherwise it would refuse every later client.
        """
        return Server(
            "iperf3",
            ("iperf3", "--server", "--port", str(PORT), "--rcv-timeout", "15000"),
            (Port(PORT), Port(PORT, "UDP")),
        )

    def warm_up(self) -> Self:
        """The test shortened to one second, with nothing omitted."""
        return self.model_copy(update={"seconds": 1, "omit_seconds": 0})


def _version(text: str | None) -> tuple[int, int] | None:
    number = re.search(r"(\d+)\.(\d+)", text or "")
    return None if number is None else (int(number[1]), int(number[2]))


@dataclass(frozen=True)
class _Way:
    """One direction: the names of its sums at the end of the report and in an interval."""

    sent: str
    received: str
    interval: str
    reverse: bool


_ONE_WAY = _Way("sum_sent", "sum_received", "sum", False)
_AND_BACK = _Way("sum_sent_bidir_reverse", "sum_received_bidir_reverse", "sum_bidir_reverse", True)


def parse(text: str, test: Test) -> Measurement:
    """Parse the report of `iperf3 --json`. Values are the receiver's, not the sender's.

    iperf3 exits with 0 and prints a report even if it could not measure. An interrupted client
    reports that the receiver got nothing. Both are rejected.

    Raises:
        ParseError: the output is truncated or from another program, it is an error report or
            the report of another test, or nothing was received.
    """
    report = _load(text)
    if report.get("error"):
        raise ParseError(f"iperf3: {_plain(str(report['error']))}")
    _check_settings(report, test)
    directions = (_ONE_WAY, _AND_BACK) if test.bidirectional else (_ONE_WAY,)
    received = [
        _number(report, "end", direction.received, "bits_per_second") for direction in directions
    ]
    if not all(received):
        raise ParseError("iperf3: the receiver got nothing")
    seconds = [_number(report, "end", direction.received, "seconds") for direction in directions]
    # The last packets may arrive slightly before or after the nominal end.
    test.require_time("iperf3", min(seconds))
    for direction, rate, duration in zip(directions, received, seconds, strict=True):
        got = _number(report, "end", direction.received, "bytes")
        # Depending on its version, iperf3 divides by the sender's or by the receiver's time.
        if abs(got * 8 / duration - rate) > 0.05 * rate:
            raise ParseError("iperf3: the rate is not that of the bytes and seconds beside it")
    streams = _items(report, "end", "streams")
    if len(streams) != test._reported_streams:
        raise ParseError(f"iperf3: {len(streams)} of {test._reported_streams} streams reported")
    if test.protocol == "udp":
        _require_rate(report, test, directions)
    series = _series(report, directions)
    return Measurement(
        {"throughput": sum(received)},
        series=series,
        details=_details(report, test, directions, series),
        version=_text(report, "start", "version"),
    )


def _load(text: str) -> dict[str, Any]:
    """The report without leading warnings: a pod's log has standard output and standard error."""
    start = 0
    while (warning := _WARNING.match(text, start)) is not None:
        start = warning.end()
    text = text[start:].strip()
    try:
        report, end = json.JSONDecoder().raw_decode(text)
    except RecursionError:
        raise ParseError("iperf3's report is not one: it is nested too deeply") from None
    except ValueError as error:
        if (complaint := _COMPLAINT.search(text)) is not None:
            raise ParseError(complaint[0][:SHORT_REASON]) from None
        raise ParseError(f"iperf3's report is truncated or is not JSON: {error}") from None
    # Some versions print the report twice (https://github.com/esnet/iperf/issues/1688).
    if (rest := text[end:].strip()) and rest != text[:end]:
        words = _COMPLAINT.search(rest)
        raise ParseError(words[0] if words else f"iperf3 printed more than a report: {rest!r:.200}")
    if not isinstance(report, dict):
        raise ParseError("iperf3's report is not a JSON object")
    return report


def _check_settings(report: Mapping[str, Any], test: Test) -> None:
    """Check the test's settings in the report, as far as the version reports them."""
    expected = {
        "protocol": test.protocol.upper(),
        "num_streams": test.streams,
        "duration": test.seconds,
        "omit": test.omit_seconds,
        "reverse": int(test.reverse),
        "bidir": int(test.bidirectional),
    }
    settings = _get(report, "start", "test_start")
    if not isinstance(settings, dict):
        raise ParseError("iperf3's report lacks start.test_start")
    for name, value in expected.items():
        if name in settings and settings[name] != value:
            raise ParseError(
                f"iperf3's report is another test's: its {name} is {_plain(repr(settings[name]))}"
            )


def _series(report: Any, directions: Sequence[_Way]) -> tuple[Interval, ...]:
    """The intervals that count. Their times restart at zero after the omitted intervals."""
    series = []
    for interval in _items(report, "intervals"):
        if _get(interval, "sum", "omitted") is True:
            continue
        sending = [each for each in _items(interval, "streams") if _get(each, "sender") is True]
        windows = [_optional(each, "snd_cwnd") for each in sending]
        series.append(
            Interval(
                _number(interval, "sum", "start"),
                _number(interval, "sum", "end"),
                sum(_number(interval, each.interval, "bits_per_second") for each in directions),
                _whole(_optional(interval, "sum", "retransmits")),
                _whole(sum_if_known(windows)) if windows else None,
            )
        )
    return merged_remainder(series)


def _details(
    report: Mapping[str, Any],
    test: Test,
    directions: Sequence[_Way],
    series: Sequence[Interval],
) -> dict[str, float | int | str]:
    def total(kind: Literal["sent", "received"], field: str) -> float | None:
        return sum_if_known(
            _optional(report, "end", getattr(each, kind), field) for each in directions
        )

    details: dict[str, float | int | str | None] = {
        "seconds": _number(report, "end", "sum_received", "seconds"),
        "started_at_epoch_seconds": _whole(_optional(report, "start", "timestamp", "timesecs")),
        "received_bytes": _whole(total("received", "bytes")),
        "sent_bytes": _whole(total("sent", "bytes")),
        "sent_bits_per_second": total("sent", "bits_per_second"),
        # Only the sender reports them, and only if its kernel counts them.
        "retransmits": _whole(total("sent", "retransmits")),
        **congestion_windows(series),
        "client_cpu_percent": _optional(report, "end", "cpu_utilization_percent", "host_total"),
        "server_cpu_percent": _optional(report, "end", "cpu_utilization_percent", "remote_total"),
        "tcp_congestion_control": _text(report, "end", "sender_tcp_congestion"),
        # `tcp_mss` is what `--set-mss` asked for.
        "mss_bytes": _whole(
            _optional(report, "start", "tcp_mss_default") or _optional(report, "start", "tcp_mss")
        ),
    }
    if test.bidirectional:
        for each in directions:
            name = "reverse_bits_per_second" if each.reverse else "forward_bits_per_second"
            details[name] = _number(report, "end", each.received, "bits_per_second")
    if test.protocol == "udp":
        details |= _udp_details(report, test)
    return {name: value for name, value in details.items() if value is not None}


def _udp_details(report: Mapping[str, Any], test: Test) -> dict[str, float | int | None]:
    """Loss and jitter as the receiver counted them, from each stream's summary."""
    streams = [_get(each, "udp") for each in _items(report, "end", "streams")]
    packets = sum(_number(each, "packets") for each in streams)
    lost = _lost(report, streams, test)
    if not packets or (lost or 0) > packets:
        raise ParseError(f"iperf3: {lost} of {packets:.0f} packets cannot have been lost")
    reordered = [
        _optional(each, "out_of_order")
        for each in streams
        if _get(each, "sender") is False or test.reverse
    ]
    return {
        "packets": int(packets),
        "lost_packets": lost,
        "loss_ratio": None if lost is None else lost / packets,
        "out_of_order_packets": _whole(sum_if_known(reordered)) if reordered else None,
        "jitter_seconds": statistics.fmean(_number(each, "jitter_ms") for each in streams) / 1000,
    }


def _lost(report: Any, streams: Sequence[Any], test: Test) -> int | None:
    """The datagrams lost in all streams, some of which may count less than 0; None if unknown."""
    version = _version(_text(report, "start", "version"))
    if test.omit_seconds and not test.reverse and (version or (0, 0)) < _LOSSES_WITHOUT_OMITTED:
        return None
    numbers = [_get(each, "lost_packets") for each in streams]
    if not all(isinstance(each, int) and abs(each) <= MOST for each in numbers):
        raise ParseError("iperf3's report has no number in lost_packets")
    lost = sum(numbers)
    if lost < 0 and not test.omit_seconds:
        raise ParseError(f"iperf3: {lost} packets cannot have been lost")
    return lost if lost >= 0 else None


def _require_rate(report: Any, test: Test, directions: Sequence[_Way]) -> None:
    """Check that each sender kept the rate of UDP."""
    size = _number(report, "start", "test_start", "blksize")
    rate = (test.bits_per_second or 0) // test.streams * test.streams
    for each in directions:
        sent = _number(report, "end", each.sent, "bytes") / size
        planned = rate * _number(report, "end", each.sent, "seconds") / 8 / size
        require_rate("iperf3", sent, planned, "datagrams", "lower bits_per_second")


def _get(report: Any, *path: str) -> Any:
    """The value at a path of names, or None."""
    value = report
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _items(report: Any, *path: str) -> list[Any]:
    value = _get(report, *path)
    if not isinstance(value, list):
        raise ParseError(f"iperf3's report lacks {'.'.join(path)}")
    return value


def _text(report: Any, *path: str) -> str | None:
    value = _get(report, *path)
    return _plain(value) if isinstance(value, str) else None


def _plain(text: str) -> str:
    """The text without lone surrogates, which JSON may escape but UTF-8 cannot encode."""
    return text[:SHORT_REASON].encode(errors="replace").decode()


def _number(report: Any, *path: str) -> float:
    """A required number.

    Raises:
        ParseError: the number is missing, negative or beyond `MOST`.
    """
    value = _get(report, *path)
    if value is None:
        raise ParseError(f"iperf3's report lacks {'.'.join(path)}")
    number = _optional(report, *path)
    if number is None:
        raise ParseError(f"iperf3's report has no number in {'.'.join(path)}")
    return number


def _optional(report: Any, *path: str) -> float | None:
    """An optional number; None if it is missing, not a number, negative or beyond `MOST`.

    iperf3 writes null, -1 and the like for unknown values.
    """
    value = _get(report, *path)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Before it becomes a float, which a number of 400 digits cannot.
    return float(value) if 0 <= value <= MOST else None


def _whole(number: float | None) -> int | None:
    return int(number) if number is not None else None
