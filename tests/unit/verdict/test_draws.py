"""Answers over draws on cases with known answers. benchmarks/draws.py measures the error rates."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.verdict.draws import (
    LEAST_DRAWS,
    MOST_DRAWS,
    Draw,
    DrawsQuestion,
    answer_draws,
    draws_near,
    draws_needed,
    has_changed,
)
from tests.unit.verdict.agreement import assert_agree

ERROR = 0.003
#: Four placements in which the arm is twice as fast, with luck of about 3 %.
TWICE = [2.0, 2.08, 1.96, 2.02]
EQUAL = [1.0, 1.002, 0.999, 1.001, 1.0, 0.998]


def question(ratios, better="higher", error=ERROR):
    return DrawsQuestion([Draw(ratio, error) for ratio in ratios], better)


def answer(ratios, better="higher", *, least=4, most=None, threshold=0.05, error=ERROR, beside=()):
    questions = [question(ratios, better, error), *(question(each) for each in beside)]
    most = max(least, len(ratios)) if most is None else most
    return answer_draws(questions, threshold=threshold, least=least, most=most)[0]


# -- the figures


def test_the_mean_has_students_interval_over_draws():
    finding = answer([1.0, 1.1, 1.21, 1.331])
    assert finding.ratio == pytest.approx(1.1**1.5)
    # The logarithms are 0, 1, 2 and 3 times log(1.1); t with 3 degrees of freedom is 3.182.
    half = 3.1824 * math.sqrt(5 / 3) * math.log(1.1) / 2
    assert finding.ci95 == pytest.approx(
        (finding.ratio * math.exp(-half), finding.ratio * math.exp(half)), rel=1e-4
    )


def test_the_prediction_adds_the_luck_of_one_more_placement_to_that_of_the_mean():
    finding = answer(TWICE)
    wider = math.log(finding.prediction95[1] / finding.prediction95[0])
    assert wider / math.log(finding.ci95[1] / finding.ci95[0]) == pytest.approx(math.sqrt(4 + 1))


def test_the_variability_leaves_out_what_the_runs_own_errors_explain():
    spread = answer(TWICE, error=None).variability
    assert answer(TWICE, error=0.01).variability == pytest.approx(math.sqrt(spread**2 - 0.01**2))
    assert answer(EQUAL, error=0.01).variability == 0


@pytest.mark.parametrize(
    # The quantiles of 5 % of chi-squared with 3, 5 and 11 degrees of freedom, from a table.
    ("draws", "quantile"), [(4, 0.35185), (6, 1.14548), (12, 4.57481)]
)  # fmt: skip
def test_the_variability_has_an_upper_bound_also_where_its_estimate_is_zero(draws, quantile):
    ratios = [1.0, 1.02] * (draws // 2)
    logs = [math.log(ratio) for ratio in ratios]
    squares = sum((each - sum(logs) / draws) ** 2 for each in logs)
    finding = answer(ratios, error=0.012)
    assert finding.variability == 0
    assert finding.variability_at_most == pytest.approx(math.sqrt(squares / quantile), rel=1e-4)


def test_a_trend_over_the_draws_is_found_with_its_size():
    risen = answer([1.5 * 1.02**n * luck for n, luck in enumerate((1, 1.001, 0.999, 1, 1.001, 1))])
    assert risen.trend == pytest.approx(1.02**5, rel=0.01)
    assert answer(TWICE).trend is None
    assert answer([2.0 * 1.001**n for n in range(6)], error=None).trend is None


def test_a_trend_that_the_runs_own_errors_explain_is_none():
    assert answer([1.0, 1.01, 1.02, 1.03, 1.04], error=0.05).trend is None


def test_draws_that_agree_by_chance_keep_the_error_of_their_runs():
    finding = answer([2.0, 2.0, 2.0, 2.0], error=0.02)
    assert finding.ci95 == pytest.approx((2 * math.exp(-0.01), 2 * math.exp(0.01)))
    low, high = finding.prediction95
    assert low < finding.ci95[0] < finding.ci95[1] < high


# -- the words


@pytest.mark.parametrize(
    ("draws", "better", "word"),
    [
        (TWICE, "higher", "better"),
        (TWICE, "lower", "worse"),
        ([1 / ratio for ratio in TWICE], "lower", "better"),
        (EQUAL, "higher", "no meaningful difference"),
        ([0.9, 1.2, 1.0, 1.1, 0.95, 1.15], "higher", "inconclusive"),
    ],
)
def test_the_whole_interval_decides_the_word(draws, better, word):
    assert answer(draws, better).verdict == word


@pytest.mark.parametrize("number", range(LEAST_DRAWS))
def test_fewer_than_four_draws_say_nothing_of_the_placement_group(number):
    finding = answer(TWICE[:number])
    assert finding.verdict == "inconclusive"
    assert finding.more_draws == LEAST_DRAWS - number
    assert f"needs {LEAST_DRAWS}" in finding.reason
    assert (finding.ci95 is None) == (number < 2)


def test_few_draws_near_the_threshold_settle_nothing_however_alike_they_are():
    alike = [1.15, 1.151, 1.149, 1.15]
    finding = answer(alike, most=12)
    assert finding.verdict == "inconclusive"
    assert len(alike) + finding.more_draws == draws_near(1)
    assert finding.prospect > 0.9
    assert answer([*alike, 1.15]).verdict == "better"


def test_a_campaign_that_must_end_before_it_may_decide_has_no_prospect():
    assert answer([1.15, 1.151, 1.149, 1.15], most=4).prospect == 0
    assert answer([1.0, 1.0, 1.0, 1.0], least=4, most=4).prospect == 0


def test_near_the_threshold_all_answers_together_may_not_all_lie_on_one_level():
    for answers in range(1, 40):
        needed = draws_near(answers)
        assert answers * 0.5**needed <= 0.05
        assert needed == LEAST_DRAWS or answers * 0.5 ** (needed - 1) > 0.05


def test_further_answers_and_looks_make_each_answer_harder_to_decide():
    alone = answer(TWICE)
    beside = answer(TWICE, beside=[TWICE, TWICE])
    looking = answer(TWICE, most=12)
    for wider in (beside, looking):
        assert wider.confidence_simultaneous > alone.confidence_simultaneous
        assert wider.ci_simultaneous[0] < alone.ci_simultaneous[0]
        assert wider.ci95 == alone.ci95


def test_a_clear_answer_leaves_its_error_to_the_others():
    close = [1.083, 1.221] * 4
    assert answer(close).verdict == "better"
    assert answer(close, beside=[[2.0, 1.0] * 4] * 4).verdict == "inconclusive"
    assert answer(close, beside=[[2.0, 2.01] * 4] * 4).verdict == "better"


# -- more draws


def test_more_draws_are_recommended_only_where_they_can_help():
    near = answer([1.1, 1.15, 1.05, 1.12, 1.08, 1.1], most=12)
    assert near.verdict == "inconclusive"
    assert 0 < near.more_draws < 20
    assert 0 < near.prospect < 1
    at_edge = answer([1.05, 1.04, 1.06, 1.05, 1.06, 1.04], most=12)
    assert at_edge.more_draws is None
    assert at_edge.prospect < 0.1


def test_an_answer_with_little_luck_needs_the_least_draws():
    for effect in (2.0, 0.5, 1.3):
        assert draws_needed(effect, 0.0, threshold=0.05) == LEAST_DRAWS
    assert draws_needed(1.0, 0.0, threshold=0.05) == draws_near(1)


@pytest.mark.parametrize(
    ("luck", "needed"), [(0.02, [4, 4, 5, 5]), (0.05, [4, 4, 14, 16]), (0.1, [4, 5, 47, 55])]
)
def test_the_draws_needed_are_those_of_the_documentation(luck, needed):
    numbers = [draws_needed(effect, luck, threshold=0.05) for effect in (2.0, 1.3, 1.1, 1.0)]
    assert numbers == needed


def test_more_luck_smaller_effects_and_more_answers_need_more_draws():
    def needed(*arguments, **more):
        return draws_needed(*arguments, threshold=0.05, **more) or MOST_DRAWS + 1

    for effect in (1.3, 1.1, 1.0):
        numbers = [needed(effect, luck) for luck in (0.0, 0.02, 0.05, 0.1)]
        assert numbers == sorted(numbers)
    assert needed(2.0, 0.1) <= needed(1.3, 0.1) <= needed(1.1, 0.1)
    assert needed(1.1, 0.05) < needed(1.1, 0.05, answers=3)
    assert needed(1.1, 0.05) < needed(1.1, 0.05, power=0.95)
    assert needed(1.1, 0.05) == needed(1 / 1.1, 0.05)
    assert draws_needed(1.05, 0.05, threshold=0.05) is None


# -- changes


def test_a_draw_far_from_those_before_is_a_change_in_both_directions():
    for newest in (1.0, 4.0):
        assert has_changed([question([*TWICE, *TWICE, newest])]) == [True]
    assert has_changed([question([*TWICE, *TWICE, 2.05])]) == [False]


def test_no_change_is_sought_with_fewer_than_four_draws_before():
    few = question([*TWICE[: LEAST_DRAWS - 1], 9.0])
    assert has_changed([few, question([*TWICE, 9.0]), question([])]) == [None, True, None]


def test_a_change_among_many_questions_has_to_be_clearer():
    near = question([*TWICE, 2.6])
    calm = question([*TWICE, 2.0])
    assert has_changed([near]) == [True]
    assert has_changed([near, *[calm] * 9]) == [False] * 10


def test_exact_draws_that_differ_by_their_runs_errors_are_no_change():
    assert has_changed([question([2.0] * 4 + [2.0001], error=0.01)]) == [False]


# -- invariants

ratios = st.lists(st.floats(0.2, 5), min_size=2, max_size=9)
errors = st.one_of(st.none(), st.floats(0, 0.1))


@given(ratios, errors, st.randoms(use_true_random=False))
def test_the_order_of_the_draws_does_not_matter(draws, error, shuffle):
    other = draws[:]
    shuffle.shuffle(other)
    one, two = (answer(each, error=error) for each in (draws, other))
    assert one.ratio == pytest.approx(two.ratio)
    assert one.prediction95 == pytest.approx(two.prediction95)
    assert one.variability == pytest.approx(two.variability, abs=1e-6)


@given(ratios, errors, st.floats(0.01, 0.5))
def test_swapping_the_arms_turns_the_answer_about(draws, error, threshold):
    forth = answer(draws, error=error, threshold=threshold)
    back = answer([1 / ratio for ratio in draws], error=error, threshold=threshold)
    assert back.ratio == pytest.approx(1 / forth.ratio)
    for one, other in ((forth.ci95, back.ci95), (forth.prediction95, back.prediction95)):
        assert other == pytest.approx((1 / one[1], 1 / one[0]), rel=1e-6)
    turned = {"better": "worse", "worse": "better"}
    assert back.verdict == turned.get(forth.verdict, forth.verdict)


@given(ratios, errors)
def test_a_direction_that_is_better_decides_only_the_words(draws, error):
    one, other = (answer(draws, better, error=error) for better in ("higher", "lower"))
    assert (one.ratio, one.ci95, one.variability) == (other.ratio, other.ci95, other.variability)
    assert {one.verdict, other.verdict} in (
        {"better", "worse"},
        {"inconclusive"},
        {"no meaningful difference"},
    )


@given(ratios, errors)
def test_the_same_draws_once_more_never_widen_an_interval(draws, error):
    one = answer(draws, error=error, least=30)
    twice = answer(draws * 2, error=error, least=30)
    for name in ("ci95", "ci_simultaneous", "prediction95"):
        wide, narrow = getattr(one, name), getattr(twice, name)
        if wide is None:  # too few draws
            continue
        assert narrow[0] >= wide[0] * (1 - 1e-9)
        assert narrow[1] <= wide[1] * (1 + 1e-9)


@given(ratios, errors, st.floats(0.1, 10))
def test_a_factor_on_all_ratios_moves_every_interval_by_it(draws, error, factor):
    one = answer(draws, error=error)
    moved = answer([ratio * factor for ratio in draws], error=error)
    assert moved.ratio == pytest.approx(one.ratio * factor)
    for name in ("ci95", "prediction95"):
        expected = tuple(end * factor for end in getattr(one, name))
        assert getattr(moved, name) == pytest.approx(expected, rel=1e-6)


@given(ratios, errors, st.integers(1, 12), st.integers(0, 12), st.floats(0.001, 1.0))
def test_any_draws_get_a_word_and_figures_that_agree(draws, error, least, further, threshold):
    finding = answer(draws, error=error, least=least, most=least + further, threshold=threshold)
    low, high = finding.ci95
    assert low <= finding.ratio * (1 + 1e-9)
    assert finding.ratio <= high * (1 + 1e-9)
    assert finding.prediction95[0] <= low * (1 + 1e-9)
    assert high <= finding.prediction95[1] * (1 + 1e-9)
    assert finding.variability >= 0
    assert (finding.verdict == "inconclusive") == (finding.reason is not None)
    if finding.prospect is not None:
        assert 0 <= finding.prospect <= 1
    assert_agree(finding.verdict, finding.ci_simultaneous, threshold)
