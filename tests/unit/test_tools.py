"""The parsers, on output that true tools printed (tests/unit/data), whole, broken and foreign."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate import tools
from rackrate.tools import ParseError, iperf3, ping
from tests.unit.samples import DATA

ONE = iperf3.Test(name="tcp-1", streams=1, seconds=2)
EIGHT = iperf3.Test(name="tcp-8", streams=8, seconds=1)
FIVE_SECONDS = iperf3.Test(name="tcp-1", seconds=5)
TEN = ping.Test(name="rtt", count=10)
TWENTY = ping.Test(name="rtt", count=20)


def read(tool, name):
    return (DATA / tool / name).read_text()


def test_tools_are_the_files_of_the_package():
    assert tools.names() == ("iperf3", "ping")
    with pytest.raises(KeyError):
        tools.test_class("base")


def test_iperf3_is_given_plain_arguments():
    assert ONE.argv("10.0.0.9") == [
        *("iperf3", "--client", "10.0.0.9", "--port", "5201", "--json"),
        *("--time", "2", "--parallel", "1", "--connect-timeout", "5000"),
    ]


def test_ping_is_given_plain_arguments():
    assert TEN.argv("10.0.0.9") == [
        *("ping", "-n", "-D", "-c", "10", "-i", "0.2", "-W", "2", "10.0.0.9")
    ]


def test_iperf3s_value_is_what_the_receiver_got():
    text = read("iperf3", "one-stream.json")
    found = tools.parse(ONE, text)
    end = json.loads(text)["end"]
    assert found.values["throughput"] == end["sum_received"]["bits_per_second"]
    assert found.values["throughput"] != end["sum_sent"]["bits_per_second"]
    assert len(found.series) == 2
    assert found.details["retransmits"] == end["sum_sent"]["retransmits"]
    assert found.version == "iperf 3.12"


def test_iperf3_sums_its_streams():
    text = read("iperf3", "eight-streams.json")
    streams = json.loads(text)["end"]["streams"]
    assert len(streams) == 8
    total = sum(stream["receiver"]["bytes"] for stream in streams)
    assert tools.parse(EIGHT, text).details["received_bytes"] == total


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("connection-refused.json", "Connection refused"),
        ("server-busy.json", "server is busy"),
        ("server-died.json", "control socket has closed"),
        ("interrupted.json", "the client has terminated"),
        ("killed.json", "printed nothing"),
    ],
)
def test_iperf3_that_failed_is_no_measurement(name, reason):
    with pytest.raises(ParseError, match=reason):
        tools.parse(FIVE_SECONDS, read("iperf3", name))


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
        tools.parse(ONE, changed(path, value))


def test_iperf3_without_a_count_of_retransmits_is_measured_all_the_same():
    text = changed(("end", "sum_sent", "retransmits"), None)
    assert "retransmits" not in tools.parse(ONE, text).details


def test_pings_value_is_the_median_round_trip_in_seconds():
    found = tools.parse(TEN, read("ping", "ten-replies.txt"))
    assert len(found.samples["rtt"]) == 10
    assert found.samples["rtt"][0] == pytest.approx(151e-6)
    assert found.values["rtt"] == pytest.approx(45e-6)
    assert found.details["received"] == 10
    assert found.details["min_seconds"] == pytest.approx(20e-6)


def test_ping_with_some_packets_lost_is_a_measurement_that_says_so():
    lines = read("ping", "ten-replies.txt").splitlines()
    text = "\n".join([*lines[:3], *lines[5:]]).replace("10 received", "8 received")
    found = tools.parse(TEN, text)
    assert (found.details["transmitted"], found.details["received"]) == (10, 8)


def test_an_answer_that_came_twice_counts_once():
    lines = read("ping", "ten-replies.txt").splitlines()
    text = "\n".join([*lines[:2], f"{lines[1]} (DUP!)", *lines[2:]])
    assert len(tools.parse(TEN, text).samples["rtt"]) == 10


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("interrupted.txt", "interrupted after 5 of 20"),
        ("killed.txt", "truncated"),
        ("no-reply.txt", "none of 3 packets"),
        ("unreachable.txt", "none of 3 packets"),
        ("unknown-host.txt", "Name or service not known"),
    ],
)
def test_ping_that_failed_is_no_measurement(name, reason):
    with pytest.raises(ParseError, match=reason):
        tools.parse(TWENTY, read("ping", name))


COMPLETE = [(ONE, read("iperf3", "one-stream.json")), (TEN, read("ping", "ten-replies.txt"))]


@given(st.sampled_from(COMPLETE), st.data())
def test_output_cut_anywhere_is_never_a_different_measurement(sample, data):
    test, text = sample
    whole = tools.parse(test, text)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        assert tools.parse(test, cut).values == whole.values
    except ParseError as error:
        assert str(error)


garbage = st.text() | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["start", "end", "sum_received", "error", "seconds"]), inner
        )
    ),
).map(json.dumps)


@given(st.sampled_from([ONE, TEN]), garbage)
def test_garbage_is_refused_with_a_reason(test, text):

    with pytest.raises(ParseError) as caught:
        tools.parse(test, text)
    assert str(caught.value)
