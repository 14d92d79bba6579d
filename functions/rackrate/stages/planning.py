"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rackrate import schedule
from rackrate.ceilings import InstanceNetwork, instance_network, limit
from rackrate.cluster import Cluster
from rackrate.errors import InvalidPlan, NodesUnavailable
from rackrate.manifests import selector
from rackrate.nodes import is_ready, node_facts
from rackrate.plan import LEAST_NODES, Plan, check_plan
from rackrate.settings import Arm, Settings
from rackrate.store import RUNNING, Store, now

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
    facts = {arm.name: ready_nodes(cluster, arm) for arm in settings.arms}
    counts = {name: len(nodes) for name, nodes in facts.items()}
    try:
        plan = check_plan(raw, stack_arms=settings.arms, nodes=counts, run_id=run_id)
    except InvalidPlan as invalid:
        _blame_node_groups(invalid, settings, counts, eks)
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
            "image": settings.tool_image,
            "kubernetes_version": cluster.version,
            "estimates": estimates,
        },
    )
    schedule_key = store.put_json(run_id, "schedule.json", items)
    _record(store, run_id, execution_arn, plan, items, estimates, arms)
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


def health_issues(eks: Any, cluster_name: str, node_group: str) -> list[str]:
    """What EKS says is wrong with a node group."""
    answer = eks.describe_nodegroup(clusterName=cluster_name, nodegroupName=node_group)
    issues = answer["nodegroup"].get("health", {}).get("issues", [])
    return [f"{issue.get('code')}: {issue.get('message')}" for issue in issues]


def _blame_node_groups(
    invalid: InvalidPlan, settings: Settings, counts: Mapping[str, int], eks: Any
) -> None:
    """When too few nodes are the only fault, and EKS knows why, it is not the user's mistake."""
    if any("Ready node" not in fault.problem for fault in invalid.faults):
        return
    complaints = [
        f"node group {arm.node_group}: {issue}"
        for arm in settings.arms
        if counts[arm.name] < LEAST_NODES
        for issue in health_issues(eks, settings.cluster_name, arm.node_group)
    ]
    if complaints:
        raise NodesUnavailable("\n".join([str(invalid), *complaints])) from invalid


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
        "network": asdict(network),
        "network_scale": nodes[0]["network_scale"],
        "nodes": list(nodes),
    }


def _estimates(plan: Plan, items: Sequence[Json], arms: Sequence[Json]) -> Json:
    ceilings: dict[str, dict[str, float]] = {}
    for arm in arms:
        for test in plan.tests:
            bound = limit(
                flows=test.flows,
                placement=arm["placement"],
                network=InstanceNetwork(**arm["network"]),
                scale=arm["network_scale"],
            )
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
