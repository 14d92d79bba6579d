"""The conclusion: complete, with its scope, and grammatical."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.verdict import wording
from rackrate_contract.verdicts import Baseline, Difference, Pairs, Steadiness
from tests.unit.report.samples import inconclusive, mark, regression, verdict

PLAIN = {"ceiling": None, "steadiness": None}
ALONE = {**PLAIN, "ci_simultaneous": None, "confidence_simultaneous": None}


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        (
            [verdict(**PLAIN)],
            "In the cluster placement group one flow is 92 % faster. This is about these nodes.",
        ),
        (
            [verdict(), inconclusive()],
            "In the cluster placement group one flow is 92 % faster; latency is inconclusive. This"
            " is about these nodes. rtt: about 7 more blocks would settle it. EC2's"
            " documented limits explain tcp-1 throughput (single-flow). tcp-1 throughput:"
            " cluster group is steadier, variability −63.6 %.",
        ),
        (
            [verdict(**PLAIN, scope="this stack's placement", pairs=Pairs(arm=6, baseline=6))],
            "In the cluster placement group one flow is 92 % faster. This is about this"
            " stack's placement, from 6 pairs an arm.",
        ),
        (
            [verdict(**ALONE, verdict="no meaningful difference", ratio=1.001, ci95=(0.99, 1.01))],
            "In the cluster placement group one flow is alike. This is about these nodes.",
        ),
        (
            [
                verdict(
                    **ALONE | {"ci95": None},
                    verdict="inconclusive",
                    reason="one block; an interval of 95 % needs 6",
                )
            ],
            "In the cluster placement group one flow is inconclusive. This is about these nodes."
            " tcp-1 throughput: one block; an interval of 95 % needs 6.",
        ),
        ([], "Nothing can be said: no arm could be compared with the baseline."),
    ],
)
def test_the_sentence_of(verdicts, sentence):
    assert wording.sentence(verdicts) == sentence


def test_each_scope_is_named_once():
    text = wording.sentence(
        [
            verdict(**PLAIN),
            verdict(**PLAIN, test="tcp-8"),
            verdict(**PLAIN, arm="spread"),
            verdict(
                **PLAIN, test="udp", scope="this stack's placement", pairs=Pairs(arm=6, baseline=7)
            ),
        ]
    )
    assert text.count("these nodes") == 1
    assert (
        "This is about these nodes (tcp-1 throughput, tcp-8 throughput and tcp-1 throughput) and"
        " this stack's placement, from 6 and 7 pairs (udp throughput)."
    ) in text


def test_what_several_comparisons_lack_is_said_once():
    text = wording.sentence([inconclusive(), inconclusive(test="latency", metric="latency_p99")])
    assert "rtt and latency p99: about 7 more blocks would settle it." in text


def test_a_line_has_the_change_both_medians_the_interval_and_the_word():
    assert wording.line(verdict()) == (
        "tcp-1 throughput +92.3 %, 4.95 → 9.52 Gbit/s (95 % CI +90.2 to +94.5 %): better,"
        " cluster group against no group"
    )
    assert wording.line(inconclusive()).endswith(": about 7 more blocks would settle it")


def test_too_few_blocks_are_a_need_and_not_a_forecast():
    few = wording.sentence([inconclusive(blocks=5, more_blocks=1)])
    assert ": at least 1 more block is needed" in few and "settle" not in few
    assert ": at least 4 more blocks are needed" in wording.sentence(
        [inconclusive(blocks=2, more_blocks=4)]
    )


def test_one_more_block_is_singular_and_a_settled_verdict_asks_for_none():
    assert "about 1 more block would settle it" in wording.sentence([inconclusive(more_blocks=1)])
    assert "settle" not in wording.sentence([verdict(more_blocks=3)])


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("better", "tcp-1 throughput: cluster group is steadier, variability −63.6 %"),
        ("worse", "tcp-1 throughput: cluster group is less steady, variability −63.6 %"),
    ],
)
def test_steadiness_is_said_when_the_arms_differ_in_it(word, words):
    decided = verdict().steadiness.model_copy(update={"verdict": word})
    assert words in wording.sentence([verdict(steadiness=decided)])


@pytest.mark.parametrize(
    ("arm", "baseline", "words"),
    [
        (0.09, 0.00122, "the CV rose from 0.122 to 9 %"),
        (0.001, 0.02, "the CV fell from 2 to 0.1 %"),
    ],
)
def test_a_variability_that_is_many_times_the_other_is_said_by_both(arm, baseline, words):
    steadiness = verdict().steadiness.model_copy(
        update={"arm": arm, "baseline": baseline, "ratio": arm / baseline}
    )
    text = wording.sentence([verdict(steadiness=steadiness)])
    assert words in text and "variability" not in text


@pytest.mark.parametrize("scale", [None, 0.1])
def test_a_conclusion_in_brief_has_at_most_three_sentences(scale):
    verdicts = [verdict(), inconclusive()]
    whole = wording.sentence(verdicts, [regression()], differences=())
    text = wording.in_brief(whole, scale)
    long, short = (len(re.findall(r"\.(?: |$)", each)) for each in (whole, text))
    assert (long > 3, short) == (True, 3)
    assert text.startswith(whole.split(". ")[0])
    assert text.endswith("figures are not EC2's.") == (scale is not None)
    assert wording.in_brief("It is better.", None) == "It is better."


@pytest.mark.parametrize("word", ["inconclusive", "no meaningful difference"])
def test_steadiness_that_does_not_differ_is_left_out(word):
    alike = verdict().steadiness.model_copy(update={"verdict": word})
    for steadiness in (None, alike):
        assert "stead" not in wording.sentence([verdict(steadiness=steadiness)])


def test_a_limit_that_does_not_explain_is_left_out():
    ceiling = verdict().ceiling.model_copy(update={"explains": False})
    assert "limits" not in wording.sentence([verdict(ceiling=ceiling)])
    assert "limits" not in wording.sentence([verdict(verdict="inconclusive")])


def test_a_regression_names_the_earlier_run_once():
    text = wording.sentence([verdict()], [regression()])
    assert "Since run-20261120-090000-ab12, in the cluster placement" in text
    assert "Since run nightly, in the cluster placement" in wording.sentence(
        [], [regression(baseline=Baseline("nightly", ("nightly",)))]
    )


def test_several_earlier_runs_are_told_by_their_number_and_name():
    runs = tuple("abcd")
    for name, words in (
        ("main", "Since the 4 runs of main, in"),
        ("4 runs", "Since the 4 runs, in"),
    ):
        text = wording.sentence([], [regression(baseline=Baseline(name, runs))], differences=[])
        assert words in text
        assert f"Since the 4 runs{' of main' * (name == 'main')}, nothing" in text


def test_a_verdict_that_lacks_runs_says_how_many():
    few = inconclusive(more_blocks=None, more_runs=3)
    assert "3 more earlier runs are needed" in wording.sentence([], [few])
    assert wording.more_needed(few.model_copy(update={"more_runs": 1})) == (
        "1 more earlier run is needed"
    )


def test_what_varied_among_the_earlier_runs_is_not_told_as_a_change():
    varied = Difference(what="kernel", run="6.12", other="varying: 6.1, 6.12")
    assert wording.what_differed([varied], [], "since the 4 runs") == (
        "What differed since the 4 runs: kernel (6.12; there varying: 6.1, 6.12)."
    )


def test_runs_are_called_by_their_baseline_or_their_number_and_one_by_its_id():
    assert wording.name_of_runs(["r1"], "main") == "r1"
    assert wording.name_of_runs(["r1", "r2"], "main") == "main"
    assert wording.name_of_runs(["r1", "r2"], None) == "2 runs"


# -- marks


def test_marks_are_counted_by_trial_and_the_commonest_comes_first():
    marks = [mark(1), mark(2), mark(2), mark(1, mark="ena_allowance")]
    assert wording.mark_notes(marks, 36) == [
        "2 of 36 trials may have been limited by the client's CPU.",
        "1 of 36 trials ran on a node whose network card exceeded an allowance.",
    ]


def test_a_single_marked_trial_is_singular():
    assert wording.mark_notes([mark(1)], 1) == [
        "1 of 1 trial may have been limited by the client's CPU."
    ]
    assert wording.mark_notes([mark(1, mark="burst_drop_in_trial")], 2) == [
        "1 of 2 trials fell to what the instance sustains while it ran: its burst was over."
    ]


def test_a_mark_without_words_is_named():
    assert wording.mark_notes([mark(1, mark="moon"), mark(2, mark="moon")], 9) == [
        "2 of 9 trials bear the mark moon."
    ]


def test_only_many_marks_reach_the_conclusion():
    few = wording.sentence([verdict()], marks=[mark(1)], measured=36)
    many = wording.sentence([verdict()], marks=[mark(n) for n in range(1, 13)], measured=36)
    assert "CPU" not in few
    assert many.endswith(" 12 of 36 trials may have been limited by the client's CPU.")


# -- any combination


INTERVALS = st.none() | st.just((0.9, 1.1))
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
    scope=st.sampled_from(["these nodes", "this stack's placement"]),
    pairs=st.just(Pairs(arm=1, baseline=1)) | st.just(Pairs(arm=1, baseline=2)),
    blocks=st.integers(0, 9),
    more_blocks=st.none() | st.integers(0, 50),
    ceiling=st.none() | st.just(verdict().ceiling),
    steadiness=st.none()
    | st.builds(
        Steadiness,
        arm=st.none(),
        baseline=st.none(),
        ratio=st.none() | st.just(1.0),
        ci95=INTERVALS,
        verdict=WORDS,
        reason=st.none(),
    ),
)


@given(st.lists(VERDICTS, max_size=6), st.lists(VERDICTS, max_size=2), st.integers(0, 5))
def test_any_combination_reads_as_sentences(verdicts, regressions, marked):
    text = wording.sentence(
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


def test_a_drift_of_one_arm_is_told_with_its_test():
    drifting = verdict(**PLAIN, drift="treatment alone fell by 12 % from block 4 on")
    text = wording.sentence([drifting])
    assert text.endswith("tcp-1 throughput: treatment alone fell by 12 % from block 4 on.")
