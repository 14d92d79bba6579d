"""Pairs of nodes: the ones that a plan asks for, in as few rounds as possible."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan.items import (
    block_items,
    planned_trials,
)
from rackrate.plan.pairing import Pairing, rounds_of_block, trials_of_block
from tests.unit.builders import TESTS, arm, node
from tests.unit.plan.schedules import build, edge, names, plans, way

PAIRINGS = st.sampled_from([Pairing("one"), Pairing("ring"), Pairing("mesh"), Pairing("random", 4)])


@given(plans(kinds=["mesh"]))
def test_a_mesh_is_every_pair_of_every_arm(plan):
    pairs = {(pair.arm, edge(pair)) for item in block_items(build(**plan)) for pair in item.pairs}
    assert pairs == {
        (arm.name, frozenset(pair))
        for arm in plan["arms"]
        for pair in itertools.combinations(arm.node_names, 2)
    }


@given(st.integers(2, 40))
def test_a_mesh_together_takes_one_round_less_than_nodes_or_as_many_if_odd(number):
    arms = [arm("a", names("a", number))]
    items = block_items(build(arms=arms, pairing="mesh", load="together", blocks=1))
    assert len(items) == (number - 1 if number % 2 == 0 else number)
    assert {len(item.pairs) for item in items} == {number // 2}


@given(st.integers(3, 40))
def test_a_ring_forward_lets_each_node_send_once_and_receive_once(number):
    arms = [arm("a", names("a", number))]
    plan = {"arms": arms, "pairing": "ring", "load": "together", "blocks": 1}
    items = block_items(build(**plan, direction="forward"))
    pairs = [way(pair) for item in items for pair in item.pairs]
    assert sorted(client for client, _ in pairs) == list(arms[0].node_names)
    assert sorted(server for _, server in pairs) == list(arms[0].node_names)
    assert len(items) == (2 if number % 2 == 0 else 3)
    one_cycle, node = [], pairs[0][0]
    for _ in pairs:
        node = dict(pairs)[node]
        one_cycle.append(node)
    assert len(set(one_cycle)) == number, "not several smaller rings"


def test_a_ring_of_two_is_one_pair():
    items = block_items(build(pairing="ring", direction="both", blocks=1))
    assert [len(item.pairs) for item in items] == [2, 2]


@given(plans(kinds=["random"]))
def test_random_pairs_are_as_many_as_asked_for_and_spread_over_the_nodes(plan):
    pairing = Pairing.of(plan["pairing"])
    for each in plan["arms"]:
        drawn = [pair for pairs in pairing.edges(each, plan["seed"]) for pair in pairs]
        assert len({frozenset(pair) for pair in drawn}) == pairing.count
        first = drawn[: len(each.nodes) // 2]
        assert len({node for pair in first for node in pair}) == 2 * len(first)


def zoned(number, *, pairs, zones="abc"):
    """An arm whose nodes are in the zones in turn."""
    nodes = [node(name, zone=zones[n % len(zones)]) for n, name in enumerate(names("n", number))]
    return arm("zoned", nodes, pairs=pairs)


@given(st.integers(4, 12), PAIRINGS, st.sampled_from(["ab", "abc"]), st.integers(0, 99))
def test_pairs_are_within_or_across_zones_as_an_arm_asks(number, pairing, zones, seed):
    for pairs in ("within-zone", "across-zones"):
        each = zoned(number, pairs=pairs, zones=zones)
        where = {node.name: node.zone for node in each.nodes}
        rounds = pairing.edges(each, seed)
        assert all(rounds), "no round is empty"
        for edges in rounds:
            used = [name for edge in edges for name in edge]
            assert len(used) == len(set(used))
            for one, other in edges:
                assert (where[one] == where[other]) == (pairs == "within-zone")


def test_every_possible_pair_across_zones_is_in_the_mesh_once():
    rounds = Pairing("mesh").edges(zoned(7, pairs="across-zones", zones="ab"), 0)
    pairs = [frozenset(edge) for edges in rounds for edge in edges]
    assert len(pairs) == len(set(pairs)) == 4 * 3


def test_a_ring_across_two_zones_of_equal_size_has_every_node_twice():
    rounds = Pairing("ring").edges(zoned(6, pairs="across-zones", zones="ab"), 0)
    times = Counter(name for edges in rounds for edge in edges for name in edge)
    assert set(times.values()) == {2}


def test_within_a_zone_and_across_zones_are_two_arms_on_the_same_nodes_that_take_turns():
    nodes = [node(name, zone=zone) for name, zone in zip("abcd", "xyxy", strict=True)]
    arms = [
        arm("near", nodes, pairs="within-zone", stack_arm="baseline"),
        arm("far", nodes, pairs="across-zones", stack_arm="baseline"),
    ]
    for item in block_items(build(arms=arms, pairing="one", load="together")):
        (pair,) = item.pairs
        assert (edge(pair) in ({"a", "c"}, {"b", "d"})) == (pair.arm == "near")


def test_random_pairs_give_every_pair_a_chance():
    nodes = arm("n", names("n", 5))
    drawn = {
        frozenset(pair)
        for seed in range(200)
        for pair in Pairing("random", 1).edges(nodes, seed)[0]
    }
    assert len(drawn) == 10


@given(plans())
def test_sizes_known_before_there_is_a_schedule_are_those_it_has(plan):
    items = block_items(build(**plan))
    pairing, direction = Pairing.of(plan["pairing"]), plan["direction"]
    of_nodes = Counter()
    for each in plan["arms"]:
        of_nodes[each.node_names] += rounds_of_block(
            pairing, direction, plan["load"], len(each.nodes)
        )
    assert items[0].rounds == max(of_nodes.values())
    assert len(planned_trials(items)) == plan["blocks"] * len(TESTS) * sum(
        trials_of_block(pairing, direction, len(each.nodes)) for each in plan["arms"]
    )
