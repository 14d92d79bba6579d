"""Histograms of HdrHistogram: read as its format says, and merged by their counts."""

from __future__ import annotations

import base64
import itertools
import math
import struct
import zlib
from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rackrate.histograms import Histogram, decoded, merged
from rackrate.tools.base import nearest_rank
from rackrate.verdict.percentiles import percentiles

times = st.lists(st.integers(1, 10**10), min_size=1, max_size=80)


def steps(value, digits, lowest):
    """The index of a value's step and the step's highest value, by the format's description."""
    many = 2 ** math.ceil(math.log2(2 * 10**digits))
    width = 2 ** math.floor(math.log2(lowest))
    bucket = 0
    while value >= many * width:
        width, bucket = 2 * width, bucket + 1
    return bucket * many // 2 + value // width, value // width * width + width - 1


def written(values, digits=3, lowest=1):
    """A histogram as HdrHistogram writes it."""
    counts = Counter(steps(value, digits, lowest)[0] for value in values)
    body, before = b"", -1
    for index, count in sorted(counts.items()):
        gap = index - before - 1
        body += (number(-gap) if gap else b"") + number(count)
        before = index
    head = struct.pack(">iiiiqqd", 0x1C849313, len(body), 0, digits, lowest, 2 * 10**10, 1.0)
    packed = zlib.compress(head + body)
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(packed)) + packed).decode()


def number(value):
    """A number in ZigZag LEB128."""
    rest, encoded = value * 2 if value >= 0 else -value * 2 - 1, b""
    while rest > 127:
        rest, encoded = rest >> 7, encoded + bytes([rest & 127 | 128])
    return encoded + bytes([rest])


@settings(max_examples=200)
@given(times, st.integers(1, 4), st.sampled_from([1, 2, 1000]))
@example([1], 3, 1)
@example([2047, 2048, 2049, 4095, 4096], 3, 1)
def test_it_reads_each_value_as_the_highest_of_its_step(values, digits, lowest):
    histogram = decoded(written(values, digits, lowest), 1.0)
    assert list(histogram) == sorted(steps(value, digits, lowest)[1] for value in values)
    for share in (0.01, 0.5, 0.99, 1):
        assert histogram.at(share) == nearest_rank(list(histogram), share)


@settings(max_examples=100)
@given(st.lists(times, min_size=1, max_size=5))
def test_merged_it_is_the_histogram_of_all_values(parts):
    of_parts = [decoded(written(part), 1e-9) for part in parts]
    together = decoded(written(itertools.chain(*parts)), 1e-9)
    assert merged(of_parts) == together
    assert list(together) == sorted(each for part in of_parts for each in part)


def test_percentiles_of_histograms_are_those_of_their_values_and_not_of_percentiles():
    blocks = [
        Histogram((0.001, 0.002), (900 + each, 100 - each)) if each else Histogram((5.0,), (1000,))
        for each in range(6)
    ]
    merged = percentiles(blocks)
    assert merged == percentiles([list(block) for block in blocks])
    assert merged.samples == 6000
    assert merged.p50 == 0.001
    assert merged.p99 == 5.0


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_one_is_refused_or_a_histogram(data):
    raw = bytearray(base64.b64decode(written([1000, 2000, 10**9])))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    text = base64.b64encode(raw[: data.draw(st.integers(0, len(raw)))]).decode()
    try:
        histogram = decoded(text, 1.0)
    except ValueError as error:
        assert str(error)
    else:
        assert histogram.total > 0
