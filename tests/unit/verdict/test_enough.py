"""Whether a run has measured enough: all is settled, nothing more would be, or all is measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.verdict.enough import LEAST_PROSPECT, prospect, stop
from tests.unit.builders import verdict

SETTLED = verdict()


def unsettled(more_blocks):
    return verdict(verdict="inconclusive", reason="too wide", more_blocks=more_blocks)


@pytest.mark.parametrize("word", ["better", "worse", "no meaningful difference"])
def test_it_stops_when_every_verdict_is_settled(word):
    found = stop([SETTLED, verdict(verdict=word)], blocks=6, most=12)
    assert (found.why, found.after_blocks, found.most_blocks) == ("settled", 6, 12)
    assert (found.settled, found.verdicts) == (2, 2)
    assert found.text == "Stopped after 6 of at most 12 blocks: every verdict is settled."


def test_it_measures_on_while_one_verdict_may_still_be_settled():
    assert stop([SETTLED, unsettled(3)], blocks=6, most=12) is None
    assert stop([unsettled(None), unsettled(3)], blocks=6, most=12) is None


def test_it_stops_when_no_number_of_blocks_would_settle_what_is_open():
    found = stop([SETTLED, SETTLED, unsettled(None)], blocks=9, most=24)
    assert (found.why, found.settled, found.verdicts) == ("no prospect", 2, 3)
    assert "Stopped after 9 of at most 24 blocks: 1 of 3 verdicts is not settled" in found.text


def test_it_stops_after_the_most_blocks_whatever_is_open():
    found = stop([unsettled(3), unsettled(2)], blocks=12, most=12)
    assert found.why == "most"
    assert "2 of 2 verdicts are not settled" in found.text


def test_a_verdict_that_needs_few_enough_blocks_has_the_prospect_that_it_tells():
    assert prospect(unsettled(6), 6, 12) == pytest.approx(0.8)


@given(st.integers(1, 1000), st.integers(6, 100), st.integers(0, 100))
def test_a_prospect_is_a_probability_that_falls_with_what_is_needed(more, blocks, left):
    near, far = (prospect(unsettled(n), blocks, blocks + left) for n in (more, 2 * more))
    assert 0 <= far <= near <= 1


def test_a_verdict_far_beyond_the_most_blocks_has_no_prospect():
    assert prospect(unsettled(1000), 6, 12) < LEAST_PROSPECT
    assert stop([unsettled(1000)], blocks=6, most=12).why == "no prospect"
