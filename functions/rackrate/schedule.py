"""The schedule: which pairs run which tests, in which order. Pure and deterministic.

The same plan, seed and nodes give the same schedule. Orders are shuffled anew in each block,
because what drifts in a cloud network over minutes must not favour one test or arm (Abedi and
Brecht, doi 10.1145/3030207.3030229). All arms run the same test at the same time, so that unlike
tests never overlap.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackrate.tools import TestBase

#: What a block costs besides its traffic: starting pods, container after container, and collecting.
OVERHEAD_SECONDS_PER_ROUND = 4.0
#: What a run costs besides its blocks: planning, servers, analysis, report, clean-up.
OVERHEAD_SECONDS_PER_RUN = 30.0
#: One make-up item for so many ordinary ones, and at least one.
ITEMS_PER_MAKEUP = 3

Json = dict[str, Any]


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
    """A trial an item is to measure."""

    key: TrialKey
    arm: str
    round: int


def build_schedule(
    *,
    tests: Sequence[TestBase],
    nodes: Mapping[str, Sequence[str]],
    blocks: int,
    pairing: str,
    seed: int,
) -> list[Json]:
    """The items of a run in order, ready for JSON.

    An item of kind `block` holds one round of one block: the tests in their order and the pairs,
    which share no node. An item of kind `makeup` repeats one item of which trials are missing.

    Args:
        tests: what every pair runs.
        nodes: the node names of each arm, at least two each.
        blocks: how many blocks.
        pairing: `one` or `all`.
        seed: decides the orders.
    """
    items: list[Json] = []
    ordered = {arm: sorted(names) for arm, names in sorted(nodes.items())}
    chosen = {arm: _shuffled_pairs(arm, names, seed) for arm, names in ordered.items()}
    for block in range(1, blocks + 1):
        chance = random.Random(f"{seed}/block/{block}")
        tests_in_order = list(tests)
        chance.shuffle(tests_in_order)
        if pairing == "one":
            rounds_of = {arm: [[_turn(pairs, block)]] for arm, pairs in chosen.items()}
        else:
            rounds_of = {arm: _all_rounds(names, block, chance) for arm, names in ordered.items()}
        rounds = list(itertools.zip_longest(*rounds_of.values(), fillvalue=()))
        for number, pairs_of_arms in enumerate(rounds, start=1):
            items.append(
                {
                    "kind": "block",
                    "block": block,
                    "blocks": blocks,
                    "round": number,
                    "rounds": len(rounds),
                    "tests": [test.model_dump() for test in tests_in_order],
                    "pairs": [
                        {"arm": arm, "client": client, "server": server}
                        for arm, pairs in zip(rounds_of, pairs_of_arms, strict=True)
                        for client, server in pairs
                    ],
                }
            )
    makeups = math.ceil(len(items) / ITEMS_PER_MAKEUP)
    return items + [{"kind": "makeup", "number": n, "of": makeups} for n in range(1, makeups + 1)]


def _shuffled_pairs(arm: str, names: Sequence[str], seed: int) -> list[tuple[str, str]]:
    pairs = list(itertools.combinations(names, 2))
    random.Random(f"{seed}/pairs/{arm}").shuffle(pairs)
    return pairs


def _turn(pairs: Sequence[tuple[str, str]], block: int) -> tuple[str, str]:
    """The pair whose turn it is; each time a pair's turn comes, its direction is the other one."""
    visit, index = divmod(block - 1, len(pairs))
    pair = pairs[index]
    return pair if (visit + index) % 2 == 0 else pair[::-1]


def _all_rounds(
    names: Sequence[str], block: int, chance: random.Random
) -> list[list[tuple[str, str]]]:
    """All pairs of an arm in rounds that share no node (the circle method of tournaments)."""
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    rounds = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        facing = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append(
            [_directed(a, b, block) for a, b in facing if a is not None and b is not None]
        )
        circle = [circle[0], circle[-1], *circle[1:-1]]
    chance.shuffle(rounds)
    return rounds


def _directed(one: str, other: str, block: int) -> tuple[str, str]:
    low, high = sorted((one, other))
    return (low, high) if block % 2 else (high, low)


def planned_trials(items: Iterable[Mapping[str, Any]]) -> list[PlannedTrial]:
    """Every trial of the items, in order; make-up items have none of their own."""
    return [
        PlannedTrial(
            TrialKey(item["block"], pair["arm"], test["name"], pair["client"], pair["server"]),
            pair["arm"],
            item["round"],
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


def expected_run_seconds(items: Sequence[Mapping[str, Any]], tests: Sequence[TestBase]) -> float:
    """About how long the whole run takes when no trial has to be repeated."""
    blocks = max((item["block"] for item in items if item["kind"] == "block"), default=0)
    return blocks * expected_block_seconds(items, tests) + OVERHEAD_SECONDS_PER_RUN


def bytes_per_node(
    items: Sequence[Mapping[str, Any]],
    tests: Sequence[TestBase],
    bits_per_second: Mapping[str, Mapping[str, float]],
) -> dict[str, int]:
    """The most bytes each node may send or receive in a run, if every test runs at its ceiling.

    Args:
        items: the schedule.
        tests: the plan's tests.
        bits_per_second: ceiling of each arm (outer key) for each throughput test (inner key).
    """
    of_name = {test.name: test for test in tests}
    total: dict[str, float] = {}
    for item in items:
        if item["kind"] != "block":
            continue
        for pair in item["pairs"]:
            sent = sum(
                of_name[test["name"]].expected_seconds * limit / 8
                for test in item["tests"]
                if (limit := bits_per_second.get(pair["arm"], {}).get(test["name"]))
            )
            for node in (pair["client"], pair["server"]):
                total[node] = total.get(node, 0.0) + sent
    return {node: round(value) for node, value in sorted(total.items())}
