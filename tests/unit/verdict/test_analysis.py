"""The analysis of a run's trials: verdicts, summaries, marks, regressions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate import registry
from rackrate.measure.trials import RawValues
from rackrate.verdict import wording
from rackrate.verdict.analysis import against_earlier_runs, analyze_run
from rackrate.verdict.evidence import Evidence
from rackrate_contract.arms import InstanceNetwork, Node
from rackrate_contract.trials import TrialKey
from rackrate_contract.verdicts import Baseline
from tests.unit import builders

TCP = registry.load_test({"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 10})
RTT = registry.load_test({"name": "rtt", "tool": "ping", "count": 30, "interval_seconds": 0.2})
LATENCY = registry.load_test({"name": "latency", "tool": "sockperf", "seconds": 10})
NETWORK = InstanceNetwork(baseline_bits_per_second=0.75e9, peak_bits_per_second=10e9)
NODES = {"treatment": ("node-a", "node-b"), "baseline": ("node-c", "node-d")}


def evidence(values, *, tests=(TCP, RTT), raw=None, **plan):
    """A run whose trials have `values[test, arm][block - 1]`. None is a failed trial."""
    trials = {}
    named = {test.name: test for test in tests}
    for (test, name), series in values.items():
        if test not in named:
            continue
        details = {"retransmits": 3} if test == "tcp-1" else {"loss_ratio": 0.1}
        for block, value in enumerate(series, start=1):
            key = TrialKey(block, name, test, *NODES[name])
            trials[key] = builders.trial_of(key, named[test], value, details=details)
    arms = [
        builders.usual_arm(
            name,
            [Node(name=node, cpus=2, instance_type="c5.large") for node in nodes],
            network=NETWORK,
        )
        for name, nodes in NODES.items()
    ]
    return Evidence(
        planned_run=builders.planned_run(builders.plan(tests=tests, **{"seed": 7, **plan}), arms),
        planned=tuple(sorted(trials)),
        trials=trials,
        raw=raw or {},
    )


FAST = [9.5e9, 9.49e9, 9.51e9, 9.5e9, 9.48e9, 9.52e9]
SLOW = [4.94e9, 4.95e9, 4.93e9, 4.96e9, 4.94e9, 4.95e9]
NEAR = [155e-6, 156e-6, 154e-6, 155e-6, 157e-6, 155e-6]
FAR = [457e-6, 455e-6, 459e-6, 457e-6, 456e-6, 458e-6]
VALUES = {
    ("tcp-1", "treatment"): FAST,
    ("tcp-1", "baseline"): SLOW,
    ("rtt", "treatment"): NEAR,
    ("rtt", "baseline"): FAR,
}


def verdict_on(analysis, test):
    (finding,) = (v for v in analysis.verdicts if v.test == test)
    return finding


def test_a_run_with_one_arm_concludes_with_the_medians_of_that_arm():
    whole = evidence({key: series for key, series in VALUES.items() if key[1] == "treatment"})
    arms = [arm for arm in whole.planned_run.arms if arm.name == "treatment"]
    analysis = analyze_run(whole)
    assert "no arm could be compared" in wording.sentence(())
    sentence = wording.sentence((), summaries=analysis.summaries, arms=arms)
    assert sentence == (
        f"In the {arms[0].placement} placement group: tcp-1 throughput 9.50 Gbit/s and"
        " rtt 155 µs at the median."
    )


def test_each_arm_but_the_baseline_has_a_verdict_on_each_metric_of_each_test():
    analysis = analyze_run(evidence(VALUES))
    assert [(v.test, v.metric, v.arm, v.verdict) for v in analysis.verdicts] == [
        ("tcp-1", "throughput", "treatment", "better"),
        ("rtt", "rtt", "treatment", "better"),
    ]


def test_intervals_are_corrected_for_all_verdicts_of_the_run():
    both = verdict_on(analyze_run(evidence(VALUES)), "tcp-1")
    alone = verdict_on(analyze_run(evidence(VALUES, tests=(TCP,))), "tcp-1")
    assert both.confidence_simultaneous == pytest.approx(0.975)
    assert alone.confidence_simultaneous == pytest.approx(0.95)
    assert both.ci_simultaneous[0] < alone.ci_simultaneous[0]
    assert both.ci95 == alone.ci95


def test_a_claim_says_what_it_is_about_and_what_it_rests_on():
    claim = verdict_on(analyze_run(evidence(VALUES)), "tcp-1").claim
    assert "about these nodes" in claim
    assert "1 pair of nodes in each arm and 6 blocks" in claim


def test_the_ceiling_explains_a_throughput_and_leaves_latency_alone():
    analysis = analyze_run(evidence(VALUES))
    ceiling = verdict_on(analysis, "tcp-1").ceiling
    assert (ceiling.arm, ceiling.baseline, ceiling.explains) == (10e9, 5e9, True)
    assert ceiling.arm_share == pytest.approx(0.95)
    assert verdict_on(analysis, "rtt").ceiling is None


def test_failed_trials_are_left_out_and_never_zero():
    values = {**VALUES, ("tcp-1", "treatment"): [*FAST[:5], None]}
    finding = verdict_on(analyze_run(evidence(values)), "tcp-1")
    assert finding.blocks == 5
    assert finding.arm_median == pytest.approx(9.5e9)


def test_a_trial_without_one_of_the_metrics_leaves_the_others_decided():
    run = evidence({("latency", "treatment"): NEAR, ("latency", "baseline"): FAR}, tests=(LATENCY,))
    median, p99 = analyze_run(run).verdicts
    assert (median.verdict, p99.verdict) == ("better", "inconclusive")
    assert p99.reason


def test_warm_up_trials_are_in_no_figure():
    warm = evidence(VALUES)
    key = TrialKey(0, "treatment", "tcp-1", *NODES["treatment"])
    trials = {**warm.trials, key: builders.trial_of(key, TCP, 1.0)}
    assert analyze_run(replace(warm, trials=trials)) == analyze_run(warm)


def test_percentiles_are_of_raw_values_pooled_over_trials_not_of_percentiles():
    run = evidence(VALUES)
    # One trial has most of the values, all of them high. An average of medians would miss that.
    raw = {}
    for key in run.planned:
        if (key.test, key.arm) == ("rtt", "treatment"):
            times = (900e-6,) * 95 if key.block == 1 else (100e-6,)
            raw[key.id] = RawValues(samples={"rtt": times})
    summaries = summaries_of(replace(run, raw=raw))
    pooled = summaries["rtt", "treatment"].percentiles
    assert (pooled.samples, pooled.p50) == (100, 900e-6)
    assert summaries["rtt", "baseline"].percentiles is None
    assert summaries["tcp-1", "treatment"].percentiles is None


def summaries_of(run):
    return {(each.test, each.arm): each for each in analyze_run(run).summaries}


def test_summaries_tell_loss_retransmits_and_spread():
    summaries = summaries_of(evidence(VALUES))
    assert summaries["tcp-1", "treatment"].retransmits == 18
    assert summaries["tcp-1", "treatment"].loss_ratio is None
    assert summaries["rtt", "baseline"].loss_ratio == pytest.approx(0.1)
    assert summaries["tcp-1", "baseline"].spread_between_blocks < 0.01
    assert summaries["tcp-1", "baseline"].spread_between_pairs is None


def test_marks_name_their_trial_and_are_counted_with_their_verdict():
    run = evidence(VALUES)
    key = next(k for k in run.planned if k.test == "tcp-1" and k.arm == "treatment")
    details = {**run.trials[key].details, "client_cpu_percent": 99.0}
    busy = builders.trial_of(key, TCP, FAST[0], details=details, tool_version="iperf 3.12")
    analysis = analyze_run(replace(run, trials={**run.trials, key: busy}))
    (mark,) = analysis.marks
    assert (mark.mark, mark.key) == ("client_cpu", key)
    assert mark.text
    assert verdict_on(analysis, "tcp-1").marks == {"client_cpu": 1}
    assert verdict_on(analysis, "tcp-1").verdict == "better", "a mark drops nothing"


def test_nothing_measured_is_inconclusive_everywhere():
    nothing = {key: [None] * 6 for key in VALUES}
    analysis = analyze_run(evidence(nothing))
    assert {v.verdict for v in analysis.verdicts} == {"inconclusive"}
    assert {s.median for s in analysis.summaries} == {None}


# -- regressions


@st.composite
def _partly_missing(draw):
    """The values of a run, of which any subset is missing or is zero."""
    cells = st.sampled_from([None, 0.0, 1.0, 1.0, 1.0])
    return {
        key: [None if (k := draw(cells)) is None else k * value for value in series]
        for key, series in VALUES.items()
        if draw(st.integers(0, 9))
    }


@settings(max_examples=60, deadline=None)
@given(_partly_missing(), st.lists(_partly_missing(), min_size=1, max_size=5))
def test_whatever_is_missing_each_comparison_has_one_verdict(values, earlier):
    run = evidence(values)
    before = {f"run-{n}": evidence(each) for n, each in enumerate(earlier, start=1)}
    analysis = analyze_run(run, against_earlier_runs(run, before, name="main"))
    assert [(v.test, v.arm) for v in analysis.verdicts] == [
        ("tcp-1", "treatment"),
        ("rtt", "treatment"),
    ]
    assert {(v.test, v.arm) for v in analysis.regressions} == {*VALUES}
    for each in (*analysis.verdicts, *analysis.regressions):
        assert (each.reason is None) == each.is_decided


def test_a_comparison_with_earlier_runs_that_fails_leaves_the_others_decided():
    nothing = {key: [None] * 6 for key in VALUES if key[0] == "tcp-1"}
    runs = {name: evidence({**VALUES, **nothing}) for name in four_runs()}
    verdicts = against_earlier_runs(evidence({**VALUES, **nothing}), runs, name="main").verdicts
    assert {(v.test, v.verdict, v.reason) for v in verdicts} == {
        ("tcp-1", "inconclusive", "no values"),
        ("rtt", "no meaningful difference", None),
    }


@pytest.mark.parametrize(("count", "is_decided"), [(499, False), (500, True)])
def test_a_percentile_of_few_values_has_no_verdict_and_says_what_to_change(count, is_decided):
    run = evidence({("latency", "treatment"): NEAR, ("latency", "baseline"): FAR}, tests=(LATENCY,))
    first = min(run.trials)
    trials = {
        key: trial.model_copy(
            update={
                "values": dict.fromkeys(("latency", "latency_p99"), trial.value),
                "samples": {"latency": count if key == first else 900},
            }
        )
        for key, trial in run.trials.items()
    }
    run = replace(run, trials=trials)
    median, p99 = analyze_run(run).verdicts
    assert (median.is_decided, p99.is_decided) == (True, is_decided)
    if not is_decided:
        assert "raise the test's seconds" in p99.reason
        assert (p99.ci95, p99.ci_simultaneous) == (None, None)
    earlier = against_earlier_runs(run, {f"run-{n}": run for n in range(4)}, name="main").verdicts
    assert {v.is_decided for v in earlier if v.metric == "latency_p99"} == {
        is_decided or (v.arm != first.arm) for v in earlier if v.metric == "latency_p99"
    }


SLOWER = {**VALUES, ("tcp-1", "treatment"): [value * 0.8 for value in FAST]}


def scaled(factor, values=VALUES):
    return {key: [value * factor for value in series] for key, series in values.items()}


def four_runs(*factors):
    """Earlier runs by id, each with all its values multiplied by a factor."""
    levels = factors or (1.0, 1.001, 0.999, 1.0)
    return {f"run-{n}": evidence(scaled(level)) for n, level in enumerate(levels, start=1)}


def test_a_run_is_judged_against_four_earlier_ones():
    earlier = against_earlier_runs(evidence(SLOWER), four_runs(), name="main")
    words = {(v.test, v.arm): v.verdict for v in earlier.verdicts}
    assert words == {
        ("tcp-1", "treatment"): "worse",
        ("tcp-1", "baseline"): "no meaningful difference",
        ("rtt", "treatment"): "no meaningful difference",
        ("rtt", "baseline"): "no meaningful difference",
    }
    runs = ("run-1", "run-2", "run-3", "run-4")
    assert {v.baseline for v in earlier.verdicts} == {Baseline("main", runs)}
    assert {v.more_runs for v in earlier.verdicts} == {None}
    assert earlier.verdicts[0].confidence_simultaneous == pytest.approx(1 - 0.05 / 4)
    assert earlier.warnings == []


def started(run, days):
    """A run, so many days later."""
    times = (f"2026-11-{1 + days:02d}T08:00:00Z", f"2026-11-{1 + days:02d}T08:05:00Z")
    update = dict(zip(("started_at", "finished_at"), times, strict=True))
    trials = {key: trial.model_copy(update=update) for key, trial in run.trials.items()}
    return replace(run, trials=trials)


def test_earlier_runs_of_one_day_are_said_not_to_show_how_days_differ():
    def warnings(*days):
        runs = zip(four_runs().items(), days, strict=False)
        before = {name: started(run, day) for (name, run), day in runs}
        return against_earlier_runs(evidence(VALUES), before, name="main").warnings

    (warning,) = warnings(1, 1, 1, 1)
    assert warning.startswith("compare_with: the 4 runs were measured within 5 min 00 s, so")
    assert warnings(1, 2, 3, 4) == []
    assert warnings(1, 1, 1) == [], "three decide nothing"


def test_a_verdict_against_earlier_runs_has_the_smallest_regression_that_they_show():
    quiet = against_earlier_runs(evidence(VALUES), four_runs(), name="main").verdicts
    noisy = four_runs(1.0, 1.2, 0.8, 1.1)
    loud = against_earlier_runs(evidence(VALUES), noisy, name="main").verdicts
    for verdicts, is_blind in ((quiet, False), (loud, True)):
        assert {v.is_blind for v in verdicts} == {is_blind}
        assert all((v.smallest_regression < 1) == (v.better == "higher") for v in verdicts)
    few = against_earlier_runs(evidence(VALUES), {"run-1": evidence(VALUES)}, name="run-1").verdicts
    assert {v.smallest_regression for v in (*few, *analyze_run(evidence(VALUES)).verdicts)} == {
        None
    }


def test_an_earlier_run_that_measured_nothing_of_a_metric_does_not_count_for_it():
    runs = four_runs()
    runs["run-4"] = evidence({**VALUES, ("tcp-1", "treatment"): [None] * 6})
    verdicts = against_earlier_runs(evidence(VALUES), runs, name="main").verdicts
    assert {(v.test, v.arm): v.more_runs for v in verdicts if v.more_runs} == {
        ("tcp-1", "treatment"): 1
    }


def test_without_values_there_is_no_ratio_to_earlier_runs():
    nothing = {key: [None] * 6 for key in VALUES}
    for after, before in ((nothing, VALUES), (VALUES, nothing)):
        verdicts = against_earlier_runs(evidence(after), {"run-1": evidence(before)}, name="run-1")
        assert {(v.ratio, v.verdict, v.reason) for v in verdicts.verdicts} == {
            (None, "inconclusive", "no values")
        }


def test_what_runs_do_not_share_is_named_and_not_compared():
    longer = TCP.model_copy(update={"seconds": 20})
    runs = {**four_runs(), "run-5": evidence(VALUES, tests=(longer, RTT))}
    earlier = against_earlier_runs(evidence(VALUES), runs, name="main")
    assert {v.test for v in earlier.verdicts} == {"rtt"}
    assert earlier.warnings == [
        "compare_with: the test tcp-1 differs in the run run-5: seconds 20 instead of 10"
    ]


def test_what_earlier_runs_showed_is_part_of_the_analysis():
    run = evidence(VALUES)
    earlier = against_earlier_runs(run, {"run-1": evidence(VALUES, blocks=9)}, name="run-1")
    analysis = analyze_run(run, replace(earlier, warnings=["second"]), ["first"])
    assert analysis.regressions == tuple(earlier.verdicts)
    assert [each.what for each in analysis.regression_differences] == ["blocks"]
    assert analysis.warnings == ("first", "second")
    assert analyze_run(run).regression_differences is None


@pytest.mark.parametrize(("level", "is_marked"), [(0.8, True), (0.96, True), (0.98, False)])
def test_a_step_of_one_arm_alone_by_half_the_threshold_is_marked_by_name(level, is_marked):
    flat = [9e9, 9.001e9, 9e9]
    values = {
        **VALUES,
        ("tcp-1", "treatment"): [*flat, *(level * value for value in flat)],
        ("tcp-1", "baseline"): [*flat, *flat],
    }
    analysis = analyze_run(evidence(values))
    assert analysis.verdicts[0].threshold == 0.05
    drift = verdict_on(analysis, "tcp-1").drift
    assert (drift is not None and "cluster group alone fell by" in drift) == is_marked
    assert verdict_on(analysis, "rtt").drift is None


def test_all_tests_of_a_comparison_name_the_time_in_which_both_arms_were_measured():
    run = evidence(VALUES)
    times = {
        key: trial.model_copy(
            update={
                "started_at": f"2026-11-22T08:00:{5 * number:02d}+00:00",
                "finished_at": f"2026-11-22T08:00:{5 * number + 4:02d}+00:00",
            }
        )
        for number, (key, trial) in enumerate(list(run.trials.items())[::3])
    }
    timed = replace(run, trials={**run.trials, **times})
    last = 5 * (len(times) - 1) + 4
    assert {v.span_seconds for v in analyze_run(timed).verdicts} == {float(last)}
