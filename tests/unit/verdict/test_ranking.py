"""The rank of nodes in their arm, and what a shared layer of the network is worth."""

from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.plan.fields import RandomPairs
from rackrate.plan.pairing import Pairing
from rackrate.verdict.evidence import Evidence
from rackrate.verdict.ranking import rank_nodes
from rackrate_contract.arms import Node
from rackrate_contract.ranking import Ranking
from rackrate_contract.trials import TrialKey
from tests.unit import builders
from tests.unit.verdict.test_analysis import RTT, TCP

LEVELS = {"tcp-1": 5e9, "rtt": 200e-6}


def names(count):
    return [f"node-{number:04}" for number in range(1, count + 1)]


def run(effects, pairing="mesh", *, blocks=6, noise=0.005, tests=(TCP, RTT), layers=None, lose=()):
    """A run of an arm whose nodes have these effects, as logarithms; positive ones are better.

    `lose` has pairs of a node's name and a block in which it was not measured.
    """
    nodes = [
        Node(name=name, network_layers=None if layers is None else layers[index])
        for index, name in enumerate(names(len(effects)))
    ]
    arm = builders.usual_arm("treatment", nodes)
    of = dict(zip(arm.node_names, effects, strict=True))
    chance = np.random.default_rng(4)
    edges = list(itertools.chain(*Pairing.of(pairing).edges(arm, 1)))
    trials = {}
    for block, test, edge in itertools.product(range(1, blocks + 1), tests, edges):
        if any((node, block) in lose for node in edge):
            continue
        client, server = edge if block % 2 else edge[::-1]
        sign = 1 if test.primary.better == "higher" else -1
        log = sign * (of[client] + of[server]) + noise * chance.normal()
        key = TrialKey(block, arm.name, test.name, client, server)
        trials[key] = builders.trial_of(key, test, LEVELS[test.name] * math.exp(log))
    plan = builders.plan(tests=tests, pairing=pairing, blocks=blocks)
    return Evidence(builders.planned_run(plan, [arm]), tuple(sorted(trials)), trials, {})


def ranked(*effects, **more) -> Ranking:
    (ranking,) = rank_nodes(run(effects, **more))
    return ranking


def test_a_slow_node_of_a_mesh_is_worse_in_every_test_and_the_others_may_be_the_best():
    ranking = ranked(0.0, -0.3, 0.0, 0.0, 0.0)
    *others, last = ranking.nodes
    assert last.name == "node-0002"
    assert last.is_worse
    assert [figure.verdict for figure in last.figures] == ["worse", "worse"]
    assert not any(node.is_worse for node in others)
    assert set(ranking.may_be_among(1)) == {node.name for node in others}


def test_a_ratio_is_of_the_means_of_pairs_and_has_the_direction_of_its_metric():
    ranking = ranked(0.0, -0.3, 0.0, 0.0, 0.0, noise=1e-6)
    throughput, latency = ranking.nodes[-1].figures
    # Of its own pairs all four have the slow node, and of another node's one of four has it.
    assert math.log(throughput.ratio) == pytest.approx(-0.3 * 3 / 4, abs=1e-3)
    assert math.log(latency.ratio) == pytest.approx(0.3 * 3 / 4, abs=1e-3)
    assert throughput.mean == pytest.approx(5e9 * math.exp(-0.3), rel=1e-3)
    assert math.log(ranking.nodes[-1].ratio) == pytest.approx(-0.3 * 3 / 4, abs=1e-3)


def test_the_best_node_alone_may_be_the_best_once_it_is_certain():
    ranking = ranked(0.0, 0.0, 0.2, 0.0, 0.0)
    assert ranking.may_be_among(1) == ["node-0003"]
    assert len(ranking.may_be_among(2)) == 5


def test_nodes_that_do_not_differ_may_all_be_the_best():
    ranking = ranked(0.0, 0.0, 0.0, 0.0, noise=0.02)
    assert len(ranking.may_be_among(1)) == 4


def test_the_neighbours_of_a_slow_node_in_a_ring_are_worse_only_with_it():
    ranking = ranked(0.0, 0.0, 0.0, -0.5, 0.0, 0.0, 0.0, 0.0, pairing="ring")
    blamed = {node.name: {figure.only_with for figure in node.figures} for node in ranking.nodes}
    assert blamed["node-0003"] == blamed["node-0005"] == {"node-0004"}
    assert [node.name for node in ranking.nodes if node.is_worse] == ["node-0004"]
    assert ranking.least_partners == 2


def test_of_many_slow_nodes_in_a_ring_a_few_are_named_for_what_their_neighbours_look_like():
    ranking = ranked(*[*[0.0] * 7, -0.5] * 4, pairing="ring")
    assert len(ranking.worse) == 4
    sentences = ranking.sentences()
    assert sum("Worse only with" in each for each in sentences) == 3
    assert "2 more nodes are worse only with one other." in sentences


def test_a_node_with_one_partner_or_too_few_blocks_has_no_rank_and_a_reason():
    lost = {("node-0001", block) for block in (1, 2)}
    ranking = ranked(0.0, 0.0, 0.0, 0.0, 0.0, lose=lost)
    assert [each.name for each in ranking.unranked] == ["node-0001"]
    assert "4 blocks" in ranking.unranked[0].reason
    assert len(ranking.nodes) == 4
    matched = ranked(0.0, 0.0, 0.0, 0.0, pairing=RandomPairs(random=2))
    assert not matched.nodes
    assert all("only" in each.reason for each in matched.unranked)


def test_an_arm_of_which_nothing_was_measured_ranks_no_node_and_says_so():
    evidence = run([0.0] * 4)
    (ranking,) = rank_nodes(Evidence(evidence.planned_run, evidence.planned, {}, {}))
    assert [each.name for each in ranking.unranked] == names(4)
    assert ranking.nodes == ()


@pytest.mark.parametrize(("pairing", "nodes"), [("one", 4), ("ring", 2)])
def test_a_run_whose_pairs_cover_no_arm_ranks_nothing(pairing, nodes):
    assert rank_nodes(run([0.0] * nodes, pairing)) == ()


def test_a_test_of_which_all_trials_failed_leaves_the_ranks_of_the_others():
    evidence = run([0.0, -0.3, 0.0, 0.0])
    trials = {key: trial for key, trial in evidence.trials.items() if key.test == "rtt"}
    (ranking,) = rank_nodes(Evidence(evidence.planned_run, tuple(trials), trials, {}))
    assert ranking.nodes[-1].name == "node-0002"
    assert [figure.test for figure in ranking.nodes[-1].figures] == ["rtt"]


LAYERS = [("a", "b", "c" if index < 3 else "d") for index in range(6)]


def test_pairs_that_share_the_lowest_layer_are_compared_with_those_that_share_the_next():
    evidence = run([0.0] * 6, layers=LAYERS)
    same = {node: index < 3 for index, node in enumerate(names(6))}
    trials = {
        key: trial.model_copy(update={"values": {"throughput": 1.2 * trial.values["throughput"]}})
        if key.test == "tcp-1" and same[key.client] == same[key.server]
        else trial
        for key, trial in evidence.trials.items()
    }
    (ranking,) = rank_nodes(Evidence(evidence.planned_run, evidence.planned, trials, {}))
    throughput, latency = ranking.layers
    assert (throughput.layer, throughput.next_layer) == (3, 2)
    assert (throughput.pairs, throughput.next_pairs) == (6, 9)
    assert throughput.ratio == pytest.approx(1.2, rel=0.01)
    assert throughput.verdict == "better"
    assert latency.verdict == "no meaningful difference"


def test_without_layers_that_differ_nothing_is_said_of_them():
    assert ranked(0.0, 0.0, 0.0).layers == ()
    assert ranked(0.0, 0.0, 0.0, layers=[("a", "b", "c")] * 3).layers == ()


@given(
    st.lists(st.floats(-2, 2), min_size=3, max_size=7),
    st.sampled_from(["ring", "mesh", RandomPairs(random=5)]),
    st.integers(2, 9),
    st.sampled_from([0.0, 0.01, 0.3]),
    st.data(),
)
@settings(deadline=None)
def test_whatever_is_lost_words_and_intervals_agree_and_sets_are_nested(
    effects, pairing, blocks, noise, data
):
    places = st.tuples(st.sampled_from(names(len(effects))), st.integers(1, blocks))
    if pairing not in ("ring", "mesh"):
        pairing = RandomPairs(random=min(5, len(effects)))
    evidence = run(effects, pairing, blocks=blocks, noise=noise, lose=data.draw(st.sets(places)))
    for ranking in rank_nodes(evidence):
        everyone = [*(each.name for each in ranking.nodes), *(u.name for u in ranking.unranked)]
        assert sorted(everyone) == names(len(effects))
        assert [node.ratio for node in ranking.nodes] == sorted(
            (node.ratio for node in ranking.nodes), reverse=True
        )
        for node in ranking.nodes:
            assert 1 <= node.among_best <= len(ranking.nodes)
            for figure in node.figures:
                low, high = figure.ci_simultaneous
                assert low <= high
                beyond = high <= 1 / 1.05 or low >= 1.05
                assert (figure.verdict in ("better", "worse")) == beyond
                assert figure.only_with is None or figure.verdict == "worse"
        if ranking.nodes:
            assert ranking.nodes[0].among_best == 1
            for best in range(1, len(ranking.nodes) + 1):
                assert len(ranking.may_be_among(best)) >= best


def test_a_thousand_nodes_are_ranked_within_seconds():
    evidence = run([0.0] * 1002, "ring", tests=(RTT,), noise=0.03)
    before = time.process_time()
    (ranking,) = rank_nodes(evidence)
    assert time.process_time() - before < 10
    assert len(ranking.nodes) == 1002
    assert len(ranking.model_dump_json()) < 500_000
