"""The estimate of a planned run: its duration, traffic and cost, and the guards that would trip."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rackrate.plan import costs, durations
from rackrate.plan.ceilings import arm_limit
from rackrate.plan.guards import Outlook, planned_guards
from rackrate.plan.items import Item, Pair, block_items, planned_trials, up_to_batch
from rackrate.plan.looks import looks
from rackrate.plan.model import Plan
from rackrate.plan.prices import prices
from rackrate.plan.series import in_series, launches
from rackrate.tools.base import TestBase, Throughput
from rackrate_contract.arms import Arm, Node
from rackrate_contract.document import Document
from rackrate_contract.estimates import AtLeast, Cost, Estimates, Traffic

#: How long a look at the verdicts takes.
OVERHEAD_SECONDS_PER_LOOK = 5.0


class EstimateSummary(Document):
    """The summary of an estimate for the execution's output, which a person reads before a run.

    Its figures are for the most blocks that the run may measure.
    """

    seconds: float
    trials: int
    usd: float | None
    """As far as prices are known; null if none is."""
    at_least: AtLeast | None
    """The same for the fewest blocks."""
    most_bytes_per_node: int
    """The most that any node sends or receives."""
    guards_that_would_trip: tuple[str, ...]
    """In words, each with its remedy."""

    @classmethod
    def of(cls, estimates: Estimates) -> EstimateSummary:
        """The summary of an estimate."""
        return cls(
            seconds=estimates.seconds,
            trials=estimates.trials,
            usd=_known_usd(estimates.cost),
            at_least=estimates.at_least,
            most_bytes_per_node=max(
                (traffic.most for traffic in estimates.bytes_per_node.values()), default=0
            ),
            guards_that_would_trip=tuple(
                "; ".join(filter(None, (guard.text, guard.remedy)))
                for guard in estimates.guards
                if guard.would_trip
            ),
        )


def estimate(
    plan: Plan,
    items: Sequence[Item],
    warm_ups: Sequence[Item],
    arms: Sequence[Arm],
    load_nodes: Sequence[Node] = (),
    *,
    pricing: Any | None,
    region: str,
) -> Estimates:
    """Estimate a plan's duration, traffic and cost. A missing price never makes it fail.

    Args:
        plan: the plan.
        items: the schedule.
        warm_ups: the warm-up's items; empty without a warm-up.
        arms: the plan's arms, with their nodes and the bandwidth of their instances.
        load_nodes: the nodes from which load comes besides.
        pricing: a client of the Price List API (`rackrate.plan.prices.client`), or None to use the
            dated table. It is the only external call.
        region: the Region whose prices apply.
    """
    at = looks(plan.blocks.least, plan.blocks.most)
    often = len(at) if len(at) > 1 else 0  # a fixed number needs no look
    most = _usage(items, warm_ups, arms, load_nodes, looks=often)
    first = up_to_batch(items, 1)
    least = _usage(first, warm_ups, arms, load_nodes, looks=min(often, 1))
    by_query = prices(costs.queries(most), region=region, pricing=pricing)
    bytes_per_node = _bytes_per_node([*items, *warm_ups], arms)
    outlook = Outlook(
        arms=arms,
        baseline=plan.baseline,
        tests=plan.tests,
        blocks=plan.blocks.most,
        items=items,
        seconds=most.seconds,
        most_bytes_of_node={node: traffic.most for node, traffic in bytes_per_node.items()},
        load_nodes=load_nodes,
    )
    return Estimates(
        seconds=most.seconds,
        block_seconds=durations.expected_block_seconds(items),
        trials=len(planned_trials(items)),
        bytes_per_node=bytes_per_node,
        state_transitions=most.state_transitions,
        cost=costs.estimate(most, by_query, region=region),
        guards=tuple(planned_guards(outlook)),
        at_least=AtLeast(
            blocks=at[0],
            seconds=least.seconds,
            trials=len(planned_trials(first)),
            usd=_known_usd(costs.estimate(least, by_query, region=region)),
        ),
    )


def _usage(
    items: Sequence[Item],
    warm_ups: Sequence[Item],
    arms: Sequence[Arm],
    load_nodes: Sequence[Node],
    *,
    looks: int,
) -> costs.Usage:
    """What a run uses that measures these items and looks so often at its verdicts."""
    transitions, invocations = costs.steps(launches([*warm_ups, *items]), looks)
    measuring = block_items(items)
    rounds = [*block_items(warm_ups), *measuring]
    series = in_series(rounds)
    pairs = [pair for item in measuring for pair in item.pairs]
    return costs.Usage(
        seconds=durations.expected_run_seconds(items, warm_ups) + looks * OVERHEAD_SECONDS_PER_LOOK,
        nodes=_nodes_by_type(arms, load_nodes),
        state_transitions=transitions,
        invocations=invocations,
        looks=looks,
        servers_seconds=durations.servers_seconds(durations.servers(pairs)),
        series=len(series),
        pods=sum(len({pair for item in each for pair in item.pairs}) for each in series),
        collected=sum(len(item.trials) for item in rounds),
        analyzed=sum(len(item.trials) for item in measuring),
        cross_zone_bytes=_cross_zone_bytes([*items, *warm_ups], arms),
        endpoints=tuple({arm.endpoint.words: None for arm in arms if arm.endpoint}),
    )


def _known_usd(cost: Cost) -> float | None:
    """The dollars as far as prices are known; None if none is."""
    return round(cost.usd, 4) if any(line.usd is not None for line in cost.lines) else None


def _bytes_per_node(
    items: Iterable[Item],
    arms: Sequence[Arm],
    counts: Callable[[Pair], bool] = lambda _: True,
) -> dict[str, Traffic]:
    """The most bytes that each node sends and receives, if every test runs at its ceiling.

    A test with a rate of its own sends at most that rate. Sent and received bytes are counted
    separately, as EC2's network credits are (the EC2 user guide, "Amazon EC2 instance network
    bandwidth"). Tests of other metrics than throughput count as zero.

    Args:
        items: the items of the schedule and of the warm-up.
        arms: the plan's arms.
        counts: whether a pair counts.
    """
    sent: dict[str, float] = defaultdict(float)
    received: dict[str, float] = defaultdict(float)
    by_name = {arm.name: arm for arm in arms}
    known: dict[tuple[str, bool, frozenset[str]], tuple[float, float]] = {}
    for item in block_items(items):
        tests = frozenset(test.name for test in item.tests)
        for pair in filter(counts, item.pairs):
            # The warm-up's test has the name of the one that it shortens.
            kind = (pair.arm, item.warm_up, tests)
            if kind not in known:
                known[kind] = _bytes_of_pair(by_name[pair.arm], item.tests)
            up, down = known[kind]
            for node, (out, back) in zip(pair.nodes, ((up, down), (down, up)), strict=False):
                sent[node] += out
                received[node] += back
    return {
        node: Traffic(sent=round(sent[node]), received=round(received[node]))
        for node in sorted({*sent, *received})
    }


def _bytes_of_pair(arm: Arm, tests: Iterable[TestBase]) -> tuple[float, float]:
    """The most bytes that a client sends and receives when it runs every test once."""
    up = down = 0.0
    for test in tests:
        if (sent := test.throughput) is None:
            continue
        limit = arm_limit(arm, Throughput(sent.flows)).bits_per_second
        if sent.offered_bits_per_second is not None:
            limit = min(limit, sent.offered_bits_per_second)
        amount = test.expected_seconds * limit / 8
        up += amount if sent.forward else 0.0
        down += amount if sent.reverse else 0.0
    return up, down


def _cross_zone_bytes(items: Iterable[Item], arms: Sequence[Arm]) -> int:
    """The most bytes between nodes in different zones.

    Nodes without a known zone count as in one, unless their arm's pairs are across zones. Endpoints
    are left out.
    """
    zones = {node.name: node.zone for arm in arms for node in arm.nodes}
    across = {arm.name for arm in arms if arm.pairs == "across-zones"}

    def crosses(pair: Pair) -> bool:
        return pair.arm in across or _crosses(pair, zones)

    used = _bytes_per_node(items, arms, crosses)
    return sum(traffic.sent for traffic in used.values())


def _crosses(pair: Pair, zones: Mapping[str, str | None]) -> bool:
    one, other = zones.get(pair.client), zones.get(pair.server)
    return one is not None and other is not None and one != other


def _nodes_by_type(arms: Sequence[Arm], load_nodes: Sequence[Node]) -> dict[str | None, int]:
    """The number of nodes of each instance type; nodes that arms share count once."""
    every = [*(node for arm in arms for node in arm.nodes), *load_nodes]
    types = {node.name: node.instance_type for node in every}
    return dict(Counter(types.values()))
