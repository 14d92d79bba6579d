"""Items: fair, shuffled, and identical for the same seed."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan.fields import Blocks
from rackrate.plan.items import (
    ITEMS_PER_MAKEUP,
    MAX_PAIRS_PER_ITEM,
    BlockItem,
    MakeupItem,
    begun_batch,
    block_items,
    item_from_json,
    items_from_json,
    planned_trials,
    up_to_batch,
)
from rackrate.plan.looks import looks
from rackrate.plan.pairing import Pairing
from rackrate_contract.trials import TrialKey
from tests.unit.builders import TESTS, arm
from tests.unit.plan.schedules import build, edge, names, plans, warm_up, way

#: The maximum payload of a state (AWS documentation, Step Functions service quotas).
STATE_BYTES = 256 * 1024


@given(plans())
def test_the_same_plan_seed_and_nodes_give_the_same_schedule(plan):
    shuffled = [arm.model_copy(update={"nodes": arm.nodes[::-1]}) for arm in reversed(plan["arms"])]
    other = {**plan, "arms": shuffled}
    assert build(**plan) == build(**other)
    assert warm_up(**plan) == warm_up(**other)


def test_another_seed_gives_another_order_and_another_pair():
    assert len({build(seed=seed)[0].tests for seed in range(5)}) > 1
    arms = [arm("a", names("n", 9)), arm("b", names("m", 9))]
    assert len({edge(build(arms=arms, seed=s)[0].pairs[0]) for s in range(9)}) > 1


@given(plans())
def test_pairs_of_an_item_share_no_node_and_stay_within_their_arm(plan):
    nodes = {arm.name: set(arm.node_names) for arm in plan["arms"]}
    for item in block_items(build(**plan)) + block_items(warm_up(**plan)):
        used = [node for pair in item.pairs for node in way(pair)]
        assert len(used) == len(set(used)) > 0
        for pair in item.pairs:
            assert set(way(pair)) <= nodes[pair.arm]


@given(plans())
def test_arms_of_the_same_nodes_are_never_measured_at_the_same_time(plan):
    nodes = {arm.name: arm.node_names for arm in plan["arms"]}
    for item in block_items(build(**plan)):
        measured = {pair.arm for pair in item.pairs}
        assert len({nodes[arm] for arm in measured}) == len(measured)


@given(plans())
def test_arms_of_the_same_nodes_are_measured_on_the_same_pairs_in_every_block(plan):
    items = block_items(build(**plan))
    for block in range(1, plan["blocks"] + 1):
        ways = defaultdict(list)
        for item in items:
            for pair in item.pairs:
                if item.block == block:
                    ways[pair.arm].append(way(pair))
        for one, other in itertools.combinations(plan["arms"], 2):
            if one.node_names == other.node_names:
                assert ways[one.name] == ways[other.name], "in the same order, too"


@given(plans())
def test_every_block_has_every_test_for_every_arm_in_one_order(plan):
    items = block_items(build(**plan))
    for block in range(1, plan["blocks"] + 1):
        mine = [item for item in items if item.block == block]
        assert [item.round for item in mine] == list(range(1, len(mine) + 1))
        assert {item.rounds for item in mine} == {len(mine)}
        for item in mine:
            assert item.blocks == plan["blocks"]
            assert item.warm_up is False
            assert sorted(t.name for t in item.tests) == sorted(t.name for t in TESTS)
        assert len({item.tests for item in mine}) == 1
        measured = {pair.arm for item in mine for pair in item.pairs}
        assert measured == {arm.name for arm in plan["arms"]}


@given(plans())
def test_each_pair_is_measured_once_in_a_block_in_each_direction_it_should_be(plan):
    expected = {
        arm.name: {
            pair for pairs in Pairing.of(plan["pairing"]).edges(arm, plan["seed"]) for pair in pairs
        }
        for arm in plan["arms"]
    }
    items = block_items(build(**plan))
    for block in range(1, plan["blocks"] + 1):
        counts = Counter(
            (pair.arm, *way(pair)) for item in items if item.block == block for pair in item.pairs
        )
        assert set(counts.values()) == {1}
        forward = plan["direction"] == "alternate" and block % 2 == 1
        for of, pairs in expected.items():
            turned = {pair[::-1] for pair in pairs}
            assert {tuple(rest) for name, *rest in counts if name == of} == (
                pairs | turned
                if plan["direction"] == "both"
                else (pairs if forward or plan["direction"] == "forward" else turned)
            )


@given(plans())
def test_networks_belong_to_the_role_whichever_node_has_it(plan):
    networks = {arm.name: (arm.client_network, arm.server_network) for arm in plan["arms"]}
    for item in block_items(build(**plan) + warm_up(**plan)):
        for pair in item.pairs:
            assert (pair.client_network, pair.server_network) == networks[pair.arm]


@given(plans())
def test_one_pair_of_an_arm_at_a_time_unless_all_load_the_network_together(plan):
    for item in block_items(build(**plan)):
        most = max(Counter(pair.arm for pair in item.pairs).values())
        if plan["load"] == "isolated":
            assert most == 1


def test_orders_differ_between_blocks():
    arms = [arm("a", names("a", 4)), arm("b", names("b", 4))]
    items = block_items(build(blocks=20, arms=arms, pairing="mesh", load="together"))
    tests = {tuple(t.name for t in item.tests) for item in items}
    assert len(tests) >= 4
    by_block = defaultdict(list)
    for item in items:
        by_block[item.block].append(tuple(sorted(map(sorted, map(edge, item.pairs)))[0]))
    assert len({tuple(order) for order in by_block.values()}) >= 4


@given(st.integers(2, 4), st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_none_of_two_arms_that_take_turns_is_first_more_often_in_two_blocks(number, twice, seed):
    arms = [arm(f"arm-{index}", names("n", 4)) for index in range(number)]
    items = block_items(build(arms=arms, blocks=2 * twice, seed=seed))
    for block in range(1, 2 * twice, 2):
        orders = [
            [item.pairs[0].arm for item in items if item.block == which]
            for which in (block, block + 1)
        ]
        assert orders[0] == orders[1][::-1]
        assert len(set(orders[0])) == number


def test_the_order_of_arms_that_take_turns_is_left_to_chance():
    arms = [arm(name, names("n", 2)) for name in ("host", "pod", "mixed")]
    items = block_items(build(arms=arms, blocks=40))
    firsts = Counter(item.pairs[0].arm for item in items if item.round == 1)
    assert min(firsts[arm.name] for arm in arms) >= 4


def test_arms_whose_nodes_overlap_only_in_part_take_turns_too():
    arms = [arm("a", ("n1", "n2")), arm("b", ("n2", "n3")), arm("c", ("n3", "n4"))]
    items = block_items(build(arms=arms, pairing="mesh", load="together", blocks=1))
    assert sorted(pair.arm for item in items for pair in item.pairs) == ["a", "b", "c"]
    assert [len(item.pairs) for item in items] == [1, 1, 1]


def test_the_schedule_ends_with_makeup_items():
    items = build()
    assert [item.kind for item in items] == ["block"] * 6 + ["makeup"] * 2
    assert build(blocks=1)[-1] == MakeupItem(
        progress="repeating lost trials, 1 of 1", number=1, of=1, schedule="schedule.json"
    )


def test_each_item_says_in_words_how_far_the_run_is():
    blocks = build(blocks=2, arms=[arm("a", ("n1", "n2", "n3", "n4"))], pairing="mesh")
    words = [item.progress for item in blocks]
    rounds = blocks[0].rounds
    assert rounds > 1
    assert words[:2] == [f"block 1 of 2, round {n} of {rounds}" for n in (1, 2)]
    assert words[-2:] == [
        f"repeating lost trials, {n} of {len(words) - 2 * rounds}" for n in (3, 4)
    ]


def test_a_block_of_one_round_needs_no_number_of_it():
    assert [item.progress for item in block_items(build(blocks=2))] == [
        "block 1 of 2",
        "block 2 of 2",
    ]


def test_a_block_of_a_run_that_may_stop_says_how_many_there_are_at_most():
    items = block_items(build(blocks=Blocks(least=6, most=12)))
    assert items[6].progress == "block 7 of at most 12"


def batches(items):
    return {
        number: list(of) for number, of in itertools.groupby(items, key=lambda item: item.batch)
    }


@given(st.integers(1, 20), st.integers(0, 40), st.sampled_from(["one", "ring"]))
def test_batches_are_the_looks_and_hold_each_block_once_and_then_make_ups(least, more, pairing):
    most = least + more
    items = build(blocks=Blocks(least=least, most=most), pairing=pairing)
    groups = batches(items)
    assert list(groups) == list(range(1, len(looks(least, most)) + 1))
    for number, end in enumerate(looks(least, most), start=1):
        assert max(item.block for item in block_items(groups[number])) == end
        kinds = [item.kind for item in groups[number]]
        ordinary = kinds.count("block")
        assert kinds == ["block"] * ordinary + ["makeup"] * math.ceil(ordinary / ITEMS_PER_MAKEUP)
    fixed = build(blocks=most, pairing=pairing)
    assert planned_trials(items) == planned_trials(fixed), "the same trials in the same order"


def test_the_batches_up_to_one_are_planned_when_it_has_begun():
    items = build(blocks=Blocks(least=6, most=12))
    assert [begun_batch(items, block) for block in (0, 1, 6, 7, 9, 10, 12)] == [1, 1, 1, 2, 2, 3, 3]
    begun = block_items(up_to_batch(items, 2))
    assert [item.block for item in begun] == list(range(1, 10))


def test_a_schedule_of_an_earlier_release_is_one_batch():
    stored = [item.to_json() for item in build()]
    for item in stored:
        del item["batch"], item["pause_seconds"]
    items = items_from_json(json.dumps(stored))
    assert up_to_batch(items, begun_batch(items, 1)) == items


@given(plans(), st.integers(1, 3600))
def test_only_the_first_round_of_a_later_block_pauses(plan, seconds):
    items = build(**plan, pause_seconds=seconds)
    for item in items:
        pauses = isinstance(item, BlockItem) and item.block > 1 and item.round == 1
        assert item.pause_seconds == (seconds if pauses else 0)
    assert {item.pause_seconds for item in warm_up(**plan, pause_seconds=seconds)} == {0}


@given(plans())
def test_the_warm_up_runs_every_pair_of_the_plan_once(plan):
    counts = Counter(
        (pair.arm, edge(pair)) for item in block_items(warm_up(**plan)) for pair in item.pairs
    )
    assert set(counts.values()) == {1}
    assert set(counts) == {
        (pair.arm, edge(pair)) for item in block_items(build(**plan)) for pair in item.pairs
    }


@given(plans())
def test_the_warm_up_is_block_0_with_one_short_test_and_one_makeup(plan):
    *items, last = warm_up(**plan)
    assert last == MakeupItem(
        progress="warm-up, repeating lost trials",
        number=1,
        of=1,
        batch=0,
        schedule="warm_up.json",
    )
    assert all(item.progress.startswith("warm-up") for item in items)
    for item in items:
        assert (item.block, item.blocks, item.warm_up) == (0, plan["blocks"], True)
        (test,) = item.tests
        assert test.name == TESTS[0].name
        assert test.expected_seconds <= 2
        assert item.rounds == len(items)


def test_a_warm_up_of_many_pairs_is_split_to_fit_into_a_state():
    arms = [arm("a", names("a", 1000)), arm("b", names("b", 1000))]
    items = block_items(warm_up(arms=arms, pairing="ring"))
    assert sum(len(item.pairs) for item in items) == 2000
    assert max(len(item.pairs) for item in items) <= MAX_PAIRS_PER_ITEM


def test_a_thousand_nodes_in_a_ring_are_scheduled_in_about_a_second():
    arms = [arm("a", names("a", 500)), arm("b", names("b", 500))]
    started = time.process_time()
    items = build(arms=arms, pairing="ring", load="together")
    assert time.process_time() - started < 1.5
    assert len(block_items(items)) == 2 * 6
    assert {len(item.pairs) for item in block_items(items)} == {500}


def test_the_largest_item_fits_into_a_state_with_a_third_to_spare():
    # The longest node names of EC2, and the longest name that an arm may have.
    region = "ap-southeast-2.compute.internal"
    nodes = [f"ip-10-{i // 200 + 100}-{i % 200 + 55}-255.{region}" for i in range(1200)]
    arms = [arm("a" * 30, nodes, client_network="host", server_network="host")]
    tests = tuple(TESTS[0].model_copy(update={"name": f"{index:040d}"}) for index in range(20))
    items = build(tests=tests, arms=arms, pairing="ring", load="together", blocks=1)
    item = block_items(items)[0]
    assert len(item.pairs) == MAX_PAIRS_PER_ITEM
    assert 1.5 * len(json.dumps(item.to_json())) + 4096 < STATE_BYTES


def test_planned_trials_count_every_test_on_every_pair():
    assert len(planned_trials(build())) == 6 * 3 * 2
    assert len(set(planned_trials(build()))) == 36


def test_trials_of_arms_on_the_same_pair_have_names_of_their_own():
    host = arm("host", ("n1", "n2"), client_network="host", server_network="host")
    planned = planned_trials(build(arms=[host, arm("pod", ("n1", "n2"))]))
    assert len({key.id for key in planned}) == len(planned) == 36


@given(plans())
def test_a_schedule_is_read_as_it_was_written(plan):
    items = build(**plan) + warm_up(**plan)
    written = [item.to_json() for item in items]
    assert items_from_json(json.dumps(written)) == items
    assert [item_from_json(item) for item in written] == items


def test_a_trials_id_can_be_part_of_an_object_key():
    key = TrialKey(3, "baseline", "tcp-1", "ip-10-0-0-1.ec2.internal", "ip-10-0-0-2.ec2.internal")
    assert key.id == "0003_baseline_tcp-1_ip-10-0-0-1.ec2.internal_ip-10-0-0-2.ec2.internal"
