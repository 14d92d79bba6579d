"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from pydantic import ValidationError

from rackrate import schedule, tools
from rackrate.ceilings import InstanceNetwork, instance_network
from rackrate.cluster import Cluster
from rackrate.errors import Fault, InvalidPlan, NodesUnavailable
from rackrate.manifests import selector
from rackrate.node_groups import describe, health_issues
from rackrate.nodes import CNI_DAEMON_SET, cni, is_ready, node_facts
from rackrate.plan import LEAST_NODES, Plan, PlanArm, check_plan
from rackrate.settings import Arm, Settings
from rackrate.stages import counting
from rackrate.stages.estimating import estimate
from rackrate.store import RUNNING, Store, now, seconds_between

Json = dict[str, Any]

#: How a run must have ended for another to be compared with it.
COMPARABLE = frozenset({"succeeded", "degraded"})
#: One for all nodes.
CNI_PATH = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{CNI_DAEMON_SET}"


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
    pricing: Any | None,
    region: str,
) -> Json:
    """Plans a run.

    Args:
        raw: the execution's input.
        run_id: the run.
        execution_arn: its execution.
        settings: the stack's.
        cluster: the cluster.
        store: the store.
        eks: an EKS client.
        ec2: an EC2 client.
        pricing: a client of the Price List API, or None.
        region: the stack's Region.

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
        plan = check_plan(
            raw,
            stack_arms=settings.arms,
            nodes=counts,
            host_network=bool(settings.host_namespace),
            run_id=run_id,
        )
    except InvalidPlan as invalid:
        _blame_node_groups(invalid, settings, counts, cluster, eks)
        raise
    baseline_name = None
    if plan.compare_with is not None:
        earlier_id, baseline_name = check_comparison(plan, plan.compare_with, store)
        plan = replace(plan, compare_with=earlier_id)
    networks = _networks(ec2, [node for arm in plan.stack_arms for node in facts[arm.name]])
    network_plugin = None if placeholders else cni(cluster.peek(CNI_PATH))
    arms = [
        _arm_json(arm, facts[arm.stack_arm.name], networks, network_plugin) for arm in plan.arms
    ]
    items, warm_ups = _schedules(plan, arms)
    estimates = estimate(plan, items, warm_ups, arms, pricing=pricing, region=region)
    store.put_json(
        run_id,
        "plan.json",
        {
            "run_id": run_id,
            "execution_arn": execution_arn,
            "plan": plan.to_json(),
            # The plan has the run's id: the name may stand for another run one day.
            "compare_with_baseline": baseline_name,
            "metrics": _metrics(plan),
            "arms": arms,
            "placeholder_nodes": placeholders,
            "image": settings.tool_image,
            "kubernetes_version": cluster.version,
            "estimates": estimates,
        },
    )
    schedule_key = store.put_json(run_id, "schedule.json", items)
    if not plan.dry_run:
        store.put_json(run_id, counting.NAME, counting.not_read_before())
    warm_up_key = store.key(run_id, "warm_up.json")
    if plan.warm_up:
        store.put_json(run_id, "warm_up.json", warm_ups)
    waking = _seconds_so_far(store, run_id) if settings.idle_scale_to_zero else 0.0
    expected = waking + estimates["seconds"]
    _record(store, run_id, execution_arn, plan, {**estimates, "seconds": expected}, arms)
    return {
        "run_id": run_id,
        "dry_run": plan.dry_run,
        "schedule_key": schedule_key,
        "warm_up": plan.warm_up,
        "warm_up_key": warm_up_key,
        "blocks": plan.blocks,
        "trials": estimates["trials"],
        "expected_seconds": estimates["seconds"],
        "estimate": summary(estimates),
    }


def _metrics(plan: Plan) -> list[Json]:
    """What the run will compare: whoever waits for a verdict can tell at once that none comes."""
    return [
        {
            "test": test.name,
            "metric": metric.name,
            "unit": metric.unit,
            "better": metric.better,
        }
        for test in plan.tests
        for metric in test.metrics
    ]


def check_comparison(plan: Plan, name: str, store: Store) -> tuple[str, str | None]:
    """Can this run be compared with an earlier one?

    Args:
        plan: the run's.
        name: id of the earlier run, or the name of a baseline.
        store: the store.

    Returns:
        The earlier run's id, and the baseline's name if it was named so.

    Raises:
        InvalidPlan: there is no such run, it did not measure, or not the same.
    """

    def refuse(problem: str, remedy: str) -> InvalidPlan:
        return InvalidPlan([Fault("compare_with", problem, remedy)])

    run, baseline = store.named_run(name)
    if run is None:
        raise refuse(
            f"the run of the baseline {name!r} is gone"
            if baseline
            else f"there is no run and no baseline {name!r}",
            "name a run of this stack, or a baseline set in it",
        )
    earlier_id = str(run["run_id"])
    if run["status"] not in COMPARABLE:
        raise refuse(
            f"the run {earlier_id!r} is {run['status']!r}",
            f"name a run that ended {' or '.join(sorted(COMPARABLE))}",
        )
    earlier = store.get_json(earlier_id, "plan.json")
    tests = {test["name"]: _with_defaults(test) for test in earlier["plan"]["tests"]}
    ours = [test.model_dump() for test in plan.tests if test.name in tests]
    if not ours:
        raise refuse(
            f"the run {earlier_id!r} has none of this plan's tests",
            f"use one of {', '.join(tests)}, as it did",
        )
    for test in ours:
        before = tests[test["name"]]
        changed = sorted(
            option for option in before | test if before.get(option) != test.get(option)
        )
        if changed:
            raise refuse(
                f"the run {earlier_id!r} had the test {test['name']!r} with other"
                f" {', '.join(changed)}",
                "give the test the same options, or another name",
            )
    arms = {
        arm["name"]: (arm.get("client_network", "pod"), arm.get("server_network", "pod"))
        for arm in earlier["arms"]
    }
    if not any(arms.get(arm.name) == (arm.client_network, arm.server_network) for arm in plan.arms):
        raise refuse(
            f"the run {earlier_id!r} has none of this plan's arms",
            f"use one of {', '.join(arms)}, in the same networks as there",
        )
    return earlier_id, baseline


def _with_defaults(test: Json) -> Json:
    """A stored test's options: those that its tool has got since had their defaults."""
    try:
        return tools.load_test(test).model_dump()
    except (KeyError, ValidationError):
        return test  # its tool does not take it any more, so it is not the same as any of today's


def summary(estimates: Json) -> Json:
    """What a person wants to know of a plan before it is run, for the execution's output.

    Returns:
        seconds, trials: how long it takes and how many trials it has.
        usd: what it costs in US dollars, as far as prices are known; null if none is.
        most_bytes_per_node: the most that any node sends or receives.
        guards_that_would_trip: in words, each with its remedy.
    """
    cost = estimates["cost"]
    known = any(line["usd"] is not None for line in cost["lines"])
    ways = [way for node in estimates["bytes_per_node"].values() for way in node.values()]
    return {
        "seconds": estimates["seconds"],
        "trials": estimates["trials"],
        "usd": round(cost["usd"], 4) if known else None,
        "most_bytes_per_node": max(ways, default=0),
        "guards_that_would_trip": [
            "; ".join(filter(None, (guard["text"], guard["remedy"])))
            for guard in estimates["guards"]
            if guard["would_trip"]
        ],
    }


def _schedules(plan: Plan, arms: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """The items of the run and of its warm-up, which are none without one."""
    scheduled = [
        schedule.ArmNodes(
            arm["name"],
            tuple(node["name"] for node in arm["nodes"]),
            arm["client_network"],
            arm["server_network"],
        )
        for arm in arms
    ]
    items = schedule.build_schedule(
        tests=plan.tests,
        arms=scheduled,
        blocks=plan.blocks,
        pairing=plan.pairing,
        direction=plan.direction,
        load=plan.load,
        seed=plan.seed,
    )
    if not plan.warm_up:
        return items, []
    return items, schedule.build_warm_up(
        tests=plan.tests,
        arms=scheduled,
        blocks=plan.blocks,
        pairing=plan.pairing,
        seed=plan.seed,
    )


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


def _arm_json(
    arm: PlanArm,
    nodes: Sequence[Json],
    networks: Mapping[str, InstanceNetwork],
    network_plugin: str | None,
) -> Json:
    unknown = InstanceNetwork(None, None)
    network = networks.get(nodes[0]["instance_type"] or "", unknown)
    return {
        "name": arm.name,
        "stack_arm": arm.stack_arm.name,
        "client_network": arm.client_network,
        "server_network": arm.server_network,
        "placement": arm.stack_arm.placement,
        "baseline": arm.stack_arm.baseline,
        "node_group": arm.stack_arm.node_group,
        "selector": dict(arm.stack_arm.selector),
        "ena_express": arm.stack_arm.ena_express,
        "network": asdict(network),
        "network_scale": nodes[0]["network_scale"],
        "nodes": [{**node, "cni": network_plugin} for node in nodes],
    }


def _record(
    store: Store,
    run_id: str,
    execution_arn: str,
    plan: Plan,
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
            "trials_planned": estimates["trials"],
            "trials_measured": 0,
            "trials_failed": 0,
            **ending,
        },
    )
