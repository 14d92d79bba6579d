"""Whether a run has measured enough: all is settled, nothing more would be, or all is measured."""

from __future__ import annotations

import pytest

from rackrate.verdict.enough import LEAST_PROSPECT, stop
from rackrate_contract.verdicts import Baseline
from tests.unit.builders import verdict

SETTLED = verdict()


def unsettled(prospect, **more):
    fields = {"reason": "too wide", "more_blocks": None, "prospect": prospect, **more}
    return verdict(verdict="inconclusive", **fields)


@pytest.mark.parametrize("word", ["better", "worse", "no meaningful difference"])
def test_it_stops_when_every_verdict_is_settled(word):
    stopped = stop([SETTLED, verdict(verdict=word)], blocks=6, most=12)
    assert (stopped.why, stopped.after_blocks, stopped.most_blocks) == ("settled", 6, 12)
    assert (stopped.settled, stopped.verdicts) == (2, 2)
    assert (
        stopped.text
        == "Stopped after 6 of at most 12 blocks: every verdict between the arms is settled."
    )


def test_it_measures_on_while_one_verdict_may_still_be_settled():
    assert stop([SETTLED, unsettled(0.5)], blocks=6, most=12) is None
    assert stop([unsettled(0.0), unsettled(0.5)], blocks=6, most=12) is None


def test_it_stops_when_no_number_of_blocks_would_settle_what_is_open():
    stopped = stop([SETTLED, SETTLED, unsettled(LEAST_PROSPECT)], blocks=9, most=24)
    assert (stopped.why, stopped.settled, stopped.verdicts) == ("no prospect", 2, 3)
    assert (
        "Stopped after 9 of at most 24 blocks: 1 of 3 verdicts between the arms is not settled"
        in stopped.text
    )


def test_it_stops_after_the_most_blocks_whatever_is_open():
    stopped = stop([unsettled(0.9), unsettled(0.5)], blocks=12, most=12)
    assert stopped.why == "most"
    assert "2 of 2 verdicts between the arms are not settled" in stopped.text


def test_it_measures_on_when_it_has_too_few_blocks_for_any_verdict():
    early = unsettled(None, blocks=4, more_blocks=2)
    assert stop([early], blocks=4, most=6) is None
    assert stop([early], blocks=4, most=5).why == "no prospect"


def test_what_no_block_can_settle_does_not_keep_a_run_going():
    assert stop([unsettled(None, blocks=0)], blocks=6, most=12).why == "no prospect"


def test_it_counts_the_open_comparisons_with_earlier_runs_which_no_look_judges():
    judged = stop([SETTLED], blocks=6, most=12)
    earlier = [verdict(baseline=Baseline("run-1", ("run-1",)), **each) for each in ({}, {}, {}, {})]
    still_open = [each.model_copy(update={"verdict": "inconclusive"}) for each in earlier[1:]]
    text = judged.beside([earlier[0], *still_open]).text
    assert "every verdict between the arms is settled." in text
    assert "3 of 4 comparisons with earlier runs are open" in text
    assert (
        "1 of 4 comparisons with earlier runs is open"
        in judged.beside([*earlier[:3], still_open[0]]).text
    )
    assert judged.beside(earlier) == judged.beside([]) == judged
