"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rackrate import schedule
from rackrate.ceilings import InstanceNetwork, arm_limit, instance_network
from rackrate.cluster import Cluster
from rackrate.errors import InvalidPlan, NodesUnavailable
from rackrate.manifests import selector
from rackrate.node_groups import describe, health_issues
from rackrate.nodes import is_ready, node_facts
from rackrate.plan import LEAST_NODES, Plan, check_plan
from rackrate.settings import Arm, Settings
from rackrate.store import RUNNING, Store, now, seconds_between

Json = dict[str, Any]


def plan_run(
    raw: object,
    *,
    run_id: str,
    execution_arn: str,
    settings: Settings,
    cluster: Cluster,
    store: Store,
    eks: Any,
    ec2: Any,
) -> Json:
    """Plans a run.

    Returns:
        What the next states need: keys, counts and estimates.

    Raises:
        InvalidPlan: the user has to change the plan.
        NodesUnavailable: the plan is fine, but nodes are missing and EKS knows why.
    """
    # Nodes that sleep are not woken only to be counted.
    placeholders = settings.idle_scale_to_zero and _asks_for_dry_run(raw)
    if placeholders:
        facts = {arm.name: _placeholder_nodes(eks, settings, arm) for arm in settings.arms}
    else:
        facts = {arm.name: ready_nodes(cluster, arm) for arm in settings.arms}
    counts = {name: len(nodes) for name, nodes in facts.items()}
    try:
        plan = check_plan(raw, stack_arms=settings.arms, nodes=counts, run_id=run_id)
    except InvalidPlan as invalid:
        _blame_node_groups(invalid, settings, counts, cluster, eks)
        raise
    networks = _networks(ec2, [node for arm in plan.arms for node in facts[arm.name]])
    items = schedule.build_schedule(
        tests=plan.tests,
        nodes={arm.name: [node["name"] for node in facts[arm.name]] for arm in plan.arms},
        blocks=plan.blocks,
        pairing=plan.pairing,
        seed=plan.seed,
    )
    arms = [_arm_json(arm, facts[arm.name], networks) for arm in plan.arms]
    estimates = _estimates(plan, items, arms)
    store.put_json(
        run_id,
        "plan.json",
        {
            "run_id": run_id,
            "execution_arn": execution_arn,
            "plan": plan.to_json(),
            "arms": arms,
            "placeholder_nodes": placeholders,
            "image": settings.tool_image,
            "kubernetes_version": cluster.version,
            "estimates": estimates,
        },
    )
    schedule_key = store.put_json(run_id, "schedule.json", items)
    waking = _seconds_so_far(store, run_id) if settings.idle_scale_to_zero else 0.0
    expected = waking + estimates["seconds"]
    _record(store, run_id, execution_arn, plan, items, {**estimates, "seconds": expected}, arms)
    return {
        "run_id": run_id,
        "dry_run": plan.dry_run,
        "schedule_key": schedule_key,
        "blocks": plan.blocks,
        "trials": len(schedule.planned_trials(items)),
        "expected_seconds": estimates["seconds"],
    }


def ready_nodes(cluster: Cluster, arm: Arm) -> list[Json]:
    """The facts of an arm's Ready nodes, by name."""
    nodes = cluster.list("/api/v1/nodes", selector(arm.selector))
    return sorted((node_facts(node) for node in nodes if is_ready(node)), key=lambda f: f["name"])


def _asks_for_dry_run(raw: object) -> bool:
    return isinstance(raw, dict) and raw.get("dry_run") is True


def _placeholder_nodes(eks: Any, settings: Settings, arm: Arm) -> list[Json]:
    """The nodes an arm will have, as far as they can be known while there are none."""
    group = describe(eks, settings.cluster_name, arm.node_group)
    known = {
        "instance_type": None if group is None else group.instance_type,
        "node_group": arm.node_group,
    }
    names = (f"{arm.name}-{number}" for number in range(1, settings.node_count + 1))
    return [{**node_facts({"metadata": {"name": name}}), **known} for name in names]


def _seconds_so_far(store: Store, run_id: str) -> float:
    """What waking the nodes took: the run was recorded when it began."""
    run = store.run(run_id)
    return 0.0 if run is None else seconds_between(run["started_at"], now())


def _blame_node_groups(
    invalid: InvalidPlan,
    settings: Settings,
    counts: Mapping[str, int],
    cluster: Cluster,
    eks: Any,
) -> None:
    """When too few nodes are the only fault, and EKS knows why, it is not the user's mistake."""
    if any("Ready node" not in fault.problem for fault in invalid.faults):
        return
    lacking = [arm for arm in settings.arms if counts[arm.name] < LEAST_NODES]
    names = {name for arm in lacking for name in _node_groups(cluster, arm)}
    complaints = health_issues(eks, settings.cluster_name, sorted(names))
    if complaints:
        raise NodesUnavailable("\n".join([str(invalid), *complaints])) from invalid


def _node_groups(cluster: Cluster, arm: Arm) -> set[str]:
    """The arm's node groups: the stack's, or those its nodes say they are of."""
    if arm.node_group:
        return {arm.node_group}
    nodes = cluster.list("/api/v1/nodes", selector(arm.selector))
    return {name for node in nodes if (name := node_facts(node)["node_group"])}


def _networks(ec2: Any, nodes: Sequence[Json]) -> dict[str, InstanceNetwork]:
    types = sorted({node["instance_type"] for node in nodes if node["instance_type"]})
    if not types:
        return {}
    answer = ec2.describe_instance_types(InstanceTypes=types)
    return {entry["InstanceType"]: instance_network(entry) for entry in answer["InstanceTypes"]}


def _arm_json(arm: Arm, nodes: Sequence[Json], networks: Mapping[str, InstanceNetwork]) -> Json:
    unknown = InstanceNetwork(None, None)
    network = networks.get(nodes[0]["instance_type"] or "", unknown)
    return {
        "name": arm.name,
        "placement": arm.placement,
        "baseline": arm.baseline,
        "node_group": arm.node_group,
        "selector": dict(arm.selector),
        "ena_express": arm.ena_express,
        "network": asdict(network),
        "network_scale": nodes[0]["network_scale"],
        "nodes": list(nodes),
    }


def _estimates(plan: Plan, items: Sequence[Json], arms: Sequence[Json]) -> Json:
    ceilings: dict[str, dict[str, float]] = {}
    for arm in arms:
        for test in plan.tests:
            bound = arm_limit(arm, test.flows)
            if bound is not None:
                ceilings.setdefault(arm["name"], {})[test.name] = bound.bits_per_second
    return {
        "seconds": schedule.expected_run_seconds(items, plan.tests),
        "block_seconds": schedule.expected_block_seconds(items, plan.tests),
        "bytes_per_node": schedule.bytes_per_node(items, plan.tests, ceilings),
    }


def _record(
    store: Store,
    run_id: str,
    execution_arn: str,
    plan: Plan,
    items: Sequence[Json],
    estimates: Json,
    arms: Sequence[Json],
) -> None:
    started_at = now()
    ending = {"finished_at": started_at, "seconds": 0} if plan.dry_run else {}
    store.start_run(
        run_id,
        {
            "status": "dry_run" if plan.dry_run else RUNNING,
            "phase": "planned",
            "started_at": started_at,
            "execution_arn": execution_arn,
            "block": 0,
            "blocks": plan.blocks,
            "seed": plan.seed,
            "lab_scale": arms[0]["network_scale"],
            "expected_seconds": estimates["seconds"],
            "expected_block_seconds": estimates["block_seconds"],
            "trials_planned": len(schedule.planned_trials(items)),
            "trials_measured": 0,
            "trials_failed": 0,
            **ending,
        },
    )
