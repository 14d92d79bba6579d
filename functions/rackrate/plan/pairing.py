"""The pairs of an arm's nodes that a plan asks for, in groups that share no node. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from rackrate.plan.fields import Direction, Load, PairingField, RandomPairs
from rackrate_contract.arms import Arm, PairZones

#: Two node names; the client in the direction `forward` comes first.
Edge = tuple[str, str]


@dataclass(frozen=True)
class Pairing:
    """The choice of pairs of an arm's nodes.

    - `one`: one pair, drawn by the seed; the same in every block.
    - `ring`: each node with the next in the order of their names, and the last with the first.
    - `mesh`: each node with every other node.
    - `random`: `count` pairs, drawn once by the seed. They share no node until all are used.

    An arm with an endpoint pairs its nodes with that: `one` of them, `count`, or all.
    """

    kind: Literal["one", "ring", "mesh", "random"]
    count: int = 1

    @classmethod
    def of(cls, field: PairingField) -> Self:
        """The pairing that a plan asks for."""
        return cls("random", field.random) if isinstance(field, RandomPairs) else cls(field)

    def pairs(self, nodes: int, *, to_endpoint: bool = False) -> int:
        """The number of pairs for a number of nodes, each counted once for both directions."""
        if to_endpoint and self.kind in ("ring", "mesh"):
            return nodes
        match self.kind:
            case "ring":
                # With two nodes, each is next to the other, which is one pair.
                return nodes if nodes > 2 else 1
            case "mesh":
                return nodes * (nodes - 1) // 2
        return self.count

    def matchings(self, nodes: int) -> int:
        """How many rounds the pairs take when pairs that share no node run at the same time."""
        match self.kind:
            case "ring":
                return 1 if nodes == 2 else 2 + nodes % 2
            case "mesh":
                return nodes - 1 + nodes % 2
        return math.ceil(self.count / (nodes // 2))

    def edges(self, arm: Arm, seed: int) -> list[list[Edge]]:
        """The pairs of an arm in groups that share no node, the client of `forward` first.

        Pairs that the arm does not allow are left out.

        Args:
            arm: the arm, with at least two nodes, or one and an endpoint.
            seed: the seed of the random pairs.
        """
        names = _ordered_nodes(arm)
        if arm.endpoint is not None:
            _shuffle(names, seed)
            clients = names[: self.pairs(len(names), to_endpoint=True)]
            return [[(client, arm.endpoint.name)] for client in sorted(clients)]
        match self.kind:
            case "ring":
                return _allowed(arm, _ring(names))
            case "mesh":
                factors = _allowed(arm, _factors(names))
                return [[_sorted(edge) for edge in edges] for edges in factors]
        _shuffle(names, seed)
        left = self.count
        chosen: list[list[Edge]] = []
        for edges in _allowed(arm, _factors(names)):
            if left > 0:
                chosen.append([_sorted(edge) for edge in edges[:left]])
                left -= len(edges)
        return chosen


def rounds_of_block(
    pairing: Pairing, direction: Direction, load: Load, nodes: int, *, to_endpoint: bool = False
) -> int:
    """How many rounds one block of one arm takes."""
    ways = 2 if direction == "both" else 1
    if load == "isolated" or to_endpoint:
        return ways * pairing.pairs(nodes, to_endpoint=to_endpoint)
    return ways * pairing.matchings(nodes)


def trials_of_block(
    pairing: Pairing, direction: Direction, nodes: int, *, to_endpoint: bool = False
) -> int:
    """How many trials one block of one arm has for each test."""
    return pairing.pairs(nodes, to_endpoint=to_endpoint) * (2 if direction == "both" else 1)


def _shuffle(names: list[str], seed: int) -> None:
    random.Random(f"{seed}/pairs/{'/'.join(names)}").shuffle(names)


def _allowed(arm: Arm, groups: Iterable[Sequence[Edge]]) -> list[list[Edge]]:
    """The groups of edges with those that the arm's choice of zones allows."""
    zones = {node.name: node.zone for node in arm.nodes}
    allowed = ([edge for edge in edges if _fits(arm.pairs, edge, zones)] for edges in groups)
    return [edges for edges in allowed if edges]


def _fits(pairs: PairZones, edge: Edge, zones: Mapping[str, str | None]) -> bool:
    """Whether a pair has the zones that an arm asks for; unknown zones may be any."""
    one, other = (zones[name] for name in edge)
    if pairs == "any" or one is None or other is None:
        return True
    return (one == other) == (pairs == "within-zone")


def _ordered_nodes(arm: Arm) -> list[str]:
    """The names of an arm's nodes, so that neighbors are the pairs that it asks for.

    They are sorted by name; for pairs within zones, zone after zone; for pairs across zones, one of
    each zone in turn.
    """
    if arm.pairs == "any":
        return sorted(arm.node_names)
    of_zone: dict[str, list[str]] = defaultdict(list)
    for node in sorted(arm.nodes, key=lambda node: (node.zone or "", node.name)):
        of_zone[node.zone or ""].append(node.name)
    if arm.pairs == "within-zone":
        return list(itertools.chain(*of_zone.values()))
    turns = itertools.zip_longest(*of_zone.values())
    return [name for turn in turns for name in turn if name is not None]


def _sorted(edge: Edge) -> Edge:
    one, other = edge
    return (one, other) if one < other else (other, one)


def _ring(names: Sequence[str]) -> list[list[Edge]]:
    """The edges of a ring in groups that share no node: two groups, or three for an odd number."""
    if len(names) == 2:
        return [[(names[0], names[1])]]
    edges = list(zip(names, [*names[1:], names[0]], strict=True))
    even = len(names) // 2 * 2
    return [edges[0:even:2], edges[1:even:2], *([edges[even:]] if edges[even:] else [])]


def _factors(names: Sequence[str]) -> Iterator[list[Edge]]:
    """All pairs in rounds that share no node (a 1-factorization, the circle method of tournaments).

    There are n - 1 rounds for an even number n of names, and n for an odd number.
    """
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        facing = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(a, b) for a, b in facing if a is not None and b is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]
