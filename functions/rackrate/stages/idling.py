"""Idle scale to zero: the nodes are there while a run needs them, and at no other time.

Node groups are woken before a run. They are put to rest after it, after an execution that was
stopped, and by the hourly sweep. Runs may overlap: each notes itself in the table before it asks
for nodes, and puts none to rest while another is noted there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rackrate.cluster import Cluster
from rackrate.errors import NodesUnavailable
from rackrate.node_groups import LOST, NodeGroup, describe, resize
from rackrate.plan import check_plan
from rackrate.settings import Arm, Settings
from rackrate.stages.planning import ready_nodes
from rackrate.store import RUNNING, Store, now, seconds_between

Json = dict[str, Any]

#: How long nodes may take from the request until they are Ready.
WAKING_SECONDS = 20 * 60
WAIT_SECONDS = 10
#: How long one call waits for node groups that are just being updated before it leaves them to the
#: sweep.
PATIENCE_SECONDS = 40.0
_POLL_SECONDS = 5.0
#: Step Functions stops a run after two days (`TimeoutSeconds` of the state machine): what the table
#: calls running is not after that.
RUN_LIMIT_SECONDS = 2 * 86_400
RESTING = "putting nodes to rest"


def wake(
    raw: object,
    *,
    run_id: str,
    execution_arn: str,
    settings: Settings,
    connect: Callable[[], Cluster],
    store: Store,
    eks: Any,
) -> Json:
    """Asks for the nodes of a plan's arms; to be called until they are Ready.

    A dry run needs no nodes and is ready at once.

    Returns:
        ready: are they?
        wait_seconds: when to ask again.

    Raises:
        InvalidPlan: the plan cannot be run on the nodes the stack is to have; none was woken.
        NodesUnavailable: a node group reports a new trouble, or the nodes had their time.
    """
    counts = {arm.name: settings.node_count for arm in settings.arms}
    plan = check_plan(
        raw,
        stack_arms=settings.arms,
        nodes=counts,
        host_network=bool(settings.host_namespace),
        run_id=run_id,
    )
    if plan.dry_run:
        return {"ready": True, "wait_seconds": 0}
    groups = [_describe(eks, settings, arm) for arm in plan.stack_arms]
    complaints = [complaint for group in groups for complaint in group.complaints]
    run = store.run(run_id)
    if run is None:
        store.start_run(
            run_id,
            {
                "status": RUNNING,
                "phase": "waking nodes",
                "started_at": now(),
                "execution_arn": execution_arn,
                # A node group that once could not grow stays degraded until it does grow, even
                # with no nodes (aws/containers-roadmap#2326). Only new complaints end the wait.
                "complaints_before": complaints,
            },
        )
    for group in groups:
        if group.desired != settings.node_count:
            resize(
                eks,
                settings.cluster_name,
                group.name,
                desired=settings.node_count,
                maximum=settings.node_count,
            )
    if run is None:
        # Not even if the nodes are there: a run that ends now may have looked into the table before
        # this one was in it, and put them to rest after we looked.
        return {"ready": False, "wait_seconds": WAIT_SECONDS}
    cluster = connect()
    found = [min(settings.node_count, len(ready_nodes(cluster, arm))) for arm in plan.stack_arms]
    wanted = settings.node_count * len(plan.stack_arms)
    applied = all(g.desired == settings.node_count and g.status != "UPDATING" for g in groups)
    if applied and sum(found) == wanted:
        return {"ready": True, "wait_seconds": 0}
    _check_hope(run, complaints, groups, f"{sum(found)} of {wanted} nodes are Ready")
    store.update_run(run_id, {"phase": f"waking nodes, {sum(found)} of {wanted} Ready"})
    return {"ready": False, "wait_seconds": WAIT_SECONDS}


def _describe(eks: Any, settings: Settings, arm: Arm) -> NodeGroup:
    group = describe(eks, settings.cluster_name, arm.node_group)
    if group is None:
        raise NodesUnavailable(f"arm {arm.name}: there is no node group {arm.node_group!r}")
    return group


def _check_hope(
    run: Json, complaints: Sequence[str], groups: Sequence[NodeGroup], progress: str
) -> None:
    """Raises when waiting longer would be in vain."""
    new = [each for each in complaints if each not in run.get("complaints_before", [])]
    seconds = seconds_between(run["started_at"], now())
    if new or any(group.status in LOST for group in groups):
        raise NodesUnavailable("\n".join([progress, *(new or complaints)]))
    if seconds > WAKING_SECONDS:
        reasons = complaints or ["EKS reports no health issue"]
        raise NodesUnavailable("\n".join([f"{progress} after {seconds:.0f} s", *reasons]))


def rest_after(run_id: str, *, settings: Settings, store: Store, eks: Any) -> Json:
    """Puts the nodes to rest after a run whose end is not written yet; see `rest`."""
    # Of two runs that end together, each would wait for the other if it could not see this.
    store.update_run(run_id, {"phase": RESTING})
    return rest(settings=settings, store=store, eks=eks, apart_from={run_id})


def rest(*, settings: Settings, store: Store, eks: Any, apart_from: Collection[str] = ()) -> Json:
    """Scales every node group to zero, unless the stack does not idle or a run needs the nodes.

    Args:
        settings: the stack's.
        store: the store.
        eks: an EKS client.
        apart_from: ids of runs that need no nodes any more, whatever the table says.

    Returns:
        rested: the node groups that have, or will have, no nodes.
        busy: those that were being updated for longer than one call waits.
        needed_by: the runs that need the nodes.
    """
    if not settings.idle_scale_to_zero:
        return {"rested": [], "busy": [], "needed_by": []}
    needed_by = sorted(
        run["run_id"]
        for run in store.running_runs()
        if run["run_id"] not in apart_from and _needs_nodes(run)
    )
    if needed_by:
        return {"rested": [], "busy": [], "needed_by": needed_by}
    deadline = time.monotonic() + PATIENCE_SECONDS
    rested: list[str] = []
    busy: list[str] = []
    for name in (arm.node_group for arm in settings.arms if arm.node_group):
        (rested if _scale_to_zero(eks, settings, name, deadline) else busy).append(name)
    return {"rested": rested, "busy": busy, "needed_by": []}


def _needs_nodes(run: Json) -> bool:
    age = seconds_between(run["started_at"], now())
    return run.get("phase") != RESTING and age < RUN_LIMIT_SECONDS


def _scale_to_zero(eks: Any, settings: Settings, name: str, deadline: float) -> bool:
    while True:
        group = describe(eks, settings.cluster_name, name)
        if group is None or group.desired == 0:
            return True
        if resize(eks, settings.cluster_name, name, desired=0, maximum=settings.node_count):
            return True
        if time.monotonic() + _POLL_SECONDS > deadline:
            return False
        time.sleep(_POLL_SECONDS)
