"""Comparisons of two runs: the allowed requests, and the content of comparison.json."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.errors import InvalidComparison
from rackrate.measure.trials import RawValues
from rackrate.plan.fields import STARTED_BY
from rackrate.report.page import render_page
from rackrate.results.build import RunTimes
from rackrate.results.comparison import (
    Recorded,
    Request,
    build_comparison,
    read_request,
)
from rackrate_contract.comparison import Compared
from rackrate_contract.executions import RunRecord
from rackrate_contract.trials import Mark
from rackrate_contract.verdicts import Difference
from tests.unit.verdict.test_analysis import FAST, RTT, TCP, VALUES, evidence

ID, ARN = "compared-1", "arn:aws:states:us-east-1:123456789012:execution:rackrate:compared-1"
TIMES = RunTimes(started_at="2026-11-21T08:00:00Z", written_at="2026-11-21T08:00:04Z")


def recorded(run_id, values=VALUES, *, marks=(), **options):
    """A run as read from the store."""
    evidence_of_run = evidence(values, **options)
    trials = {
        key: trial.model_copy(update={"raw_key": f"runs/{run_id}/raw/{key.id}.1.txt"})
        for key, trial in evidence_of_run.trials.items()
    }
    record = RunRecord(id=run_id, status="succeeded", started_at=TIMES.started_at, lab_scale=0.05)
    return Recorded(run=record, evidence=replace(evidence_of_run, trials=trials), marks=marks)


def compare(ours, *theirs, baseline=None):
    return build_comparison(
        ours, theirs, comparison_id=ID, execution_arn=ARN, baseline=baseline, times=TIMES
    )


def words(document):
    return {(v.test, v.arm): v.verdict for v in document.verdicts}


SLOWER = {**VALUES, ("tcp-1", "treatment"): [0.8 * value for value in FAST]}


# -- the request


@pytest.mark.parametrize("raw", [None, [], "compare", ["compare"], {}, {"compare_with": "a"}])
def test_an_input_without_the_field_is_refused(raw):
    with pytest.raises(InvalidComparison, match="compare: is missing; write"):
        read_request(raw)


def test_a_request_names_two_runs():
    assert read_request({"compare": {"run": "b", "with": "a"}}) == Request("b", ("a",))
    pipeline = {"compare": {"run": "b", "with": "a"}, STARTED_BY: "arn:aws:states:…"}
    assert read_request(pipeline) == Request("b", ("a",))
    assert read_request({"compare": {"run": "b", "with": ["a", "c"]}}) == Request("b", ("a", "c"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"compare": "run-1"}, "compare: must be an object, not the text 'run-1'; write {"),
        ({"compare": None}, "compare: must be an object, not null; write {"),
        ({"compare": {"run": "a"}}, "compare.with: is missing; write {"),
        ({"compare": {"with": "a"}}, "compare.run: is missing; write {"),
        (
            {"compare": {"run": "", "with": "a"}},
            "compare.run: is empty; write a run's id, or a baseline's name",
        ),
        (
            {"compare": {"run": "a", "with": 7}},
            "compare.with: must be a text, not the number 7; write a run's id",
        ),
        ({"compare": {"run": "a", "with": []}}, "compare.with: is empty; write a run's id"),
        (
            {"compare": {"run": "a", "with": ["b", 7]}},
            "compare.with[1]: must be a text, not the number 7; write a run's id",
        ),
        ({"compare": {"run": "a" * 81, "with": "a"}}, "compare.run: is longer than 80 characters"),
        (
            {"compare": {"run": "a", "with": "b", "arm": "c"}},
            "compare.arm: is not a field here; remove it, or use run and with",
        ),
        (
            {"compare": {"run": "a", "with": "b"}, "blocks": 6},
            "blocks: is not a field of a comparison; remove it",
        ),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_field_and_the_remedy(raw, expected):
    with pytest.raises(InvalidComparison) as caught:
        read_request(raw)
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(), JSON, max_size=3), JSON)
def test_whatever_is_asked_for_is_read_or_refused(others, asked):
    try:
        request = read_request({**others, "compare": asked})
    except InvalidComparison as refused:
        assert refused.faults
    else:
        others = asked["with"] if isinstance(asked["with"], list) else [asked["with"]]
        assert (request.run, list(request.others)) == (asked["run"], others)


# -- comparison.json


MAIN = ("run-1", "run-3", "run-4", "run-5")


def four_runs(**options):
    return [recorded(run_id, **options) for run_id in MAIN]


def test_a_run_that_left_the_same_shows_no_difference_and_none_is_reported():
    document = compare(recorded("run-2"), *four_runs()).document
    assert set(words(document).values()) == {"no meaningful difference"}
    assert "Between run-2 and the 4 runs, nothing that rackrate records differed." in (
        document.conclusion
    )


def test_one_other_run_gives_ratios_and_no_verdict():
    document = compare(recorded("run-2", SLOWER), recorded("run-1")).document
    assert set(words(document).values()) == {"inconclusive"}
    assert [v.ratio for v in document.verdicts] == pytest.approx([0.8, 1, 1, 1])
    assert {v.more_runs for v in document.verdicts} == {3}
    assert document.comparison == Compared(
        run="run-2", other="run-1", with_runs=("run-1",), baseline=None, differences=()
    )
    assert document.conclusion.startswith(
        "Between run-2 and run-1, nothing that rackrate records differed. In the cluster"
    )


@settings(max_examples=15)  # each example is a whole analysis
@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=6))
def test_a_run_is_neither_better_nor_worse_than_itself(noise):
    values = {
        key: [v * n for v, n in zip(series, noise, strict=True)] for key, series in VALUES.items()
    }
    others = [recorded(run_id, values) for run_id in MAIN]
    document = compare(recorded("run-2", values), *others).document
    assert not {"better", "worse"} & set(words(document).values())
    assert [v.ratio for v in document.verdicts] == pytest.approx([1] * 4)


def test_each_arm_is_compared_with_the_arm_of_the_same_name_in_the_other_runs():
    document = compare(recorded("run-2", SLOWER), *four_runs(), baseline="main").document
    assert [(v.arm, v.baseline.written()) for v in document.verdicts] == [
        ("treatment", "treatment (main)"),
        ("baseline", "baseline (main)"),
    ] * 2
    assert words(document) == {
        ("tcp-1", "treatment"): "worse",
        ("tcp-1", "baseline"): "no meaningful difference",
        ("rtt", "treatment"): "no meaningful difference",
        ("rtt", "baseline"): "no meaningful difference",
    }
    (worse, *_) = document.verdicts
    assert worse.ratio == pytest.approx(0.8)
    assert worse.arm_median < worse.baseline_median


def test_the_conclusion_says_what_differed_before_what_it_did():
    ours = recorded("run-2", SLOWER, blocks=5)
    newer = ours.evidence.planned_run.model_copy(update={"kubernetes_version": "1.37"})
    ours = replace(ours, evidence=replace(ours.evidence, planned_run=newer))
    document = compare(ours, recorded("run-1")).document
    assert document.conclusion.startswith(
        "What differed between run-2 and run-1: Kubernetes (1.37 instead of 1.36);"
        " blocks (5 instead of 6). In the cluster placement group one flow"
    )
    assert document.comparison.differences == (
        Difference(what="Kubernetes", run="1.37", other="1.36"),
        Difference(what="blocks", run="5", other="6"),
    )


def test_several_other_runs_are_one_arm_with_the_blocks_of_all():
    raw = {"0001_treatment_rtt_node-a_node-b": RawValues(samples={"rtt": (1e-4,)})}
    others = four_runs(raw=raw)
    first = next(key for key in others[1].evidence.planned if key.arm == "treatment")
    others[1] = replace(others[1], marks=[Mark.of(first, "clock", "it was set")])
    compared = compare(recorded("run-2"), *others, baseline="main")
    document = compared.document
    assert [arm.name for arm in document.arms] == [
        *("treatment", "treatment (main)", "baseline", "baseline (main)"),
    ]
    (rtt,) = (s for s in document.summaries if (s.test, s.arm) == ("rtt", "treatment (main)"))
    assert (rtt.trials, rtt.blocks, rtt.pairs) == (24, 24, 1)
    theirs = [t for t in compared.trials if (t.test, t.arm) == ("rtt", "treatment (main)")]
    assert [t.block for t in theirs] == list(range(1, 25))
    assert [t.raw_key.split("/")[1] for t in theirs[::6]] == list(MAIN)
    of_first_blocks = {key for key in compared.raw if "(main)" in key}
    assert of_first_blocks == {
        f"{block:04d}_treatment (main)_rtt_node-a_node-b" for block in (1, 7, 13, 19)
    }
    assert [(mark.arm, mark.block) for mark in document.marks] == [
        ("treatment (main)", first.block + 6)
    ]
    assert document.trials.measured == 24 + 4 * 24


def test_a_baseline_names_its_runs_on_the_page():
    compared = compare(recorded("run-2", SLOWER), *four_runs(), baseline="main")
    page = render_page(compared.document, compared.trials, compared.raw)
    assert "run-2 is compared with the 4 runs of main: run-1, run-3, run-4 and run-5" in page
    assert "treatment (main)" in page
    assert "../../runs/run-5/raw/" in page


def test_a_difference_without_a_recorded_cause_is_reported_to_have_none():
    document = compare(recorded("run-2", SLOWER), *four_runs()).document
    assert (
        "nothing that rackrate records differed, so what made the difference is something it does"
        " not see." in document.conclusion
    )


def test_it_is_laid_out_as_results_whose_arms_are_those_of_both():
    compared = compare(recorded("run-2"), recorded("run-1"), baseline="good")
    document = compared.document.to_json()
    assert document["schema"] == "rackrate.comparison.v1"
    assert (document["run"]["id"], document["run"]["status"]) == (ID, "compared")
    assert document["run"]["execution_arn"] == ARN
    assert document["run"]["lab_scale"] == 0.05
    assert document["run"]["seconds"] == 4
    assert document["comparison"] == {
        "run": "run-2",
        "with": "run-1",
        "with_runs": ["run-1"],
        "baseline": "good",
        "differences": [],
    }
    assert [(arm["name"], arm["baseline"]) for arm in document["arms"]] == [
        ("treatment", False),
        ("treatment (run-1)", True),
        ("baseline", False),
        ("baseline (run-1)", True),
    ]
    names = {arm["name"] for arm in document["arms"]}
    assert {s["arm"] for s in document["summaries"]} == names == {t.arm for t in compared.trials}
    assert document["trials"] == {
        "planned": 48,
        "measured": 48,
        "failed": 0,
        "failures": [],
        "causes": [],
    }
    assert compared.raw == {}


def test_trials_raw_values_and_marks_have_the_names_of_the_arms_and_a_way_to_the_raw_output():
    raw = {"0001_treatment_rtt_node-a_node-b": RawValues(samples={"rtt": (1e-4,)})}
    theirs = recorded("run-1", raw=raw)
    first = next(key for key in theirs.evidence.planned if key.arm == "treatment")
    marked = replace(theirs, marks=[Mark.of(first, "clock", "it was set")])
    compared = compare(recorded("run-2", raw=raw), marked)
    assert set(compared.raw) == {
        "0001_treatment_rtt_node-a_node-b",
        "0001_treatment (run-1)_rtt_node-a_node-b",
    }
    assert [mark.arm for mark in compared.document.marks] == ["treatment (run-1)"]
    keys = {(t.arm, t.raw_key) for t in compared.trials if (t.block, t.test) == (1, "rtt")}
    raw_key = "runs/run-1/raw/0001_treatment_rtt_node-a_node-b.1.txt"
    assert ("treatment (run-1)", raw_key) in keys


def test_what_could_not_be_compared_is_reported_and_left_out():
    longer = RTT.model_copy(update={"count": 60})
    compared = compare(recorded("run-2", tests=(TCP, longer)), recorded("run-1"))
    document = compared.document
    assert {v.test for v in document.verdicts} == {"tcp-1"} == {t.test for t in compared.trials}
    assert [test["name"] for test in document.plan["tests"]] == [TCP.name]
    assert (
        "Not compared: the test rtt differs in the run run-1: count 30 instead of 60."
        in document.warnings
    )
    assert Difference(what="count of the test rtt", run="60", other="30") in (
        document.comparison.differences
    )


def test_what_only_the_other_run_has_is_reported_too():
    document = compare(recorded("run-2", tests=(TCP,)), recorded("run-1")).document
    assert "Not compared: the test rtt is not in the run run-2." in document.warnings


def test_runs_with_nothing_in_common_are_refused_in_one_sentence():
    with pytest.raises(InvalidComparison) as caught:
        compare(recorded("run-2", tests=(TCP,)), recorded("run-1", tests=(RTT,)))
    assert str(caught.value).startswith(
        "compare: the runs 'run-2' and 'run-1' have nothing in common, no test with the same"
    )
    assert "\n" not in str(caught.value)


def test_a_test_that_only_one_of_the_runs_measured_is_nothing_in_common():
    nothing = {key: [None] * 6 for key in VALUES}
    with pytest.raises(InvalidComparison, match="nothing in common"):
        compare(recorded("run-2", nothing), recorded("run-1"))


def test_lost_trials_are_failures_and_never_zero():
    lost = {**VALUES, ("rtt", "treatment"): [*VALUES["rtt", "treatment"][:5], None]}
    counts = compare(recorded("run-2", lost), recorded("run-1")).document.trials
    assert counts.failed == 1
    (failure,) = counts.failures
    assert (failure.arm, failure.test, failure.reason) == ("treatment", "rtt", "lost")
