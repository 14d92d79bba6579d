"""The looks at the verdicts: fixed before the run, few, and each with a smaller error."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rackrate.plan.looks import GROWTH, MOST_LOOKS, look_level, looks


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (6, 6, (6,)),
        (1, 1, (1,)),
        (6, 7, (6, 7)),
        (6, 12, (6, 9, 12)),
        (6, 24, (6, 10, 15, 24)),
        (1, 3, (1, 2, 3)),
        (1, 1000, (1, 10, 100, 1000)),
    ],
)
def test_each_look_comes_after_about_half_as_many_blocks_again(least, most, expected):
    assert looks(least, most) == expected


@given(st.integers(1, 1000), st.integers(0, 999))
def test_looks_begin_with_the_least_end_with_the_most_and_are_at_most_four(least, more):
    most = least + more
    numbers = looks(least, most)
    assert (numbers[0], numbers[-1]) == (least, most)
    assert list(numbers) == sorted(set(numbers))
    assert len(numbers) <= MOST_LOOKS


@given(st.integers(6, 1000), st.integers(1, 999))
@example(174, 306)
def test_no_two_looks_are_much_closer_than_the_growth_unless_there_are_only_two(least, more):
    numbers = looks(least, least + more)
    if len(numbers) > 2:
        # Numbers of blocks are rounded, each by half a block at most.
        closest = min((after + 1) / before for before, after in itertools.pairwise(numbers))
        assert closest > math.sqrt(GROWTH)


def test_one_look_has_the_whole_error_and_each_of_several_less():
    levels = [look_level(number) for number in range(1, MOST_LOOKS + 1)]
    assert levels[0] == 0.05
    assert levels == sorted(levels, reverse=True)
    assert all(0.05 / number < level for number, level in enumerate(levels[1:], start=2))


@pytest.mark.parametrize("number", range(2, MOST_LOOKS + 1))
def test_the_looks_together_have_the_error_of_one(number):
    """Simulate equally spaced looks at a normal mean that is zero, with a fixed seed."""
    limit = NormalDist().inv_cdf(1 - look_level(number) / 2)
    steps = np.random.default_rng(number).normal(size=(200_000, number))
    at = np.abs(steps.cumsum(axis=1)) / np.sqrt(np.arange(1, number + 1))
    assert (at > limit).any(axis=1).mean() == pytest.approx(0.05, abs=0.0015)
