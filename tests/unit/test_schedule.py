"""The schedule: fair, shuffled, and the same again for the same seed."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan import CATALOGUE
from rackrate.schedule import (
    TrialKey,
    build_schedule,
    bytes_per_node,
    choose_makeup,
    expected_block_seconds,
    expected_run_seconds,
    missing_trials,
    planned_trials,
)
from rackrate.tools import load_test
from tests.unit.samples import NODES

TESTS = [load_test({"name": name, **values}) for name, values in CATALOGUE.items()]


def build(**changes):
    arguments = {"tests": TESTS, "nodes": NODES, "blocks": 6, "pairing": "one", "seed": 42}
    return build_schedule(**{**arguments, **changes})


def blocks_of(items):
    return [item for item in items if item["kind"] == "block"]


arms = st.dictionaries(
    st.sampled_from(["treatment", "baseline", "third"]),
    st.integers(2, 9),
    min_size=2,
).map(lambda sizes: {arm: [f"{arm}-{i}" for i in range(n)] for arm, n in sizes.items()})
plans = st.fixed_dictionaries(
    {
        "nodes": arms,
        "blocks": st.integers(1, 8),
        "pairing": st.sampled_from(["one", "all"]),
        "seed": st.integers(0, 2**32 - 1),
    }
)


@given(plans)
def test_the_same_plan_seed_and_nodes_give_the_same_schedule(plan):
    shuffled = {arm: names[::-1] for arm, names in reversed(plan["nodes"].items())}
    assert json.dumps(build(**plan)) == json.dumps(build(**{**plan, "nodes": shuffled}))


def test_another_seed_gives_another_order():
    assert len({json.dumps(build(seed=seed)) for seed in range(5)}) > 1


@given(plans)
def test_pairs_of_a_round_share_no_node_and_stay_within_their_arm(plan):
    for item in blocks_of(build(**plan)):
        used = [node for pair in item["pairs"] for node in (pair["client"], pair["server"])]
        assert len(used) == len(set(used))
        for pair in item["pairs"]:
            assert {pair["client"], pair["server"]} <= set(plan["nodes"][pair["arm"]])


@given(plans)
def test_every_block_has_every_test_for_every_arm(plan):
    items = blocks_of(build(**plan))
    for block in range(1, plan["blocks"] + 1):
        mine = [item for item in items if item["block"] == block]
        for item in mine:
            assert sorted(t["name"] for t in item["tests"]) == sorted(CATALOGUE)
        assert len({json.dumps(item["tests"]) for item in mine}) == 1, "one order for all rounds"
        assert {pair["arm"] for item in mine for pair in item["pairs"]} == set(plan["nodes"])


@given(plans.filter(lambda plan: plan["pairing"] == "all"))
def test_all_pairs_are_measured_once_in_every_block(plan):
    for block in range(1, plan["blocks"] + 1):
        pairs = [
            frozenset((pair["client"], pair["server"]))
            for item in blocks_of(build(**plan))
            if item["block"] == block
            for pair in item["pairs"]
        ]
        wanted = [
            frozenset(pair)
            for names in plan["nodes"].values()
            for pair in itertools.combinations(names, 2)
        ]
        assert sorted(map(sorted, pairs)) == sorted(map(sorted, wanted))


@given(plans)
def test_a_pairs_direction_alternates_each_time_it_is_measured(plan):
    last = {}
    for item in blocks_of(build(**plan)):
        for pair in item["pairs"]:
            both = frozenset((pair["client"], pair["server"]))
            assert last.get(both) != pair["client"]
            last[both] = pair["client"]


def test_one_pair_at_a_time_visits_all_pairs_in_turn():
    nodes = {"treatment": ["a", "b", "c", "d"], "baseline": ["e", "f"]}
    items = blocks_of(build(nodes=nodes, blocks=6))
    visited = {frozenset((i["pairs"][1]["client"], i["pairs"][1]["server"])) for i in items}
    assert items[0]["pairs"][1]["arm"] == "treatment"
    assert len(visited) == 6


def test_orders_differ_between_blocks():
    orders = {tuple(t["name"] for t in item["tests"]) for item in blocks_of(build(blocks=20))}
    assert len(orders) >= 4


def test_the_schedule_ends_with_makeup_items():
    items = build()
    assert [item["kind"] for item in items] == ["block"] * 6 + ["makeup"] * 2
    assert build(blocks=1)[-1] == {"kind": "makeup", "number": 1, "of": 1}


def test_planned_trials_count_every_test_on_every_pair():
    assert len(planned_trials(build())) == 6 * 3 * 2
    assert len({trial.key for trial in planned_trials(build())}) == 36


def stored(items, status="measured", attempt=1):
    return {t.key: {"status": status, "attempt": attempt} for t in planned_trials(items)}


def test_nothing_is_repeated_when_nothing_is_missing():
    assert choose_makeup(build(), stored(build())) is None


def test_a_makeup_repeats_the_item_that_lost_a_trial():
    items = build()
    trials = stored(items)
    lost = planned_trials(items)[7]
    trials[lost.key] = {"status": "failed", "attempt": 1}
    chosen = choose_makeup(items, trials)
    assert chosen["block"] == lost.key.block
    assert [trial.key for trial in missing_trials(chosen, trials)] == [lost.key]


def test_a_makeup_prefers_what_was_tried_least():
    items = build()
    trials = stored(items)
    first, second = planned_trials(items)[0], planned_trials(items)[-1]
    trials[first.key] = {"status": "failed", "attempt": 2}
    del trials[second.key]
    assert choose_makeup(items, trials)["block"] == second.key.block


def test_expected_times_add_up_to_the_traffic_and_a_little_more():
    demo = [
        load_test({"name": "a", "tool": "iperf3", "seconds": 3}),
        load_test({"name": "b", "tool": "ping", "count": 16, "interval_seconds": 0.2}),
    ]
    items = build(tests=demo)
    assert expected_block_seconds(items, demo) == pytest.approx(6 + 4)
    assert expected_run_seconds(items, demo) == pytest.approx(6 * 10 + 30)


def test_bytes_per_node_are_the_ceilings_times_the_seconds():
    items = build(blocks=2)
    limits = {"treatment": {"tcp-1": 8e9}, "baseline": {}}
    used = bytes_per_node(items, TESTS, limits)
    # 8 Gbit/s for 10 s in each of two blocks, through both nodes.
    assert used == {"node-a": 20e9, "node-b": 20e9, "node-c": 0, "node-d": 0}


def test_a_trials_id_can_be_part_of_an_object_key():
    key = TrialKey(3, "tcp-1", "ip-10-0-0-1.ec2.internal", "ip-10-0-0-2.ec2.internal")
    assert key.id == "0003_tcp-1_ip-10-0-0-1.ec2.internal_ip-10-0-0-2.ec2.internal"
