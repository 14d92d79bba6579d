"""What differed between two runs, as far as rackrate records it."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.differences import ARM_FACTS, NODE_FACTS, PLAN_FIELDS, differences
from rackrate.plan_fields import PlanModel
from tests.unit.test_analysis import RTT, TCP, VALUES, evidence

FACTS = {
    **dict.fromkeys(NODE_FACTS, "one"),
    "instance_type": "c5.large",
    "cpus": 2,
    "network_scale": 0.05,
    "network_layers": ["nn-1", "nn-2"],
}


def run(**plan):
    """A run of which everything is recorded."""
    made = evidence(VALUES, **plan)
    stored = copy.deepcopy(made.stored_plan)
    for arm in stored["arms"]:
        arm["nodes"] = [{**node, **FACTS} for node in arm["nodes"]]
        arm["node_group"] = f"ng-{arm['name']}"
    stored |= {"kubernetes_version": "1.36", "image": "tools:1"}
    return replace(made, stored_plan=stored)


def changed(before, change):
    """The same run after `change` of its stored plan."""
    stored = copy.deepcopy(before.stored_plan)
    change(stored)
    return replace(before, stored_plan=stored)


def of_every_node(fact, value):
    def change(stored):
        for arm in stored["arms"]:
            for node in arm["nodes"]:
                node[fact] = value

    return change


def test_a_run_differs_from_itself_in_nothing():
    found = differences(run(), run())
    assert (found.found, found.untold) == ([], [])


@pytest.mark.parametrize("fact", NODE_FACTS)
def test_every_fact_of_nodes_is_told_with_both_values(fact):
    found = differences(changed(run(), of_every_node(fact, "two")), run())
    told = {"network_layers": "nn-1"}.get(fact, str(FACTS[fact]))
    (difference,) = found.found
    assert difference["what"] == NODE_FACTS[fact]
    assert difference["run"] == "two"
    assert told in difference["with"]


def test_what_only_one_arm_has_otherwise_names_the_arm():
    def newer_kernel(stored):
        stored["arms"][1]["nodes"][0]["kernel"] = "two"

    assert differences(changed(run(), newer_kernel), run()).found == [
        {"what": "kernel of baseline", "run": "one, two", "with": "one"}
    ]


@pytest.mark.parametrize("fact", ARM_FACTS)
def test_every_fact_of_arms_is_told(fact):
    def other(stored):
        stored["arms"][0][fact] = "other"

    (difference,) = differences(changed(run(), other), run()).found
    assert (difference["what"], difference["run"]) == (f"{ARM_FACTS[fact]} of treatment", "other")


@pytest.mark.parametrize("field", PLAN_FIELDS)
def test_every_field_of_the_plan_is_told_with_both_values(field):
    ours, theirs = run(**{field: "a"}), run(**{field: "b"})
    assert differences(ours, theirs).found == [{"what": field, "run": "a", "with": "b"}]


def test_no_field_of_a_plan_is_forgotten():
    apart = {"arms", "tests", "seed", "compare_with", "dry_run"}
    assert set(PlanModel.model_fields) == set(PLAN_FIELDS) | apart


def test_seeds_are_no_difference():
    assert differences(run(seed=1), run(seed=2)).found == []


def test_parameters_of_a_test_are_told_one_by_one():
    longer = {**TCP, "seconds": 20, "streams": 4}
    assert differences(run(tests=(longer, RTT)), run()).found == [
        {"what": "streams of the test tcp-1", "run": "4", "with": "1"},
        {"what": "seconds of the test tcp-1", "run": "20", "with": "10"},
    ]


def test_tests_and_arms_that_only_one_run_has_are_told():
    def without_treatment(stored):
        stored["arms"] = stored["arms"][1:]

    found = differences(changed(run(tests=(TCP,)), without_treatment), run()).found
    assert found == [
        {"what": "arms", "run": "baseline", "with": "baseline, treatment"},
        {"what": "tests", "run": "tcp-1", "with": "rtt, tcp-1"},
    ]


def test_versions_of_tools_are_those_of_measured_trials():
    def with_version(version):
        made = run()
        trials = {key: {**trial, "tool_version": version} for key, trial in made.trials.items()}
        return replace(made, trials=trials)

    assert differences(with_version("2.0"), with_version("1.0")).found == [
        {"what": f"version of {tool}", "run": "2.0", "with": "1.0"} for tool in ("iperf3", "ping")
    ]


def test_other_nodes_are_told_by_their_instances_and_many_by_their_number():
    def others(stored):
        nodes = [{"name": f"n{i}", "instance_id": f"i-{i}", **FACTS} for i in range(1000)]
        stored["arms"][0]["nodes"] = nodes

    (difference,) = differences(changed(run(), others), run()).found
    assert difference == {
        "what": "nodes of treatment",
        "run": "i-0, i-1, i-10, i-100 and 996 more",
        "with": "node-a, node-b",
    }


def test_a_difference_beyond_what_is_shown_is_still_one():
    def nodes(last):
        def change(stored):
            stored["arms"][0]["nodes"] = [{"name": f"n{i}", **FACTS} for i in (1, 2, 3, 4, last)]

        return change

    found = differences(changed(run(), nodes(5)), changed(run(), nodes(6)))
    assert [each["what"] for each in found.found] == ["nodes of treatment"]


def test_what_an_older_run_did_not_record_is_neither_the_same_nor_another():
    found = differences(run(), evidence(VALUES))
    assert found.found == [
        {"what": "scale of the lab's network", "run": "0.05", "with": "1"},
    ], "a network that is not scaled has no label"
    assert "CNI" in found.untold
    assert "kernel" in found.untold


@given(st.sampled_from([*NODE_FACTS]), st.text(min_size=1), st.text(min_size=1))
def test_differences_are_the_same_from_either_side(fact, one, other):
    ours, theirs = (changed(run(), of_every_node(fact, value)) for value in (one, other))
    there, back = differences(ours, theirs).found, differences(theirs, ours).found
    assert [{**d, "run": d["with"], "with": d["run"]} for d in there] == back
    assert len(there) == (one != other)
