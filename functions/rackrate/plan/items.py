"""The items of a run: which pairs run which tests, in which order. Pure and deterministic.

The same plan, seed and nodes give the same items. Each block has a new random order, so that
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
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, TypeAdapter

from rackrate.plan.fields import Direction, Load
from rackrate.plan.looks import looks
from rackrate.plan.model import Plan
from rackrate.plan.pairing import Edge, Pairing
from rackrate.plan.workloads import pair_tests, places, workloads
from rackrate.registry import AnyTest
from rackrate.tools.base import TestBase
from rackrate.workloads.base import WorkloadTest
from rackrate_contract.arms import Arm, Endpoint, Network, Node, Via
from rackrate_contract.document import Document
from rackrate_contract.trials import TrialKey

#: A batch has one make-up item for this many ordinary items, and at least one.
ITEMS_PER_MAKEUP = 3


#: The most pairs in one item: a ring of 1200 nodes, all at the same time. Step Functions limits a
#: state's input to 256 KiB, which has room for such an item with a third to spare.
MAX_PAIRS_PER_ITEM = 600


#: The most trials in one item. One call of Collect reads, parses and stores them within half of its
#: time and its memory.
MAX_TRIALS_PER_ITEM = 3072


#: What an item does with a workload: it loads its data, or measures it.
Phase = Literal["load", "measure"]


class Pair(Document):
    """An ordered pair of nodes of one arm, and the networks that its pods use."""

    arm: str
    client: str
    """The client's node."""
    server: str
    """The server's node, or the endpoint's name."""
    client_network: Network
    server_network: Network
    via: Via = "pod"
    # Items are so large that a state has no room for nulls.
    endpoint: Annotated[Endpoint | None, Field(exclude_if=lambda value: value is None)] = None
    """What takes the place of the server's node."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes, the client's first; an endpoint is none."""
        return (self.client, self.server) if self.endpoint is None else (self.client,)


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
    def has_agreed_starts(self) -> bool:
        """Whether its tests start at agreed times: they are tests of pairs, and no warm-up."""
        return self.workload is None and not self.warm_up

    @property
    def containers(self) -> dict[str, AnyTest]:
        """Its tests by the names of their containers, which differ in the items of a series."""
        return {self.container(test): test for test in self.tests}

    def container(self, test: TestBase) -> str:
        """The name of a test's container."""
        return test.name if self.workload else f"{test.name}-{self.block}-{self.round}"

    @property
    def trials(self) -> list[TrialKey]:
        """Every trial of the item, pair after pair."""
        return list(self.pair_of)

    @property
    def pair_of(self) -> dict[TrialKey, Pair]:
        """The pair of each trial."""
        return {
            TrialKey(self.block, pair.arm, test.name, pair.client, pair.server): pair
            for pair in self.pairs
            for test in self.tests
        }


class SeriesItem(Document):
    """Items that one launch starts, one after the other; `plan/series.py` puts them together."""

    kind: Literal["series"] = "series"
    progress: str
    batch: int
    pause_seconds: int
    """How long to wait before it."""
    items: tuple[BlockItem, ...]


class MakeupItem(Document):
    """A repetition of lost trials and their partners, chosen when this one starts."""

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


Item = Annotated[BlockItem | SeriesItem | MakeupItem, Field(discriminator="kind")]


_ITEM: TypeAdapter[BlockItem | SeriesItem | MakeupItem] = TypeAdapter(Item)


_ITEMS: TypeAdapter[list[BlockItem | SeriesItem | MakeupItem]] = TypeAdapter(list[Item])


def item_from_json(value: object) -> BlockItem | SeriesItem | MakeupItem:
    """Read an item as the state machine passes it on."""
    return _ITEM.validate_json(json.dumps(value))


def items_from_json(text: str | bytes) -> list[BlockItem | SeriesItem | MakeupItem]:
    """Read a schedule."""
    return _ITEMS.validate_json(text)


def block_items(items: Iterable[Item]) -> list[BlockItem]:
    """The ordinary items, which have trials of their own, also those in series."""
    return [
        each
        for item in items
        if not isinstance(item, MakeupItem)
        for each in (item.items if isinstance(item, SeriesItem) else [item])
    ]


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


def build_schedule(plan: Plan, arms: Sequence[Arm], load_nodes: Sequence[Node] = ()) -> list[Item]:
    """The items of a run in order.

    An item of kind `block` has one round of one block: the tests in their order and the pairs,
    which share no node. An item of kind `makeup` repeats lost trials of one item with their
    partners.

    The items are in batches: the blocks up to the first look, then those up to the next. Each batch
    ends with make-up items of its own. A block's first item has the plan's pause before it.

    The plan's direction decides which node of a pair is the client. `forward`: the node whose name
    sorts first; in a ring, each node towards the next. `reverse`: the other node. `alternate`:
    forward in odd blocks, reverse in even blocks. `both`: each in turn in every block. Towards an
    endpoint the node is always the client.

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


class _Round(NamedTuple):
    """The content of an item."""

    tests: Sequence[TestBase]
    pairs: Sequence[Pair]
    phase: Phase = "measure"


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
    directions: dict[str, Direction] = {
        arm.name: plan.direction if arm.endpoint is None else "forward"
        for group in groups
        for arm in group
    }
    rounds_of = {
        arm: _rounds(groups_of, directions[arm], plan.load, block, plan.seed)
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


def _groups(arms: Sequence[Arm]) -> list[list[Arm]]:
    """The arms in groups, such that arms in different groups share no node and no endpoint."""
    groups: list[list[Arm]] = []
    for arm in sorted(arms, key=lambda arm: arm.name):
        ends = arm.ends
        touching = [g for g in groups if any(ends & other.ends for other in g)]
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


def _pair(arm: Arm, edge: Edge) -> Pair:
    client, server = edge
    return Pair(
        arm=arm.name,
        client=client,
        server=server,
        client_network=arm.client_network,
        server_network=arm.server_network,
        via=arm.via,
        endpoint=arm.endpoint,
    )
