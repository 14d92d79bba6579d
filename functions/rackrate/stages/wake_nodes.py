"""Wake nodes: scale up the node groups of a stack that idles at zero nodes, until nodes are Ready.

A run that waited for a campaign wakes them again, because the campaign may have put them to rest.

Runs may overlap. Each run records itself in the table before it asks for nodes, and `rest_nodes`
scales nothing down while another run is recorded there.
"""

from __future__ import annotations

from rackrate.measure.node_groups import check_hope, groups_of, resize
from rackrate.measure.nodes import ready_nodes
from rackrate.plan.check import check_plan
from rackrate.resources import Resources
from rackrate.stages.await_servers import Readiness
from rackrate.stages.plan import check_campaign
from rackrate.stages.take_lease import held_by_campaign
from rackrate.store import now, seconds_between

#: How long nodes may take to become Ready after the request.
WAKING_SECONDS = 20 * 60
WAIT_SECONDS = 10


def wake_nodes(raw: object, resources: Resources, *, run_id: str, execution_arn: str) -> Readiness:
    """Ask for the nodes of a plan's arms. The state machine calls it until they are Ready.

    A dry run needs no nodes and is ready at once.

    Raises:
        InvalidPlan: the plan cannot run on the stack's nodes, or names a campaign that has not
            started this run; no node was started.
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
    check_campaign(plan, run_id, resources)
    # A campaign takes care of the nodes of its runs.
    if plan.dry_run or plan.campaign is not None:
        return Readiness(ready=True, wait_seconds=0)
    arms = [arm for arm in settings.arms if arm.name in plan.stack_arms]
    groups = groups_of(resources.eks, settings.cluster_name, arms)
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
            complaints_before=complaints,
        )
    if held_by_campaign(plan.stack_arms, run_id, resources):
        # It replaces the nodes or changes their number. Take lease waits until it has ended, and
        # this step is repeated then.
        return Readiness(ready=True, wait_seconds=0)
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
    applied = all(g.desired == settings.node_count and not g.is_updating for g in groups)
    if applied and found == wanted:
        return Readiness(ready=True, wait_seconds=0)
    check_hope(
        groups,
        f"{found} of {wanted} nodes are Ready",
        complaints_before=run.complaints_before,
        seconds=seconds_between(run.leased_at or run.started_at, now()),
        patience_seconds=WAKING_SECONDS,
    )
    store.update_run(run_id, phase=f"waking nodes, {found} of {wanted} Ready")
    return Readiness(ready=False, wait_seconds=WAIT_SECONDS)
