"""Test the ranks of nodes with simulated runs whose truth is known.

Prints, with seeds, how often all intervals of an arm's nodes hold their truth together, how often
the sets of the best lose one of them, false words, and the power. The truth of a node is the mean
of its pairs' true levels, effects of pairs included. `*` marks figures that show limits and need
not pass. Run as part of `make bench-verdict`, or `python -m benchmarks.ranking [--runs N]`.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.simulation import LOW, THRESHOLD, Floats, Line, Noise, Proof, covers, errors, means
from benchmarks.worlds import Drifting, bimodal, heavy, log_normal, normal, skewed
from rackrate.tools.base import Metric
from rackrate.verdict.estimate import ERROR, Outlook, settle
from rackrate.verdict.estimator import Question, answer
from rackrate.verdict.layout import Value
from rackrate.verdict.ranking import NodeLevels

RUNS = 2000
METRIC = Metric("throughput", "bit/s", "higher", "mean", step=1e-9)
EDGE = math.log1p(THRESHOLD)

proof = Proof()


class World(NamedTuple):
    """A model of an arm's values. Amounts are standard deviations of the logarithm.

    Attributes:
        noise: distribution of the noise of a trial, with `trial`, and of that of a node in a block
            with all of its pairs, with `node`.
        pair_amount: normal effects of pairs, which no effects of nodes explain.
        luck: distribution of the nodes' effects, with `luck_amount`; those of a pair's nodes add.
        segment: how many of the nodes are in one segment of the network, the others in another;
            pairs within a segment are 10 % better. Without any there are no segments.
    """

    name: str
    noise: Noise = log_normal
    trial: float = 0.03
    node: float = 0.0
    pair_amount: float = 0.0
    luck: Noise = log_normal
    luck_amount: float = 0.03
    segment: int = 0


WORLDS = (
    World("normal"),
    World("alike nodes", luck_amount=0.0),
    World("skewed luck", luck=skewed, luck_amount=0.1),
    World("skewed noise and luck", skewed, luck=skewed),
    World("heavy tails, effects of pairs", heavy, pair_amount=0.02),
    World("bimodal, effects of pairs", bimodal, pair_amount=0.05),
    World("noise of nodes in blocks", normal, 0.01, node=0.03),
    World("autocorrelated 0.1", Drifting(0.1), pair_amount=0.02),
    World("autocorrelated 0.3", Drifting(0.3), pair_amount=0.02),
)
#: Kind of pairs, nodes and blocks.
Design = tuple[str, int, int]
RINGS = (("ring", 4, 6), ("ring", 9, 6), ("ring", 16, 12))
DESIGNS = (*RINGS, ("mesh", 3, 6), ("mesh", 5, 6), ("mesh", 8, 12), ("random", 12, 6))


def edges(kind: str, nodes: int, chance: np.random.Generator) -> Floats:
    """The pairs of nodes: of a ring, a mesh, or of two rings in any order; shape (pairs, 2)."""
    if kind == "mesh":
        return np.array([*itertools.combinations(range(nodes), 2)])
    orders = [np.arange(nodes), *([chance.permutation(nodes)] if kind == "random" else [])]
    rings = [np.stack([order, np.roll(order, -1)], axis=1) for order in orders]
    return np.unique(np.sort(np.concatenate(rings)), axis=0)


def simulated(
    world: World, design: Design, chance: np.random.Generator, effects: Floats | None = None
) -> tuple[list[Value], Floats, Floats]:
    """The values of an arm, the truth of its nodes, and their own effects."""
    kind, nodes, blocks = design
    own = world.luck_amount * world.luck(chance, (nodes,)) if effects is None else effects
    ends = edges(kind, nodes, chance)
    true = own[ends].sum(axis=1) + world.pair_amount * chance.normal(size=len(ends))
    if world.segment:
        true += EDGE * 2 * ((ends < world.segment).sum(axis=1) != 1)
    of_node = world.node * world.noise(chance, (nodes, blocks))
    logs = true[:, None] + of_node[ends].sum(axis=1) + 0.1 * chance.normal(size=blocks)
    logs = logs + world.trial * world.noise(chance, (len(ends), blocks))
    values = [
        Value(block + 1, f"{pair[block % 2]:03}", f"{pair[1 - block % 2]:03}", math.exp(log))
        for pair, of_pair in zip(ends.tolist(), logs, strict=True)
        for block, log in enumerate(of_pair)
    ]
    truth = [true[(ends == node).any(axis=1)].mean() for node in range(nodes)]
    return values, np.array(truth), own


@proof.question("Intervals: all hold in 95 %; sets of the best: 5 % lose one", WORLDS, DESIGNS)
def ranks(runs: int, world: World, design: Design) -> Iterator[Line]:
    """Whether all intervals against the median node hold, and the sets of the best lose none."""

    def simulate(chance: np.random.Generator) -> tuple[bool, bool, bool, bool]:
        values, truth, own = simulated(world, design, chance)
        levels = NodeLevels.of(values, METRIC)
        estimates, among = levels.estimates, np.array(levels.among_best)
        outlook = Outlook(THRESHOLD, 1 - ERROR / len(estimates))
        settled = settle(estimates, EDGE, ERROR)
        shown = [each.shown(outlook, side) for each, side in zip(estimates, settled, strict=True)]
        held = all(map(covers, shown, np.exp(truth - np.median(truth))))
        best = np.argsort(-truth, kind="stable")[:2]
        lost = bool(among[best[0]] > 1), bool(among[best].max() > 2)
        return held, *lost, bool(among[np.argmax(own)] > 1)

    seed, (held, one, two, of_own) = means(runs // 4, simulate, "ranks", world.name, design)
    text, required = f"{world.name}, {_named(design)}", world.name != "autocorrelated 0.3"
    slack = errors(runs // 4)
    yield Line(f"{text}: intervals", held, seed, low=0.95 - slack, required=required)
    yield Line(f"{text}: best lost", one, seed, high=ERROR + slack, required=required)
    yield Line(f"{text}: of two", two, seed, high=ERROR + slack, required=required)
    if design in RINGS:
        yield Line(f"{text}: of own effects", of_own, seed, required=False)


@proof.question("A slow node of eight", ("mesh", "ring"), (EDGE, 0.1, 0.5), (6, 12))
def slow_node(runs: int, kind: str, slower: float, blocks: int) -> Iterator[Line]:
    """How often a slow node is worse, at the threshold falsely, and another gets its blame."""
    effects = np.zeros(8)
    # In a mesh the others have a seventh of it.
    at_edge = slower == EDGE
    of_edge = -EDGE * (7 / 6 if kind == "mesh" else 1)
    effects[0] = of_edge if at_edge else math.log1p(-slower)

    def simulate(chance: np.random.Generator) -> tuple[bool, bool]:
        values, *_ = simulated(World("slow"), (kind, 8, blocks), chance, effects)
        levels = NodeLevels.of(values, METRIC)
        settled = settle(levels.estimates, EDGE, ERROR)
        worse = [
            node
            for node, each, side in zip(levels.nodes, levels.estimates, settled, strict=True)
            if side == "beyond" and each.log_ratio < 0
            if levels.only_with(node, EDGE, ERROR / 8) is None
        ]
        return "000" in worse, any(node != "000" for node in worse)

    seed, (found, blamed) = means(runs // 4, simulate, "slow", kind, slower, blocks)
    text, slack = f"{kind}, {blocks} blocks, {slower:.0%} slower", errors(runs // 4)
    yield Line(f"{text}: worse", found, seed, high=ERROR / 2 + slack, required=at_edge)
    yield Line(f"{text}: another is", blamed, seed, high=ERROR + slack)


@proof.question("A shared layer; asked: 95 %", ("mesh", "random"), (4, 6), (0.0, 0.05))
def layers(runs: int, kind: str, segment: int, luck: float) -> Iterator[Line]:
    """Coverage of what a shared layer is worth, with nodes of different speed."""
    world = World("layers", luck_amount=luck, segment=segment)

    def simulate(chance: np.random.Generator) -> bool:
        sides: tuple[list[Value], list[Value]] = [], []
        for value in simulated(world, (kind, 10, 6), chance)[0]:
            sides[(int(value.client) < segment) != (int(value.server) < segment)].append(value)
        (finding,) = answer([Question(*sides, "higher")], threshold=THRESHOLD)
        return covers((finding.stack or finding).ci95, math.exp(2 * EDGE))

    seed, figure = means(runs // 4, simulate, "layers", kind, segment, luck)
    text = f"{kind} of 10 nodes, {segment} of them in one segment, luck {luck:.0%}"
    yield Line(text, figure, seed, low=LOW - errors(runs // 4))


def _named(design: Design) -> str:
    kind, nodes, blocks = design
    return f"{kind} of {nodes}, {blocks} blocks"


if __name__ == "__main__":
    sys.exit(proof.main(__doc__, runs=RUNS))
