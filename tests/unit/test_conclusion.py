"""The sentence says all that matters, of whom, and in correct words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate import conclusion, statistics
from tests.unit.report_samples import inconclusive, mark, regression, verdict

PLAIN = {"ceiling": None, "steadiness": None}
ALONE = {**PLAIN, "ci_simultaneous": None, "confidence_simultaneous": None}


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        (
            [verdict(**PLAIN)],
            "treatment against baseline, on these nodes: tcp-1 throughput is better, 1.92 times"
            " (1.90 to 1.95). In brackets: 95 % intervals.",
        ),
        (
            [verdict(), inconclusive()],
            "treatment against baseline, on these nodes: tcp-1 throughput is better, 1.92 times"
            " (1.90 to 1.95), as the documented limits explain (single-flow); rtt is inconclusive,"
            " 0.96 times (0.92 to 1.01): about 7 more blocks would settle it; tcp-1 throughput is"
            " steadier, spread 0.36 times (0.21 to 0.63). In brackets: intervals that hold for all"
            " verdicts at once with 95 %.",
        ),
        (
            [verdict(**PLAIN, scope="the placement", pairs={"arm": 6, "baseline": 6})],
            "treatment against baseline, for the placement, from 6 pairs an arm: tcp-1 throughput"
            " is better, 1.92 times (1.90 to 1.95). In brackets: 95 % intervals.",
        ),
        (
            [verdict(**ALONE, verdict="no meaningful difference", ratio=1.001, ci95=[0.99, 1.01])],
            "treatment against baseline, on these nodes: tcp-1 throughput shows no meaningful"
            " difference, 1.00 times (0.99 to 1.01). In brackets: 95 % intervals.",
        ),
        (
            [
                verdict(
                    **ALONE | {"ci95": None},
                    verdict="inconclusive",
                    reason="one block; an interval of 95 % needs 6",
                )
            ],
            "treatment against baseline, on these nodes: tcp-1 throughput is inconclusive, 1.92"
            " times: one block; an interval of 95 % needs 6.",
        ),
        (
            [
                verdict(
                    **ALONE | {"ci95": None, "ratio": None, "scope": None},
                    verdict="inconclusive",
                    reason="no block has values of both arms",
                )
            ],
            "treatment against baseline: tcp-1 throughput is inconclusive: no block has values of"
            " both arms.",
        ),
        ([], "Nothing can be said: no arm could be compared with the baseline."),
    ],
)
def test_the_sentence_of(verdicts, sentence):
    assert conclusion.sentence(verdicts) == sentence


def test_each_arm_and_each_claim_has_its_own_sentence():
    text = conclusion.sentence(
        [
            verdict(**PLAIN),
            verdict(**PLAIN, test="tcp-8"),
            verdict(**PLAIN, arm="spread"),
            verdict(**PLAIN, test="udp", scope="the placement", pairs={"arm": 6, "baseline": 7}),
        ]
    )
    assert text.count("treatment against baseline, on these nodes: ") == 1
    assert text.count("spread against baseline, on these nodes: ") == 1
    assert "treatment against baseline, for the placement, from 6 and 7 pairs: udp" in text


def test_too_few_blocks_are_a_need_and_not_a_forecast():
    assert conclusion.LEAST_BLOCKS == statistics.LEAST_BLOCKS
    few = conclusion.sentence([inconclusive(blocks=5, more_blocks=1)])
    assert ": at least 1 more block is needed" in few and "settle" not in few
    assert ": at least 4 more blocks are needed" in conclusion.sentence(
        [inconclusive(blocks=2, more_blocks=4)]
    )


def test_pairs_are_asked_for_where_blocks_cannot_settle_it():
    text = conclusion.sentence([inconclusive(more_blocks=None, more_pairs=4)])
    assert ": about 4 more pairs of nodes in each arm would settle it" in text


def test_one_more_block_is_singular_and_a_settled_verdict_asks_for_none():
    assert "about 1 more block would settle it" in conclusion.sentence(
        [inconclusive(more_blocks=1)]
    )
    assert "settle" not in conclusion.sentence([verdict(more_blocks=3)])


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("better", "tcp-1 throughput is steadier, spread 0.36 times (0.21 to 0.63)"),
        ("worse", "tcp-1 throughput is less steady, spread 0.36 times"),
    ],
)
def test_steadiness_is_said_when_the_arms_differ_in_it(word, said):
    decided = {**verdict()["steadiness"], "verdict": word}
    assert said in conclusion.sentence([verdict(steadiness=decided)])


@pytest.mark.parametrize(
    "steadiness",
    [
        None,
        {},
        {"verdict": "inconclusive"},
        {"verdict": None},
        {"verdict": "no meaningful difference"},
    ],
)
def test_steadiness_that_does_not_differ_is_left_out(steadiness):
    assert "stead" not in conclusion.sentence([verdict(steadiness=steadiness)])


def test_an_interval_over_hundreds_of_powers_of_ten_is_told_in_words():
    said = conclusion.sentence(
        [inconclusive(ci_simultaneous=[1e-280, 1e300])], [], marks=[], measured=4
    )
    assert "(less than 0.01 to more than 1000)" in said


def test_a_limit_that_does_not_explain_is_left_out():
    ceiling = {**verdict()["ceiling"], "explains": False}
    assert "limits" not in conclusion.sentence([verdict(ceiling=ceiling)])
    assert "limits" not in conclusion.sentence([verdict(verdict="inconclusive")])


def test_a_regression_names_the_earlier_run_once():
    text = conclusion.sentence([verdict()], [regression()])
    assert "treatment since run-20261120-090000-ab12, on these nodes: tcp-1" in text
    assert "treatment since run nightly" in conclusion.sentence(
        [], [regression(baseline="run nightly")]
    )


# -- marks


def test_marks_are_counted_by_trial_and_the_commonest_comes_first():
    marks = [mark(1), mark(2), mark(2), mark(1, mark="ena_allowance")]
    assert conclusion.mark_notes(marks, 36) == [
        "2 of 36 trials may have been limited by the client's CPU.",
        "1 of 36 trials ran on a node whose network card exceeded an allowance.",
    ]


def test_a_single_marked_trial_is_singular():
    assert conclusion.mark_notes([mark(1)], 1) == [
        "1 of 1 trial may have been limited by the client's CPU."
    ]
    assert conclusion.mark_notes([mark(1, mark="burst_drop_in_trial")], 2) == [
        "1 of 2 trials fell to what the instance sustains while it ran: its burst was over."
    ]


def test_a_mark_without_words_is_named():
    assert conclusion.mark_notes([mark(1, mark="moon"), mark(2, mark="moon")], 9) == [
        "2 of 9 trials bear the mark moon."
    ]


def test_only_many_marks_reach_the_conclusion():
    few = conclusion.sentence([verdict()], marks=[mark(1)], measured=36)
    many = conclusion.sentence([verdict()], marks=[mark(n) for n in range(1, 13)], measured=36)
    assert "CPU" not in few
    assert many.endswith(" 12 of 36 trials may have been limited by the client's CPU.")


# -- any combination


INTERVALS = st.none() | st.just([0.9, 1.1])
WORDS = st.sampled_from(["better", "worse", "no meaningful difference", "inconclusive"])
VERDICTS = st.builds(
    verdict,
    test=st.sampled_from(["tcp-1", "rtt"]),
    metric=st.sampled_from(["throughput", "rtt"]),
    arm=st.sampled_from(["treatment", "spread"]),
    ratio=st.none() | st.just(1.0),
    ci95=INTERVALS,
    ci_simultaneous=INTERVALS,
    verdict=WORDS,
    reason=st.none() | st.just("a reason"),
    scope=st.sampled_from([None, "these nodes", "the placement"]),
    pairs=st.none() | st.just({"arm": 1, "baseline": 2}) | st.just({"arm": None}),
    more_pairs=st.none() | st.integers(0, 9),
    blocks=st.none() | st.integers(0, 9),
    more_blocks=st.none() | st.integers(0, 50),
    ceiling=st.none() | st.just(verdict()["ceiling"]),
    steadiness=st.none()
    | st.fixed_dictionaries(
        {"verdict": st.none() | WORDS}, optional={"ratio": st.none(), "ci95": st.none()}
    ),
)


@given(st.lists(VERDICTS, max_size=6), st.lists(VERDICTS, max_size=2), st.integers(0, 5))
def test_any_combination_reads_as_sentences(verdicts, regressions, marked):
    text = conclusion.sentence(
        verdicts, regressions, marks=[mark(n) for n in range(marked)], measured=5
    )
    assert text.endswith(".")
    assert "None" not in text
    for wrong in (
        "  ",
        "..",
        ".,",
        ",,",
        ",.",
        ";.",
        ":.",
        "( ",
        " )",
        "()",
        " ,",
        " ;",
        " :",
        ") (",
    ):
        assert wrong not in text, wrong
    assert text.count("(") == text.count(")")
    assert not re.search(r"\b1 (pairs|blocks|more blocks)\b", text)


# -- the status


@pytest.mark.parametrize(
    ("failure", "lost", "status"),
    [
        (None, 0, "succeeded"),
        (None, 1, "degraded"),
        ({"Error": "TrialsLost"}, 9, "failed"),
        ({"Error": "InvalidPlan"}, 0, "invalid"),
    ],
)
def test_the_status_of_a_run_that_came_to_its_end(failure, lost, status):
    assert conclusion.status_of(failure, lost=lost) == status
