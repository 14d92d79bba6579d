"""Wake nodes: scale up the node groups of a stack that idles at zero nodes, until nodes are Ready.

Runs may overlap. Each run records itself in the table before it asks for nodes, and `rest_nodes`
scales nothing down while another run is recorded there.
"""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.errors import NodesUnavailable
from rackrate.measure.node_groups import LOST, NodeGroup, describe, resize
from rackrate.measure.nodes import ready_nodes
from rackrate.plan.check import check_plan
from rackrate.resources import Resources
from rackrate.settings import StackArm
from rackrate.stages.await_servers import Readiness
from rackrate.store import RunRecord, now, seconds_between
from rackrate_text.units import duration

#: How long nodes may take to become Ready after the request.
WAKING_SECONDS = 20 * 60
WAIT_SECONDS = 10


def wake_nodes(raw: object, resources: Resources, *, run_id: str, execution_arn: str) -> Readiness:
    """Ask for the nodes of a plan's arms. The state machine calls it until they are Ready.

    A dry run needs no nodes and is ready at once.

    Raises:
        InvalidPlan: the plan cannot run on the stack's nodes; no node was started.
        NodesUnavailable: a node group reports a new health issue, or `WAKING_SECONDS` are over.
    """
    settings, store = resources.settings, resources.store
    plan = check_plan(
        raw,
        stack_arms=settings.arms,
        nodes={arm.name: settings.node_count for arm in settings.arms},
        host_network=bool(settings.host_namespace),
        run_id=run_id,
    )
    if plan.dry_run:
        return Readiness(ready=True, wait_seconds=0)
    arms = [arm for arm in settings.arms if arm.name in plan.stack_arms]
    groups = [_describe(arm, resources) for arm in arms]
    complaints = [complaint for group in groups for complaint in group.complaints]
    run = store.run(run_id)
    if run is None:
        store.start_run(
            run_id,
            "running",
            now(),
            phase="waking nodes",
            execution_arn=execution_arn,
            stack_arms=plan.stack_arms,
            # A node group that failed to grow stays DEGRADED until it grows, even at zero nodes
            # (aws/containers-roadmap#2326). So only new complaints end the wait.
            complaints_before=complaints,
        )
    for group in groups:
        if group.desired != settings.node_count:
            resize(
                resources.eks,
                settings.cluster_name,
                group.name,
                desired=settings.node_count,
                maximum=settings.node_count,
            )
    if run is None:
        # Wait even if the nodes are Ready. A run that ends now may have read the table before this
        # run was recorded, and may still scale the nodes down.
        return Readiness(ready=False, wait_seconds=WAIT_SECONDS)
    cluster = resources.cluster
    found = sum(min(settings.node_count, len(ready_nodes(cluster, arm))) for arm in arms)
    wanted = settings.node_count * len(arms)
    applied = all(g.desired == settings.node_count and g.status != "UPDATING" for g in groups)
    if applied and found == wanted:
        return Readiness(ready=True, wait_seconds=0)
    _check_hope(run, complaints, groups, f"{found} of {wanted} nodes are Ready")
    store.update_run(run_id, phase=f"waking nodes, {found} of {wanted} Ready")
    return Readiness(ready=False, wait_seconds=WAIT_SECONDS)


def _describe(arm: StackArm, resources: Resources) -> NodeGroup:
    group = describe(resources.eks, resources.settings.cluster_name, arm.node_group)
    if group is None:
        raise NodesUnavailable(f"arm {arm.name}: there is no node group {arm.node_group!r}")
    return group


def _check_hope(
    run: RunRecord, complaints: Sequence[str], groups: Sequence[NodeGroup], progress: str
) -> None:
    """Raise NodesUnavailable when further waiting cannot help."""
    new = [each for each in complaints if each not in run.complaints_before]
    seconds = seconds_between(run.started_at, now())
    if new or any(group.status in LOST for group in groups):
        raise NodesUnavailable("\n".join([progress, *(new or complaints)]))
    if seconds > WAKING_SECONDS:
        reasons = complaints or ["EKS reports no health issue"]
        raise NodesUnavailable("\n".join([f"{progress} after {duration(seconds)}", *reasons]))
