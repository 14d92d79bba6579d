"""The verdict, on cases whose answer is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.statistics import LEAST_BLOCKS, bootstrap_interval, compare


def by_block(values):
    return {block: [value] for block, value in enumerate(values, start=1)}


def verdict(arm, baseline, better="higher", threshold=0.05):
    return compare(by_block(arm), by_block(baseline), better=better, threshold=threshold, seed=1)


STEADY = [4.94, 4.95, 4.93, 4.96, 4.94, 4.95]


def test_twice_the_throughput_is_better():
    found = verdict([9.5, 9.49, 9.51, 9.5, 9.48, 9.52], STEADY)
    assert found.verdict == "better"
    assert found.ratio == pytest.approx(9.5 / 4.945)
    assert found.ci95[0] == pytest.approx(1.92, abs=0.02)
    assert found.arm_median == 9.5


def test_half_the_throughput_is_worse():
    assert verdict(STEADY, [9.5] * 6).verdict == "worse"


def test_less_latency_is_better():
    found = verdict([155e-6] * 6, [457e-6] * 6, better="lower")
    assert (found.verdict, found.ratio) == ("better", pytest.approx(155 / 457))
    assert verdict([457e-6] * 6, [155e-6] * 6, better="lower").verdict == "worse"


def test_the_same_values_make_no_meaningful_difference():
    found = verdict(STEADY, STEADY)
    assert found.verdict == "no meaningful difference"
    assert found.ci95 == (1.0, 1.0), "pairs are resampled together"


def test_scattered_values_are_inconclusive():
    found = verdict([4, 9, 5, 8, 4, 9], [5, 5, 6, 5, 6, 5])
    assert found.verdict == "inconclusive"
    assert found.reason


def test_a_difference_below_the_threshold_does_not_matter():
    arm = [1.03 * value for value in STEADY]
    assert verdict(arm, STEADY).verdict == "no meaningful difference"
    assert verdict(arm, STEADY, threshold=0.01).verdict == "better"


def test_fewer_than_six_blocks_support_no_verdict():
    found = verdict([9.5] * 5, [4.9] * 5)
    assert (found.verdict, found.ratio) == ("inconclusive", pytest.approx(9.5 / 4.9))
    assert str(LEAST_BLOCKS) in found.reason
    assert verdict([9.5], [4.9]).ci95 is None


def test_blocks_that_only_one_arm_has_are_left_out():
    arm = {**by_block([9.5] * 6), 7: [1.0], 8: []}
    found = compare(arm, by_block([4.9] * 6) | {8: [1.0]}, better="higher", threshold=0.05, seed=1)
    assert (found.blocks, found.arm_median) == (6, 9.5)


def test_several_pairs_of_a_block_count_as_one_value():
    arm = {block: [9.0, 9.5, 30.0] for block in range(1, 7)}
    found = compare(arm, by_block([4.75] * 6), better="higher", threshold=0.05, seed=1)
    assert (found.arm_median, found.ratio) == (9.5, 2.0)


def test_without_values_nothing_is_said():
    found = verdict([], STEADY)
    assert (found.verdict, found.ratio, found.blocks) == ("inconclusive", None, 0)


def test_a_zero_gives_no_ratio():
    assert verdict([0.0] * 6, STEADY).ratio is None


positive = st.lists(st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=6, max_size=12)


@settings(max_examples=30)
@given(positive)
def test_the_interval_lies_within_the_extremes_and_around_the_ratio(pairs):
    arm, baseline = zip(*pairs, strict=True)
    found = verdict(arm, baseline)
    low, high = found.ci95
    assert min(arm) / max(baseline) <= low <= high <= max(arm) / min(baseline)


@settings(max_examples=30)
@given(positive)
def test_swapping_the_arms_inverts_the_verdict(pairs):
    arm, baseline = zip(*pairs, strict=True)
    opposite = {"better": "worse", "worse": "better"}
    there, back = verdict(arm, baseline), verdict(baseline, arm)
    assert back.verdict == opposite.get(there.verdict, there.verdict)


def test_the_bootstrap_agrees_with_all_resamples_of_a_small_case():
    arm, baseline = [2.0, 3.0, 5.0, 7.0], [1.0, 1.1, 1.3, 1.2]
    choices = np.array(list(itertools.product(range(4), repeat=4)))
    ratios = np.median(np.array(arm)[choices], axis=1) / np.median(
        np.array(baseline)[choices], axis=1
    )
    exact = np.quantile(ratios, [0.025, 0.975])
    assert bootstrap_interval(arm, baseline, seed=3) == pytest.approx(tuple(exact), rel=0.03)


def test_the_same_seed_gives_the_same_interval():
    arm = [2.0, 3.0, 5.0, 7.0, 4.0, 6.0]
    assert bootstrap_interval(arm, STEADY, seed=9) == bootstrap_interval(arm, STEADY, seed=9)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    chance = np.random.default_rng(7)
    covered = 0
    for attempt in range(100):
        arm, baseline = chance.normal(10, 1, 20), chance.normal(5, 0.5, 20)
        low, high = bootstrap_interval(arm, baseline, seed=attempt)
        covered += low <= 2.0 <= high
    assert covered >= 90
