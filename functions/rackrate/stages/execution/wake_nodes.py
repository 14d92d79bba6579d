"""Wake nodes: ask for the nodes of a run until they are Ready.

A stack that idles at zero nodes scales its node groups up. In an existing cluster with
`OnDemandNodeCount`, pods ask the cluster's autoscaler for nodes, such as Karpenter.

A run that waited for its lease wakes them again, because a campaign may have put them to rest.

Runs may overlap. Each run records itself in the table before it asks for nodes, and `rest_nodes`
scales nothing down while another run is recorded there.
"""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.changes.scaling import PATIENCE_SECONDS, resize_nodes
from rackrate.errors import NodesUnavailable
from rackrate.measure.holders import hold, is_holding, why_no_node
from rackrate.plan.check import check_plan
from rackrate.resources import Resources
from rackrate.settings import StackArm
from rackrate.stages.execution.take_lease import held_by_campaign
from rackrate.stages.run.await_servers import Readiness
from rackrate.stages.run.plan import check_campaign
from rackrate.times import now, seconds_between
from rackrate_contract.capacity import Launch, how_they_came
from rackrate_contract.document import Json
from rackrate_contract.executions import RunRecord
from rackrate_text.units import duration

WAIT_SECONDS = 10


def wake_nodes(raw: object, resources: Resources, *, run_id: str, execution_arn: str) -> Readiness:
    """Ask for the nodes of a plan's arms, and for the load nodes if it uses them.

    The state machine calls it until they are Ready. A dry run needs no nodes and is ready at once.

    Raises:
        InvalidPlan: the plan cannot run on the stack's nodes, or names a campaign that has not
            started this run; no node was started.
        NodesUnavailable: a node group reports a new health issue, or `PATIENCE_SECONDS` are over.
            The message has the reasons of the node groups, or of the pods that found no node.
    """
    settings = resources.settings
    plan = check_plan(
        raw,
        settings,
        nodes={arm.name: settings.node_count for arm in settings.arms},
        load_nodes=settings.load_node_count,
        run_id=run_id,
        # A cluster that the stack made has IPv4.
        is_ipv6=settings.nodes_on_demand and resources.cluster.is_ipv6,
    )
    check_campaign(plan, run_id, resources)
    if plan.dry_run:
        return Readiness(ready=True, wait_seconds=0)
    arms = plan.node_sets(settings)
    if plan.campaign is not None and not settings.nodes_on_demand:
        # A campaign takes care of the nodes of its runs.
        return Readiness(ready=True, wait_seconds=0)
    run = resources.store.runs.find(run_id)
    if run is None:
        resources.store.runs.start(
            run_id,
            "running",
            now(),
            phase="waking nodes",
            execution_arn=execution_arn,
            stack_arms=tuple(arm.name for arm in arms),
        )
    if settings.nodes_on_demand:
        return _by_pods(arms, run, resources, run_id=run_id, execution_arn=execution_arn)
    return _by_node_groups(arms, run, resources, run_id)


def _by_pods(
    arms: Sequence[StackArm],
    run: RunRecord | None,
    resources: Resources,
    *,
    run_id: str,
    execution_arn: str,
) -> Readiness:
    settings, store, cluster = resources.settings, resources.store, resources.cluster
    holders = hold(run_id, execution_arn, arms, settings, cluster)
    waiting = [pod for pod in holders if not is_holding(pod)]
    if not waiting:
        return Readiness(ready=True, wait_seconds=0)
    progress = f"{len(holders) - len(waiting)} of {len(holders)} nodes are Ready"
    seconds = 0.0 if run is None else seconds_between(run.leased_at or run.started_at, now())
    if seconds > PATIENCE_SECONDS:
        reasons = why_no_node(waiting, settings, cluster) or ["the cluster names no reason"]
        raise NodesUnavailable("\n".join([f"{progress} after {duration(seconds)}", *reasons]))
    store.runs.update(run_id, phase=f"asking for nodes, {progress}")
    return Readiness(ready=False, wait_seconds=WAIT_SECONDS)


def _by_node_groups(
    arms: Sequence[StackArm], run: RunRecord | None, resources: Resources, run_id: str
) -> Readiness:
    settings, runs = resources.settings, resources.store.runs
    if held_by_campaign([arm.name for arm in arms], None, resources):
        # It replaces the nodes or changes their number. Take lease waits until it has ended, and
        # this step is repeated then.
        return Readiness(ready=True, wait_seconds=0)
    progress: Json = {} if run is None else run.waking
    if progress and run is not None and run.leased_at is not None:
        # The nodes have their time again after the wait for the lease.
        is_before = seconds_between(progress["since"], run.leased_at) > 0
        progress = {} if is_before else progress
    launches = () if run is None else run.launches
    try:
        counts = {arm: settings.count_of(arm) for arm in arms}
        woken = resize_nodes(counts, progress, resources, may_linger=True)
    except NodesUnavailable as error:
        if not error.launches:
            raise
        runs.update(run_id, launches=_with(launches, error.launches))
        raise NodesUnavailable(f"{error}\n{how_they_came(error.launches)}") from error
    # Wait even if the nodes are Ready. A run that ends now may have read the table before this run
    # was recorded, and may still scale the nodes down.
    if woken.done and run is not None:
        runs.update(run_id, launches=_with(launches, woken.launches))
        return Readiness(ready=True, wait_seconds=0)
    runs.update(run_id, waking=woken.progress, phase=f"waking nodes, {woken.phase}")
    return Readiness(ready=False, wait_seconds=WAIT_SECONDS)


def _with(launches: Sequence[Launch], more: Sequence[Launch]) -> list[Json]:
    """The launches of a run with more, each once: a function may run twice."""
    each = {(launch.arm, launch.began_at): launch.to_json() for launch in (*launches, *more)}
    return list(each.values())
