"""The parsers on all captured outputs: whole, truncated, changed, or of another tool."""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import math
import re
import string
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate import registry
from rackrate.tools.base import Measurement, ParseError, TestBase
from rackrate.workloads.base import WorkloadTest
from rackrate_text.units import unit_of
from tests.unit.tools.captures import Capture, captures

ALL = list(captures())
MEASURED = [capture for capture in ALL if capture.reason is None]
FAILED = [capture for capture in ALL if capture.reason is not None]
REPORTS = [capture for capture in MEASURED if capture.text.lstrip().startswith("{")]
DEFAULTS = [registry.load_test({"name": "default", "tool": name}) for name in registry.names()]


def ids(some):
    return [capture.id for capture in some]


@functools.cache
def whole(path) -> Measurement:
    capture = next(each for each in ALL if each.path == path)
    return registry.parse(capture.test, capture.text)


def raw_values(measurement: Measurement, kind: str) -> tuple[float, ...]:
    """The raw values of a kind, or the different ones of their histogram."""
    if kind in measurement.histograms:
        return measurement.histograms[kind].values
    return measurement.samples[kind]


def sound(test: TestBase, measurement: Measurement) -> None:
    """Assert what must be true for any measurement."""
    assert set(measurement.values) == {metric.name for metric in test.metrics}
    for value in measurement.values.values():
        assert math.isfinite(value) and value > 0
    for metric in test.metrics:
        if metric.samples is not None:
            raw = raw_values(measurement, metric.samples)
            assert min(raw) <= measurement.values[metric.name] <= max(raw)
            assert all(math.isfinite(each) and each > 0 for each in raw)
    for before, after in zip(measurement.series, measurement.series[1:], strict=False):
        assert before.start_seconds < before.end_seconds <= after.end_seconds
    for value in measurement.details.values():
        assert isinstance(value, str) or (math.isfinite(value) and value >= 0)
    assert 0 <= float(measurement.details.get("loss_ratio", 0)) <= 1


def test_every_tool_has_captures_of_success_and_of_failure():
    for tool in registry.names():
        for some in (MEASURED, FAILED):
            assert [capture for capture in some if capture.tool == tool], tool


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_a_successful_output_is_a_sound_measurement(capture: Capture):
    sound(capture.test, registry.parse(capture.test, capture.text))


@pytest.mark.parametrize("capture", FAILED, ids=ids(FAILED))
def test_a_failed_output_is_refused_for_its_own_reason(capture: Capture):
    with pytest.raises(ParseError) as caught:
        registry.parse(capture.test, capture.text)
    assert re.search(str(capture.reason), str(caught.value)), str(caught.value)


_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.IGNORECASE)
_WITH_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])")
_TWO_TIMES = re.compile(r"^(\d+\.\d+) (\d+\.\d+) ", re.MULTILINE)
#: Scales of the units that tools print, from nanoseconds to terabits.
_SCALES = [10.0**power for power in range(-9, 13, 3)]


def held(test: TestBase, text: str, measurement: Measurement) -> None:
    """Assert that the text contains the measurement's raw values, or else its values, in some unit.

    A value may also be the sum of both directions, or the difference of the first two figures of a
    line. The rate of a workload's member is a share of that of a load pod.
    """
    # sockperf can print this message in the middle of a number.
    text = re.sub(r"sockperf: Test end[^\n]*\n", "", text)
    grouped = [each.replace(",", "") for each in _WITH_THOUSANDS.findall(text)]
    differences = {float(end) - float(start) for end, start in _TWO_TIMES.findall(text)}
    numbers = sorted({float(each) for each in _NUMBER.findall(text) + grouped} | differences)
    shares = []
    if isinstance(test, WorkloadTest):
        shares.append(test.member_count / test.loader_count)
    for metric in test.metrics:
        column = unit_of(metric.unit).column
        parts = [
            float(measurement.details[f"{way}_{column}"])
            for way in ("forward", "reverse")
            if f"{way}_{column}" in measurement.details
        ]
        value = measurement.values[metric.name]
        if metric.samples in measurement.samples:
            figures = measurement.samples[metric.samples]
        elif parts:
            assert sum(parts) == pytest.approx(value)
            figures = tuple(parts)
        else:
            figures = (value,)
        # The time of a request that had to wait is a sum.
        sums = round(float(measurement.details.get("delayed_ratio", 0)) * len(figures))
        absent = [
            sum(not _printed(f * each, numbers) for f in figures)
            for each in (*_SCALES, *shares)
            if any(_printed(f * each, numbers) for f in figures[:5])
        ]
        assert min(absent, default=len(figures) + 1) <= sums, f"{metric.name} is not in the output"


def _printed(figure: float, numbers: list[float]) -> bool:
    """Whether a figure is among the sorted numbers, within the rounding of a difference of two."""
    margin = 2e-4 * figure
    place = bisect.bisect_left(numbers, figure - margin)
    return place < len(numbers) and numbers[place] <= figure + margin


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_the_text_holds_the_measurement(capture: Capture):
    held(capture.test, capture.text, whole(capture.path))


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_figures_are_those_that_the_tool_printed(capture: Capture):
    measurement = whole(capture.path)
    figures = {**measurement.details, **measurement.values}
    without_samples = {each.name for each in capture.test.metrics if each.samples is None}
    parts = {f"{way}_bits_per_second" for way in ("forward", "reverse")}
    named = set(capture.printed)
    assert named and (without_samples <= named or parts <= named), "say what is printed"
    for name, printed in capture.printed.items():
        assert re.search(rf"(?<![\d.]){re.escape(printed.digits)}(?![\d])", capture.text), name
        # Digits that a float cannot hold are no difference.
        near = pytest.approx(printed.value, rel=1e-12, abs=printed.tolerance)
        assert figures[name] == near, name


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_different_raw_values_are_a_step_of_the_tool_apart(capture: Capture):
    for metric in capture.test.metrics:
        # A histogram's steps are those of its format.
        if metric.samples not in whole(capture.path).samples:
            continue
        values = sorted(set(whole(capture.path).samples[metric.samples]))
        for less, more in itertools.pairwise(values):
            assert more - less >= metric.resolution_at(less) * (1 - 1e-6), metric


def test_bytes_are_counted_in_whole_steps_of_the_throughput():
    in_parts = {("iperf3", "3.9"), ("iperf3", "3.12")}
    seen = set()
    for capture in MEASURED:
        test, details = capture.test, whole(capture.path).details
        if test.throughput is None or getattr(test, "protocol", "tcp") != "tcp":
            continue
        # The end of a test cuts writes of iperf 2, the more the more streams there are.
        if (capture.tool, capture.version) in in_parts or test.throughput.flows > 8:
            continue
        counted = int(details.get("received_bytes") or details["sent_bytes"])
        # Each stream of iperf 2 begins with a header of at most 64 bytes.
        header = 64 * test.throughput.flows if capture.tool == "iperf" else 0
        assert counted % round(test.primary.step * test.seconds / 8) <= header, capture.id
        seen.add(capture.tool)
    assert seen == {"iperf", "iperf3"}


def test_every_detail_and_metric_that_a_tool_tells_is_one_that_its_module_names():
    """An unnamed one would be in no column. A column that no tool fills is a mistake."""
    details = defaultdict(set)
    for capture in MEASURED:
        kinds = {each.name: each.kind for each in type(capture.test).details}
        for name, value in whole(capture.path).details.items():
            details[capture.tool].add(name)
            assert isinstance(value, (int, float) if kinds[name] is float else kinds[name]), name
        for metric in capture.test.metrics:
            known = {(each.name, each.unit) for each in registry.metrics(capture.tool)}
            assert (metric.name, metric.unit) in known, "name a test of it in the catalogue"
    for tool in registry.names():
        assert details[tool] == {each.name for each in registry.test_class(tool).details}


@pytest.mark.parametrize("tool", registry.names())
@settings(max_examples=100)
@given(data=st.data())
def test_output_cut_anywhere_is_never_a_different_measurement(tool: str, data):
    capture = data.draw(st.sampled_from([each for each in MEASURED if each.tool == tool]))
    text = capture.text
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    expect_the_same_or_nothing(capture, cut)


@pytest.mark.parametrize("tool", registry.names())
def test_output_cut_at_any_line_is_never_a_different_measurement(tool: str):
    for capture in (each for each in MEASURED if each.tool == tool):
        lines = capture.text.splitlines(keepends=True)
        for count in {*range(min(len(lines), 60)), *range(max(0, len(lines) - 60), len(lines))}:
            expect_the_same_or_nothing(capture, "".join(lines[:count]))


def expect_the_same_or_nothing(capture: Capture, text: str) -> None:
    try:
        measurement = registry.parse(capture.test, text)
    except ParseError as error:
        assert str(error)
    else:
        assert measurement.values == whole(capture.path).values
        assert measurement.samples == whole(capture.path).samples
        assert measurement.histograms == whole(capture.path).histograms


@pytest.mark.parametrize("tool", registry.names())
@settings(max_examples=150)
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
        measurement = registry.parse(capture.test, text)
    except ParseError as error:
        assert str(error)
    else:
        sound(capture.test, measurement)
        held(capture.test, text, measurement)


@pytest.mark.parametrize("capture", REPORTS, ids=ids(REPORTS))
def test_every_number_may_be_absurd(capture: Capture):
    """Replace each kind of number in a JSON report, one at a time, with an impossible value."""
    text = capture.text[capture.text.index("{") :]
    for name in set(re.findall(r'"(\w+)":\s*-?\d', text)):
        for absurd in ("null", "true", '"1"', "-1", "1e999", "NaN", "[]", "1" + "0" * 400):
            changed = re.sub(rf'("{name}":\s*)-?[\d.e+-]+', rf"\g<1>{absurd}", text)
            try:
                measurement = registry.parse(capture.test, changed)
            except ParseError:
                continue
            sound(capture.test, measurement)


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_another_tools_output_is_refused(capture: Capture):
    for test in DEFAULTS:
        if test.tool != capture.tool:
            with pytest.raises(ParseError):
                registry.parse(test, capture.text)


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
        registry.parse(test, text)
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
@settings(max_examples=100)
@given(text=st.text() | nested)
def test_arbitrary_text_is_refused_with_a_reason(test: TestBase, text: str):
    with pytest.raises(ParseError) as caught:
        registry.parse(test, text)
    assert str(caught.value)


@pytest.mark.parametrize("capture", MEASURED, ids=ids(MEASURED))
def test_the_output_of_another_test_is_refused(capture: Capture):
    """A test must not accept a shorter or smaller measurement than it asked for."""
    with pytest.raises(ParseError):
        registry.parse(longer(capture.test), capture.text)


def longer(test: TestBase) -> TestBase:
    """The same test with one of its whole numbers tripled, to make it longer."""
    for name in type(test).model_fields:
        if isinstance(value := getattr(test, name), int):
            changed = test.model_copy(update={name: value * 3})
            if changed.expected_seconds > test.expected_seconds:
                return changed
    raise AssertionError(f"nothing makes a test of {test.tool} longer")
