"""Estimate: how long a planned run takes, what it sends and costs, and which guards would trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackrate import costs, schedule
from rackrate.ceilings import arm_limit, directions_of
from rackrate.plan import Plan
from rackrate.planned_guards import Outlook, planned_guards
from rackrate.pricing import prices

Json = dict[str, Any]


def estimate(
    plan: Plan,
    items: Sequence[Json],
    warm_ups: Sequence[Json],
    arms: Sequence[Json],
    *,
    pricing: Any | None,
    region: str,
) -> Json:
    """What a plan would take; asks nothing but prices, and never fails for want of them.

    Args:
        plan: the plan.
        items: the schedule.
        warm_ups: the warm-up's items, none without one.
        arms: the arms of plan.json, with their nodes and the bandwidth of their instances.
        pricing: a client of the Price List API (`rackrate.pricing.client`), or None to use the
            dated table.
        region: the Region that charges.

    Returns:
        seconds, block_seconds: how long the run and one block take.
        trials: how many are planned.
        bytes_per_node: `sent` and `received` of each node, at most.
        state_transitions: steps that Step Functions bills.
        cost: as `costs.estimate` gives it.
        guards: as `planned_guards` gives them.
    """
    seconds = schedule.expected_run_seconds(items, plan.tests, warm_ups)
    bytes_per_node = _bytes_per_node(plan, items, warm_ups, arms)
    transitions, invocations = costs.steps([*warm_ups, *items])
    usage = costs.Usage(
        seconds=seconds,
        nodes=_nodes_by_type(arms),
        state_transitions=transitions,
        invocations=invocations,
        cross_zone_bytes=_cross_zone_bytes(plan, items, warm_ups, arms),
    )
    found = prices(costs.queries(usage), region=region, pricing=pricing)
    outlook = Outlook(
        arms=arms,
        baseline=plan.baseline,
        tests=plan.tests,
        blocks=plan.blocks,
        items=items,
        seconds=seconds,
        bytes_per_node=bytes_per_node,
    )
    return {
        "seconds": seconds,
        "block_seconds": schedule.expected_block_seconds(items, plan.tests),
        "trials": len(schedule.planned_trials(items)),
        "bytes_per_node": bytes_per_node,
        "state_transitions": transitions,
        "cost": costs.estimate(usage, found, region=region),
        "guards": planned_guards(outlook),
    }


def _limits(plan: Plan, arms: Sequence[Json]) -> dict[str, dict[str, float]]:
    """The limit of one direction of each throughput test on each arm, in bit/s."""
    return {
        arm["name"]: {
            test.name: bound.bits_per_second
            for test in plan.tests
            if (bound := arm_limit(arm, test.flows // directions_of(test))) is not None
        }
        for arm in arms
    }


def _bytes_per_node(
    plan: Plan, items: Sequence[Json], warm_ups: Sequence[Json], arms: Sequence[Json]
) -> dict[str, dict[str, int]]:
    limits = _limits(plan, arms)
    total: dict[str, dict[str, int]] = {}
    for scheduled, tests in ((items, list(plan.tests)), (warm_ups, [plan.tests[0].warm_up()])):
        for node, ways in schedule.bytes_per_node(scheduled, tests, limits).items():
            sums = total.setdefault(node, {"sent": 0, "received": 0})
            for way, amount in ways.items():
                sums[way] += amount
    return dict(sorted(total.items()))


def _cross_zone_bytes(
    plan: Plan, items: Sequence[Json], warm_ups: Sequence[Json], arms: Sequence[Json]
) -> int:
    """The bytes between nodes of different zones, at most; what has no zone crosses none."""
    zones = {node["name"]: node.get("zone") for arm in arms for node in arm["nodes"]}

    def crossing(scheduled: Sequence[Json]) -> list[Json]:
        return [
            {**item, "pairs": [pair for pair in item["pairs"] if _crosses(pair, zones)]}
            for item in scheduled
            if item["kind"] == "block"
        ]

    used = _bytes_per_node(plan, crossing(items), crossing(warm_ups), arms)
    return sum(ways["sent"] for ways in used.values())


def _crosses(pair: Mapping[str, str], zones: Mapping[str, str | None]) -> bool:
    one, other = zones.get(pair["client"]), zones.get(pair["server"])
    return one is not None and other is not None and one != other


def _nodes_by_type(arms: Sequence[Json]) -> dict[str | None, int]:
    """How many nodes of each instance type; arms may share nodes, which count once."""
    types = {node["name"]: node.get("instance_type") for arm in arms for node in arm["nodes"]}
    return {name: list(types.values()).count(name) for name in set(types.values())}
