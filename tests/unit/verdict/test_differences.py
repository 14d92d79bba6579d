"""The differences between two runs in all that rackrate records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.measure.trials import Trial
from rackrate.plan.model import Plan
from rackrate.verdict.differences import (
    ARM_FACTS,
    NODE_FACTS,
    OTHER_FIELDS,
    PLAN_FIELDS,
    differences,
)
from rackrate_contract.arms import Arm, Endpoint, InstanceNetwork, Node
from rackrate_contract.verdicts import Difference
from tests.unit.verdict.test_analysis import RTT, TCP, VALUES, evidence
from tests.unit.verdict.test_network_cards import CARD

#: The facts of nodes in these tests, by field.
FACTS = {
    "instance_type": "c5.large",
    "cni": "one",
    "node_pool": "one",
    "capacity_type": "one",
    "labelled_group_id": "one",
    "labelled_partition": "one",
    "kernel": "one",
    "network_scale": 0.05,
    "zone": "one",
    "region": "one",
    "image": "one",
    "os_image": "one",
    "architecture": "one",
    "cpus": 2,
    "kubernetes": "one",
    "container_runtime": "one",
    "network_layers": ("nn-1", "nn-2"),
}
#: Values that differ from the defaults of a run, an arm or a node, by field.
OTHERS = {
    "network_scale": 0.5,
    "cpus": 4,
    "network_layers": ("two",),
    "ena_express": True,
    "pairs": "across-zones",
    "endpoint": Endpoint(name="10.0.3.5", address="10.0.3.5"),
    "node_groups": ("one", "two"),
    "baseline": "treatment",
    "blocks": 12,
    "pause_seconds": 60,
    "pairing": "ring",
    "direction": "both",
    "load": "together",
    "warm_up": False,
    "threshold": 0.1,
    "tolerated_loss": 0.2,
}


def run(**plan):
    """A run with all facts recorded."""
    return of_every_node(evidence(VALUES, **plan), **FACTS)


def with_arms(run, change):
    """The same run with its arms changed by `change`."""
    planned = run.planned_run.model_copy(update={"arms": change(run.planned_run.arms)})
    return replace(run, planned_run=planned)


def with_arm(run, place, **changes):
    def change(arms):
        return (*arms[:place], arms[place].model_copy(update=changes), *arms[place + 1 :])

    return with_arms(run, change)


def of_every_node(run, **facts):
    for place, arm in enumerate(run.planned_run.arms):
        nodes = tuple(node.model_copy(update=facts) for node in arm.nodes)
        run = with_arm(run, place, nodes=nodes)
    return run


def changes_of(*rows):
    return [Difference(what=what, run=ours, other=theirs) for what, ours, theirs in rows]


def test_a_run_differs_from_itself_in_nothing():
    result = differences(run(), [run()])
    assert (result.changes, result.unrecorded) == ([], [])


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_of_nodes_is_told_with_both_values(fact):
    other = OTHERS.get(fact, "two")
    (difference,) = differences(of_every_node(run(), **{fact: other}), [run()]).changes
    assert difference.what in NODE_FACTS
    for text, value in ((difference.run, other), (difference.other, FACTS[fact])):
        assert all(str(part) in text for part in (value if isinstance(value, tuple) else [value]))


#: The facts about interfaces that are compared, by the fact's name in a report.
CARD_FACTS = {
    "network driver": {"driver_version": "2.17.0g"},
    "MTU": {"mtu": 1500},
    "network queues": {"queues": 1},
}


@pytest.mark.parametrize("fact", CARD_FACTS)
def test_what_the_network_cards_are_is_told_with_both_values(fact):
    def having(**facts):
        return of_every_node(run(), interfaces={"ens5": CARD.model_copy(update=facts)})

    assert differences(having(), [having()]).changes == []
    (difference,) = differences(having(**CARD_FACTS[fact]), [having()]).changes
    assert difference.what == fact
    assert difference.run != difference.other


def test_no_fact_of_a_node_is_forgotten():
    apart = {"name", "instance_id", "node_group", "interfaces", "ec2_placement"}
    assert set(Node.model_fields) - apart == set(FACTS)
    assert len(FACTS) + len(CARD_FACTS) == len(NODE_FACTS)


def test_what_only_one_arm_has_otherwise_names_the_arm():
    one, other = run().planned_run.arms[1].nodes
    newer_kernel = (one.model_copy(update={"kernel": "two"}), other)
    assert differences(with_arm(run(), 1, nodes=newer_kernel), [run()]).changes == changes_of(
        ("kernel of no group", "one, two", "one")
    )


FACTS_OF_ARMS = (
    *("placement", "ena_express", "client_network", "server_network", "stack_arm", "node_groups"),
    *("pairs", "via", "endpoint"),
)


@pytest.mark.parametrize("fact", FACTS_OF_ARMS)
def test_every_fact_of_arms_is_told(fact):
    other = OTHERS.get(fact, "other")
    (difference,) = differences(with_arm(run(), 0, **{fact: other}), [run()]).changes
    what, _, arm = difference.what.rpartition(" of ")
    assert what in ARM_FACTS
    assert arm == ("treatment" if fact in ("placement", "stack_arm") else "cluster group")
    texts = {True: "true", ("one", "two"): "one, two", OTHERS["endpoint"]: "10.0.3.5"}
    assert difference.run == texts.get(other, other)


def test_no_fact_of_an_arm_is_forgotten():
    # Facts of the nodes or of the arm's instances are compared there.
    apart = {"name", "baseline", "selector", "network", "network_scale", "nodes"}
    measured = {"ena_express_use"}
    assert set(Arm.model_fields) - apart - measured == set(FACTS_OF_ARMS)
    assert len([*FACTS_OF_ARMS, "bandwidth weighting"]) == len(ARM_FACTS)


def test_another_bandwidth_weighting_is_told():
    weighted = InstanceNetwork(bandwidth_weighting="vpc-1")
    changes = differences(with_arm(run(), 0, network=weighted), [run()]).changes
    assert changes == changes_of(("bandwidth weighting of cluster group", "vpc-1", "default"))


@pytest.mark.parametrize("field", PLAN_FIELDS)
def test_every_field_of_the_plan_is_told_with_both_values(field):
    ours, theirs = run(**{field: OTHERS[field]}), run()
    (difference,) = differences(ours, [theirs]).changes
    assert difference.what == field
    for text, each in ((difference.run, ours), (difference.other, theirs)):
        assert text == str(each.planned_run.plan.to_json()[field]).lower()


def test_no_field_of_a_plan_is_forgotten():
    assert {*PLAN_FIELDS, *OTHER_FIELDS} == Plan.model_fields.keys(), (
        "verdict/differences.py says for each field whether runs that differ in it differ"
    )


def test_seeds_are_no_difference():
    assert differences(run(seed=1), [run(seed=2)]).changes == []


def test_parameters_of_a_test_are_told_one_by_one():
    longer = TCP.model_copy(update={"seconds": 20, "streams": 4})
    assert differences(run(tests=(longer, RTT)), [run()]).changes == changes_of(
        ("streams of the test tcp-1", "4", "1"),
        ("seconds of the test tcp-1", "20", "10"),
    )


def test_tests_and_arms_that_only_one_run_has_are_told():
    without_treatment = with_arms(run(tests=(TCP,)), lambda arms: arms[1:])
    assert differences(without_treatment, [run()]).changes == changes_of(
        ("arms", "baseline", "baseline, treatment"),
        ("tests", "tcp-1", "rtt, tcp-1"),
    )


def test_versions_of_tools_are_those_of_measured_trials():
    def with_version(version, trials_of):
        def told_by(trial: Trial):
            return version if trial.is_measured else "another"

        trials = {
            key: trial.model_copy(update={"tool_version": told_by(trial)})
            for key, trial in trials_of.trials.items()
        }
        return replace(trials_of, trials=trials)

    lost = {**VALUES, ("rtt", "baseline"): [None] * 6}
    ours, theirs = (of_every_node(evidence(values), **FACTS) for values in (VALUES, lost))
    changes = differences(with_version("2.0", ours), [with_version("1.0", theirs)]).changes
    assert changes == changes_of(
        *((f"version of {tool}", "2.0", "1.0") for tool in ("iperf3", "ping"))
    )


def test_other_nodes_are_told_by_their_instances_and_many_by_their_number():
    many = tuple(Node(name=f"n{i}", instance_id=f"i-{i}", **FACTS) for i in range(1000))
    assert differences(with_arm(run(), 0, nodes=many), [run()]).changes == changes_of(
        ("nodes of cluster group", "i-0, i-1, i-10, i-100 and 996 more", "node-a, node-b")
    )


def test_a_difference_beyond_what_is_shown_is_still_one():
    ours, theirs = (
        with_arm(run(), 0, nodes=[Node(name=f"n{i}", **FACTS) for i in (1, 2, 3, 4, last)])
        for last in (5, 6)
    )
    assert [each.what for each in differences(ours, [theirs]).changes] == ["nodes of cluster group"]


def test_what_only_one_run_recorded_is_neither_the_same_nor_another():
    result = differences(run(), [evidence(VALUES)])
    assert result.changes == changes_of(("scale of the lab's network", "0.05", "1")), (
        "a network that is not scaled has no label"
    )
    assert "CNI" in result.unrecorded
    assert "kernel" in result.unrecorded


def with_kernels(*kernels):
    return [of_every_node(run(), kernel=kernel) for kernel in kernels]


def test_what_all_other_runs_have_in_common_is_told_once():
    assert differences(run(), with_kernels("two", "two", "two")).changes == changes_of(
        ("kernel", "one", "two")
    )


@pytest.mark.parametrize("ours", ["one", "two", "three"])
def test_what_varies_among_the_other_runs_is_told_as_varying(ours):
    after = of_every_node(run(), kernel=ours)
    (difference,) = differences(after, with_kernels("one", "two", "one")).changes
    assert difference == changes_of(("kernel", ours, "varying: one, two"))[0]
    assert difference.varies


def test_what_the_other_runs_have_in_common_comes_before_what_varies_among_them():
    others = with_kernels("one", "two")
    changes = differences(run(blocks=12), others).changes
    assert [(each.what, each.varies) for each in changes] == [("blocks", False), ("kernel", True)]


def test_a_test_whose_parameters_vary_among_the_other_runs_is_told():
    longer = TCP.model_copy(update={"seconds": 20})
    assert differences(run(), [run(), run(tests=(longer, RTT))]).changes == changes_of(
        ("seconds of the test tcp-1", "10", "varying: 10, 20")
    )


def test_what_one_of_several_runs_did_not_record_is_not_compared():
    result = differences(run(), [run(), evidence(VALUES)])
    assert "kernel" in result.unrecorded
    assert "kernel" not in {each.what for each in result.changes}


TEXTS = st.text(min_size=1)


@given(st.sampled_from([f for f in FACTS if f not in OTHERS]), TEXTS, TEXTS)
def test_differences_are_the_same_from_either_side(fact, one, other):
    ours, theirs = (of_every_node(run(), **{fact: value}) for value in (one, other))
    there, back = differences(ours, [theirs]).changes, differences(theirs, [ours]).changes
    assert changes_of(*((d.what, d.other, d.run) for d in there)) == back
    assert len(there) == (one != other)
