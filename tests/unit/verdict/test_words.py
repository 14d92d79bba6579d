"""A word and its interval never contradict: in runs and in sweeps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.verdict.estimate import ERROR, Estimate, Outlook, Wider, settle
from rackrate.verdict.estimator import Question, RunsQuestion, answer, answer_runs
from rackrate_text.units import NARROW_SPACE, shift
from tests.unit.verdict.agreement import assert_agree, printed
from tests.unit.verdict.pairs import one_pair
from tests.unit.verdict.test_sweeps import cells, run

thresholds = st.floats(0.001, 1.0)
estimates = st.builds(
    Estimate,
    log_ratio=st.floats(-3, 3) | st.floats(-0.1, 0.1),
    of_blocks=st.floats(1e-12, 0.1),
    block_freedom=st.integers(1, 30).map(float),
    of_units=st.floats(0, 0.01),
    unit_freedom=st.integers(1, 30).map(float),
    least=st.floats(0, 0.01),
)


@settings(max_examples=200)
@given(st.lists(estimates, min_size=1, max_size=8), thresholds, st.floats(0.001, ERROR))
def test_the_words_of_any_family_agree_with_their_intervals(family, threshold, error):
    outlook = Outlook(threshold, 1 - error / len(family))
    for finding, settled in zip(family, settle(family, outlook.edge, error), strict=True):
        low, high = finding.shown(outlook, settled)
        assert_agree(finding.word(settled, "higher"), (low, high), threshold)
        assert low <= math.exp(finding.log_ratio) * (1 + 1e-9)
        assert math.exp(finding.log_ratio) <= high * (1 + 1e-9)


@given(estimates, st.floats(-1e-4, 1e-4), st.booleans(), thresholds)
def test_ends_at_the_threshold_are_printed_on_their_side(estimate, distance, above, threshold):
    """The end that is next to the threshold is a rounding error away from it."""
    outlook = Outlook(threshold, 0.99)
    half = estimate.half_width(0.99)
    shift = outlook.edge + distance + (half if above else -half)
    near = Estimate(shift, estimate.of_blocks, estimate.block_freedom, least=half)
    (settled,) = settle([near], outlook.edge, 0.01)
    assert_agree(near.word(settled, "higher"), near.shown(outlook, settled), threshold)


@given(estimates, estimates, st.floats(0.5, 0.999))
def test_a_wider_scope_is_never_surer_than_these_nodes(one, other, confidence):
    wider = Wider(one.log_ratio, other.of_blocks, other.block_freedom, narrower=one)
    assert wider.half_width(confidence) >= one.half_width(confidence)


logs = st.floats(-0.3, 0.3)
series = st.lists(logs, min_size=2, max_size=9)


def values(numbers, nodes="ab"):
    return one_pair([math.exp(log) for log in numbers], nodes)


@settings(max_examples=60)
@given(st.lists(st.tuples(series, logs), min_size=1, max_size=4), thresholds)
def test_the_words_of_a_run_agree_with_their_intervals(tests, threshold):
    questions = [
        Question(values([level + each / 20 for each in numbers]), values([0.0] * 9, "cd"), "higher")
        for numbers, level in tests
    ]
    for finding in answer(questions, threshold=threshold):
        assert_agree(finding.verdict, finding.ci_simultaneous, threshold)


@settings(max_examples=60)
@given(st.lists(st.tuples(series, logs), min_size=1, max_size=4), thresholds)
def test_the_words_against_earlier_runs_agree_with_their_intervals(tests, threshold):
    questions = [
        RunsQuestion(values([level] * 6), [values([each / 20] * 6) for each in numbers], "higher")
        for numbers, level in tests
    ]
    for finding in answer_runs(questions, threshold=threshold):
        assert_agree(finding.verdict, finding.ci_simultaneous, threshold)


@settings(max_examples=30)
@given(st.lists(st.tuples(series, logs), min_size=2, max_size=3), thresholds)
def test_the_words_of_a_sweep_agree_with_their_intervals(steps, threshold):
    runs = [
        run(f"v{number}", 1e9 * math.exp(level + each / 20))
        for number, (numbers, level) in enumerate(steps)
        for each in numbers
    ]
    for finding in cells(*runs, threshold=threshold):
        if finding.verdict is not None:
            assert_agree(finding.verdict, finding.ci_simultaneous, threshold)


def assert_quotient(finding):
    """Assert that the figures printed beside a change are those whose quotient it is."""
    if finding.ratio is None:
        return
    arm, baseline = finding.arm_mean, finding.baseline_mean
    assert arm / baseline == pytest.approx(finding.ratio, rel=1e-9)
    figures = shift(baseline, arm, "s").replace(NARROW_SPACE, "").split(" → ")
    before, after = (sizes(figure, figures[1]) for figure in figures)
    assert (after - before) * printed(finding.ratio) >= 0


def sizes(figure, other):
    """A printed time in seconds; `other` has the unit if this one has none."""
    number, _, unit = figure.partition(" ")
    unit = unit or other.partition(" ")[2]
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]


times = st.lists(st.floats(1e-5, 1e-2), min_size=1, max_size=9)


@settings(max_examples=100)
@given(times, times, st.sampled_from(["ab", "cd"]))
def test_the_figures_beside_a_change_have_it_as_their_quotient(ours, theirs, name):
    arm, baseline = one_pair(ours), one_pair(theirs, name)
    assert_quotient(answer([Question(arm, baseline, "lower")], threshold=0.05)[0])
    runs = RunsQuestion(arm, [baseline, arm, baseline, arm], "lower")
    assert_quotient(answer_runs([runs], threshold=0.05)[0])


def test_a_change_whose_medians_fall_is_not_printed_beside_medians():
    """A run printed `+2.3 %  629 → 600 µs`: the change of the means beside the medians."""
    arm, baseline = one_pair([600e-6] * 4 + [900e-6] * 2), one_pair([629e-6] * 6, "cd")
    (finding,) = answer([Question(arm, baseline, "lower")], threshold=0.05)
    assert finding.ratio > 1 and finding.arm_median < finding.baseline_median
    assert_quotient(finding)


def test_a_difference_that_holm_decides_has_an_interval_beyond_the_threshold():
    """The default plan printed `p99 -82.4 %, -97.3 to +14 %, better` beside two clear tests."""
    clear = Estimate(1.0, 1e-6, 5.0)
    near = Estimate(-1.74, 0.39, 5.0)
    family = [clear, clear, near]
    outlook = Outlook(0.05, 1 - ERROR / 3)
    settled = settle(family, outlook.edge, ERROR)
    assert settled == ["beyond"] * 3
    assert near.interval(outlook.confidence)[1] > 1.0
    low, high = near.shown(outlook, settled[2])
    assert (low, high) == (near.interval(outlook.confidence)[0], pytest.approx(1 / 1.05))
