"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rackrate.changes.scaling import launches_of_creation
from rackrate.errors import Fault, InvalidPlan, NodesChanged, NodesUnavailable
from rackrate.executions.earlier import check_earlier_runs
from rackrate.executions.store import Store
from rackrate.measure.counters import NAME as COUNTERS
from rackrate.measure.counters import Counters
from rackrate.measure.instance_types import instance_types
from rackrate.measure.launch_templates import instance_type_of
from rackrate.measure.node_groups import describe, sizes_of, why_lacking
from rackrate.measure.nodes import (
    CNI_DAEMON_SET,
    DNS_SERVICE,
    cni,
    dns_nodes,
    is_ready,
    node_of,
    nodes_of,
    ready_nodes,
    system_of,
    untolerated_taints,
)
from rackrate.measure.placement import placed
from rackrate.plan.arms import ArmChoice
from rackrate.plan.capacity import LEAST_NODES
from rackrate.plan.ceilings import instance_network
from rackrate.plan.check import check_plan
from rackrate.plan.claims import architecture_faults, pair_faults, placement_faults, scale_faults
from rackrate.plan.endpoints import resolve
from rackrate.plan.estimate import EstimateSummary, estimate
from rackrate.plan.faults import Faults
from rackrate.plan.items import Item, batch_name, build_schedule, build_warm_up, planned_trials
from rackrate.plan.model import Plan
from rackrate.plan.pairing import Pairing
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.repetitions import paired_trials
from rackrate.plan.replacements import nodes_at
from rackrate.plan.series import launches
from rackrate.resources import Resources
from rackrate.settings import LOAD, StackArm
from rackrate.stages.execution.take_lease import held_by_campaign, name_faults
from rackrate.times import now, seconds_between
from rackrate.workloads.base import Volume, WorkloadTest
from rackrate_contract.arms import Arm, BandwidthWeighting, InstanceNetwork, Node
from rackrate_contract.document import Document, Json
from rackrate_contract.estimates import Estimates
from rackrate_contract.executions import RunRecord, Status
from rackrate_contract.trials import TrialKey
from rackrate_contract.verdicts import OnMetric
from rackrate_text.words import counted, listed

#: The VPC CNI's DaemonSet, which serves all nodes.
CNI_PATH = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{CNI_DAEMON_SET}"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
#: EndpointSlices have random names, so a role could only read those of all Services. Kubernetes
#: keeps the older Endpoints (https://kubernetes.io/blog/2025/04/24/endpoints-deprecation/).
DNS_PATH = f"/api/v1/namespaces/kube-system/endpoints/{DNS_SERVICE}"


class Planned(Document):
    """The part of a plan that the next states need: keys, counts and estimates."""

    run_id: str
    dry_run: bool
    blocks_key: str
    """The items of the first batch of blocks."""
    looks: int
    """After how many batches it looks at its verdicts at most; 1 for a fixed number of blocks."""
    warm_up: bool
    warm_up_key: str
    blocks: int
    """How many it measures at most."""
    trials: int
    expected_seconds: float
    estimate: EstimateSummary


def plan(raw: object, resources: Resources, *, run_id: str, execution_arn: str) -> Planned:
    """Plan a run.

    Args:
        raw: the execution's input.
        resources: the stack's resources.
        run_id: the run.
        execution_arn: its execution.

    Raises:
        InvalidPlan: the user has to change the plan.
        NodesUnavailable: the plan is valid, but nodes are missing and EKS reports why.
        NodesChanged: the run is continued, and nodes on which it has measured are missing.
    """
    store = resources.store
    if (continued := _continue(run_id, resources)) is not None:
        return continued
    placeholders = _needs_no_nodes(raw, resources)
    nodes = _placeholders(resources) if placeholders else _existing_nodes(resources)
    checked = _check(raw, nodes, resources, run_id)
    earlier, earlier_baseline = check_earlier_runs(checked, store)
    checked = checked.model_copy(update={"compare_with": earlier})
    asks_dns = any(test.uses_cluster_dns for test in checked.tests) and not placeholders
    laid_out = lay_out(checked, nodes, resources, placeholders=placeholders)
    planned = PlannedRun.from_fields(
        laid_out,
        run_id=run_id,
        execution_arn=execution_arn,
        plan=checked,
        # The plan itself stores the runs' ids, because the name may stand for other runs later.
        compare_with_baseline=earlier_baseline,
        metrics=compared_metrics(checked),
        dns_nodes=dns_nodes(resources.cluster.peek(DNS_PATH)) if asks_dns else None,
        placeholder_nodes=placeholders,
        image=resources.settings.tool_image,
        kubernetes_version=resources.cluster.version,
    )
    batches = _put(planned, laid_out.items, laid_out.warm_ups, store)
    _record(
        planned,
        seconds=planned.estimates.seconds,
        trials=len(planned_trials(batches[0])),
        resources=resources,
    )
    return _summary(planned, len(batches), store)


def _check(
    raw: object, nodes: Mapping[str, Sequence[Node]], resources: Resources, run_id: str
) -> Plan:
    """The plan, checked against the stack, its nodes and its cluster."""
    settings = resources.settings
    check_apart(nodes)
    counts = {name: len(nodes_of_set) for name, nodes_of_set in nodes.items()}
    try:
        checked = check_plan(
            raw,
            settings,
            nodes=counts,
            run_id=run_id,
            load_nodes=len(nodes.get(LOAD, ())),
            is_ipv6=resources.cluster.is_ipv6,
        )
    except InvalidPlan as invalid:
        _blame_nodes(invalid, counts, resources)
        _blame_node_groups(invalid, counts, resources)
        raise
    check_storage_classes(checked, resources)
    check_campaign(checked, run_id, resources)
    return checked


def _put(
    planned: PlannedRun, items: Sequence[Item], warm_ups: Sequence[Item], store: Store
) -> list[list[Item]]:
    """Store a plan and its items. Returns the items of each batch."""
    run_id = planned.run_id
    store.runs.put(run_id, "plan.json", planned)
    store.runs.put_items(run_id, "schedule.json", items)
    batches = [list(batch) for _, batch in itertools.groupby(items, key=lambda item: item.batch)]
    if not planned.plan.dry_run:
        store.runs.put(run_id, COUNTERS, Counters.not_read())
        for number, batch in enumerate(batches, start=1):
            store.runs.put_items(run_id, batch_name(number), launches(batch))
    if warm_ups:
        store.runs.put_items(run_id, "warm_up.json", warm_ups)
    return batches


def _summary(planned: PlannedRun, looks: int, store: Store) -> Planned:
    """What the next states need of a plan with so many batches."""
    run_id, plan, estimates = planned.run_id, planned.plan, planned.estimates
    return Planned(
        run_id=run_id,
        dry_run=plan.dry_run,
        blocks_key=store.runs.key(run_id, batch_name(1)),
        looks=looks,
        warm_up=plan.has_block_0,
        warm_up_key=store.runs.key(run_id, "warm_up.json"),
        blocks=plan.blocks.most,
        trials=estimates.trials,
        expected_seconds=estimates.seconds,
        estimate=EstimateSummary.of(estimates),
    )


# -- a run that is continued


def _continue(run_id: str, resources: Resources) -> Planned | None:
    """Keep the plan of a run whose execution was redriven, and the trials that stay paired.

    Returns:
        None for a run that is not continued, or that has measured nothing yet and is planned again.

    Raises:
        NodesChanged: nodes on which it measured last are missing.
    """
    store = resources.store
    run = store.runs.find(run_id)
    if run is None or not run.redrives:
        return None
    planned = store.runs.find_document(run_id, "plan.json", PlannedRun)
    stay: set[TrialKey] = set()
    items: list[Item] = []
    if planned is not None and not planned.plan.dry_run:
        items = store.runs.items(run_id)
        stay = paired_trials(items, store.trials.states(run_id))
    if planned is None or not stay:
        store.trials.forget(run_id, apart_from=())
        store.runs.forget_replacements(run_id)
        return None
    _check_same_nodes(planned, run, resources)
    store.trials.forget(run_id, apart_from=stay)
    first = [item for item in items if item.batch == 1]
    left = 1 - len(stay) / max(len(planned_trials(items)), 1)
    _record(
        planned,
        seconds=planned.estimates.seconds * left,
        trials=len(planned_trials(first)),
        measured=len(stay),
        resources=resources,
    )
    return _summary(planned, max(item.batch for item in items), store)


def _check_same_nodes(planned: PlannedRun, run: RunRecord, resources: Resources) -> None:
    """Check that the instances on which a run measured last are still nodes of its arms.

    They need not be Ready: Await servers waits for them, and says which one does not come back.
    """
    existing = {
        (node_of(node).name, node_of(node).instance_id)
        for node_set in resources.settings.node_sets
        for node in nodes_of(resources.cluster, node_set)
        if "deletionTimestamp" not in node["metadata"]
    }
    replaced = nodes_at(run.replacements)
    measured_on = {
        (current.name, current.instance_id)
        for nodes in (*(arm.nodes for arm in planned.arms), planned.load_nodes)
        for current in (replaced.get(node.name, node) for node in nodes)
    }
    missing = sorted(name for name, _ in measured_on - existing)
    if missing:
        raise NodesChanged(
            f"the run {planned.run_id} cannot go on: it measured on {listed(missing)}, which"
            f" {'is' if len(missing) == 1 else 'are'} gone, and other nodes are a new draw; start"
            " a new run with its plan"
        )


class LaidOut(NamedTuple):
    """A plan laid out on nodes.

    Attributes:
        arms: its arms with their nodes.
        load_nodes: the stack's load nodes, if the plan uses them.
        items: the schedule.
        warm_ups: the warm-up's items.
        estimates: its duration, traffic and cost.
    """

    arms: tuple[Arm, ...]
    load_nodes: tuple[Node, ...]
    items: list[Item]
    warm_ups: list[Item]
    estimates: Estimates


def lay_out(
    plan: Plan,
    nodes: Mapping[str, Sequence[Node]],
    resources: Resources,
    *,
    placeholders: bool,
) -> LaidOut:
    """Lay a checked plan out on nodes.

    Args:
        plan: the plan.
        nodes: the nodes of each of the stack's arms, and its load nodes, by their names.
        resources: the stack's resources.
        placeholders: whether the nodes are not there yet.

    Raises:
        InvalidPlan: an arm is not what it claims to be.
    """
    arms = _arms(plan, nodes, resources, placeholders=placeholders)
    whereabouts = {arm.name: arm.whereabouts for arm in resources.settings.arms}
    faults = placement_faults(arms, whereabouts)
    faults = [*scale_faults(arms), *architecture_faults(arms, plan.tests), *faults]
    if faults := [*faults, *pair_faults(arms, Pairing.of(plan.pairing), whereabouts)]:
        raise InvalidPlan(faults)
    uses_load_nodes = resources.settings.load in plan.node_sets(resources.settings)
    load_nodes = tuple(nodes[LOAD]) if uses_load_nodes else ()
    items = build_schedule(plan, arms, load_nodes)
    warm_ups = build_warm_up(plan, arms, load_nodes)
    estimates = estimate(
        plan, items, warm_ups, arms, load_nodes, pricing=resources.pricing, region=resources.region
    )
    return LaidOut(arms, load_nodes, items, warm_ups, estimates)


def check_storage_classes(plan: Plan, resources: Resources) -> None:
    """Check that the cluster has the storage classes of the workloads' volumes.

    Raises:
        InvalidPlan: it lacks one.
    """
    requested = {
        f"tests[{index}].storage.storage_class": test.storage.storage_class
        for index, test in enumerate(plan.tests)
        if isinstance(test, WorkloadTest) and isinstance(test.storage, Volume)
    }
    if not requested:
        return
    existing = sorted(each["metadata"]["name"] for each in resources.cluster.list(STORAGE_CLASSES))
    remedy = (
        f"write {listed(existing, 'or')}" if existing else "install a storage driver with a class"
    )
    faults = [
        Fault(path, f"the cluster has no storage class {name!r}", f"{remedy}, or use 'node'")
        for path, name in requested.items()
        if name not in existing
    ]
    if faults:
        raise InvalidPlan(faults)


def check_campaign(plan: Plan, run_id: str, resources: Resources) -> None:
    """Check that the campaign that the plan names has started this run.

    Raises:
        InvalidPlan: it has not, or the plan names none and a campaign has the run's id.
    """
    if plan.campaign is None:
        if faults := name_faults(resources.store.campaigns.find(run_id)):
            raise InvalidPlan(faults)
        return
    campaign = resources.store.campaigns.find(plan.campaign)
    if campaign is None or not campaign.is_running or campaign.step_run_id != run_id:
        problem = f"the campaign {plan.campaign!r} has not started this run"
        raise InvalidPlan([Fault("campaign", problem, "leave it out; a campaign writes it itself")])


def compared_metrics(plan: Plan) -> tuple[OnMetric, ...]:
    """The metrics that the run will compare.

    A client that waits for a verdict on another metric can stop at once.
    """
    return tuple(
        OnMetric(test=test.name, metric=metric.name, unit=metric.unit, better=metric.better)
        for test in plan.tests
        for metric in test.metrics
    )


# -- nodes and arms


def _existing_nodes(resources: Resources) -> dict[str, list[Node]]:
    """The Ready nodes of each of the stack's arms, and its load nodes, with what EC2 says."""
    settings, cluster = resources.settings, resources.cluster
    ready = {
        node_set.name: ready_nodes(cluster, node_set, settings.tolerations)
        for node_set in settings.node_sets
    }
    every = {node.name: node for nodes in ready.values() for node in nodes}
    with_placement = {node.name: node for node in placed(resources.ec2, list(every.values()))}
    return {arm: [with_placement[node.name] for node in nodes] for arm, nodes in ready.items()}


def _placeholders(resources: Resources) -> dict[str, list[Node]]:
    """Stand-ins for the nodes of each of the stack's arms, and for its load nodes."""
    settings = resources.settings
    return {
        node_set.name: placeholder_nodes(node_set, settings.count_of(node_set), resources)
        for node_set in settings.node_sets
    }


def _needs_no_nodes(raw: object, resources: Resources) -> bool:
    """Whether to plan with stand-ins for nodes.

    A dry run starts no nodes. While a campaign holds the
    nodes, it replaces them; a run that waits for its end is planned again then.
    """
    fields: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    starts_nodes = resources.settings.idle_scale_to_zero or resources.settings.nodes_on_demand
    if starts_nodes and fields.get("dry_run") is True:
        return True
    if not resources.settings.owns_nodes:
        return False
    arms = [arm.name for arm in resources.settings.arms]
    return held_by_campaign(arms, fields.get("campaign"), resources)


def placeholder_nodes(
    arm: StackArm, count: int, resources: Resources, instance_type: str | None = None
) -> list[Node]:
    """Stand-ins for the nodes that an arm will have, with the facts that are known beforehand.

    Args:
        arm: the stack's arm, or the load nodes.
        count: how many it will have.
        resources: the stack's resources.
        instance_type: the type that they will have; by default that of the arm's node groups.
    """
    cluster_name = resources.settings.cluster_name
    sizes = sizes_of({arm: count})
    groups = {name: describe(resources.eks, cluster_name, name) for name in sizes}
    types = {
        name: instance_type or (None if group is None else instance_type_of(resources.ec2, group))
        for name, group in groups.items()
    }
    of_nodes: list[str | None] = [name for name, size in sizes.items() for _ in range(size)]
    return [
        Node(
            name=f"{arm.name}-{number}",
            instance_type=None if name is None else types[name],
            node_group=name,
        )
        for number, name in enumerate(of_nodes or [None] * count, start=1)
    ]


def check_apart(nodes: Mapping[str, Sequence[Node]]) -> None:
    """Check that no node is in two of the stack's arms, or in an arm and a load node.

    Args:
        nodes: the nodes of each arm, and the load nodes, by their names.

    Raises:
        InvalidPlan: some are.
    """
    for one, other in itertools.combinations(nodes, 2):
        names = {node.name for node in nodes[one]} & {node.name for node in nodes[other]}
        if names:
            shown = listed(sorted(names)[:3], "and")
            problem = f"{one} and {other} share {counted(len(names), 'node')}, such as {shown}"
            selectors = listed([f"{name.capitalize()}Selector" for name in (one, other)], "or")
            selectors = selectors.replace("LoadSelector", "LoadNodeSelector")
            remedy = f"change the stack's {selectors} so that they differ"
            raise InvalidPlan([Fault("arms", problem, remedy)])


def _blame_nodes(invalid: InvalidPlan, counts: Mapping[str, int], resources: Resources) -> None:
    """Raise the error with one more fault for each arm whose nodes do not take the pods.

    They have other taints, or another operating system.
    """
    settings = resources.settings
    faults = Faults(invalid.faults)
    for arm in settings.arms:
        if counts[arm.name] >= LEAST_NODES or not any("Ready node" in f.problem for f in faults):
            continue
        nodes = nodes_of(resources.cluster, arm)
        if others := {*map(system_of, nodes)} - {"linux"}:
            problem = f"nodes of the arm {arm.name!r} run {listed(sorted(others))}, not linux"
            remedy = "update the stack with a selector of this arm that has kubernetes.io/os=linux"
            faults.add("arms", problem, remedy)
        nodes = list(filter(is_ready, nodes))
        taints = {t for node in nodes for t in untolerated_taints(node, settings.tolerations)}
        if taints:
            problem = f"nodes of the arm {arm.name!r} have the taints {', '.join(sorted(taints))}"
            remedy = "update the stack with these in Tolerations, separated by commas"
            faults.add("arms", problem, remedy)
    if len(faults) > len(invalid.faults):
        raise InvalidPlan(faults) from invalid


def _blame_node_groups(
    invalid: InvalidPlan, counts: Mapping[str, int], resources: Resources
) -> None:
    """Raise NodesUnavailable if a lack of nodes is the only fault and its reason is known."""
    if any("Ready node" not in fault.problem for fault in invalid.faults):
        return
    settings = resources.settings
    # Where each arm has a pair, a workload lacks nodes.
    lacking = [arm for arm in settings.arms if counts[arm.name] < LEAST_NODES] or settings.arms
    names = {name for arm in lacking for name in _node_groups(arm, resources)}
    reasons = why_lacking(
        resources.eks, resources.autoscaling, settings.cluster_name, sorted(names)
    )
    if reasons.known:
        raise NodesUnavailable("\n".join([str(invalid), *reasons.lines()])) from invalid


def _node_groups(arm: StackArm, resources: Resources) -> set[str]:
    """The arm's node groups: those in the stack's settings, or those in its nodes' labels."""
    if arm.node_groups:
        return set(arm.node_groups)
    nodes = map(node_of, nodes_of(resources.cluster, arm))
    return set(filter(None, (node.node_group for node in nodes)))


def _arms(
    plan: Plan,
    nodes: Mapping[str, Sequence[Node]],
    resources: Resources,
    *,
    placeholders: bool,
) -> tuple[Arm, ...]:
    """The plan's arms with their nodes and the bandwidth of their instances."""
    used = [node.instance_type for name in plan.stack_arms for node in nodes[name]]
    types = instance_types(resources.ec2, used)
    network_plugin = None if placeholders else cni(resources.cluster.peek(CNI_PATH))
    stack_arms = {arm.name: arm for arm in resources.settings.arms}

    def arm_of(choice: ArmChoice) -> Arm:
        stack_arm, arm_nodes = stack_arms[choice.nodes], nodes[choice.nodes]
        instance = arm_nodes[0].ec2_placement
        # The stack does not set it in a cluster that it did not make.
        weighting = (
            resources.settings.bandwidth_weighting
            if instance is None
            else instance.bandwidth_weighting
        )
        endpoint = choice.endpoint and resolve(choice.endpoint, resources.settings.endpoints)
        return Arm.from_fields(
            choice,
            via="endpoint" if endpoint else choice.via,
            endpoint=endpoint,
            stack_arm=stack_arm.name,
            placement=stack_arm.placement,
            baseline=choice.name == plan.baseline,
            node_groups=stack_arm.node_groups,
            selector=stack_arm.selector,
            ena_express=stack_arm.ena_express,
            network=_network(arm_nodes, types, weighting),
            network_scale=arm_nodes[0].network_scale,
            nodes=tuple(node.model_copy(update={"cni": network_plugin}) for node in arm_nodes),
        )

    return tuple(map(arm_of, plan.arms))


def _network(
    nodes: Sequence[Node], types: Mapping[str, Json], weighting: BandwidthWeighting
) -> InstanceNetwork:
    """The bandwidth of an arm's nodes; unknown if EC2 does not know the type of one of them."""
    named = {node.instance_type for node in nodes if node.instance_type}
    if unknown := sorted(named - types.keys()):
        return InstanceNetwork(unknown_types=tuple(unknown))
    return instance_network(types.get(nodes[0].instance_type or "", {}), weighting)


# -- the run's item


def _record(
    planned: PlannedRun,
    *,
    seconds: float,
    trials: int,
    resources: Resources,
    measured: int = 0,
) -> None:
    """Record the run.

    Args:
        planned: the plan.
        expected_seconds: how long the run takes at most, including the time to wake the nodes.
        trials: the number of trials of the first batch; each look plans those of the next.
        resources: the stack's resources.
        measured: how many trials a run that is continued has measured before.
    """
    started_at, plan = now(), planned.plan
    run = resources.store.runs.find(planned.run_id)
    # It was recorded when it woke the nodes, or when it began to wait.
    so_far = 0.0 if run is None else seconds_between(run.started_at, started_at)
    attributes: Json = {
        "phase": "planned",
        "execution_arn": planned.execution_arn,
        "stack_arms": tuple(each.name for each in plan.node_sets(resources.settings)),
        "block": 0,
        "blocks": plan.blocks.most,
        "next_look": plan.blocks.least,
        "pause_seconds": plan.pause_seconds,
        "seed": plan.seed,
        "lab_scale": planned.arms[0].network_scale,
        "expected_seconds": so_far + seconds,
        "expected_block_seconds": planned.estimates.block_seconds,
        "trials_planned": trials,
        "trials_measured": measured,
        "trials_failed": 0,
    }
    is_stacks_own = resources.settings.owns_nodes and not planned.placeholder_nodes
    if plan.dry_run:
        attributes |= {"finished_at": started_at, "seconds": 0}
    elif is_stacks_own and (run is None or not run.launches):
        came = launches_of_creation(plan.node_sets(resources.settings), resources)
        attributes["launches"] = [launch.to_json() for launch in came]
    status: Status = "dry_run" if plan.dry_run else "running"
    resources.store.runs.start(planned.run_id, status, started_at, **attributes)
