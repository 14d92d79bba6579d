"""The comparison of variability. benchmarks/verdict.py measures its error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.verdict.layout import Layout
from rackrate.verdict.steadiness import (
    LEAST_BLOCKS_OF_STEADINESS,
    STEADINESS_FACTOR,
    compare_steadiness,
    spread,
)
from tests.unit.verdict.pairs import many_pairs, one_pair


def steadiness(arm, baseline, **more):
    return compare_steadiness(one_pair(arm), one_pair(baseline, "cd"), **more)


CALM = [1.0, 1.01, 0.99, 1.0, 1.015, 0.985, 1.0, 1.01, 0.99, 1.005, 0.995, 1.0]
WILD = [1.0, 1.3, 0.7, 1.1, 0.75, 1.25, 0.9, 1.2, 0.8, 1.15, 0.7, 1.3]


def test_less_scatter_is_steadier():
    result = steadiness(CALM, WILD)
    assert (result.verdict, result.arm < result.baseline) == ("better", True)
    assert result.ci_simultaneous[1] < 1 / STEADINESS_FACTOR
    assert steadiness(WILD, CALM).verdict == "worse"


def test_two_arms_that_hardly_scatter_are_equally_steady():
    result = steadiness([1.0, 1.001] * 6, [1.0, 1.004] * 6)
    assert result.verdict == "no meaningful difference"


def test_pairs_with_noise_of_their_own_make_a_steadiness_verdict_more_certain():
    noise = np.random.default_rng(6).normal(0, 0.03, (2, 8, 10))
    calm, wild = np.exp(noise[0]), np.exp(3 * noise[1])
    alone = compare_steadiness(many_pairs(calm[:1]), many_pairs(wild[:1], "y"))
    many = compare_steadiness(many_pairs(calm), many_pairs(wild, "y"))
    assert (alone.verdict, many.verdict) == ("inconclusive", "better")


def test_pairs_that_share_what_moves_a_block_make_it_no_more_certain():
    noise = np.random.default_rng(6).normal(0, 0.03, (2, 1, 10)) * np.ones((2, 8, 1))
    alone, many = (
        compare_steadiness(many_pairs(np.exp(a)), many_pairs(np.exp(3 * b), "y"))
        for a, b in (noise[:, :1], noise)
    )
    assert many.ci95 == pytest.approx(alone.ci95)


def test_outliers_of_one_arm_alone_are_no_sign_of_less_steadiness():
    noise = np.random.default_rng(2).normal(0, 0.02, (2, 12))
    noise[0, [3, 8]] -= 1.0
    assert steadiness(*np.exp(noise)).verdict == "inconclusive"


@pytest.mark.parametrize("comparisons", [8, 20])
def test_equal_arms_are_equally_steady_among_many_comparisons(comparisons):
    """With 9 degrees of freedom F's quantile was 1.89 instead of 7.46 for 8 comparisons."""
    noise = np.exp(np.random.default_rng(3).normal(0, 0.05, (40, 2, 10)))
    words = [steadiness(*arms, error=0.05 / comparisons).verdict for arms in noise]
    assert not {"better", "worse"} & {*words}


@pytest.mark.parametrize("blocks", [4, LEAST_BLOCKS_OF_STEADINESS - 1])
def test_too_few_blocks_have_no_steadiness_verdict(blocks):
    result = steadiness(CALM[:blocks], WILD[:blocks], error=0.5)
    assert (result.verdict, result.ratio < 1) == ("inconclusive", True)
    assert str(LEAST_BLOCKS_OF_STEADINESS) in result.reason


def test_more_comparisons_than_the_blocks_can_bear_have_no_interval():
    result = steadiness(CALM, WILD, error=0.05 / 2000)
    assert (result.verdict, result.ci_simultaneous) == ("inconclusive", None)
    assert result.reason


def test_an_arm_that_does_not_vary_has_no_ratio():
    result = steadiness([1.0] * 12, WILD)
    assert (result.verdict, result.ratio, result.ci95) == ("inconclusive", None, None)


def test_the_interval_has_the_exact_ends_of_all_regroupings_of_few_blocks():
    """By hand: 3 and 3 deviations have 20 ways, of which one is left beyond each end."""
    result = compare_steadiness(
        one_pair(np.exp([0, 1, -2, 0, 0.5])), one_pair(np.exp([0, 4, -3, 0, 6]), "cd"), error=0.2
    )
    low, high = result.ci_simultaneous
    assert low < result.ratio < high
    factor = math.sqrt(5 / 4) * math.sqrt(math.pi / 2)
    # The middle value of five is its own median and left out: 0, 0.5, 1, 2 and 0, 3, 4, 6 are left.
    assert result.arm == pytest.approx(3.5 / 4 * factor)
    assert result.baseline == pytest.approx(13 / 4 * factor)


def test_a_large_ring_has_its_steadiness_too():
    noise = np.random.default_rng(1).normal(0, 0.05, (2, 501, 10))
    calm, wild = many_pairs(np.exp(noise[0])), many_pairs(np.exp(3 * noise[1]), "y")
    assert compare_steadiness(calm, wild, error=0.05 / 12).verdict == "better"


def test_lost_trials_do_not_change_the_variability():
    noise = np.random.default_rng(5).normal(0, 0.05, (200, 7))
    whole = Layout.of(many_pairs(np.exp(noise))).block_deviations
    noise[::2, 5:] = np.nan
    some = [v for v in many_pairs(np.exp(noise)) if math.isfinite(v.value)]
    assert Layout.of(some).block_deviations.mean() == pytest.approx(whole.mean(), rel=0.05)


rows = st.lists(st.floats(0.5, 2), min_size=10, max_size=14)


@settings(max_examples=60, deadline=None)
@given(rows, rows, st.floats(1e-4, 0.5))
def test_a_word_and_its_interval_agree_and_turn_about_with_the_arms(arm, baseline, error):
    size = min(len(arm), len(baseline))
    forth = steadiness(arm[:size], baseline[:size], error=error)
    back = steadiness(baseline[:size], arm[:size], error=error)
    assert back.verdict == {"better": "worse", "worse": "better"}.get(forth.verdict, forth.verdict)
    if forth.ci_simultaneous is None:
        assert back.ci_simultaneous is None
        return
    low, high = forth.ci_simultaneous
    assert back.ci_simultaneous == pytest.approx((1 / high, 1 / low))
    assert (forth.verdict == "better") <= (high < 1 / STEADINESS_FACTOR)
    assert (forth.verdict == "worse") <= (low > STEADINESS_FACTOR)
    if error <= 0.05:
        assert low <= forth.ratio * (1 + 1e-9) and forth.ratio <= high * (1 + 1e-9)


def test_spread_tells_blocks_from_pairs():
    blocks_differ = spread(many_pairs([[1.0, 1.1, 0.9, 1.0, 1.1, 0.9]] * 6))
    pairs_differ = spread(many_pairs([[v] * 6 for v in (1.0, 1.1, 0.9, 1.0, 1.1, 0.9)]))
    assert blocks_differ.between_blocks == pytest.approx(0.09, abs=0.02)
    assert blocks_differ.between_pairs == pytest.approx(0.0, abs=1e-9)
    assert pairs_differ.between_pairs == pytest.approx(0.09, abs=0.02)
    assert pairs_differ.between_blocks == pytest.approx(0.0, abs=1e-9)


def test_spread_of_one_pair_and_of_nothing_is_unknown():
    assert spread(one_pair([1.0, 1.1])).between_pairs is None
    assert spread([]).between_blocks is None
