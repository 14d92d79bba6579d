"""Drift of one arm: what is found and named, and how often chance alone looks like it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rackrate.verdict.drift import Series, _shapes, drift_of_one_arm

NOISE = 0.01


def series(number, arm=0.0, baseline=0.0, *, shared=0.0, noise=NOISE, seed=1, blocks=None):
    """Two arms whose levels change by shapes on the logarithmic scale, with noise of their own."""
    chance = np.random.default_rng(seed)
    ours = 10 + arm + shared + noise * chance.standard_normal(number)
    theirs = 9 + baseline + shared + noise * chance.standard_normal(number)
    blocks = range(1, number + 1) if blocks is None else blocks
    return Series(blocks, ours - theirs, np.exp(ours), np.exp(theirs))


def drift_in(values, **more):
    return drift_of_one_arm(values, arm="treatment", baseline="baseline", **more)


def step(number, start, size):
    return np.where(np.arange(1, number + 1) >= start, math.log1p(size), 0.0)


def dip(number, block, size):
    return np.where(np.arange(1, number + 1) == block, math.log1p(size), 0.0)


def trend(number, size):
    return math.log1p(size) * np.linspace(0, 1, number)


class TestWhatIsFound:
    @pytest.mark.parametrize("number", [6, 8, 12, 24])
    @pytest.mark.parametrize("size", [-0.3, -0.12, 0.15])
    def test_a_step_is_named_with_its_arm_its_block_and_its_size(self, number, size):
        start = number // 2 + 1
        drift = drift_in(series(number, arm=step(number, start, size), noise=0.003))
        assert (drift.kind, drift.arm, drift.from_block) == ("step", "treatment", start)
        assert drift.ratio == pytest.approx(1 + size, rel=0.01)

    def test_it_is_said_in_words(self):
        drift = drift_in(series(6, arm=step(6, 4, -0.12), noise=1e-5))
        assert drift.text == "treatment alone fell by 12 % from block 4 on"
        drift = drift_in(series(8, baseline=dip(8, 3, 0.25), noise=1e-5))
        assert drift.text == "baseline alone rose by 25 % in block 3 only"
        drift = drift_in(series(8, arm=trend(8, -0.2), noise=1e-5))
        assert drift.text == "treatment alone fell by 20 % from block 1 to block 8"

    @pytest.mark.parametrize("block", [1, 3, 6])
    def test_a_dip_of_one_block_is_found_wherever_it_is(self, block):
        drift = drift_in(series(6, baseline=dip(6, block, -0.26)))
        assert (drift.kind, drift.arm) == ("dip", "baseline")
        assert drift.from_block == drift.to_block == block

    def test_a_trend_is_found_and_its_size_is_that_over_all_blocks(self):
        drift = drift_in(series(12, baseline=trend(12, 0.2)))
        assert (drift.kind, drift.arm) == ("trend", "baseline")
        assert (drift.from_block, drift.to_block) == (1, 12)
        assert drift.ratio == pytest.approx(1.2, rel=0.02)

    def test_blocks_have_the_numbers_that_they_have_in_the_run(self):
        blocks = [2, 3, 5, 8, 9, 11]
        drift = drift_in(series(6, arm=step(6, 4, 0.2), blocks=blocks, noise=1e-4))
        assert (drift.from_block, drift.to_block) == (8, 11)

    def test_values_without_any_scatter_show_their_drift(self):
        for shape in (step(6, 4, 0.1), dip(6, 6, -0.1), trend(6, 0.1)):
            assert drift_in(series(6, arm=shape, noise=0.0)) is not None


class TestWhatIsNot:
    def test_a_drift_that_both_arms_share_is_none_of_one_arm(self):
        for shared in (step(12, 5, -0.3), dip(12, 5, -0.3), trend(12, 0.5)):
            assert drift_in(series(12, shared=shared)) is None

    def test_an_arm_that_drifts_more_than_the_other_is_said_to_drift_against_it(self):
        values = series(12, arm=step(12, 7, -0.3), shared=step(12, 7, -0.1), noise=1e-4)
        assert drift_in(values).text == "treatment fell by 30 % against baseline from block 7 on"

    def test_changes_below_a_percent_or_the_least_do_not_matter(self):
        assert drift_in(series(12, arm=step(12, 7, 0.008), noise=1e-5)) is None
        values = series(12, arm=step(12, 7, 0.05), noise=1e-5)
        assert drift_in(values) is not None
        assert drift_in(values, least=0.06) is None

    def test_equal_values_have_no_drift(self):
        assert drift_in(series(6, noise=0.0)) is None

    def test_few_blocks_tell_nothing(self):
        assert drift_in(series(5, arm=step(5, 3, 0.5), noise=1e-5)) is None

    def test_arrays_of_different_length_are_a_mistake(self):
        values = series(6)
        with pytest.raises(ValueError, match="differ in number"):
            drift_in(values._replace(arm=values.arm[1:]))


@pytest.mark.parametrize("number", [6, 12, 24])
def test_chance_alone_looks_like_each_kind_in_at_most_one_percent_of_series(number):
    runs, rate = 1000, 0.01
    chance = np.random.default_rng(number)
    alarms = dict.fromkeys(("trend", "step", "dip"), 0)
    blocks = np.arange(1.0, number + 1)
    for values in chance.standard_normal((runs, number)):
        for shape, p in _shapes(blocks, values):
            alarms[shape.kind] += p < rate
    # Three standard deviations of a count around its expected value.
    most = rate * runs + 3 * math.sqrt(rate * runs)
    assert max(alarms.values()) <= most
    # The step's bound is the widest: its cuts are alike, so its alarms are fewer.
    assert min(alarms["trend"], alarms["dip"]) >= rate * runs / 2
    assert alarms["step"] >= rate * runs / 4
