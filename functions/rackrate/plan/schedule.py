"""The schedule: which pairs run which tests, in which order. Pure and deterministic.

The same plan, seed and nodes give the same schedule. Each block has a new random order, so that
drift of a cloud network over minutes does not favor one test or arm (Abedi and Brecht,
doi 10.1145/3030207.3030229). Arms on different nodes run the same test at the same time, so that
different tests never overlap. Arms on the same nodes would disturb each other, so they take turns
within a block, on the same pairs, in changing order.

Workloads are measured apart from the tests of pairs and from each other. An item of a workload has
a pair for each load pod: its node, and a node of a member.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Protocol, Self

from pydantic import Field, TypeAdapter

from rackrate.document import Document
from rackrate.plan.arms import Arm, Network, Node, PairZones, Via
from rackrate.plan.fields import Direction, Load, PairingField, RandomPairs
from rackrate.plan.looks import looks
from rackrate.plan.model import Plan
from rackrate.plan.workloads import pair_tests, places, workloads
from rackrate.tools import AnyTest, TestBase
from rackrate.workloads.base import WorkloadTest
from rackrate_text.failures import place

#: Overhead of a round besides its traffic: starting pods and containers, and collecting.
OVERHEAD_SECONDS_PER_ROUND = 4.0
#: Overhead of a run besides its blocks: planning, servers, analysis, report, cleanup.
OVERHEAD_SECONDS_PER_RUN = 20.0
#: How many trials of a round, servers and trials of a run these overheads cover, and the seconds
#: that each further one adds: counted with 60 to 1002 simulated nodes (docs/scale.md).
_TRIALS_OF_A_ROUND, _SECONDS_PER_TRIAL = 100, 0.018
_SERVERS, _SECONDS_PER_SERVER = 60, 0.21
_TRIALS_OF_A_RUN, _SECONDS_PER_ANALYZED_TRIAL = 1000, 0.003
#: A batch has one make-up item for this many ordinary items, and at least one.
ITEMS_PER_MAKEUP = 3
#: The most pairs in one item. Step Functions limits a state's input to 256 KiB, of which an item
#: with so many pairs takes a third.
MAX_PAIRS_PER_ITEM = 512
#: The most trials in one item. One call of Collect reads, parses and stores them within half of its
#: time and its memory.
MAX_TRIALS_PER_ITEM = 3072

#: What an item does with a workload: it loads its data, or measures it.
Phase = Literal["load", "measure"]
#: Pairs that load the network together start each test at an agreed time. The first one is so long
#: after Launch has begun, and later by a second for so many pods. The next one is so long after a
#: test's end, in which Kubernetes starts its container.
FIRST_START_SECONDS, PODS_PER_SECOND, NEXT_START_SECONDS = 3.0, 100, 2.0
#: How much of these waits a round takes without an agreement, too: its overhead has it.
_STARTS_IN_OVERHEAD = 2.0

#: Two node names; the client in the direction `forward` comes first.
Edge = tuple[str, str]


@dataclass(frozen=True, order=True)
class TrialKey:
    """The key of a trial within a run. `client` and `server` are node names."""

    block: int
    arm: str
    test: str
    client: str
    server: str

    @property
    def id(self) -> str:
        """The trial's name in file names."""
        return f"{self.block:04d}_{self.arm}_{self.test}_{self.client}_{self.server}"

    @property
    def place(self) -> str:
        """Where it is measured, in words."""
        return place(self.arm, self.client, self.server)


class Pair(Document):
    """An ordered pair of nodes of one arm, and the networks that its pods use."""

    arm: str
    client: str
    """The client's node."""
    server: str
    client_network: Network
    server_network: Network
    via: Via = "pod"


class BlockItem(Document):
    """One round of one block: tests in their order, and pairs that share no node."""

    kind: Literal["block"] = "block"
    progress: str
    """How far the run is, for whoever watches its executions."""
    block: int
    """1 or more; 0 is the warm-up."""
    blocks: int
    """How many blocks the run has at most."""
    batch: int = 1
    """The batch that it is in, from 1; 0 is the warm-up. The run looks after each batch."""
    round: int
    rounds: int
    pause_seconds: int = 0
    """How long to wait before it."""
    warm_up: bool
    phase: Phase = "measure"
    """What it does with its workload; `load` only in block 0."""
    tests: tuple[AnyTest, ...]
    """Either tests of pairs, or one workload."""
    pairs: tuple[Pair, ...]

    @property
    def workload(self) -> WorkloadTest | None:
        """Its workload; None for tests of pairs."""
        return next(iter(workloads(self.tests)), None)

    @property
    def is_together(self) -> bool:
        """Whether its pairs are to load the network at once: an arm has several of them."""
        of_arms = Counter(pair.arm for pair in self.pairs)
        loads = self.workload is None and not self.warm_up
        return loads and max(of_arms.values(), default=0) > 1

    @property
    def trials(self) -> list[TrialKey]:
        """Every trial of the item, pair after pair."""
        return [
            TrialKey(self.block, pair.arm, test.name, pair.client, pair.server)
            for pair in self.pairs
            for test in self.tests
        ]


class MakeupItem(Document):
    """A repetition of an item's lost trials and their partners, chosen when this one starts."""

    kind: Literal["makeup"] = "makeup"
    progress: str
    number: int
    of: int
    batch: int = 1
    """The batch that it ends. It repeats items of this batch or an earlier one."""
    pause_seconds: int = 0
    """As an ordinary item's; it never waits."""
    schedule: str
    """The object that holds the items to choose from."""


Item = Annotated[BlockItem | MakeupItem, Field(discriminator="kind")]
_ITEM: TypeAdapter[BlockItem | MakeupItem] = TypeAdapter(Item)
_ITEMS: TypeAdapter[list[BlockItem | MakeupItem]] = TypeAdapter(list[Item])


def item_from_json(value: object) -> BlockItem | MakeupItem:
    """Read an item as the state machine passes it on."""
    return _ITEM.validate_json(json.dumps(value))


def items_from_json(text: str | bytes) -> list[BlockItem | MakeupItem]:
    """Read a schedule."""
    return _ITEMS.validate_json(text)


class Attempted(Protocol):
    """The attributes of a stored trial that the schedule needs."""

    @property
    def status(self) -> str:
        """`measured` or `failed`."""

    @property
    def attempt(self) -> int:
        """1, or more for a repetition."""


@dataclass(frozen=True)
class Pairing:
    """The choice of pairs of an arm's nodes.

    - `one`: one pair, drawn by the seed; the same in every block.
    - `ring`: each node with the next in the order of their names, and the last with the first.
    - `mesh`: each node with every other node.
    - `random`: `count` pairs, drawn once by the seed. They share no node until all are used.
    """

    kind: Literal["one", "ring", "mesh", "random"]
    count: int = 1

    @classmethod
    def of(cls, field: PairingField) -> Self:
        """The pairing that a plan asks for."""
        return cls("random", field.random) if isinstance(field, RandomPairs) else cls(field)

    def pairs(self, nodes: int) -> int:
        """The number of pairs for a number of nodes, each counted once for both directions."""
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
            arm: the arm, with at least two nodes.
            seed: the seed of the random pairs.
        """
        names = _ordered_nodes(arm)
        match self.kind:
            case "ring":
                return _allowed(arm, _ring(names))
            case "mesh":
                factors = _allowed(arm, _factors(names))
                return [[_sorted(edge) for edge in edges] for edges in factors]
        drawn = list(names)
        random.Random(f"{seed}/pairs/{'/'.join(names)}").shuffle(drawn)
        left = self.count
        chosen: list[list[Edge]] = []
        for edges in _allowed(arm, _factors(drawn)):
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


def _allowed(arm: Arm, groups: Iterable[Sequence[Edge]]) -> list[list[Edge]]:
    """The groups of edges with those that the arm's choice of zones allows."""
    zones = {node.name: node.zone for node in arm.nodes}
    kept = ([edge for edge in edges if _fits(arm.pairs, edge, zones)] for edges in groups)
    return [edges for edges in kept if edges]


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


def build_schedule(plan: Plan, arms: Sequence[Arm], load_nodes: Sequence[Node] = ()) -> list[Item]:
    """The items of a run in order.

    An item of kind `block` has one round of one block: the tests in their order and the pairs,
    which share no node. An item of kind `makeup` repeats lost trials of one item with their
    partners.

    The items are in batches: the blocks up to the first look, then those up to the next. Each batch
    ends with make-up items of its own. A block's first item has the plan's pause before it.

    The plan's direction decides which node of a pair is the client. `forward`: the node whose name
    sorts first; in a ring, each node towards the next. `reverse`: the other node. `alternate`:
    forward in odd blocks, reverse in even blocks. `both`: each in turn in every block.

    Workloads come after the tests of pairs in each block. The first measurement of each comes after
    the pause in which it settles.

    Args:
        plan: the plan; its tests, blocks, pairing, direction, load and seed are used.
        arms: the plan's arms with their nodes, at least two, in any order.
        load_nodes: the nodes of the load, if it does not come from the arms' own.
    """
    pairing = Pairing.of(plan.pairing)
    groups = _groups(arms)
    edges = {arm.name: pairing.edges(arm, plan.seed) for arm in arms}
    blocks = itertools.chain.from_iterable(
        _block(plan, block, groups, edges, load_nodes) for block in range(1, plan.blocks.most + 1)
    )
    items: list[Item] = []
    for number, batch in itertools.groupby(blocks, key=lambda item: item.batch):
        of_batch = list(batch)
        items += [*of_batch, *_makeups(len(of_batch), number)]
    return items


def _block(
    plan: Plan,
    block: int,
    groups: Iterable[Sequence[Arm]],
    edges: Mapping[str, Sequence[Sequence[Edge]]],
    load_nodes: Sequence[Node],
) -> list[BlockItem]:
    """The items of one block, with an order of its tests and rounds drawn for it."""
    chance = random.Random(f"{plan.seed}/block/{block}")
    tests_in_order = list(plan.tests)
    chance.shuffle(tests_in_order)
    of_pairs = pair_tests(tests_in_order)
    rounds_of = {
        arm: _rounds(groups_of, plan.direction, plan.load, block, plan.seed)
        for arm, groups_of in edges.items()
    }
    slots = [_take_turns(group, rounds_of, block, plan.seed) for group in groups]
    together = itertools.zip_longest(*slots, fillvalue=()) if of_pairs else ()
    rounds = [_Round(of_pairs, [*itertools.chain(*pairs)]) for pairs in together]
    arms = [arm for group in groups for arm in group]
    for test in workloads(tests_in_order):
        turns = _rounds_of_workload(test, arms, load_nodes, block, plan.seed)
        rounds += [_Round([test], pairs) for pairs in turns]
    return _items(plan, block, rounds)


class _Round(NamedTuple):
    """The content of an item."""

    tests: Sequence[TestBase]
    pairs: Sequence[Pair]
    phase: Phase = "measure"


def _items(plan: Plan, block: int, rounds: Sequence[_Round]) -> list[BlockItem]:
    items = []
    settled: set[str] = set()
    for number, each in enumerate(rounds, start=1):
        pause = plan.pause_seconds if block > 1 and number == 1 else 0
        for test in workloads(each.tests):
            if block == 1 and test.name not in settled:
                pause = max(pause, test.settle_seconds)
                settled.add(test.name)
        items.append(_item(plan, block, (number, len(rounds)), each, pause))
    return items


def _rounds_of_workload(
    test: WorkloadTest, arms: Sequence[Arm], load_nodes: Sequence[Node], block: int, seed: int
) -> list[list[Pair]]:
    """The pairs of each round in which a workload is measured: load pods and members in turn.

    Arms that share load nodes take turns, in an order that is drawn for every second block and
    reversed in the next.
    """
    of_arms = []
    for arm in sorted(arms, key=lambda arm: arm.name):
        members, loaders = places(test, arm, load_nodes)
        servers = itertools.cycle(members)
        of_arms.append([_pair(arm, edge) for edge in zip(loaders, servers, strict=False)])
    if not load_nodes:
        return [[pair for pairs in of_arms for pair in pairs]]
    random.Random(f"{seed}/arms/{(block + 1) // 2}/{test.name}").shuffle(of_arms)
    return of_arms if block % 2 else of_arms[::-1]


def build_warm_up(plan: Plan, arms: Sequence[Arm], load_nodes: Sequence[Node] = ()) -> list[Item]:
    """The items of block 0: every pair of the plan once, with one short test, and workloads' data.

    The warm-up opens connections, fills caches and shows whether the pairs can reach each other. No
    verdict uses its trials. Pairs that share no node warm up at the same time, regardless of the
    plan's load. Data that a workload needs are loaded also where the plan asks for no warm-up;
    other workloads have a short measurement.

    Returns:
        No item if there is nothing to do.
    """
    rounds = _warm_up_of_pairs(plan, arms) if plan.warm_up else []
    for test in workloads(plan.tests):
        if not (plan.warm_up or test.has_data):
            continue
        for pairs in _rounds_of_workload(test, arms, load_nodes, 0, plan.seed):
            if test.has_data:
                # One load pod of each arm loads its data.
                first = list({pair.arm: pair for pair in reversed(pairs)}.values())
                rounds.append(_Round([test], first, "load"))
            else:
                rounds.append(_Round([test.warm_up()], pairs))
    if not rounds:
        return []
    repeating = "warm-up, repeating lost trials"
    makeup = MakeupItem(progress=repeating, number=1, of=1, batch=0, schedule="warm_up.json")
    return [*_items(plan, 0, rounds), makeup]


def _warm_up_of_pairs(plan: Plan, arms: Sequence[Arm]) -> list[_Round]:
    """The rounds of the warm-up in which every pair of the plan has one short test."""
    of_pairs = pair_tests(plan.tests)
    if not of_pairs:
        return []
    pairing = Pairing.of(plan.pairing)
    slots = [
        [
            [_pair(arm, edge) for edge in edges]
            for arm in group
            for edges in pairing.edges(arm, plan.seed)
        ]
        for group in _groups(arms)
    ]
    return [
        _Round([of_pairs[0].warm_up()], pairs)
        for together in itertools.zip_longest(*slots, fillvalue=())
        for pairs in itertools.batched(itertools.chain(*together), MAX_PAIRS_PER_ITEM, strict=False)
    ]


def _item(
    plan: Plan, block: int, round_of: tuple[int, int], content: _Round, pause_seconds: int
) -> BlockItem:
    number, rounds = round_of
    at = looks(plan.blocks.least, plan.blocks.most)
    most = f"{'at most ' if len(at) > 1 else ''}{plan.blocks.most}"
    part = f"block {block} of {most}" if block else "warm-up"
    if content.phase == "load":
        part = f"loading data of {content.tests[0].name}"
    return BlockItem(
        progress=part if rounds == 1 else f"{part}, round {number} of {rounds}",
        block=block,
        blocks=plan.blocks.most,
        batch=1 + sum(look < block for look in at) if block else 0,
        round=number,
        rounds=rounds,
        pause_seconds=pause_seconds,
        warm_up=block == 0,
        phase=content.phase,
        tests=tuple(content.tests),
        pairs=tuple(content.pairs),
    )


def _makeups(items: int, batch: int) -> list[Item]:
    number = math.ceil(items / ITEMS_PER_MAKEUP)
    return [
        MakeupItem(
            progress=f"repeating lost trials, {n} of {number}",
            number=n,
            of=number,
            batch=batch,
            schedule="schedule.json",
        )
        for n in range(1, number + 1)
    ]


def _pair(arm: Arm, edge: Edge) -> Pair:
    client, server = edge
    return Pair(
        arm=arm.name,
        client=client,
        server=server,
        client_network=arm.client_network,
        server_network=arm.server_network,
        via=arm.via,
    )


def _groups(arms: Sequence[Arm]) -> list[list[Arm]]:
    """The arms in groups, such that arms in different groups share no node."""
    groups: list[list[Arm]] = []
    for arm in sorted(arms, key=lambda arm: arm.name):
        nodes = set(arm.node_names)
        touching = [g for g in groups if any(nodes.intersection(o.node_names) for o in g)]
        groups = [group for group in groups if group not in touching]
        groups.append([*itertools.chain(*touching), arm])
    return sorted(
        (sorted(group, key=lambda arm: arm.name) for group in groups),
        key=lambda group: group[0].name,
    )


def _rounds(
    edges: Sequence[Sequence[Edge]],
    direction: Direction,
    load: Load,
    block: int,
    seed: int,
) -> list[list[Edge]]:
    """The shuffled rounds of a block, the same for all arms with the same pairs.

    The order is that of all sets with as many rounds, so that rounds of as many pairs meet.
    """
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
    random.Random(f"{seed}/block/{block}/rounds").shuffle(rounds)
    return rounds


def _take_turns(
    group: Sequence[Arm],
    rounds: Mapping[str, Sequence[Sequence[Edge]]],
    block: int,
    seed: int,
) -> list[list[Pair]]:
    """The pairs of each round for arms that share nodes: one arm after the other in each round.

    The order of the arms is drawn for every second block and reversed in the next, so that neither
    of two arms comes first more often.
    """
    drawn = (block + 1) // 2
    slots = []
    for number in range(max(len(rounds[arm.name]) for arm in group)):
        order = list(group)
        random.Random(f"{seed}/arms/{drawn}/{number}/{group[0].name}").shuffle(order)
        for arm in order if block % 2 else reversed(order):
            of_arm = rounds[arm.name]
            if number < len(of_arm):
                slots.append([_pair(arm, edge) for edge in of_arm[number]])
    return slots


def block_items(items: Iterable[Item]) -> list[BlockItem]:
    """The ordinary items, which have trials of their own."""
    return [item for item in items if isinstance(item, BlockItem)]


def batch_name(batch: int) -> str:
    """The name of the object with a batch's items."""
    return f"blocks_{batch}.json"


def up_to_batch(items: Iterable[Item], batch: int) -> list[Item]:
    """The items of the batches up to one, and of that one."""
    return [item for item in items if item.batch <= batch]


def begun_batch(items: Iterable[Item], block: int) -> int:
    """The batch that a run has begun when a block has begun; the first one if none has."""
    return max((item.batch for item in block_items(items) if item.block <= block), default=1)


def planned_trials(items: Iterable[Item]) -> list[TrialKey]:
    """Every trial of the items, in order."""
    return [key for item in block_items(items) for key in item.trials]


def missing_trials(item: BlockItem, stored: Mapping[TrialKey, Attempted]) -> list[TrialKey]:
    """The trials of an item that were not measured."""
    return [key for key in item.trials if not _is_measured(stored.get(key))]


def _is_measured(found: Attempted | None) -> bool:
    return found is not None and found.status == "measured"


@dataclass(frozen=True)
class Tried:
    """What was tried of a run's trials so far.

    Attributes:
        trials: the stored trials, which count.
        repeats: the latest repetition of each measured trial that was repeated as a partner.
    """

    trials: Mapping[TrialKey, Attempted]
    repeats: Mapping[TrialKey, Attempted] = field(default_factory=dict)

    def attempts(self, key: TrialKey) -> int:
        """How often a trial was tried; 0 if never."""
        found = (of[key] for of in (self.trials, self.repeats) if key in of)
        return max((each.attempt for each in found), default=0)

    def is_lost(self, key: TrialKey) -> bool:
        """Whether no attempt measured the trial."""
        return not _is_measured(self.trials.get(key))

    def is_measured_in(self, key: TrialKey, attempt: int) -> bool:
        """Whether one attempt measured the trial."""
        found = (of[key] for of in (self.trials, self.repeats) if key in of)
        return any(each.attempt == attempt and _is_measured(each) for each in found)


#: The trials that keep the arms paired in time: one of each arm.
Partners = tuple[TrialKey, ...]


def partners(items: Iterable[Item]) -> dict[TrialKey, Partners]:
    """The partners of each trial, itself included.

    Partners are trials of the same test in the same block, in the same round of their arms and at
    the same position in it. Arms on different nodes measure them at the same time, arms on the same
    nodes one after the other on the same pair. A trial has no partner of an arm with fewer rounds
    or pairs, and a trial of the warm-up has none, because no verdict compares it.

    Args:
        items: all items of the blocks in question.
    """
    rounds: Counter[tuple[int, str, str]] = Counter()
    together: dict[tuple[int, str, int, int] | TrialKey, list[TrialKey]] = defaultdict(list)
    for item in block_items(items):
        positions: Counter[str] = Counter()
        for pair in item.pairs:
            position = positions[pair.arm]
            positions[pair.arm] += 1
            for test in item.tests:
                place = rounds[item.block, pair.arm, test.name], position
                key = TrialKey(item.block, pair.arm, test.name, pair.client, pair.server)
                together[key if item.warm_up else (item.block, test.name, *place)].append(key)
        rounds.update((item.block, arm, t.name) for arm in positions for t in item.tests)
    return {key: tuple(keys) for keys in together.values() for key in keys}


def paired_trials(items: Iterable[Item], stored: Mapping[TrialKey, Attempted]) -> set[TrialKey]:
    """The measured trials of blocks whose partners are all measured.

    A run that is continued keeps these. It measures the others anew with their partners, so that no
    pair has the time between in it.
    """
    return {
        key
        for key, together in partners(items).items()
        if all(_is_measured(stored.get(each)) for each in together)
    }


class Repetition(NamedTuple):
    """What a make-up item repeats now.

    Attributes:
        item: the ordinary item.
        attempt: the number of the attempt, 2 or more.
        trials: the trials of the item to repeat.
    """

    item: BlockItem
    attempt: int
    trials: list[TrialKey]


def choose_makeup(items: Iterable[Item], tried: Tried) -> Repetition | None:
    """Choose what to repeat next; None when no trial is lost.

    A lost trial is repeated with its partners, so that the arms stay paired in time. Partners that
    take turns on the same nodes are in other items, so they come next, before any other lost trial,
    unless the attempt has failed already. Otherwise the item whose lost trials were tried least
    comes first, then the earliest.
    """
    blocks = block_items(items)
    # Partners are in one block. Most blocks need no look, which saves time in large plans.
    eventful = {item.block for item in blocks if missing_trials(item, tried.trials)}
    for of in (tried.trials, tried.repeats):
        eventful |= {key.block for key, found in of.items() if found.attempt > 1}
    blocks = [item for item in blocks if item.block in eventful]
    partners_of = partners(blocks)
    if (begun := _begun(blocks, partners_of, tried)) is not None:
        return begun
    lost = [
        (max(map(tried.attempts, missing)), position)
        for position, item in enumerate(blocks)
        if (missing := missing_trials(item, tried.trials))
    ]
    if not lost:
        return None
    item = blocks[min(lost)[1]]
    before = max(
        tried.attempts(each)
        for key in item.trials
        if any(map(tried.is_lost, partners_of[key]))
        for each in partners_of[key]
    )
    return _repetition(item, 1 + max(1, before), partners_of, tried)


def losses_beyond_repair(items: Iterable[Item], at: Item, tried: Tried) -> int:
    """How many lost trials no make-up item can repeat any more, at least.

    A make-up item repeats the lost trials of one item.

    Args:
        items: all items of the run's blocks.
        at: the item that the run has reached; if it is a make-up item, it can still repeat some.
        tried: what was tried.
    """
    items = list(items)
    lost = [
        sum(tried.attempts(key) > 0 and tried.is_lost(key) for key in item.trials)
        for item in block_items(items)
    ]
    makeups = [item for item in items if isinstance(item, MakeupItem)]
    left = [
        item
        for item in makeups
        if item.batch > at.batch
        or (item.batch == at.batch and (isinstance(at, BlockItem) or item.number >= at.number))
    ]
    return sum(sorted(lost, reverse=True)[len(left) :])


def _begun(
    blocks: Iterable[BlockItem], partners_of: Mapping[TrialKey, Partners], tried: Tried
) -> Repetition | None:
    """The item in which a repetition goes on that measured partners in other items before."""
    for item in blocks:
        for key in item.trials:
            attempt = max(map(tried.attempts, partners_of[key]))
            if 1 < attempt != tried.attempts(key) and all(
                tried.is_measured_in(each, attempt)
                for each in partners_of[key]
                if tried.attempts(each) == attempt
            ):
                return _repetition(item, attempt, partners_of, tried)
    return None


def _repetition(
    item: BlockItem, attempt: int, partners_of: Mapping[TrialKey, Partners], tried: Tried
) -> Repetition:
    return Repetition(item, attempt, trials_to_measure(item, attempt, partners_of, tried))


def trials_to_measure(
    item: BlockItem, attempt: int, partners_of: Mapping[TrialKey, Partners], tried: Tried
) -> list[TrialKey]:
    """The trials of an item that an attempt has to measure and has not tried yet.

    These are lost trials and the partners of lost trials. A trial that this attempt has just
    measured is not lost any more, but its partners still have to be measured.
    """
    return [
        key
        for key in item.trials
        if tried.attempts(key) < attempt
        and any(tried.is_lost(each) or tried.attempts(each) == attempt for each in partners_of[key])
    ]


def repeated_together(
    item: BlockItem, attempt: int, partners_of: Mapping[TrialKey, Partners], tried: Tried
) -> list[TrialKey]:
    """The trials whose results of a repetition count: it measured all of their partners.

    Args:
        item: the item that was repeated; only its trials and their partners are looked at.
        attempt: the number of the repetition.
        partners_of: the partners of each trial.
        tried: what was tried, this repetition included.
    """
    complete = {
        partners_of[key]
        for key in item.trials
        if all(tried.is_measured_in(each, attempt) for each in partners_of[key])
    }
    return sorted(key for keys in complete for key in keys)


def traffic_seconds(tests: Iterable[TestBase], phase: Phase = "measure") -> float:
    """How long tests send traffic, one after the other.

    Args:
        tests: the tests.
        phase: what is done with workloads among them.
    """
    return sum(_seconds_of(test, phase) for test in tests)


def _seconds_of(test: TestBase, phase: Phase) -> float:
    if not isinstance(test, WorkloadTest):
        return test.expected_seconds
    if phase == "load":
        return test.load_seconds
    return test.expected_seconds + (test.clear_seconds if test.clears else 0.0)


def waiting_seconds(tests: Sequence[TestBase], pairs: int) -> float:
    """How long the pods of a round wait for agreed starts at most, from when Launch begins.

    Args:
        tests: the tests that each pair runs.
        pairs: the pairs that load the network together.
    """
    # An agreed start is a whole second.
    return _waits(tests, pairs) + len(tests)


def _waits(tests: Sequence[TestBase], pairs: int) -> float:
    return FIRST_START_SECONDS + pairs / PODS_PER_SECOND + NEXT_START_SECONDS * (len(tests) - 1)


def round_seconds(
    tests: Sequence[TestBase], pairs: int, phase: Phase = "measure", *, together: bool = False
) -> float:
    """The expected duration of a round of so many pairs in seconds.

    Args:
        tests: the tests that each pair runs.
        pairs: the pairs that are measured at the same time.
        phase: what is done with workloads among the tests.
        together: whether they start each test at an agreed time.
    """
    more = _SECONDS_PER_TRIAL * max(0, pairs * len(tests) - _TRIALS_OF_A_ROUND)
    if together:
        more += _waits(tests, pairs) - _STARTS_IN_OVERHEAD
    return traffic_seconds(tests, phase) + OVERHEAD_SECONDS_PER_ROUND + more


def servers(pairs: Iterable[Pair]) -> int:
    """On how many nodes the pairs need a server."""
    return len({node for pair in pairs for node in (pair.client, pair.server)})


def servers_seconds(number: int) -> float:
    """How long so many servers take to start, beyond what a run's overhead covers.

    A DaemonSet's controller sends 20 requests a second by default, two for each pod.
    """
    return _SECONDS_PER_SERVER * max(0, number - _SERVERS)


def _item_seconds(item: BlockItem) -> float:
    return round_seconds(item.tests, len(item.pairs), item.phase, together=item.is_together)


def expected_block_seconds(items: Iterable[Item]) -> float:
    """The expected duration of one block in seconds, without the pause before it.

    The rounds of pairs count as long as the longest of them.
    """
    blocks = block_items(items)
    of_pairs = [item for item in blocks if item.workload is None]
    rounds = max(Counter(item.block for item in of_pairs).values(), default=0)
    longest = max((_item_seconds(item) for item in of_pairs), default=0.0)
    others: dict[int, float] = defaultdict(float)
    for item in blocks:
        if item.workload is not None:
            others[item.block] += _item_seconds(item)
    return rounds * longest + max(others.values(), default=0.0)


def expected_run_seconds(items: Iterable[Item], warm_ups: Iterable[Item] = ()) -> float:
    """The expected duration of the whole run in seconds, if no trial has to be repeated.

    Args:
        items: the items that it measures: the schedule, or the first batches of it.
        warm_ups: the warm-up's items, if there is one.
    """
    blocks = block_items(items)
    pairs = [pair for item in blocks for pair in item.pairs]
    trials = sum(len(item.pairs) * len(item.tests) for item in blocks)
    return (
        sum(map(_item_seconds, block_items(warm_ups)))
        + sum(_item_seconds(item) + item.pause_seconds for item in blocks)
        + servers_seconds(servers(pairs))
        + _SECONDS_PER_ANALYZED_TRIAL * max(0, trials - _TRIALS_OF_A_RUN)
        + OVERHEAD_SECONDS_PER_RUN
    )
