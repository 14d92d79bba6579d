"""Rounds whose pairs did not load the network at the same time are told; no other round is."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate import registry
from rackrate.verdict.together import LEAST_OVERLAP, together, warnings
from tests.unit import builders

SECONDS = 10
TCP = registry.load_test({"name": "tcp-8", "tool": "iperf3", "streams": 8, "seconds": SECONDS})
RTT = registry.load_test({"name": "rtt", "tool": "ping"})
BEGIN = 1_795_275_000


def iso(epoch):
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).isoformat()


def trial(number, start, *, test=TCP, block=1, own=None, **changes):
    result = builders.trial(
        block=block,
        arm="treatment",
        test=test.name,
        client=f"c{number}",
        server=f"s{number}",
        round=1,
        started_at=iso(start),
        finished_at=iso(start + test.expected_seconds + 1),
        details={} if own is None else {"started_at_epoch_seconds": own},
        **changes,
    )
    return result.key, result


def together_of(starts, *, load="together", tests=(TCP,), **options):
    plan = builders.plan(tests=tests, load=load)
    return together(plan, dict(trial(n, at, **options) for n, at in enumerate(starts)))


def test_pairs_that_start_together_overlap_wholly():
    (result,) = together_of([BEGIN] * 3)
    assert (result.pairs, result.rounds, result.overlap, result.apart) == (3, 1, 1.0, ())
    assert warnings([result]) == []


def test_a_late_pair_sets_its_round_apart_with_the_figures():
    (result,) = together_of([BEGIN, BEGIN, BEGIN + 5])
    assert result.start_spread_seconds == 5
    assert result.overlap == pytest.approx(0.5)
    assert [(each.block, each.round) for each in result.apart] == [(1, 1)]
    (sentence,) = warnings([result])
    assert "tcp-8" in sentence and "1 of 1 round" in sentence and "50 %" in sentence


def test_a_second_that_clocks_do_not_tell_sets_no_round_apart():
    (result,) = together_of([BEGIN, BEGIN + 3])
    assert result.overlap == pytest.approx(0.7) and result.apart == ()


def test_a_tools_own_clock_counts_and_not_its_containers():
    plan = builders.plan(tests=(TCP,), load="together")
    trials = dict([trial(1, BEGIN, own=BEGIN), trial(2, BEGIN, own=BEGIN + 4)])
    assert together(plan, trials)[0].start_spread_seconds == 4


@pytest.mark.parametrize(
    ("starts", "options"),
    [
        ([BEGIN, BEGIN + 9], {"load": "isolated"}),
        ([BEGIN, BEGIN + 9], {"test": RTT, "tests": (RTT,)}),
        ([BEGIN], {}),
        ([BEGIN, BEGIN + 9], {"attempt": 2}),
        ([BEGIN, BEGIN + 9], {"status": "failed"}),
    ],
    ids=["one at a time", "no load", "one pair", "repeated", "failed"],
)
def test_where_nothing_was_to_be_together_nothing_is_said(starts, options):
    assert together_of(starts, **options) == []


@given(st.lists(st.integers(0, 30), min_size=2, max_size=20))
def test_shares_are_shares_and_what_is_apart_is_below_the_limit(offsets):
    (result,) = together_of([BEGIN + offset for offset in offsets])
    assert 0 <= result.least_overlap <= result.overlap <= 1
    assert all(each.overlap < LEAST_OVERLAP for each in result.apart)
    assert bool(result.apart) == (max(offsets) - min(offsets) > 3)
