"""The parsers on every captured output, whole, cut, changed, and in a foreign tool's format."""

from __future__ import annotations

import functools
import json
import math
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate import tools
from rackrate.tools import Measurement, ParseError, TestBase
from tests.unit.tools.captures import DOCUMENT, Capture, captures, renew

ALL = list(captures())
MEASURED = [capture for capture in ALL if capture.reason is None]
FAILED = [capture for capture in ALL if capture.reason is not None]
REPORTS = [capture for capture in MEASURED if capture.tool == "iperf3"]
DEFAULTS = [tools.load_test({"name": "default", "tool": name}) for name in tools.names()]


def ids(found):
    return [capture.id for capture in found]


@functools.cache
def whole(path) -> Measurement:
    capture = next(each for each in ALL if each.path == path)
    return tools.parse(capture.test, capture.text)


def sound(test: TestBase, measurement: Measurement) -> None:
    """What holds of any measurement, whatever it was made of."""
    assert set(measurement.values) == {metric.name for metric in test.metrics}
    for value in measurement.values.values():
        assert math.isfinite(value) and value > 0
    for metric in test.metrics:
        if metric.samples is not None:
            raw = measurement.samples[metric.samples]
            assert min(raw) <= measurement.values[metric.name] <= max(raw)
            assert all(math.isfinite(each) and each > 0 for each in raw)
    for before, after in zip(measurement.series, measurement.series[1:], strict=False):
        assert before.start_seconds < before.end_seconds <= after.end_seconds
    for value in measurement.details.values():
        assert isinstance(value, str) or (math.isfinite(value) and value >= 0)
    assert 0 <= float(measurement.details.get("loss_ratio", 0)) <= 1


def test_every_tool_has_captures_of_several_versions_of_success_and_of_failure():
    for tool in tools.names():
        for some in (MEASURED, FAILED):
            assert len({capture.version for capture in some if capture.tool == tool}) >= 2, tool


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_a_successful_output_is_a_sound_measurement(capture: Capture):
    sound(capture.test, tools.parse(capture.test, capture.text))


@pytest.mark.parametrize("capture", FAILED, ids=ids(FAILED))
def test_a_failed_output_is_refused_for_its_own_reason(capture: Capture):
    with pytest.raises(ParseError) as caught:
        tools.parse(capture.test, capture.text)
    assert re.search(str(capture.reason), str(caught.value)), str(caught.value)


def held(test: TestBase, text: str, found: Measurement) -> None:
    """The text holds the measurement: a throughput is printed, a latency made of printed times."""
    text = re.sub(r"sockperf: Test end[^\n]*\n", "", text)  # may be in the middle of a number
    numbers = {
        float(each) for each in re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", text, re.IGNORECASE)
    }
    if test.primary.unit == "bit/s":
        value = found.values[test.primary.name]
        parts = [
            float(found.details[name])
            for name in ("forward_bits_per_second", "reverse_bits_per_second")
            if name in found.details
        ] or [value]
        assert sum(parts) == pytest.approx(value)
        assert set(parts) <= numbers
    elif test.tool == "ping":
        for each in found.samples["rtt"]:
            assert round(each * 1000, 6) in numbers
    else:
        for each in found.samples["latency"]:
            # The printed time is the difference of two, rounded.
            assert {round(each * 1e6 + step / 1000, 3) for step in (-2, -1, 0, 1, 2)} & numbers


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_the_text_holds_the_measurement(capture: Capture):
    held(capture.test, capture.text, whole(capture.path))


@pytest.mark.parametrize("tool", tools.names())
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_output_cut_anywhere_is_never_a_different_measurement(tool: str, data):
    capture = data.draw(st.sampled_from([each for each in MEASURED if each.tool == tool]))
    text = capture.text
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    expect_the_same_or_nothing(capture, cut)


@pytest.mark.parametrize("tool", tools.names())
def test_output_cut_at_any_line_is_never_a_different_measurement(tool: str):
    for capture in (each for each in MEASURED if each.tool == tool):
        lines = capture.text.splitlines(keepends=True)
        for count in {*range(min(len(lines), 60)), *range(max(0, len(lines) - 60), len(lines))}:
            expect_the_same_or_nothing(capture, "".join(lines[:count]))


def expect_the_same_or_nothing(capture: Capture, text: str) -> None:
    try:
        found = tools.parse(capture.test, text)
    except ParseError as error:
        assert str(error)
    else:
        assert found.values == whole(capture.path).values
        assert found.samples == whole(capture.path).samples


@pytest.mark.parametrize("tool", tools.names())
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_changed_output_is_refused_or_sound(tool: str, data):
    capture = data.draw(st.sampled_from([each for each in ALL if each.tool == tool]))
    text = capture.text
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        filling = data.draw(
            st.text(string.digits + '-.e \n{}[]",:', max_size=8)
            | st.sampled_from(["null", "NaN", "-1", "1e999", "true", "0"])
            | st.text(max_size=4)
        )
        text = text[:start] + filling + text[end:]
    try:
        found = tools.parse(capture.test, text)
    except ParseError as error:
        assert str(error)
    else:
        sound(capture.test, found)
        held(capture.test, text, found)


@pytest.mark.parametrize("capture", REPORTS, ids=ids(REPORTS))
def test_every_number_may_be_absurd(capture: Capture):
    """Each kind of number of iperf3's report at a time is replaced by what none can be."""
    text = capture.text[capture.text.index("{") :]
    for name in set(re.findall(r'"(\w+)":\s*-?\d', text)):
        for absurd in ("null", "true", '"1"', "-1", "1e999", "NaN", "[]", "1" + "0" * 400):
            changed = re.sub(rf'("{name}":\s*)-?[\d.e+-]+', rf"\g<1>{absurd}", text)
            try:
                found = tools.parse(capture.test, changed)
            except ParseError:
                continue
            sound(capture.test, found)


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_another_tools_output_is_refused(capture: Capture):
    for test in DEFAULTS:
        if test.tool != capture.tool:
            with pytest.raises(ParseError):
                tools.parse(test, capture.text)


GARBAGE = {
    "nothing": "",
    "blank": "\n \n",
    "a megabyte of zero bytes": "\0" * 1_000_000,
    "a megabyte of brackets": "[" * 1_000_000,
    "a megabyte of objects": '{"end":' * 150_000,
    "a megabyte of a digit": "7" * 1_000_000,
    "a megabyte of spaces": " " * 1_000_000,
    "a megabyte of dashes": "-" * 1_000_000,
    "a megabyte of lines": "\n" * 1_000_000,
    "a megabyte of words": "sockperf: ping: iperf3: [SUM] 0.0000-1.0000 sec " * 20_000,
    "a megabyte of warnings": "warning: no\n" * 80_000,
    "JSON, but no report": "[1, 2, 3]",
    "a page": "<html><body>502 Bad Gateway</body></html>",
}


@pytest.mark.parametrize("test", DEFAULTS, ids=lambda test: test.tool)
@pytest.mark.parametrize("text", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_is_refused_with_a_short_reason(test: TestBase, text: str):
    with pytest.raises(ParseError) as caught:
        tools.parse(test, text)
    assert 0 < len(str(caught.value)) < 400


nested = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("start", "end", "intervals", "streams", "sum", "sum_sent", "sum_received"),
                    *("udp", "error", "seconds", "bytes", "bits_per_second", "test_start"),
                    *("packets", "lost_packets", "omitted", "sender", "version"),
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
).map(json.dumps)


@pytest.mark.parametrize("test", DEFAULTS, ids=lambda test: test.tool)
@settings(deadline=None, max_examples=100)
@given(text=st.text() | nested)
def test_arbitrary_text_is_refused_with_a_reason(test: TestBase, text: str):
    with pytest.raises(ParseError) as caught:
        tools.parse(test, text)
    assert str(caught.value)


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_the_output_of_another_test_is_refused(capture: Capture):
    """A test that asks for more than was measured does not get less for it."""
    field = "count" if capture.tool == "ping" else "seconds"
    more = getattr(capture.test, field) * 3
    with pytest.raises(ParseError):
        tools.parse(capture.test.model_copy(update={field: more}), capture.text)


def test_the_table_of_captures_in_the_document_is_true():
    document = DOCUMENT.read_text(encoding="utf-8")
    assert renew(document) == document, (
        "run `PYTHONPATH=functions python -m tests.unit.tools.captures`"
    )
