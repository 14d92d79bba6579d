"""Deploy: create the run's owner objects and its servers, and make again what is gone."""

from __future__ import annotations

from rackrate.document import Document
from rackrate.errors import ClusterUnreachable, ServersNotReady
from rackrate.measure import manifests
from rackrate.measure.holders import hold
from rackrate.measure.networks import namespace_of, namespaces
from rackrate.plan.arms import Arm
from rackrate.plan.planned_run import PlannedRun
from rackrate.resources import Resources
from rackrate.stages.teardown import delete_owners, execution_of, has_ended


class Deployed(Document):
    """The objects that were created or already existed."""

    daemon_sets: int


def deploy(run_id: str, execution_arn: str, resources: Resources) -> Deployed:
    """Create the run's owner objects and the DaemonSets of servers; keep those that exist.

    Each namespace has an owner object. Each combination of nodes and server network in the plan's
    arms has a DaemonSet.

    Where the namespace or the rights in it are gone it creates nothing. Await servers then has them
    made again, and creates what is missing.

    Raises:
        ClusterUnreachable: what is left of a deleted owner object is still being deleted.
        ServersNotReady: the run's execution has ended.
    """
    planned = resources.store.plan(run_id)
    resources.store.update_run(run_id, phase="starting servers")
    try:
        made = make_servers(run_id, execution_arn, planned, resources)
    except ClusterUnreachable as error:
        if error.access_lost:
            return Deployed(daemon_sets=0)
        raise
    if not made:
        raise ClusterUnreachable("what the run's deleted owner object owned is still there")
    return Deployed(daemon_sets=len(_daemon_sets(planned)))


def make_servers(
    run_id: str, execution_arn: str, planned: PlannedRun, resources: Resources
) -> bool:
    """Make what a run needs in the cluster and is not there; the call can be repeated.

    A call that is late must not leave servers of a run that was stopped. So this deletes what it
    made if the execution has ended since. If the execution ends later, teardown finds everything.

    Args:
        run_id: the run.
        execution_arn: its execution.
        planned: its plan.
        resources: the stack's resources.

    Returns:
        False while Kubernetes still deletes an owner object, or what belonged to one.

    Raises:
        ServersNotReady: the execution has ended.
    """
    settings, cluster = resources.settings, resources.cluster
    owners = {
        namespace: cluster.create(
            f"/api/v1/namespaces/{namespace}/configmaps", manifests.owner(run_id, execution_arn)
        )
        for namespace in namespaces(settings)
    }
    if any("deletionTimestamp" in owner["metadata"] for owner in owners.values()):
        return False
    if settings.nodes_on_demand:
        hold(run_id, execution_arn, planned.plan.node_sets(settings), settings, cluster)
    complete = True
    for arm in _daemon_sets(planned):
        namespace = namespace_of(arm.server_network, settings)
        uid = owners[namespace]["metadata"]["uid"]
        found = cluster.create(
            f"/apis/apps/v1/namespaces/{namespace}/daemonsets",
            manifests.servers(
                run_id=run_id,
                owner_uid=uid,
                arm=arm,
                tests=planned.plan.tests,
                image=settings.tool_image,
                tolerations=settings.tolerations,
            ),
        )
        # The garbage collector deletes what belonged to an earlier owner object.
        complete &= found["metadata"]["ownerReferences"][0]["uid"] == uid
    if has_ended(execution_of(resources.step_functions, execution_arn)):
        delete_owners(run_id, resources)
        raise ServersNotReady("the run has ended, so it needs no servers any more")
    return complete


def _daemon_sets(planned: PlannedRun) -> list[Arm]:
    """An arm of the plan for each DaemonSet: one for each set of nodes and server network."""
    return list({(arm.stack_arm, arm.server_network): arm for arm in planned.arms}.values())
