"""The schedule: which pairs run which tests, in which order. Pure and deterministic.

The same plan, seed and nodes give the same schedule. Orders are shuffled anew in each block,
because what drifts in a cloud network over minutes must not favour one test or arm (Abedi and
Brecht, doi 10.1145/3030207.3030229). Arms of different nodes run the same test at the same time, so
that unlike tests never overlap. Arms of the same nodes would disturb each other: they take turns
within a block, on the same pairs, and who comes first changes.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rackrate.tools import TestBase

#: What a block costs besides its traffic: starting pods, container after container, and collecting.
OVERHEAD_SECONDS_PER_ROUND = 4.0
#: What a run costs besides its blocks: planning, servers, analysis, report, clean-up.
OVERHEAD_SECONDS_PER_RUN = 30.0
#: One make-up item for so many ordinary ones, and at least one.
ITEMS_PER_MAKEUP = 3
#: Pairs in one item at most. Step Functions takes 256 KiB as a state's input, and the item is in it
#: twice: as it was read and as it was launched.
MAX_PAIRS_PER_ITEM = 512

Json = dict[str, Any]
Network = Literal["pod", "host"]
Direction = Literal["alternate", "forward", "reverse", "both"]
Load = Literal["isolated", "together"]
#: Two node names; which of them is the client in the direction `forward` comes first.
Edge = tuple[str, str]


@dataclass(frozen=True, order=True)
class TrialKey:
    """What names a trial within a run. `client` and `server` are node names."""

    block: int
    arm: str
    test: str
    client: str
    server: str

    @property
    def id(self) -> str:
        """The trial's name in file names."""
        return f"{self.block:04d}_{self.arm}_{self.test}_{self.client}_{self.server}"


@dataclass(frozen=True)
class PlannedTrial:
    """A trial an item is to measure.

    Attributes:
        key: names it.
        round: the round of its block.
        client_network: network namespace of the client, `pod` or `host`.
        server_network: that of the server.
    """

    key: TrialKey
    round: int
    client_network: str
    server_network: str

    @property
    def arm(self) -> str:
        """The arm it belongs to."""
        return self.key.arm


@dataclass(frozen=True)
class ArmNodes:
    """An arm as the schedule sees it.

    Attributes:
        name: the arm's name.
        nodes: the names of its nodes, two at least, in any order.
        client_network: network namespace of its clients.
        server_network: that of its servers.
    """

    name: str
    nodes: tuple[str, ...]
    client_network: Network = "pod"
    server_network: Network = "pod"


@dataclass(frozen=True)
class Pairing:
    """Which pairs of an arm's nodes are measured.

    `one` pair in every block the same, drawn by the seed. `ring`: each node with the next, in the
    order of their names, and the last with the first. `mesh`: each node with each other. `random`:
    `count` pairs drawn once by the seed, which share no node while there are nodes left.
    """

    kind: Literal["one", "ring", "mesh", "random"]
    count: int = 1

    def pairs(self, nodes: int) -> int:
        """How many pairs of nodes that is, each counted once whatever its direction."""
        match self.kind:
            case "ring":
                # Of two nodes each is the other's next.
                return nodes if nodes > 2 else 1
            case "mesh":
                return nodes * (nodes - 1) // 2
        return self.count

    def matchings(self, nodes: int) -> int:
        """How many rounds they take when all that share no node are measured at once."""
        match self.kind:
            case "ring":
                return 1 if nodes == 2 else 2 + nodes % 2
            case "mesh":
                return nodes - 1 + nodes % 2
        return math.ceil(self.count / (nodes // 2))

    def edges(self, names: Sequence[str], seed: int) -> list[list[Edge]]:
        """The pairs in groups that share no node, the client of `forward` first.

        Args:
            names: of at least two nodes, sorted.
            seed: draws the pairs that are left to chance.
        """
        match self.kind:
            case "ring":
                return _ring(names)
            case "mesh":
                return [[_sorted(edge) for edge in edges] for edges in _factors(names)]
        drawn = list(names)
        random.Random(f"{seed}/pairs/{'/'.join(names)}").shuffle(drawn)
        left = self.count
        chosen: list[list[Edge]] = []
        for edges in _factors(drawn):
            if left > 0:
                chosen.append([_sorted(edge) for edge in edges[:left]])
                left -= len(edges)
        return chosen


def rounds_of_block(pairing: Pairing, direction: Direction, load: Load, nodes: int) -> int:
    """How many rounds one block of one arm takes."""
    ways = 2 if direction == "both" else 1
    return ways * (pairing.pairs(nodes) if load == "isolated" else pairing.matchings(nodes))


def trials_of_block(pairing: Pairing, direction: Direction, nodes: int) -> int:
    """How many trials one block of one arm has for each test."""
    return pairing.pairs(nodes) * (2 if direction == "both" else 1)


def _sorted(edge: Edge) -> Edge:
    one, other = edge
    return (one, other) if one < other else (other, one)


def _ring(names: Sequence[str]) -> list[list[Edge]]:
    """Each node to the next: the edges of a cycle, coloured with two colours, or three if odd."""
    if len(names) == 2:
        return [[(names[0], names[1])]]
    edges = list(zip(names, [*names[1:], names[0]], strict=True))
    even = len(names) // 2 * 2
    return [edges[0:even:2], edges[1:even:2], *([edges[even:]] if edges[even:] else [])]


def _factors(names: Sequence[str]) -> Iterator[list[Edge]]:
    """All pairs in rounds that share no node (a 1-factorisation, the circle method of tournaments).

    Their number is n - 1 for an even number n of names, and n for an odd one.
    """
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        facing = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(a, b) for a, b in facing if a is not None and b is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]


def build_schedule(
    *,
    tests: Sequence[TestBase],
    arms: Sequence[ArmNodes],
    blocks: int,
    pairing: Pairing,
    direction: Direction,
    load: Load,
    seed: int,
) -> list[Json]:
    """The items of a run in order, ready for JSON.

    An item of kind `block` holds one round of one block: the tests in their order and the pairs,
    which share no node. An item of kind `makeup` repeats one item of which trials are missing. Each
    says in `progress` how far the run is, for whoever watches its executions.

    Args:
        tests: what every pair runs.
        arms: the arms, in any order.
        blocks: how many blocks.
        pairing: which pairs.
        direction: who of a pair is the client. `forward`: the one whose name sorts first, in a ring
            each node towards the next; `reverse`: the other one; `alternate`: forward in odd
            blocks, reverse in even ones; `both`: each in turn in every block.
        load: one pair of each arm at a time, or all that share no node together.
        seed: decides what is left to chance.
    """
    groups = _groups(arms)
    edges = {arm.nodes: pairing.edges(arm.nodes, seed) for group in groups for arm in group}
    items: list[Json] = []
    for block in range(1, blocks + 1):
        chance = random.Random(f"{seed}/block/{block}")
        tests_in_order = list(tests)
        chance.shuffle(tests_in_order)
        slots = [
            _take_turns(
                group,
                {
                    arm.nodes: _rounds(edges[arm.nodes], arm.nodes, direction, load, block, seed)
                    for arm in group
                },
                block,
                seed,
            )
            for group in groups
        ]
        rounds = list(itertools.zip_longest(*slots, fillvalue=()))
        dumped = [test.model_dump() for test in tests_in_order]
        items += [
            _item(block, blocks, number, len(rounds), dumped, itertools.chain(*together))
            for number, together in enumerate(rounds, start=1)
        ]
    return items + _makeups(len(items), "schedule.json")


def build_warm_up(
    *, tests: Sequence[TestBase], arms: Sequence[ArmNodes], blocks: int, pairing: Pairing, seed: int
) -> list[Json]:
    """The items of the warm-up: block 0, every pair of the plan once, with one short test.

    It opens connections, fills caches and shows whether the pairs can talk; nothing of it counts.
    Pairs that share no node warm up at the same time whatever the plan's load is.

    Args:
        tests: the plan's; the first one is what is run.
        arms: the arms, in any order.
        blocks: how many blocks the plan has.
        pairing: which pairs.
        seed: draws the pairs, as for the schedule.
    """
    short = [tests[0].warm_up().model_dump()]
    slots = [
        [
            [_pair(arm, edge) for edge in edges]
            for arm in group
            for edges in pairing.edges(arm.nodes, seed)
        ]
        for group in _groups(arms)
    ]
    rounds = [
        pairs
        for together in itertools.zip_longest(*slots, fillvalue=())
        for pairs in itertools.batched(itertools.chain(*together), MAX_PAIRS_PER_ITEM, strict=False)
    ]
    items = [
        {**_item(0, blocks, number, len(rounds), short, pairs), "warm_up": True}
        for number, pairs in enumerate(rounds, start=1)
    ]
    repeating = {"kind": "makeup", "progress": "warm-up, repeating lost trials"}
    return [*items, {**repeating, "number": 1, "of": 1, "schedule": "warm_up.json"}]


def _item(
    block: int, blocks: int, number: int, rounds: int, tests: Sequence[Json], pairs: Iterable[Json]
) -> Json:
    part = f"block {block} of {blocks}" if block else "warm-up"
    return {
        "kind": "block",
        "progress": part if rounds == 1 else f"{part}, round {number} of {rounds}",
        "block": block,
        "blocks": blocks,
        "round": number,
        "rounds": rounds,
        "warm_up": False,
        "tests": list(tests),
        "pairs": list(pairs),
    }


def _makeups(items: int, schedule: str) -> list[Json]:
    number = math.ceil(items / ITEMS_PER_MAKEUP)
    return [
        {
            "kind": "makeup",
            "progress": f"repeating lost trials, {n} of {number}",
            "number": n,
            "of": number,
            "schedule": schedule,
        }
        for n in range(1, number + 1)
    ]


def _pair(arm: ArmNodes, edge: Edge) -> Json:
    client, server = edge
    return {
        "arm": arm.name,
        "client": client,
        "server": server,
        "client_network": arm.client_network,
        "server_network": arm.server_network,
    }


def _groups(arms: Sequence[ArmNodes]) -> list[list[ArmNodes]]:
    """The arms, nodes sorted, in groups of which no two have a node in common."""
    groups: list[list[ArmNodes]] = []
    for arm in sorted(arms, key=lambda arm: arm.name):
        mine = ArmNodes(arm.name, tuple(sorted(arm.nodes)), arm.client_network, arm.server_network)
        nodes = set(mine.nodes)
        touching = [g for g in groups if any(nodes.intersection(other.nodes) for other in g)]
        groups = [group for group in groups if group not in touching]
        groups.append([*itertools.chain(*touching), mine])
    return sorted(
        (sorted(group, key=lambda arm: arm.name) for group in groups),
        key=lambda group: group[0].name,
    )


def _rounds(
    edges: Sequence[Sequence[Edge]],
    names: Sequence[str],
    direction: Direction,
    load: Load,
    block: int,
    seed: int,
) -> list[list[Edge]]:
    """The rounds of a block on some nodes, shuffled: the same for all arms of these nodes."""
    turned = [[edge[::-1] for edge in group] for group in edges]
    straight = [list(group) for group in edges]
    match direction:
        case "forward":
            rounds = straight
        case "reverse":
            rounds = turned
        case "alternate":
            rounds = straight if block % 2 else turned
        case "both":
            rounds = straight + turned
    if load == "isolated":
        rounds = [[edge] for group in rounds for edge in group]
    random.Random(f"{seed}/block/{block}/rounds/{names[0]}").shuffle(rounds)
    return rounds


def _take_turns(
    group: Sequence[ArmNodes],
    rounds: Mapping[tuple[str, ...], Sequence[Sequence[Edge]]],
    block: int,
    seed: int,
) -> list[list[Json]]:
    """The pairs of each round of arms that share nodes: arm after arm for each of their rounds.

    Their order is drawn anew for every second block and is the other way round in the next one, so
    that none of two arms comes first more often.
    """
    drawn = (block + 1) // 2
    slots = []
    for number in range(max(len(each) for each in rounds.values())):
        order = list(group)
        random.Random(f"{seed}/arms/{drawn}/{number}/{group[0].name}").shuffle(order)
        for arm in order if block % 2 else reversed(order):
            if number < len(rounds[arm.nodes]):
                slots.append([_pair(arm, edge) for edge in rounds[arm.nodes][number]])
    return slots


def planned_trials(items: Iterable[Mapping[str, Any]]) -> list[PlannedTrial]:
    """Every trial of the items, in order; make-up items have none of their own."""
    return [
        PlannedTrial(
            TrialKey(item["block"], pair["arm"], test["name"], pair["client"], pair["server"]),
            item["round"],
            # Schedules that were stored before there was a choice know only pods.
            pair.get("client_network", "pod"),
            pair.get("server_network", "pod"),
        )
        for item in items
        if item["kind"] == "block"
        for pair in item["pairs"]
        for test in item["tests"]
    ]


def choose_makeup(
    items: Sequence[Mapping[str, Any]], stored: Mapping[TrialKey, Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The ordinary item whose trials should be repeated next, or None when nothing is missing.

    The one that was tried least often comes first, then the earliest.

    Args:
        items: the run's schedule.
        stored: the trials in the table, with `status` and `attempt`.
    """
    candidates = []
    for position, item in enumerate(items):
        missing = missing_trials(item, stored)
        if missing:
            attempts = max(int(stored.get(trial.key, {}).get("attempt", 1)) for trial in missing)
            candidates.append((attempts, position))
    return items[min(candidates)[1]] if candidates else None


def missing_trials(
    item: Mapping[str, Any], stored: Mapping[TrialKey, Mapping[str, Any]]
) -> list[PlannedTrial]:
    """The trials of an item that were not measured."""
    return [
        trial
        for trial in planned_trials([item])
        if stored.get(trial.key, {}).get("status") != "measured"
    ]


def traffic_seconds(tests: Iterable[TestBase]) -> float:
    """How long the tests send traffic, one after the other."""
    return sum(test.expected_seconds for test in tests)


def expected_block_seconds(items: Sequence[Mapping[str, Any]], tests: Sequence[TestBase]) -> float:
    """About how long one block takes."""
    rounds = max((item["rounds"] for item in items if item["kind"] == "block"), default=0)
    return float(rounds * (traffic_seconds(tests) + OVERHEAD_SECONDS_PER_ROUND))


def expected_run_seconds(
    items: Sequence[Mapping[str, Any]],
    tests: Sequence[TestBase],
    warm_ups: Sequence[Mapping[str, Any]] = (),
) -> float:
    """About how long the whole run takes when no trial has to be repeated.

    Args:
        items: the schedule.
        tests: the plan's tests, all of which every item runs.
        warm_ups: the warm-up's items, if there is one.
    """
    warming = expected_block_seconds(warm_ups, [tests[0].warm_up()])
    blocks = sum(1 for item in items if item["kind"] == "block")
    measuring = blocks * (traffic_seconds(tests) + OVERHEAD_SECONDS_PER_ROUND)
    return warming + measuring + OVERHEAD_SECONDS_PER_RUN


def bytes_per_node(
    items: Iterable[Mapping[str, Any]],
    tests: Sequence[TestBase],
    bits_per_second: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, int]]:
    """The most bytes each node sends and receives, if every test runs at its ceiling.

    A test that limits its own rate sends no more than that. Each way is counted for itself, because
    EC2's network credits are (the EC2 user guide, "Amazon EC2 instance network bandwidth").

    Args:
        items: the schedule, or the warm-up's.
        tests: the tests that every item runs.
        bits_per_second: ceiling of each arm (outer key) for each throughput test (inner key).

    Returns:
        `sent` and `received` of each node, 0 for one whose tests have no known ceiling.
    """
    of_arm = {arm: _bytes_of_pair(tests, ceilings) for arm, ceilings in bits_per_second.items()}
    total: dict[str, list[float]] = {}
    for item in items:
        for pair in item.get("pairs", ()):
            up, down = of_arm.get(pair["arm"], (0.0, 0.0))
            client = total.setdefault(pair["client"], [0.0, 0.0])
            server = total.setdefault(pair["server"], [0.0, 0.0])
            client[0] += up
            client[1] += down
            server[0] += down
            server[1] += up
    return {
        node: {"sent": round(sent), "received": round(received)}
        for node, (sent, received) in sorted(total.items())
    }


def _bytes_of_pair(tests: Sequence[TestBase], ceilings: Mapping[str, float]) -> tuple[float, float]:
    """The most bytes a client sends and receives when it runs every test once."""
    up = down = 0.0
    for test in tests:
        limit = ceilings.get(test.name)
        if limit is None:
            continue
        if test.offered_bits_per_second is not None:
            limit = min(limit, test.offered_bits_per_second)
        amount = test.expected_seconds * limit / 8
        # Every tool that can send the other way has its options under these names.
        options = test.model_dump()
        both, reverse = options.get("bidirectional", False), options.get("reverse", False)
        up += amount if both or not reverse else 0.0
        down += amount if both or reverse else 0.0
    return up, down
