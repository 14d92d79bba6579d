"""The plan: `{}` is a good one, and every mistake is told at once, with its path and a remedy."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.errors import InvalidPlan
from rackrate.plan import MAX_PLAN_BYTES, check_plan
from tests.templates.cloudformation import ROOT
from tests.unit.samples import ARMS

NODES = {"treatment": 2, "baseline": 2}


def check(raw, nodes=NODES, run_id="r"):
    return check_plan(raw, stack_arms=ARMS, nodes=nodes, run_id=run_id)


def faults(raw, nodes=NODES):
    with pytest.raises(InvalidPlan) as caught:
        check(raw, nodes)
    lines = str(caught.value).splitlines()
    assert all(re.fullmatch(r"\S+: .+; .+", line) for line in lines), lines
    return {line.partition(": ")[0]: line for line in lines}


def test_an_empty_plan_is_the_documented_default():
    plan = check({})
    assert [arm.name for arm in plan.arms] == ["treatment", "baseline"]
    assert plan.baseline == "baseline"
    assert [(t.name, t.tool, t.expected_seconds) for t in plan.tests] == [
        ("tcp-1", "iperf3", 10.0),
        ("tcp-8", "iperf3", 10.0),
        ("rtt", "ping", pytest.approx(5.8)),
    ]
    assert (plan.blocks, plan.pairing, plan.threshold, plan.tolerated_loss) == (6, "one", 0.05, 0.1)


def test_the_demo_plan_is_valid_and_takes_three_seconds_a_test():
    plan = check(json.loads((ROOT / "docs" / "plans" / "demo.json").read_text()))
    assert [round(test.expected_seconds) for test in plan.tests] == [3, 3, 3]
    assert plan.blocks == 6


def test_a_plan_without_a_seed_gets_the_same_one_when_planned_again():
    assert check({}, run_id="a").seed == check({}, run_id="a").seed
    assert check({}, run_id="a").seed != check({}, run_id="b").seed


def test_a_normalised_plan_is_a_plan_that_says_the_same():
    plan = check({"tests": [{"name": "tcp-1", "seconds": 3}], "seed": 5})
    assert check(plan.to_json()) == plan


def test_a_catalogue_test_may_be_changed_and_a_new_one_added():
    plan = check(
        {
            "tests": [
                {"name": "tcp-1", "seconds": 3},
                {"name": "tcp-4", "tool": "iperf3", "streams": 4, "seconds": 5},
                {"name": "quick", "tool": "ping", "count": 5, "interval_seconds": 1},
            ]
        }
    )
    assert [test.model_dump() for test in plan.tests] == [
        {"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 3},
        {"name": "tcp-4", "tool": "iperf3", "streams": 4, "seconds": 5},
        {"name": "quick", "tool": "ping", "count": 5, "interval_seconds": 1.0},
    ]


def test_all_mistakes_are_told_at_once():
    found = faults(
        {
            "speed": 1,
            "arms": ["treatment", "nowhere"],
            "blocks": 0,
            "threshold": "high",
            "tests": [
                "tcp-9",
                {"name": "rtt", "count": -1},
                {"name": "new"},
                {"name": "other", "tool": "netperf"},
                {"name": "tcp-1", "seconds": 2.5, "colour": "red"},
            ],
        }
    )
    assert set(found) == {
        *("speed", "arms[1]", "blocks", "threshold", "tests[0]", "tests[1].count"),
        *("tests[2].tool", "tests[3].tool", "tests[4].seconds", "tests[4].colour"),
    }
    assert "tcp-1, tcp-8, rtt" in found["tests[0]"]
    assert "streams" in found["tests[4].colour"]


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ([], "$"),
        ("plan", "$"),
        (None, "$"),
        ({"blocks": "6"}, "blocks"),
        ({"blocks": 6.5}, "blocks"),
        ({"blocks": True}, "blocks"),
        ({"blocks": -1}, "blocks"),
        ({"blocks": 100_000}, "blocks"),
        ({"seed": -1}, "seed"),
        ({"pairing": "some"}, "pairing"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"tolerated_loss": 1}, "tolerated_loss"),
        ({"dry_run": "yes"}, "dry_run"),
        ({"tests": []}, "tests"),
        ({"tests": "tcp-1"}, "tests"),
        ({"tests": None}, "tests"),
        ({"tests": [7]}, "tests[0]"),
        ({"tests": ["rtt"] * 21}, "tests"),
        ({"tests": ["rtt", "rtt"]}, "tests[1]"),
        ({"tests": ["rtt", {"name": "rtt", "count": 3}]}, "tests[1].name"),
        ({"tests": [{"name": "rtt", "interval_seconds": 0}]}, "tests[0].interval_seconds"),
        ({"tests": [{"name": "tcp-1", "seconds": 0}]}, "tests[0].seconds"),
        ({"tests": [{"name": "tcp-1", "streams": 500}]}, "tests[0].streams"),
        ({"tests": [{"name": "Bad Name", "tool": "ping"}]}, "tests[0].name"),
        ({"tests": [{"name": "a" * 41, "tool": "ping"}]}, "tests[0].name"),
        ({"tests": [{"tool": "ping"}]}, "tests[0].name"),
        ({"tests": [{"count": 3}]}, "tests[0].name"),
        ({"tests": [{"name": "x", "tool": 3}]}, "tests[0].tool"),
        ({"arms": []}, "arms"),
        ({"arms": None}, "arms"),
        ({"arms": ["treatment", "treatment"]}, "arms[1]"),
        ({"arms": ["baseline"]}, "arms"),
        ({"baseline": "nobody"}, "baseline"),
        ({"note": "x" * MAX_PLAN_BYTES}, "$"),
        ({"two\nlines": 1}, '["two\\nlines"]'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_mistake_is_named_by_its_path(raw, path):
    assert path in faults(raw)


def test_a_long_run_is_refused_before_it_starts():
    found = faults({"blocks": 1000, "tests": [{"name": "tcp-1", "seconds": 3600}]})
    assert "3600000 s" in found["blocks"]


def test_too_many_trials_are_refused():
    raw = {"pairing": "all", "blocks": 1000, "tests": [{"name": "rtt", "count": 1}]}
    assert "9900000 trials" in faults(raw, dict.fromkeys(NODES, 100))["blocks"]


def test_one_ready_node_is_not_a_pair():
    found = faults({}, {"treatment": 1, "baseline": 0})
    assert "has 1 Ready node;" in found["arms[0]"]
    assert "0 Ready nodes" in found["arms[1]"]


def test_an_arm_that_is_not_measured_may_lack_nodes():
    arms = [*ARMS, ARMS[0].__class__("third", "spread", False, "ng-3", {})]
    raw = {"arms": ["treatment", "baseline"]}
    assert check_plan(raw, stack_arms=arms, nodes={**NODES, "third": 0}, run_id="r")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "tool", "arms", "tests", "blocks", "count", "x"]), inner
        )
    ),
    max_leaves=12,
)


@given(json_values | st.fixed_dictionaries({"tests": json_values, "arms": json_values}))
def test_any_json_is_either_a_plan_or_told_what_is_wrong(raw):
    try:
        check(raw)
    except InvalidPlan as invalid:
        assert invalid.faults
        assert all("\n" not in str(fault) for fault in invalid.faults)
