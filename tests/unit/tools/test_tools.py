"""The tools' command lines, and the parsers on output of real tools (tests/unit/data).

test_captures.py tests all captured outputs. These tests are for special cases.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rackrate import registry
from rackrate.tools import iperf3, netperf, ping
from rackrate.tools.base import (
    LOG_BYTES,
    Interval,
    Measurement,
    Metric,
    ParseError,
    Throughput,
    interval_seconds,
    merged_remainder,
    require_rate,
)
from tests.unit.tools.captures import DATA, load_short

ONE = iperf3.Test(name="tcp-1", streams=1, seconds=2)
EIGHT = iperf3.Test(name="tcp-8", streams=8, seconds=1)
TEN = ping.Test(name="rtt", count=10)


def read(tool, name):
    return (DATA / tool / name).read_text()


def test_tools_are_the_files_of_the_package():
    assert {"iperf", "iperf3", "ping", "sockperf"} <= set(registry.names())
    with pytest.raises(KeyError):
        registry.test_class("base")


def made(tool, **fields):
    return registry.test_class(tool).model_validate({"name": "made", "tool": tool, **fields})


@pytest.mark.parametrize(
    ("tool", "fields", "expected"),
    [
        (
            "iperf3",
            {"seconds": 2},
            "iperf3 --client 10.0.0.9 --port 5201 --json --time 2 --parallel 1 --interval 1"
            " --connect-timeout 5000",
        ),
        (
            "iperf3",
            {
                "streams": 8,
                "reverse": True,
                "omit_seconds": 2,
                "mss_bytes": 1400,
                "window_bytes": 65536,
                "bits_per_second": 1_000_000_000,
            },
            "iperf3 --client 10.0.0.9 --port 5201 --json --time 10 --parallel 8 --interval 1"
            " --connect-timeout 5000 --reverse --omit 2 --set-mss 1400 --window 65536"
            " --bitrate 125000000",
        ),
        (
            "iperf3",
            {
                "protocol": "udp",
                "bidirectional": True,
                "bits_per_second": 9_000_000,
                "length_bytes": 1200,
            },
            "iperf3 --client 10.0.0.9 --port 5201 --json --time 10 --parallel 1 --interval 1"
            " --connect-timeout 5000 --udp --bidir --length 1200 --bitrate 9000000",
        ),
        (
            "iperf",
            {"streams": 32},
            "iperf --client 10.0.0.9 --port 5001 --parallel 32 --time 10 --interval 1"
            " --enhanced --format b",
        ),
        (
            "iperf",
            {"reverse": True},
            "iperf --client 10.0.0.9 --port 5001 --parallel 1 --time 10 --interval 1"
            " --enhanced --format b --reverse",
        ),
        ("ping", {"count": 10}, "ping -n -D -c 10 -i 0.2 -W 2 -s 56 10.0.0.9"),
        (
            "ping",
            {"size_bytes": 8972, "dont_fragment": True, "interval_seconds": 0.002},
            "ping -n -D -c 30 -i 0.002 -W 2 -s 8972 -M do 10.0.0.9",
        ),
        (
            "connect",
            {"count": 3},
            "curl --silent --verbose --rate 5/s --max-time 0.200 --telnet-option NONE --write-out"
            " %{stderr}%{time_connect} %{time_namelookup} %{exitcode} %{url}\\n --output /dev/null"
            " telnet://[1-3]@10.0.0.9:8078 file:///dev/null",
        ),
        (
            "sockperf",
            {},
            "sockperf ping-pong --ip 10.0.0.9 --port 11111 --tcp --time 10 --msg-size 64"
            " --mps 1000 --full-rtt --full-log /dev/stdout",
        ),
        (
            "sockperf",
            {
                "mode": "under-load",
                "protocol": "udp",
                "messages_per_second": 20_000,
                "reply_every": 10,
            },
            "sockperf under-load --ip 10.0.0.9 --port 11111 --time 10 --msg-size 64"
            " --mps 20000 --reply-every 10 --full-rtt --full-log /dev/stdout",
        ),
        (
            "fortio",
            {},
            "fortio load -quiet -uniform -c 16 -qps 1000 -t 10s -payload-size 64"
            " -access-log-file /dev/stdout -json - tcp://10.0.0.9:8078",
        ),
        (
            "fortio",
            {"protocol": "grpc", "connections": 4, "requests_per_second": 100, "seconds": 5},
            "fortio load -quiet -uniform -grpc -ping -c 4 -qps 100 -t 5s -payload-size 64"
            " -access-log-file /dev/stdout -json - 10.0.0.9:8079",
        ),
        (
            "netperf",
            {"mode": "udp-rr", "seconds": 3, "request_bytes": 100, "response_bytes": 1400},
            "netperf -P 0 -H 10.0.0.9 -p 12865 -t UDP_RR -l 3 -- -P ,12866 -r 100,1400 -e 1 -k "
            + ",".join(netperf.SELECTORS),
        ),
    ],
)
def test_a_tool_is_given_plain_arguments(tool, fields, expected):
    assert " ".join(made(tool, **fields).argv("10.0.0.9")) == expected


@pytest.mark.parametrize("tool", registry.names())
def test_a_tool_takes_the_port_of_an_endpoint_in_place_of_its_servers(tool):
    test = made(tool)
    if test.server is None or not test.to_endpoint:
        return
    usual, other = test.argv("10.0.0.9"), test.argv("10.0.0.9", 65432)
    assert any("65432" in word for word in other)
    assert [(a, b) for a, b in zip(usual, other, strict=True) if a != b] == [
        (word, re.sub(r"\d+$", "65432", word)) for word in usual if word not in other
    ]


@pytest.mark.parametrize(
    ("tool", "fields", "field", "words"),
    [
        ("iperf3", {"protocol": "udp"}, "bits_per_second", "is missing.*set the rate"),
        (
            "iperf3",
            {"reverse": True, "bidirectional": True},
            "bidirectional",
            "does not go with reverse; set only one",
        ),
        ("iperf3", {"length_bytes": 1200}, "length_bytes", "only for UDP; remove it"),
        (
            "iperf3",
            {"protocol": "udp", "bits_per_second": 9000, "mss_bytes": 1400},
            "mss_bytes",
            "only for TCP; remove it",
        ),
        (
            "iperf3",
            {"streams": 100, "bits_per_second": 9000},
            "bits_per_second",
            "less than 1000 for each of 100 streams; set it to 100000 or more",
        ),
        (
            "iperf3",
            {"streams": 128, "bidirectional": True, "seconds": 3600},
            "seconds",
            "longer than a container's log with 256 streams; set seconds to 1442 or less",
        ),
        ("iperf", {"streams": 0}, "streams", "greater than or equal to 1"),
        ("ping", {"count": 65_536}, "count", "less than or equal to 65535"),
        ("ping", {"interval_seconds": float("nan")}, "interval_seconds", "finite"),
        (
            "sockperf",
            {"seconds": 60},
            "messages_per_second",
            "60000 responses.*more than the 50000.*lower it or seconds",
        ),
        (
            "sockperf",
            {"messages_per_second": 10},
            "messages_per_second",
            "too few for p99,.*raise it or seconds",
        ),
        ("sockperf", {"reply_every": 2}, "reply_every", "only under load"),
        (
            "fortio",
            {"seconds": 60},
            "requests_per_second",
            "60000 requests.*more than the 50000.*lower it or seconds",
        ),
        (
            "fortio",
            {"requests_per_second": 10},
            "requests_per_second",
            "too few for p99,.*raise it or seconds",
        ),
        (
            "fortio",
            {"requests_per_second": 100, "percentiles": ["p90", "p99.9"]},
            "requests_per_second",
            "1000 requests.*too few for p90, p99.9, which takes 5000",
        ),
        (
            "dnsperf",
            {"seconds": 200},
            "queries_per_second",
            "200000 queries.*container's log may hold; lower it or seconds",
        ),
        (
            "dnsperf",
            {"queries_per_second": None, "percentiles": ["p99.9"]},
            "queries_per_second",
            "only a rate has raw values; set a rate",
        ),
        ("fortio", {"percentiles": ["p99", "p99"]}, "percentiles", "twice; name each once"),
        (
            "fortio",
            {"requests_per_second": 50, "connections": 251},
            "connections",
            "251 for 500 requests.*lower it",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_refused_with_a_remedy(tool, fields, field, words):
    with pytest.raises(ValidationError, match=words) as caught:
        made(tool, **fields)
    (error,) = caught.value.errors()
    assert error["loc"] == (field,)
    if error["type"] == "rule":
        assert error["msg"].endswith(error["ctx"]["remedy"])


@pytest.mark.parametrize(
    ("tool", "rate"),
    [
        ("fortio", "requests_per_second"),
        ("sockperf", "messages_per_second"),
        ("dnsperf", "queries_per_second"),
    ],
)
def test_a_stored_plan_with_fewer_values_than_are_needed_today_is_still_read(tool, rate):
    old = {"name": "t", "tool": tool, "seconds": 10, rate: 30, "percentiles": ["p99"]}
    assert registry.load_test(old).percentiles == ("p99",)


@pytest.mark.parametrize("tool", registry.names())
def test_every_test_tells_its_metrics_server_and_warm_up(tool):
    for test in registry.examples(tool):
        assert test.primary == test.metrics[0]
        warm_up = test.warm_up()
        assert (warm_up.name, warm_up.tool) == (test.name, test.tool)
        assert warm_up.expected_seconds <= min(1, test.expected_seconds)
        if test.server is not None:
            assert test.server.ports, "nobody could connect to it"


def test_all_programs_that_are_started_are_named_so_that_images_have_them():
    for tool in registry.names():
        for test in registry.examples(tool):
            started = {test.argv("10.0.0.9")[0], *(test.server.argv[:1] if test.server else ())}
            assert started <= test.programs.keys(), tool


def test_no_two_servers_want_one_name_or_one_port():
    """The servers of all tools can share a pod, because a plan may have tests of all tools."""
    examples = [test for tool in registry.names() for test in registry.examples(tool)]
    servers = {test.server for test in examples if test.server is not None}
    ports = [port for server in servers for port in server.ports]
    assert len({server.name for server in servers}) == len(servers)
    assert len(set(ports)) == len(ports)


def test_a_column_means_the_same_whichever_tool_fills_it():
    details = registry.details()
    assert len({each.name for each in details}) == len(details)
    assert len({each.column_name for each in details}) == len(details)


def test_a_name_of_the_catalogue_is_one_tools():
    names = [name for tool in registry.names() for name in registry.test_class(tool).catalogue]
    assert sorted(names) == sorted(registry.catalogue())


def test_servers_of_different_protocols_have_different_names():
    servers = [made("sockperf", protocol=protocol).server for protocol in ("tcp", "udp")]
    assert [(each.name, each.ports[0].protocol) for each in servers] == [
        ("sockperf-tcp", "TCP"),
        ("sockperf-udp", "UDP"),
    ]


@pytest.mark.parametrize(
    ("tool", "fields", "throughput"),
    [
        ("iperf3", {}, Throughput(1)),
        ("iperf", {"streams": 32}, Throughput(32)),
        (
            "iperf3",
            {"streams": 4, "bits_per_second": 10**9},
            Throughput(4, offered_bits_per_second=1e9),
        ),
        ("iperf3", {"reverse": True}, Throughput(1, forward=False, reverse=True)),
        ("iperf3", {"bidirectional": True}, Throughput(1, forward=True, reverse=True)),
        ("netperf", {}, None),
    ],
)
def test_a_test_says_what_it_sends_in_which_directions(tool, fields, throughput):
    assert made(tool, **fields).throughput == throughput


@pytest.mark.parametrize(
    ("tool", "fields", "version", "threads"),
    [
        ("iperf3", {"streams": 8}, "iperf 3.12", 1),
        ("iperf3", {"streams": 8}, "iperf 3.16", 8),
        ("iperf3", {"streams": 8}, "iperf 4.0", 8),
        ("iperf3", {"streams": 8, "bidirectional": True}, "iperf 3.16", 16),
        ("iperf3", {"streams": 1}, "iperf 3.18", 1),
        ("iperf3", {"streams": 8}, None, 8),
        ("iperf3", {"streams": 8}, "who knows", 8),
        ("iperf", {"streams": 4}, "2.1.8", 4),
    ],
)
def test_streams_have_threads_of_their_own_but_in_iperf3_before_3_16(
    tool, fields, version, threads
):
    assert made(tool, **fields).threads(version) == threads


def test_an_ipv6_address_has_brackets_in_a_url():
    assert "telnet://[1-30]@[fd00::9]:443" in made("connect").argv("fd00::9", 443)


def test_connections_that_are_lost_have_no_time_and_count_as_losses():
    test = made("connect", count=10, connections_per_second=10)
    lost_some = registry.parse(test, read("connect", "8.14.1/some-lost.txt"))
    assert lost_some.samples["handshake"] == (76e-6, 117e-6, 229e-6, 122e-6, 193e-6, 119e-6)
    assert lost_some.values == {"handshake": pytest.approx(120.5e-6)}
    assert lost_some.details["loss_ratio"] == 0.4


def test_a_node_that_lets_nobody_ping_is_told_what_to_set():
    printed = (
        "ping: socktype: SOCK_RAW\nping: socket: Operation not permitted\n"
        "ping: => missing cap_net_raw+p capability or setuid?\n"
    )
    with pytest.raises(ParseError, match=r"net\.ipv4\.ping_group_range"):
        registry.parse(made("ping"), printed)


@given(st.integers(1, 3600), st.integers(1, 256), st.integers(100, 2000))
def test_a_report_never_outgrows_a_containers_log(seconds, streams, size):
    interval = interval_seconds(seconds, streams, bytes_per_interval=size)
    assert seconds / interval * streams * size <= LOG_BYTES
    assert interval == 1 or seconds / (interval - 1) * streams * size > LOG_BYTES


def test_an_iperf_of_a_second_reports_half_of_it_so_that_its_summary_can_be_told_from_a_part():
    argv = made("iperf", seconds=1, streams=32).argv("10.0.0.9")
    assert argv[argv.index("--interval") + 1] == "0.5"


def test_a_remainder_of_an_interval_is_merged_without_losing_bits():
    series = [Interval(0, 1, 100.0, 1, 10), Interval(1, 2, 200.0, 2, 20)]
    assert merged_remainder(series) == tuple(series)
    assert merged_remainder([]) == ()
    (*_, last) = merged_remainder([*series, Interval(2, 2.25, 1000.0, 3, None)])
    assert last == Interval(1, 2.25, (200 * 1 + 1000 * 0.25) / 1.25, 5, 20)


@pytest.mark.parametrize("tool", registry.names())
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_trial_has_no_value_that_is_not_finite_and_positive(tool, number, monkeypatch):
    test = made(tool)

    def parse(_text, _test):
        values = {metric.name: 1.0 for metric in test.metrics}
        return Measurement({**values, test.primary.name: number})

    monkeypatch.setattr(registry.module(tool), "parse", parse)
    with pytest.raises(ParseError) as caught:
        registry.parse(test, "what the tool printed")
    if number == 0:
        more_is_better = test.primary.better == "higher"
        reason = "nothing was transferred" if more_is_better else "below the tool's resolution of "
        assert reason in str(caught.value)
    else:
        assert str(number) in str(caught.value)


@pytest.mark.parametrize(
    ("milliseconds", "known_to"),
    [(0.045, 0.001), (0.155, 0.001), (0.999, 0.001), (1.05, 0.01), (9.99, 0.01), (12.3, 0.1)],
)
def test_ping_knows_a_time_to_three_digits_and_a_microsecond(milliseconds, known_to):
    resolution = TEN.primary.resolution_at(milliseconds / 1000)
    assert resolution == pytest.approx(known_to / 1000)


def test_a_throughput_is_known_to_a_block_or_a_datagram_over_the_tests_seconds():
    assert ONE.primary.resolution_at(1e9) == ONE.primary.step == 131_072 * 8 / 2
    udp = made("iperf3", protocol="udp", bits_per_second=10**6, length_bytes=1400, seconds=10)
    assert udp.primary.step == 1400 * 8 / 10
    assert made("iperf", seconds=10).primary.step == 131_072 * 8 / 10


@pytest.mark.parametrize("step", [0.0, -1.0, float("nan"), float("inf")])
def test_a_step_that_is_no_distance_is_a_mistake_of_the_tool(step):
    with pytest.raises(ValueError, match="no distance"):
        Metric("throughput", "bit/s", "higher", "mean", step=step)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0])
def test_no_measurement_holds_an_impossible_number(number):
    for measurement in (
        {"values": {"rtt": number}},
        {"values": {"rtt": 1.0}, "samples": {"rtt": (1.0, number)}},
        {"values": {"rtt": 1.0}, "details": {"loss_ratio": number}},
    ):
        with pytest.raises(ParseError):
            Measurement(**measurement)


def test_a_lost_lookup_counts_with_the_time_after_which_a_resolver_asks_again():
    test = load_short("dnsperf", seconds=2, queries_per_second=100)
    measurement = registry.parse(test, read("dnsperf", "2.14.0/server-died.txt"))
    assert (
        measurement.samples["latency"].count(5.0)
        == round(measurement.details["loss_ratio"] * 200)
        > 2
    )
    assert measurement.values["latency_p99"] == 5.0


def test_iperf3_sums_its_streams():
    text = read("iperf3", "eight-streams.json")
    streams = json.loads(text)["end"]["streams"]
    assert len(streams) == 8
    total = sum(stream["receiver"]["bytes"] for stream in streams)
    assert registry.parse(EIGHT, text).details["received_bytes"] == total


def changed(path, value):
    report = json.loads(read("iperf3", "one-stream.json"))
    parent = report
    for key in path[:-1]:
        parent = parent[key]
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return json.dumps(report)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("end", "sum_received", "bits_per_second"), 0, "receiver got nothing"),
        (("end", "sum_received"), None, "lacks end.sum_received"),
        (("end", "sum_received", "bits_per_second"), "fast", "no number"),
        (("end", "sum_received", "bits_per_second"), True, "no number"),
        (("end", "sum_received", "seconds"), 0.7, "ended after 0.7 s of 2 s"),
        (("end",), None, "lacks"),
    ],
)
def test_iperf3s_receiver_must_have_got_something_for_the_whole_time(path, value, reason):
    with pytest.raises(ParseError, match=reason):
        registry.parse(ONE, changed(path, value))


def test_iperf3_without_a_count_of_retransmits_is_measured_all_the_same():
    text = changed(("end", "sum_sent", "retransmits"), None)
    assert "retransmits" not in registry.parse(ONE, text).details


def test_pings_value_is_the_median_round_trip_in_seconds():
    measurement = registry.parse(TEN, read("ping", "ten-replies.txt"))
    assert len(measurement.samples["rtt"]) == 10
    assert measurement.samples["rtt"][0] == pytest.approx(151e-6)
    assert measurement.values["rtt"] == pytest.approx(45e-6)
    assert measurement.details["received"] == 10
    assert measurement.details["min_seconds"] == pytest.approx(20e-6)


def captured(tool, version, name, **fields):
    (path,) = (DATA / tool / version).glob(f"{name}.*")
    return load_short(tool, **fields), path.read_text()


def test_the_two_directions_of_a_bidirectional_test_are_kept_apart():
    test, text = captured(
        "iperf3", "3.18", "tcp-bidirectional", seconds=2, streams=2, bidirectional=True
    )
    end = json.loads(text)["end"]
    measurement = registry.parse(test, text)
    forward, reverse = (
        end[name]["bits_per_second"] for name in ("sum_received", "sum_received_bidir_reverse")
    )
    assert measurement.values["throughput"] == forward + reverse
    assert measurement.details["forward_bits_per_second"] == forward
    assert measurement.details["reverse_bits_per_second"] == reverse
    # The client knows the window of only the two streams on which it sends.
    first = json.loads(text)["intervals"][0]
    windows = [each["snd_cwnd"] for each in first["streams"] if each["sender"]]
    assert len(windows) == 2
    assert measurement.series[0].congestion_window_bytes == sum(windows)


def test_iperf3s_omitted_intervals_are_left_out_of_the_series():
    test, text = captured("iperf3", "3.18", "tcp-omit", seconds=2, omit_seconds=1)
    assert len(json.loads(text)["intervals"]) == 3
    measurement = registry.parse(test, text)
    assert [round(each.end_seconds) for each in measurement.series] == [1, 2]


RELAYED = {"protocol": "udp", "seconds": 2, "length_bytes": 1000, "bits_per_second": 8_000_000}


def test_udps_value_is_what_arrived_and_its_loss_is_kept():
    test, text = captured("iperf3", "3.12", "udp-reordered", **RELAYED)
    measurement = registry.parse(test, text)
    end = json.loads(text)["end"]
    assert measurement.values["throughput"] == end["sum_received"]["bits_per_second"]
    assert measurement.values["throughput"] < end["sum_sent"]["bits_per_second"]
    assert (measurement.details["lost_packets"], measurement.details["loss_ratio"]) == (5, 5 / 2000)


@pytest.mark.parametrize(
    ("version", "situation", "options", "known"),
    [
        # The server counted 484 out of order, and the client's report says 0.
        ("3.12", "udp-reordered", RELAYED, False),
        ("3.18", "udp-two-streams-reverse", {"streams": 2, "reverse": True}, True),
        ("3.18", "udp-bidirectional", {"bidirectional": True}, True),
    ],
)
def test_udps_reordered_datagrams_are_known_only_where_the_client_receives(
    version, situation, options, known
):
    fifty = {"protocol": "udp", "seconds": 2, "bits_per_second": 50_000_000}
    test, text = captured("iperf3", version, situation, **{**fifty, **options})
    assert ("out_of_order_packets" in registry.parse(test, text).details) == known


@pytest.mark.parametrize(
    ("version", "situation", "options"),
    [
        ("3.18", "udp-omit-reordered", RELAYED),
        ("3.12", "udp-omit", {"protocol": "udp", "seconds": 2, "bits_per_second": 50_000_000}),
    ],
)
def test_udps_losses_are_absent_where_the_omitted_time_makes_them_unknown(
    version, situation, options
):
    test, text = captured("iperf3", version, situation, omit_seconds=1, **options)
    measurement = registry.parse(test, text)
    assert measurement.values["throughput"] > 0 and measurement.details["packets"] > 0
    assert not {"lost_packets", "loss_ratio"} & measurement.details.keys()


@pytest.mark.parametrize(("lost", "reason"), [((5, -3), None), ((3, -5), "cannot have been lost")])
def test_udps_losses_are_summed_before_they_are_judged(lost, reason):
    options = {"seconds": 2, "streams": 2, "reverse": True, "bits_per_second": 50_000_000}
    test, text = captured("iperf3", "3.18", "udp-two-streams-reverse", protocol="udp", **options)
    report = json.loads(text)
    for stream, number in zip(report["end"]["streams"], lost, strict=True):
        stream["udp"]["lost_packets"] = number
    if reason is None:
        assert registry.parse(test, json.dumps(report)).details["lost_packets"] == sum(lost)
    else:
        with pytest.raises(ParseError, match=reason):
            registry.parse(test, json.dumps(report))


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ("iperf3: getsockopt - Permission denied\n", "^iperf3: getsockopt - Permission denied$"),
        ("{}", "more than a report: '{}'"),
    ],
)
def test_text_after_iperf3s_report_is_told_as_it_is(after, reason):
    with pytest.raises(ParseError, match=reason):
        registry.parse(ONE, read("iperf3", "one-stream.json") + after)


@pytest.mark.parametrize(
    ("tool", "printed", "reason"),
    [
        ("iperf", "no-such-host.invalid: Unknown host\n", "no-such-host.invalid: Unknown host"),
        ("iperf", "ERROR: -t value of 'abc' not recognized\n", "-t value of 'abc' not recognized"),
        ("sockperf", "sockperf: '-i' Invalid address: 300.1.2.3\n", "Invalid address: 300.1.2.3"),
        (
            "sockperf",
            "sockperf: No valid observations found. Try tune parameters: --time/--mps\n",
            "No valid observations found",
        ),
        ("fortio", 'invalid value "abc" for flag -c: parse error\n', 'invalid value "abc"'),
        ("netperf", "\nUsage: netperf [global options]\n", "does not know one of its arguments"),
        ("ping", "Segmentation fault\n", "ends with 'Segmentation fault'"),
    ],
)
def test_a_tool_that_measured_nothing_is_quoted(tool, printed, reason):
    with pytest.raises(ParseError, match=re.escape(reason)):
        registry.parse(made(tool), printed)


def test_every_test_of_the_catalogue_keeps_its_rate_to_a_peer_five_milliseconds_away():
    """A connection of fortio has one request at a time. The others at a rate wait for nothing."""
    for test in map(
        registry.load_test, ({"name": n, **t} for n, t in registry.catalogue().items())
    ):
        if test.tool == "fortio":
            assert test.connections / test.requests_per_second >= 3 * 0.005, test.name
        if test.tool == "sockperf" and "messages_per_second" in test.catalogue[test.name]:
            assert test.mode == "under-load", test.name


def test_a_rate_that_lacks_what_lies_beyond_a_percentile_is_not_kept():
    """With a p99, a tenth of the slowest hundredth may be missing; without, a tenth of all."""
    require_rate("made", 9989, 10_000, "requests", "lower it", beyond=0.01)
    for sent, beyond in ((9988, 0.01), (8998, 1.0), (10_102, 1.0)):
        with pytest.raises(ParseError, match=f"sent {sent} requests instead of 10000; lower it"):
            require_rate("made", sent, 10_000, "requests", "lower it", beyond=beyond)


def test_a_warning_before_iperf3s_report_does_not_spoil_it():
    test, text = captured(
        "iperf3",
        "3.18",
        "udp-fragmented",
        protocol="udp",
        seconds=1,
        bits_per_second=50_000_000,
        length_bytes=8000,
    )
    assert text.startswith("warning:")
    assert registry.parse(test, text).values["throughput"] == pytest.approx(50e6, rel=0.01)


@pytest.mark.parametrize(
    "fields",
    [
        {"streams": 2},
        {"reverse": True},
        {"bidirectional": True},
        {"omit_seconds": 1},
        {"protocol": "udp", "bits_per_second": 10**9},
    ],
)
def test_iperf3s_report_of_another_test_is_refused(fields):
    with pytest.raises(ParseError, match=r"another test|lacks end\.sum_received_bidir"):
        registry.parse(made("iperf3", seconds=2, **fields), read("iperf3", "one-stream.json"))


def test_a_stream_that_is_missing_from_iperf3s_report_is_noticed():
    report = json.loads(read("iperf3", "eight-streams.json"))
    del report["end"]["streams"][3]
    with pytest.raises(ParseError, match="7 of 8 streams"):
        registry.parse(EIGHT, json.dumps(report))


@pytest.mark.parametrize("version", ["2.0.14a", "2.1.8", "2.2.1"])
def test_iperfs_stream_that_did_not_connect_is_noticed(version):
    """The sum of the other streams is not the requested measurement."""
    test, text = captured("iperf", version, "two-streams", seconds=2, streams=2)
    with pytest.raises(ParseError, match="2 of 3 streams"):
        registry.parse(test.model_copy(update={"streams": 3}), text)
    with pytest.raises(ParseError, match="2 streams where the test asks for 1"):
        registry.parse(test.model_copy(update={"streams": 1}), text)


def test_iperfs_windows_are_summed_over_its_streams():
    test, text = captured("iperf", "2.2.1", "two-streams", seconds=2, streams=2)
    first = [line for line in text.splitlines() if "0.0000-1.0000 sec" in line][:2]
    windows = [int(line.split("/")[3].split("K")[0]) for line in first]
    assert registry.parse(test, text).series[0].congestion_window_bytes == sum(windows) * 1024


def test_sockperfs_values_come_from_its_raw_values_whole_round_trips():
    test, text = captured("sockperf", "3.7", "tcp-ping-pong", seconds=2, messages_per_second=200)
    measurement = registry.parse(test, text)
    rows = [line.split(", ") for line in text.splitlines() if line.count(", ") == 3][1:]
    assert len(measurement.samples["latency"]) == len(rows) > 200
    for sample, (_, sent, received, microseconds) in zip(
        measurement.samples["latency"], rows, strict=True
    ):
        assert sample == pytest.approx(float(received) - float(sent), abs=1e-9)
        assert sample == pytest.approx(float(microseconds) / 1e6, abs=2e-9)
    assert measurement.values["latency"] == pytest.approx(
        sum(sorted(measurement.samples["latency"])[(len(rows) - 1) // 2 : len(rows) // 2 + 1])
        / (2 - len(rows) % 2)
    )
    assert measurement.values["latency_p99"] in measurement.samples["latency"]


@pytest.mark.parametrize(
    ("tool", "version", "situation", "options"),
    [
        ("fortio", "1.66.0", "tcp", {"seconds": 1, "requests_per_second": 201, "connections": 1}),
        ("sockperf", "3.7", "tcp-ping-pong", {"seconds": 2, "messages_per_second": 200}),
    ],
)
def test_a_percentile_is_the_nearest_rank_of_the_raw_values(tool, version, situation, options):
    percentiles = {"percentiles": ["p99", "p90", "p95"]}
    test, text = captured(tool, version, situation, **options, **percentiles)
    measurement = registry.parse(test, text)
    assert [each.name for each in test.metrics] == [
        *("latency", "latency_p99", "latency_p90", "latency_p95")
    ]
    samples = measurement.samples["latency"]
    for name, share in (("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        value = measurement.values[f"latency_{name}"]
        assert sum(each <= value for each in samples) >= share * len(samples)
        assert sum(each < value for each in samples) < share * len(samples)


def test_half_round_trips_are_not_taken_for_whole_ones():
    test, text = captured("sockperf", "3.7", "tcp-ping-pong", seconds=2, messages_per_second=200)
    with pytest.raises(ParseError, match="no log"):
        registry.parse(test, text.replace("rtt(usec)", "latency(usec)"))


def test_a_message_in_the_middle_of_sockperfs_log_costs_no_row():
    """sockperf's threads print at the same time, as seen with 3.6 under load."""
    test, text = captured("sockperf", "3.7", "tcp-ping-pong", seconds=2, messages_per_second=200)
    whole = registry.parse(test, text)
    header = text.index("packet, txTime")
    place = text.index("\n7, ", header) + 6
    message = "sockperf: Test end (interrupted by signal 2)\n"
    assert registry.parse(test, text[:place] + message + text[place:]) == whole


def test_sockperfs_row_that_was_dropped_is_noticed():
    test, text = captured("sockperf", "3.7", "tcp-ping-pong", seconds=2, messages_per_second=200)
    lines = text.splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if line.count(", ") == 3)
    with pytest.raises(ParseError, match="summary tells of"):
        registry.parse(test, "".join([*lines[:last], *lines[last + 1 :]]))


def test_fortios_stall_counts_for_each_request_that_had_to_wait():
    """The server stood still for 0.2 s of 1 s, and both connections had 300 requests per second."""
    options = {"seconds": 1, "requests_per_second": 600, "connections": 2}
    test, text = captured("fortio", "1.66.0", "stalled", **options)
    logged = [float(each) for each in re.findall(r'"latency":([0-9.]+)', text)]
    measurement = registry.parse(test, text)
    assert sum(each > 0.01 for each in logged) == 2
    delayed = [each for each in measurement.samples["latency"] if each > 0.01]
    assert 0.15 < len(delayed) / len(logged) < 0.2
    assert measurement.details["delayed_ratio"] == pytest.approx(0.2, abs=0.02)
    assert measurement.values["latency_p99"] == pytest.approx(0.19, abs=0.01)
    assert measurement.values["latency"] < 100e-6


@pytest.mark.parametrize(
    ("changed", "by", "reason"),
    [
        ('"ok":true,"details":"200"', '"ok":false,"details":"503"', "201 of 201.*failed: 503"),
        ('"thread":2,"iter":66', '"thread":2,"iter":65', "one is missing"),
        ('"thread":2', '"thread":3', "one is missing"),
        ("\n{", '\n{"latency":0.0001\n{', "truncated or garbled"),
        ('"timestamp":1795515943038', '"timestamp":1795515933038', "outside of the test"),
        ('"NumThreads": 3', '"NumThreads": 2', "another test"),
        ('"RunType": "HTTP"', '"RunType": "TCP"', "another test"),
        ('"Count": 201', '"Count": 202', "202 requests, but its log has 201"),
    ],
)
def test_fortios_log_that_is_not_whole_is_no_measurement(changed, by, reason):
    options = {"protocol": "http", "seconds": 1, "requests_per_second": 201, "connections": 3}
    test, text = captured("fortio", "1.66.0", "http", **options)
    assert changed in text
    with pytest.raises(ParseError, match=reason):
        registry.parse(test, text.replace(changed, by))


def test_a_message_in_the_middle_of_fortios_summary_costs_nothing():
    """Fortio writes both outputs at the same time, as seen in a pod's log."""
    test, text = captured(
        "fortio", "1.66.0", "tcp", seconds=1, requests_per_second=201, connections=1
    )
    message = "Successfully wrote 1562 bytes of Json data to stdout\n"
    assert message[:19] in text
    place = text.index('  "DurationHistogram"')
    assert registry.parse(test, text[:place] + message + text[place:]) == registry.parse(test, text)


def test_netperfs_requests_without_a_response_are_counted_and_stop_no_time_of_the_others():
    """The network of this capture dropped five datagrams. The last request may be on its way."""
    test, text = captured("netperf", "2.7.1", "udp-some-lost", mode="udp-rr", seconds=6)
    measurement = registry.parse(test, text)
    assert measurement.details["loss_ratio"] == pytest.approx(4 / 72_111)
    assert float(measurement.details["mean_seconds"]) < 0.5 / measurement.values["transaction_rate"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("TRANSACTION_RATE=57473.229", "TRANSACTION_RATE=57873.229", "transactions and seconds"),
        ("RT_LATENCY=17.399", "RT_LATENCY=17.499", "mean time beside it"),
        ("LOCAL_SEND_CALLS=115111", "LOCAL_SEND_CALLS=115113", "do not match"),
        ("LOCAL_SEND_CALLS=115111", "LOCAL_SEND_CALLS=115110", "do not match"),
        ("MEAN_LATENCY=17.35", "MEAN_LATENCY=12.35", "contradict"),
        ("MEAN_LATENCY=17.35", "MEAN_LATENCY=27.35", "contradict"),
        ("P50_LATENCY=15", "P50_LATENCY=10", "contradict"),
        ("P90_LATENCY=18", "P90_LATENCY=14", "contradict"),
        ("P99_LATENCY=62", "P99_LATENCY=6200", "contradict"),
        ("P99_LATENCY=62\n", "", "truncated"),
        ("P99_LATENCY=62\n", "P99_LATENCY=62\nP99_LATENCY=62\n", "truncated"),
        ("-l 2 ", "-l 1 ", "arguments differ"),
        ("TCP_RR", "TCP_CRR", "arguments differ"),
    ],
)
def test_netperfs_figures_have_to_agree_and_be_of_the_test(old, new, reason):
    test, text = captured("netperf", "2.7.1", "tcp-rr", seconds=2)
    assert old in text
    with pytest.raises(ParseError, match=reason):
        registry.parse(test, text.replace(old, new))


def test_netperf_may_lie_anywhere():
    test, text = captured("netperf", "2.7.1", "tcp-rr", seconds=2)
    elsewhere = text.replace('"netperf ', '"/usr/local/bin/netperf ')
    assert registry.parse(test, elsewhere) == registry.parse(test, text)


def test_pings_lost_packets_are_counted_and_are_no_samples():
    test, text = captured("ping", "20240905", "some-lost", count=30, interval_seconds=0.05)
    measurement = registry.parse(test, text)
    assert len(measurement.samples["rtt"]) == measurement.details["received"] == 22
    assert measurement.details["loss_ratio"] == pytest.approx(8 / 30)


def test_pings_times_are_in_the_order_of_sending():
    test, text = captured("ping", "20240905", "reordered", count=20, interval_seconds=0.005)
    numbers = [int(each) for each in re.findall(r"icmp_seq=(\d+)", text)]
    assert numbers != sorted(numbers)
    first = re.search(r"icmp_seq=1 .*time=([0-9.]+)", text)
    assert registry.parse(test, text).samples["rtt"][0] == pytest.approx(float(first[1]) / 1000)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("time=0.030 ms", "time=0.000 ms", "a time of zero"),
        ("icmp_seq=3 ", "icmp_seq=2 ", "there are 9 replies"),
        ("10 received", "9 received", "summary tells of 9"),
        ("rtt min/avg/max/mdev = 0.", "rtt min/avg/max/mdev = 1.", "where the replies say"),
        ("10 packets transmitted", "11 packets transmitted", "11 packets"),
    ],
)
def test_pings_summary_has_to_be_that_of_its_replies(old, new, reason):
    text = read("ping", "ten-replies.txt")
    assert old in text
    with pytest.raises(ParseError, match=reason):
        registry.parse(TEN, text.replace(old, new))
