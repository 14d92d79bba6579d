"""The estimator on cases with known answers. benchmarks/verdict.py measures its error rates."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.plan.fields import LEAST_BLOCKS
from rackrate.verdict.estimate import CONFIDENCE, Estimate, Outlook, why_inconclusive
from rackrate.verdict.estimator import Question, RunsQuestion, answer, answer_runs
from rackrate.verdict.layout import Value
from rackrate.verdict.percentiles import percentiles
from rackrate.verdict.steadiness import compare_steadiness, spread
from rackrate_contract.gates import half_width, smallest_regression
from rackrate_contract.student import student_t
from tests.unit.verdict.agreement import assert_agree
from tests.unit.verdict.pairs import many_pairs, one_pair


def estimate(arm, baseline, better="higher", threshold=0.05, resolution=None, **more):
    question = Question(arm, baseline, better)
    if resolution is not None:
        question = question._replace(resolution=lambda _: resolution)
    (finding,) = answer([question], threshold=threshold, **more)
    return finding


def verdict(arm, baseline, better="higher", threshold=0.05, **more):
    return estimate(one_pair(arm), one_pair(baseline, "cd"), better, threshold, **more)


STEADY = [4.94, 4.95, 4.93, 4.96, 4.94, 4.95]
FAST = [9.5, 9.49, 9.51, 9.5, 9.48, 9.52]


# -- the verdicts


def test_twice_the_throughput_is_better():
    finding = verdict(FAST, STEADY)
    assert finding.verdict == "better"
    assert finding.ratio == pytest.approx(9.5 / 4.945, rel=1e-3)
    low, high = finding.ci95
    assert low < finding.ratio < high
    assert high - low < 0.03
    assert (finding.arm_median, finding.baseline_median) == (9.5, 4.945)


def test_less_latency_is_better():
    finding = verdict([155e-6] * 6, [457e-6] * 6, better="lower")
    assert (finding.verdict, finding.ratio) == ("better", pytest.approx(155 / 457))
    assert verdict([457e-6] * 6, [155e-6] * 6, better="lower").verdict == "worse"


def test_the_same_values_make_no_meaningful_difference():
    finding = verdict(STEADY, STEADY)
    assert finding.verdict == "no meaningful difference"
    assert finding.ci95 == (1.0, 1.0), "what moves both arms in a block cancels"


def test_scattered_values_are_inconclusive_and_say_what_would_settle_them():
    finding = verdict([4.9, 5.9, 5.3, 5.8, 4.8, 5.9], [5, 5, 5.1, 5, 5.1, 5])
    assert finding.verdict == "inconclusive"
    assert finding.reason
    assert finding.more_blocks > 6


def test_a_difference_below_the_threshold_does_not_matter():
    arm = [1.03 * value for value in STEADY]
    assert verdict(arm, STEADY).verdict == "no meaningful difference"
    assert verdict(arm, STEADY, threshold=0.01).verdict == "better"


def test_a_difference_that_may_be_too_small_to_matter_is_told_as_a_difference():
    finding = verdict([5.20, 5.30, 5.15, 5.28, 5.22, 5.25], STEADY)
    assert finding.verdict == "inconclusive"
    assert "there is a difference" in finding.reason


def test_the_interval_is_students_over_blocks():
    differences = np.log(FAST) - np.log(STEADY)
    half = 2.5706 * differences.std(ddof=1) / math.sqrt(6)
    finding = verdict(FAST, STEADY)
    # These differences alternate, so autocorrelation does not widen the interval.
    assert finding.ci95 == pytest.approx(
        (math.exp(differences.mean() - half), math.exp(differences.mean() + half)), rel=1e-4
    )


# -- too few values


def test_nothing_in_common_is_inconclusive_and_has_no_ratio():
    finding = estimate(
        [Value(1, "a", "b", 1.0)], [Value(2, "c", "d", 1.0)], better="higher", threshold=0.05
    )
    assert (finding.verdict, finding.ratio, finding.ci95, finding.blocks) == (
        "inconclusive",
        None,
        None,
        0,
    )


def test_no_values_at_all_are_inconclusive():
    finding = estimate([], [])
    assert (finding.verdict, finding.arm_median) == ("inconclusive", None)


def test_one_block_has_a_ratio_but_no_interval():
    finding = verdict([2.0], [1.0])
    assert (finding.ratio, finding.ci95, finding.verdict) == (
        pytest.approx(2.0),
        None,
        "inconclusive",
    )
    assert finding.more_blocks == LEAST_BLOCKS - 1


def test_five_blocks_cannot_support_a_verdict_however_clear():
    finding = verdict(FAST[:5], STEADY[:5])
    assert finding.verdict == "inconclusive"
    assert "6" in finding.reason
    assert finding.more_blocks == 1


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_a_value_without_a_logarithm_is_left_out_and_counted(bad):
    finding = verdict([*FAST, bad], [*STEADY, 4.9])
    assert (finding.verdict, finding.left_out, finding.blocks) == ("better", 1, 6)
    assert finding.ci95 == verdict(FAST, STEADY).ci95


# -- the resolution of the values


def test_values_without_scatter_get_an_interval_as_wide_as_their_resolution():
    finding = verdict([1.10] * 6, [1.00] * 6, resolution=0.01)
    assert finding.ci95 == pytest.approx(
        (1.10 / math.exp(r := 0.005 / 1.1 + 0.005), 1.1 * math.exp(r))
    )
    assert finding.verdict == "better"


def test_rounding_does_not_decide_at_the_threshold():
    assert verdict([1.05] * 6, [1.00] * 6, resolution=0.01).verdict == "inconclusive"
    assert verdict([10.5] * 6, [10.0] * 6, resolution=0.1).verdict == "inconclusive"


# -- the design


def test_a_common_disturbance_of_a_block_cancels():
    moment = np.array([1.0, 0.6, 1.0, 0.5, 1.0, 0.9])
    finding = verdict(list(np.array(FAST) * moment), list(np.array(STEADY) * moment))
    assert finding.ci95 == pytest.approx(verdict(FAST, STEADY).ci95, rel=0.02)


def test_two_pairs_have_no_interval_for_the_placement():
    finding = estimate(many_pairs([FAST] * 2), many_pairs([STEADY] * 2, "y"))
    assert (finding.scope, finding.stack, finding.arm_pairs) == ("these nodes", None, 2)


def test_three_pairs_show_both_intervals():
    noise = np.random.default_rng(1).normal(1, 0.01, (6, 6))
    finding = estimate(many_pairs(2 * noise[:3]), many_pairs(noise[3:], "y"))
    assert (finding.scope, finding.verdict) == ("this stack's placement", "better")
    assert finding.stack.ci95[0] < finding.ci95[0] < finding.ci95[1] < finding.stack.ci95[1]


def test_the_luck_of_pairs_widens_the_interval_of_the_placement_alone():
    luck = np.array([[1.0], [0.6], [1.1], [0.7], [1.2], [0.9]])
    noise = np.random.default_rng(1).normal(1, 0.01, (2, 6, 6))
    finding = estimate(many_pairs(2 * luck * noise[0]), many_pairs(luck[::-1] * noise[1], "y"))
    of_nodes, of_stack = (math.log(high / low) for low, high in (finding.ci95, finding.stack.ci95))
    assert of_stack > 5 * of_nodes
    assert finding.verdict == "better"


def test_a_verdict_on_these_nodes_says_so_when_other_pairs_may_differ():
    luck = np.array([[1.0], [0.6], [1.1], [0.7], [1.2], [0.9]])
    noise = np.random.default_rng(1).normal(1, 0.01, (2, 6, 6))
    finding = estimate(many_pairs(1.2 * luck * noise[0]), many_pairs(luck[::-1] * noise[1], "y"))
    assert (finding.verdict, finding.scope) == ("better", "these nodes")
    assert finding.stack.verdict == "inconclusive"
    assert finding.more_pairs > 1


@pytest.mark.parametrize("pairs", [5, 6])
def test_the_luck_of_pairs_that_both_arms_use_cancels(pairs):
    chance = np.random.default_rng(pairs)
    luck, noise = chance.normal(1, 0.1, (pairs, 1)), chance.normal(1, 0.01, (2, pairs, 6))
    finding = estimate(many_pairs(1.1 * luck * noise[0]), many_pairs(luck * noise[1]))
    assert (finding.verdict, finding.scope) == ("better", "this stack's placement")
    low, high = finding.stack.ci95
    assert math.log(high / low) / 2 < 0.02


def alternating(values, nodes="ab"):
    return [
        v._replace(client=v.server, server=v.client) if v.block % 2 else v
        for v in one_pair(values, nodes)
    ]


def test_a_pair_that_is_faster_one_way_does_not_widen_the_interval_or_look_unsteady():
    noise = np.random.default_rng(4).normal(1, 0.003, (2, 8))
    one_way = np.array([1.03, 1.0] * 4)
    arm, baseline = alternating(noise[0] * one_way), alternating(noise[1], "cd")
    finding = estimate(arm, baseline)
    assert finding.verdict == "no meaningful difference"
    assert finding.ratio == pytest.approx(math.sqrt(1.03), rel=0.003)
    assert compare_steadiness(arm, baseline).arm < 0.006


def test_a_pair_that_lost_blocks_of_a_shared_ramp_is_not_judged_by_the_others():
    ramp = np.exp(np.linspace(0, 0.3, 6))
    noise = np.random.default_rng(5).normal(1, 0.001, (2, 2, 6))
    whole = many_pairs(noise[0] * ramp)
    lost = [v for v in whole if not (v.block > 4 and v.client == "x0-client")]
    baseline = many_pairs(noise[1] * ramp, "y")
    assert estimate(lost, baseline).ratio == pytest.approx(1.0, abs=0.002)


def test_a_large_mesh_speaks_of_the_placement_by_its_nodes():
    names = [f"n{i}" for i in range(8)]
    chance = np.random.default_rng(3)
    speed = dict(zip(names, chance.normal(1, 0.1, 8), strict=True))
    mesh = [
        Value(block, one, other, 5 * speed[one] * speed[other])
        for block in range(1, 7)
        for i, one in enumerate(names)
        for other in names[i + 1 :]
    ]
    finding = estimate(mesh, [v._replace(value=5.0) for v in mesh])
    # Each pair depends on the speed of two nodes. The sample size is eight nodes, not 28 pairs.
    logs = np.log([speed[name] for name in names])
    half = student_t(0.95, 7) * 2 * logs.std(ddof=1) / math.sqrt(8)
    low, high = finding.stack.ci95
    assert math.log(high / low) == pytest.approx(2 * half, rel=0.1)


def test_both_directions_of_a_pair_are_one_pair():
    there = one_pair(FAST)
    back = [v._replace(client=v.server, server=v.client, value=v.value * 1.02) for v in there]
    finding = estimate([*there, *back], one_pair(STEADY, "cd"))
    assert finding.arm_pairs == 1
    assert finding.ratio == pytest.approx(verdict(FAST, STEADY).ratio * math.sqrt(1.02), rel=1e-3)


def test_a_lost_trial_of_a_slow_pair_does_not_make_its_block_fast():
    matrix = np.array([[9.5] * 6, [5.0] * 6])
    whole = many_pairs(matrix)
    lost = [v for v in whole if not (v.block == 3 and v.client == "x1-client")]
    baseline = many_pairs([[4.0] * 6, [4.0] * 6], "y")
    complete = estimate(whole, baseline)
    missing = estimate(lost, baseline)
    assert missing.ratio == pytest.approx(complete.ratio)
    assert missing.ci95 == pytest.approx(complete.ci95)


# -- many verdicts, and the blocks that an inconclusive one needs


def questions(*arms):
    return [Question(one_pair(arm), one_pair([1.0] * 6, "cd"), "higher") for arm in arms]


def spread_around(level, amount):
    return [level * math.exp(amount * e) for e in (1, -1, 1, -1, 1, -1)]


def test_more_verdicts_of_one_run_need_more_evidence():
    arm = spread_around(1.1, 0.035)
    (alone,) = answer(questions(arm), threshold=0.05)
    among_many = answer(questions(*[arm] * 4), threshold=0.05)[0]
    assert (alone.verdict, among_many.verdict) == ("better", "inconclusive")
    assert among_many.ci95 == alone.ci95
    assert among_many.ci_simultaneous[0] < alone.ci_simultaneous[0]
    assert among_many.confidence_simultaneous == pytest.approx(1 - 0.05 / 4)


def test_clear_verdicts_leave_the_error_to_those_that_are_not():
    arm = spread_around(1.1, 0.035)
    findings = answer(questions(arm, [2.0] * 6, [0.5] * 6), threshold=0.05)
    assert [finding.verdict for finding in findings] == ["better", "better", "worse"]


def test_no_difference_needs_two_one_sided_tests_only():
    arm = spread_around(1.0, 0.049)
    finding = verdict(arm, [1.0] * 6)
    assert finding.verdict == "no meaningful difference"
    assert finding.ci95[1] > 1.05, "its two-sided interval is wider than the threshold"


def test_several_looks_need_more_evidence():
    arm = spread_around(1.1, 0.04)
    assert verdict(arm, [1.0] * 6).verdict == "better"
    assert verdict(arm, [1.0] * 6, error=0.02).verdict == "inconclusive"


def test_what_further_blocks_can_settle_has_good_prospects_and_what_they_cannot_has_none():
    hopeful = verdict(spread_around(1.1, 0.05), [1.0] * 6, most_blocks=24)
    at_the_edge = verdict(spread_around(1.05, 0.06), [1.0] * 6, most_blocks=24)
    assert hopeful.prospect > 0.8
    assert at_the_edge.prospect < hopeful.prospect / 2
    assert verdict(FAST, STEADY, most_blocks=24).prospect is None, "it is settled"


def test_the_suggested_blocks_would_settle_it_if_the_rest_is_alike():
    values = [5.2, 5.6, 5.1, 5.7, 5.3, 5.4]
    finding = verdict(values, [5.0] * 6)
    assert finding.verdict == "inconclusive"
    more = math.ceil(finding.more_blocks / 6)
    assert verdict(values * (1 + more), [5.0] * 6 * (1 + more)).verdict == "better"


def test_a_difference_of_just_the_threshold_is_not_settled_by_any_number_of_blocks():
    arm = [1.05 * math.exp(e) for e in (0.02, -0.02, 0.02, -0.02, 0.02, -0.02)]
    finding = verdict(arm, [1.0] * 6)
    assert (finding.verdict, finding.more_blocks) == ("inconclusive", None)


def test_alike_neighbours_widen_the_interval():
    drift = np.concatenate([np.linspace(1.0, 1.2, 15), np.linspace(1.2, 1.0, 15)])
    shuffled = np.random.default_rng(2).permutation(drift)
    width = [
        math.log(finding.ci95[1] / finding.ci95[0])
        for finding in (verdict(list(drift), [1.0] * 30), verdict(list(shuffled), [1.0] * 30))
    ]
    assert width[0] > 1.5 * width[1]


# -- earlier runs


def runs_question(arm, *levels):
    return RunsQuestion(
        one_pair([arm, arm * 1.001] * 3), [one_pair([v] * 6) for v in levels], "higher"
    )


def test_four_earlier_runs_give_a_verdict_by_their_spread():
    (slow,) = answer_runs([runs_question(0.9, 1.0, 1.005, 0.995, 1.001)], threshold=0.05)
    (same,) = answer_runs([runs_question(1.001, 1.0, 1.005, 0.995, 1.001)], threshold=0.05)
    (unknown,) = answer_runs([runs_question(0.9, 1.0, 1.1, 0.9, 1.05)], threshold=0.05)
    words = [each.verdict for each in (slow, same, unknown)]
    assert words == ["worse", "no meaningful difference", "inconclusive"]
    logs = np.log([1.0, 1.005, 0.995, 1.001])
    half = student_t(0.95, 3) * logs.std(ddof=1) * math.sqrt(1 + 1 / 4)
    assert math.log(slow.ci95[1] / slow.ci95[0]) == pytest.approx(2 * half, rel=1e-6)


@pytest.mark.parametrize(
    ("runs", "better", "count"), [(4, "higher", 1), (8, "lower", 1), (5, "lower", 3)]
)
def test_half_of_the_smallest_regressions_are_found(runs, better, count):
    """The promise is a half. With several comparisons Holm's method finds a little more."""
    chance = np.random.default_rng(runs)
    sign = 1 if better == "lower" else -1

    def found(size):
        """The share of regressions that are found, as a share of the smallest size's logarithm."""
        words = []
        for _ in range(300):
            levels = np.exp(chance.normal(0, 0.03, (count, runs)))
            before = [[one_pair([float(level)]) for level in each] for each in levels]
            now = chance.normal(0, 0.03, count)
            alone = [RunsQuestion(one_pair([1.0]), runs_, better) for runs_ in before]
            smallest = [f.smallest_regression for f in answer_runs(alone, threshold=0.05)]
            assert all((math.log(ratio) > 0) == (sign > 0) for ratio in smallest)
            changed = [
                question._replace(arm=one_pair([ratio**size * math.exp(noise)]))
                for question, ratio, noise in zip(alone, smallest, now, strict=True)
            ]
            words += [each.verdict for each in answer_runs(changed, threshold=0.05)]
        return words.count("worse") / len(words)

    assert 0.45 < found(1.0) < (0.55 if count == 1 else 0.75)
    assert found(0.5) < 0.25, "smaller ones are mostly missed"


def test_the_command_foretells_the_smallest_regression_of_a_gate():
    levels = [1.0, 1.05, 0.97, 1.02, 1.01]
    (finding,) = answer_runs([runs_question(1.0, *levels)], threshold=0.05)
    foretold = smallest_regression(half_width(list(np.log(levels)), 1), 0.05, "higher")
    assert foretold == pytest.approx(finding.smallest_regression, rel=1e-9)


def test_earlier_runs_of_one_block_are_values_too():
    question = RunsQuestion(
        one_pair([0.8]), [one_pair([v]) for v in (1.0, 1.005, 0.995, 1.001)], "higher"
    )
    (finding,) = answer_runs([question], threshold=0.05)
    assert (finding.verdict, finding.blocks) == ("worse", 1)


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_fewer_earlier_runs_decide_nothing_and_say_what_is_unknown(runs):
    (finding,) = answer_runs([runs_question(0.5, *[1.0] * runs)], threshold=0.05)
    assert (finding.verdict, finding.ratio) == ("inconclusive", pytest.approx(0.5, rel=0.01))
    assert (finding.ci95, finding.more_runs) == (None, 4 - runs)


# -- percentiles


def test_percentiles_are_of_pooled_raw_values_and_only_where_there_are_enough():
    result = percentiles([np.arange(1, 201) / 200])
    assert result.samples == 200
    assert result.p50 == pytest.approx(0.5, abs=0.01)
    assert result.p99 == pytest.approx(0.99, abs=0.01)
    assert result.p99_9 is None, "no value of 200 lies beyond it"


def test_percentiles_have_intervals_where_every_block_has_enough_values():
    chance = np.random.default_rng(7)
    result = percentiles([chance.lognormal(0, 1, 500) for _ in range(6)])
    assert set(result.intervals) == {"p50", "p90", "p99"}
    low, high = result.intervals["p99"]
    assert low < result.p99 < high
    assert percentiles([chance.lognormal(0, 1, 500) for _ in range(5)]).intervals == {}


def test_a_percentile_with_fewer_than_five_values_beyond_it_in_one_block_has_no_interval():
    blocks = [np.linspace(1, 2, 500)] * 5
    assert "p99" not in percentiles([*blocks, np.linspace(1, 2, 499)]).intervals
    assert "p99" in percentiles([*blocks, np.linspace(1, 2, 500)]).intervals
    assert "p50" not in percentiles([*blocks, np.linspace(1, 2, 9)]).intervals


def test_no_interval_of_a_percentile_is_below_the_medians_own():
    """One of 126 µs began at 39 µs, below the median's own."""
    chance = np.random.default_rng(4)
    tails = [1.0, 1.0, 1.0, 1.0, 1.0, 60.0]
    blocks = [
        np.concatenate([chance.normal(100, 2, 900), tail * chance.normal(110, 2, 100)])
        for tail in tails
    ]
    result = percentiles(blocks)
    lows, highs = zip(*result.intervals.values(), strict=True)
    assert len(lows) > 2 and list(lows) == sorted(lows) and list(highs) == sorted(highs)
    for name, (low, high) in result.intervals.items():
        assert low <= getattr(result, name) <= high


# -- properties

positive = st.floats(min_value=1e-6, max_value=1e12)
series = st.lists(positive, min_size=6, max_size=14)


@settings(max_examples=60)
@given(series, series, st.floats(min_value=0.01, max_value=1))
def test_arms_changed_about_turn_the_verdict_about(arm, baseline, threshold):
    size = min(len(arm), len(baseline))
    forth = verdict(arm[:size], baseline[:size], threshold=threshold)
    back = verdict(baseline[:size], arm[:size], threshold=threshold)
    opposite = {"better": "worse", "worse": "better"}
    assert back.verdict == opposite.get(forth.verdict, forth.verdict)
    assert back.ratio == pytest.approx(1 / forth.ratio, rel=1e-6)


@settings(max_examples=60)
@given(series, positive, st.permutations(range(6)))
def test_units_of_measurement_do_not_matter(values, factor, order):
    baseline = [values[i] for i in order]
    one = verdict(values[:6], baseline)
    other = verdict([v * factor for v in values[:6]], [v * factor for v in baseline])
    assert other.verdict == one.verdict or one.ratio == pytest.approx(1.0, rel=0.5)
    assert other.ci95 == pytest.approx(one.ci95, rel=1e-6)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 9), positive), max_size=80), st.data())
def test_any_values_get_a_word_and_consistent_figures(cells, data):
    values = [Value(block, f"c{pair}", f"s{pair}", value) for block, pair, value in cells]
    cut = data.draw(st.integers(0, len(values)))
    finding = estimate(values[:cut], values[cut:])
    assert finding.verdict in ("better", "worse", "no meaningful difference", "inconclusive")
    for ends in (finding.ci95, finding.ci_simultaneous):
        if ends is not None:
            assert ends[0] <= finding.ratio * (1 + 1e-9)
            assert finding.ratio <= ends[1] * (1 + 1e-9)
    assert_agree(finding.verdict, finding.ci_simultaneous, 0.05)
    if finding.stack is not None:
        assert_agree(finding.stack.verdict, finding.stack.ci_simultaneous, 0.05)
    assert (finding.reason is None) == (finding.verdict != "inconclusive")
    compare_steadiness(values[:cut], values[cut:])
    spread(values)


def test_a_reason_names_the_interval_that_it_is_about():
    wide = Estimate(math.log(2), of_blocks=0.05, block_freedom=10)
    low, high = wide.interval(CONFIDENCE)
    assert 1.05 < low < high, "of one comparison it is beyond the threshold"
    alone, together = (Outlook(0.05, confidence) for confidence in (CONFIDENCE, 0.9999))
    assert "adjusted" in why_inconclusive(wide, together)
    assert "adjusted" not in why_inconclusive(replace(wide, of_blocks=1.0), alone)
