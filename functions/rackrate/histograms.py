"""Histograms of many values, and the form in which HdrHistogram writes them. Pure.

A histogram has a count for each of its steps. Histograms are merged by adding their counts, so that
percentiles of the merged one are those of all values, to within a step.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import itertools
import math
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

#: The cookies of the version 2 of the format, compressed and not. The low byte's high half is the
#: width of a counter, which this version does not use
#: (https://github.com/HdrHistogram/HdrHistogram/blob/master/src/main/java/org/HdrHistogram/AbstractHistogram.java).
_COMPRESSED, _PLAIN, _WIDTH = 0x1C849304, 0x1C849303, 0xF0
_HEADER = struct.Struct(">iiiiqqd")
#: More than any histogram of a benchmark has.
_MOST_BYTES = 4_000_000
_LONGEST_COUNT = 9  # bytes of a 64-bit number


@dataclass(frozen=True)
class Histogram:
    """How often each value was seen. It can be read like the sorted sequence of all values.

    Attributes:
        values: the different values, ascending and positive.
        counts: how often each was seen, at least once.

    Raises:
        ValueError: values are out of order, or a count is missing or not positive.
    """

    values: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.counts) or not self.values:
            raise ValueError("a histogram has one count for each value, and at least one")
        if not self.values[0] > 0 or not self.values[-1] < math.inf or min(self.counts) < 1:
            raise ValueError("a histogram's values and counts are positive")
        if not all(less < more for less, more in itertools.pairwise(self.values)):
            raise ValueError("a histogram's values ascend")

    @cached_property
    def _seen(self) -> list[int]:
        """How many values are not above each."""
        return list(itertools.accumulate(self.counts))

    @property
    def total(self) -> int:
        """How many values were seen."""
        return self._seen[-1]

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, place: int) -> float:
        """The value at a place of the sorted sequence."""
        if not -self.total <= place < self.total:
            raise IndexError(f"a histogram of {self.total} values has none at {place}")
        return self.values[bisect.bisect_right(self._seen, place % self.total)]

    def at(self, share: float) -> float:
        """The smallest value that is not below a share of all values, above 0 and at most 1."""
        return self[max(1, math.ceil(share * self.total - 1e-9)) - 1]


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """The histogram of all values of one histogram or more."""
    counts: Counter[float] = Counter()
    for each in histograms:
        counts.update(dict(zip(each.values, each.counts, strict=True)))
    values = sorted(counts)
    return Histogram(tuple(values), tuple(counts[value] for value in values))


def decoded(text: str, unit: float) -> Histogram:
    """Read a histogram that HdrHistogram wrote: version 2, compressed, in Base64.

    Of all values of a step it keeps the highest, as HdrHistogram's percentiles do.

    Args:
        text: what it wrote.
        unit: the unit of its whole numbers, such as 1e-9 for nanoseconds in seconds.

    Raises:
        ValueError: it is no such histogram, or it is damaged.
    """
    try:
        data = base64.b64decode(text, validate=True)
        cookie, length = struct.unpack_from(">ii", data)
        expand = zlib.decompressobj()
        plain = expand.decompress(data[8 : 8 + length], _MOST_BYTES)
        inner, size, offset, digits, lowest, highest, _ = _HEADER.unpack_from(plain)
    except (binascii.Error, struct.error, zlib.error) as error:
        raise ValueError(f"no histogram of HdrHistogram: {error}") from error
    if cookie & ~_WIDTH != _COMPRESSED or inner & ~_WIDTH != _PLAIN or offset != 0:
        raise ValueError("no histogram of HdrHistogram's version 2")
    if not 0 <= digits <= 5 or not 1 <= lowest <= highest or not expand.eof:
        raise ValueError("a damaged histogram")
    body = plain[_HEADER.size :]
    if len(body) != size:
        raise ValueError(f"a histogram of {len(body)} bytes that should have {size}")
    counted = list(_counts(body, _steps(digits, lowest, highest)))
    if not counted:
        raise ValueError("an empty histogram")
    return Histogram(
        tuple(_highest_of(index, digits, lowest) * unit for index, _ in counted),
        tuple(count for _, count in counted),
    )


def _halves(digits: int) -> int:
    """The exponent of half the number of steps in a bucket."""
    return math.ceil(math.log2(2 * 10**digits)) - 1 if digits else 0


def _magnitude(lowest: int) -> int:
    return lowest.bit_length() - 1


def _steps(digits: int, lowest: int, highest: int) -> int:
    """How many steps a histogram up to its highest value may have."""
    half = _halves(digits)
    buckets = max(0, highest.bit_length() - (half + 1 + _magnitude(lowest))) + 1
    return (buckets + 1) << half


def _highest_of(index: int, digits: int, lowest: int) -> int:
    """The highest value of a step."""
    half = _halves(digits)
    bucket = (index >> half) - 1
    within = (index & ((1 << half) - 1)) + (1 << half)
    if bucket < 0:
        bucket, within = 0, within - (1 << half)
    shift = bucket + _magnitude(lowest)
    return (within << shift) + (1 << shift) - 1


def _counts(body: bytes, steps: int) -> Iterator[tuple[int, int]]:
    """The steps with values, by index. A negative number stands for so many steps without any."""
    index, place = 0, 0
    while place < len(body):
        number, place = _number(body, place)
        if number < 0:
            index -= number
        else:
            if number:
                yield index, number
            index += 1
        if index > steps:
            raise ValueError("a histogram with more steps than it says")


def _number(body: bytes, place: int) -> tuple[int, int]:
    """A number in ZigZag LEB128, whose ninth byte has eight bits; and the place after it."""
    value = 0
    for at in range(_LONGEST_COUNT):
        if place + at >= len(body):
            raise ValueError("a histogram that ends within a number")
        byte = body[place + at]
        last = at == _LONGEST_COUNT - 1
        value |= (byte if last else byte & 0x7F) << (7 * at)
        if last or not byte & 0x80:
            break
    return (value >> 1) ^ -(value & 1), place + at + 1
