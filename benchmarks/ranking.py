"""Test the ranks of nodes with simulated runs whose truth is known.

Prints, with seeds, how often all intervals of an arm's nodes hold their truth together, how often
the sets of the best lose one of them, false words, and the power. The truth of a node is the mean
of its pairs' true levels, effects of pairs included. `*` marks figures that show limits and need
not pass. Run as part of `make bench-verdict`, or `python -m benchmarks.ranking [--runs N]`.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class World:
    """A model of an arm's values. Amounts are standard deviations of the logarithm.

    Attributes:
        luck: distribution of the nodes' effects, with `luck_amount`; the effects of a pair's nodes
            add.
        pair_amount: normal effects of pairs, which the model of node effects does not know.
        noise: distribution of the noise of a trial, with `trial`, and of that of a node in a block
            with all of its pairs, with `node`.
        segment: how many of the nodes are in one segment of the network, the others in another.
        shared: how much better pairs within a segment are.
        required: whether its figures have to keep their limits.
    """

    name: str
    noise: Noise = log_normal
    trial: float = 0.03
    node: float = 0.0
    pair_amount: float = 0.0
    luck: Noise = log_normal
    luck_amount: float = 0.03
    segment: int = 0
    shared: float = 0.0
    required: bool = True


WORLDS = (
    World("normal"),
    World("alike nodes", luck_amount=0.0),
    World("skewed luck", luck=skewed, luck_amount=0.1),
    World("skewed noise and luck", skewed, luck=skewed),
    World("heavy tails, effects of pairs", heavy, pair_amount=0.02),
    World("bimodal, effects of pairs", bimodal, pair_amount=0.05),
    World("noise of nodes in blocks", normal, 0.01, node=0.03),
    World("autocorrelated 0.1", Drifting(0.1), pair_amount=0.02),
    World("autocorrelated 0.3", Drifting(0.3), pair_amount=0.02, required=False),
)
#: Kind of pairs, nodes and blocks.
DESIGNS = (
    *(("ring", 4, 6), ("ring", 9, 6), ("ring", 16, 12)),
    *(("mesh", 3, 6), ("mesh", 5, 6), ("mesh", 8, 12), ("random", 12, 6)),
)


def edges(kind: str, nodes: int, chance: np.random.Generator) -> list[tuple[int, int]]:
    """The pairs of nodes: of a ring, a mesh, or of two rings in any order."""
    if kind == "mesh":
        return [*itertools.combinations(range(nodes), 2)]
    orders = [range(nodes)] if kind == "ring" else [chance.permutation(nodes) for _ in range(2)]
    rings = (zip(order, np.roll(order, -1), strict=True) for order in orders)
    return sorted({(min(a, b), max(a, b)) for ring in rings for a, b in ring})


@dataclass(frozen=True)
class Simulated:
    """A simulated arm: its values, the levels of its nodes, and what is true of them."""

    values: Sequence[Value]
    truth: Floats
    effects: Floats

    @property
    def levels(self) -> NodeLevels:
        """The estimated levels."""
        levels = NodeLevels.of(self.values, METRIC)
        assert levels is not None
        return levels


def simulated(
    world: World,
    design: tuple[str, int, int],
    chance: np.random.Generator,
    effects: Floats | None = None,
) -> Simulated:
    """Simulate an arm, with these effects of its nodes unless the world's luck has them."""
    kind, nodes, blocks = design
    if effects is None:
        effects = world.luck_amount * world.luck(chance, (nodes,))
    ends = np.array(edges(kind, nodes, chance))
    true = effects[ends].sum(axis=1) + world.pair_amount * chance.normal(size=len(ends))
    first = ends < world.segment
    true += world.shared * (first[:, 0] == first[:, 1])
    of_node = world.node * world.noise(chance, (nodes, blocks))
    logs = true[:, None] + of_node[ends].sum(axis=1) + 0.1 * chance.normal(size=blocks)
    logs = logs + world.trial * world.noise(chance, (len(ends), blocks))
    values = [
        Value(block + 1, f"{pair[block % 2]:03}", f"{pair[1 - block % 2]:03}", math.exp(log))
        for pair, of_pair in zip(ends.tolist(), logs, strict=True)
        for block, log in enumerate(of_pair)
    ]
    truth = [true[(ends == node).any(axis=1)].mean() for node in range(nodes)]
    return Simulated(values, np.array(truth), effects)


@proof.question("All intervals of an arm's nodes together; asked: 95 %", WORLDS, DESIGNS)
def intervals(runs: int, world: World, design: tuple[str, int, int]) -> Iterator[Line]:
    """Whether all intervals against the median node hold their truth, each cut to its word."""

    def simulate(chance: np.random.Generator) -> tuple[bool, float]:
        arm = simulated(world, design, chance)
        estimates = arm.levels.estimates
        outlook = Outlook(THRESHOLD, 1 - ERROR / len(estimates))
        settled = settle(estimates, EDGE, ERROR)
        shown = [each.shown(outlook, side) for each, side in zip(estimates, settled, strict=True)]
        truths = np.exp(arm.truth - np.median(arm.truth))
        width = np.mean([each.half_width(outlook.confidence) for each in estimates])
        return all(map(covers, shown, truths)), float(width)

    seed, (held, width) = means(runs // 4, simulate, "intervals", world.name, design)
    text = f"{world.name}, {_named(design)}: ±{width:.1%}"
    yield Line(text, held, seed, low=0.95 - errors(runs // 4), required=world.required)


@proof.question("The sets of the best; asked: at most 5 % lose one of them", WORLDS, DESIGNS)
def best(runs: int, world: World, design: tuple[str, int, int]) -> Iterator[Line]:
    """How often the sets of the one and of the two best lose one of them."""

    def simulate(chance: np.random.Generator) -> tuple[bool, bool, float, bool]:
        arm = simulated(world, design, chance)
        among = np.array(arm.levels.among_best)
        first, second = np.argsort(-arm.truth, kind="stable")[:2]
        lost = bool(among[first] > 1), bool(max(among[[first, second]]) > 2)
        return *lost, float((among == 1).mean()), bool(among[np.argmax(arm.effects)] > 1)

    case = "best", world.name, design
    seed, (one, two, size, own) = means(runs // 4, simulate, *case)
    text, high = f"{world.name}, {_named(design)}", ERROR + errors(runs // 4)
    yield Line(f"{text}, {size:.0%} may be", one, seed, high=high, required=world.required)
    yield Line(f"{text}: one of two", two, seed, high=high, required=world.required)
    if design[0] == "ring" and world.luck_amount:
        yield Line(f"{text}: of the best effect", own, seed, required=False)


def words(arm: Simulated) -> list[str | None]:
    """The words on an arm's nodes: beyond or within the threshold, or neither."""
    return list(settle(arm.levels.estimates, EDGE, ERROR))


@proof.question("False words on nodes; asked: at most 2.5 and 5 %", DESIGNS)
def false_words(runs: int, design: tuple[str, int, int]) -> Iterator[Line]:
    """False words on an arm with one node at the threshold, a hair within or beyond it."""
    kind, nodes, _ = design
    # How far a node's own effect moves it against the median node in its pairs.
    share = {"mesh": (nodes - 2) / (nodes - 1), "ring": 1.0 if nodes > 6 else 0.5}.get(kind, 1.0)

    def simulate(hair: float, chance: np.random.Generator) -> list[str | None]:
        effects = np.zeros(nodes)
        effects[0] = -EDGE * (1 + hair) / share
        return words(simulated(World("edge", trial=0.02), design, chance, effects))

    def wrong(hair: float, word: str) -> tuple[int, Any]:
        return means(
            runs // 4, lambda chance: simulate(hair, chance)[0] == word, "words", design, word
        )

    seed, worse = wrong(-1e-6, "beyond")
    slack = errors(runs // 4)
    yield Line(f"{_named(design)}: worse", worse, seed, high=0.025 + slack)
    seed, alike = wrong(1e-6, "within")
    yield Line(f"{_named(design)}: no difference", alike, seed, high=0.05 + slack)


@proof.question("A slow node; asked of its neighbors in a ring: at most 5 %", (0.1, 0.5), (6, 12))
def slow_node(runs: int, slower: float, blocks: int) -> Iterator[Line]:
    """How often a slow node of eight is found, and how often another one gets its blame."""
    effects = np.array([math.log1p(-slower), *[0.0] * 7])

    def simulate(kind: str, chance: np.random.Generator) -> tuple[bool, bool]:
        levels = simulated(World("slow"), (kind, 8, blocks), chance, effects).levels
        error = ERROR / len(levels.nodes)
        worse = [
            node
            for node, estimate, side in zip(
                levels.nodes, levels.estimates, settle(levels.estimates, EDGE, ERROR), strict=True
            )
            if side == "beyond" and estimate.log_ratio < 0
            if levels.only_with(node, EDGE, error) is None
        ]
        return "000" in worse, any(node != "000" for node in worse)

    for kind in ("mesh", "ring"):
        case = "slow", kind, slower, blocks
        seed, (found, blamed) = means(runs // 4, functools.partial(simulate, kind), *case)
        text = f"{kind} of 8, {blocks} blocks, {slower:.0%} slower"
        yield Line(f"{text}: found", found, seed, required=False)
        yield Line(f"{text}: another is blamed", blamed, seed, high=ERROR + errors(runs // 4))


@proof.question("A shared layer; asked: 95 %", ("mesh", "random"), (4, 6), (0.0, 0.05))
def layers(runs: int, kind: str, segment: int, luck: float) -> Iterator[Line]:
    """Coverage of what a shared layer is worth, with nodes of different speed."""
    world = World("layers", luck_amount=luck, segment=segment, shared=0.1)

    def simulate(chance: np.random.Generator) -> bool:
        sides: tuple[list[Value], list[Value]] = [], []
        for value in simulated(world, (kind, 10, 6), chance).values:
            sides[(int(value.client) < segment) != (int(value.server) < segment)].append(value)
        (finding,) = answer([Question(*sides, "higher")], threshold=THRESHOLD)
        return covers((finding.stack or finding).ci95, math.exp(world.shared))

    seed, figure = means(runs // 4, simulate, "layers", kind, segment, luck)
    text = f"{kind} of 10 nodes, {segment} of them in one segment, luck {luck:.0%}"
    yield Line(text, figure, seed, low=LOW - errors(runs // 4))


def _named(design: tuple[str, int, int]) -> str:
    kind, nodes, blocks = design
    return f"{kind} of {nodes}, {blocks} blocks"


if __name__ == "__main__":
    sys.exit(proof.main(__doc__, runs=RUNS))
