"""Deploy: create the run's owner objects, servers and workloads, and recreate what is missing."""

from __future__ import annotations

from collections.abc import Mapping

from rackrate.errors import ClusterUnreachable, ServersNotReady
from rackrate.measure import manifests, members
from rackrate.measure.holders import hold
from rackrate.measure.manifests import Owner
from rackrate.measure.networks import namespace_of, namespaces
from rackrate.plan.planned_run import PlannedRun
from rackrate.resources import Resources
from rackrate.settings import StackArm
from rackrate.stages.run.teardown import delete_owners, execution_of, has_ended
from rackrate_contract.arms import Network
from rackrate_contract.document import Document, Json


class Deployed(Document):
    """The objects that were created or already existed."""

    daemon_sets: int
    members: int = 0
    """The pods of the members of workloads."""


def deploy(run_id: str, resources: Resources) -> Deployed:
    """Create the run's owner objects, DaemonSets of servers and members; keep those that exist.

    Each namespace has an owner object. Each combination of nodes and server network in the plan's
    arms has a DaemonSet, and so have the load nodes. Each member of a workload is a pod.

    Where the namespace or the rights in it are missing it creates nothing. Await servers then has
    them recreated, and creates what is missing.

    Raises:
        ClusterUnreachable: what is left of a deleted owner object is still being deleted.
        ServersNotReady: the run's execution has ended.
    """
    planned = resources.store.runs.plan(run_id)
    resources.store.runs.update(run_id, phase="starting servers")
    try:
        complete = make_servers(planned, resources)
    except ClusterUnreachable as error:
        if error.access_lost:
            return Deployed(daemon_sets=0)
        raise
    if not complete:
        raise ClusterUnreachable("what the run's deleted owner object owned is still there")
    return Deployed(
        daemon_sets=len(_daemon_sets(planned, resources)),
        members=sum(test.member_count for test, _ in members.of_plan(planned)),
    )


def make_servers(planned: PlannedRun, resources: Resources) -> bool:
    """Make what a run needs in the cluster and is not there; the call can be repeated.

    A call that is late must not leave servers of a run that was stopped. So this deletes what it
    made if the execution has ended since. If the execution ends later, teardown finds everything.

    Args:
        planned: the run's plan.
        resources: the stack's resources.

    Returns:
        False while Kubernetes still deletes an owner object, or what belonged to one.

    Raises:
        ServersNotReady: the execution has ended.
    """
    settings, cluster = resources.settings, resources.cluster
    run_id, execution_arn = planned.run_id, planned.execution_arn
    owners = {
        namespace: cluster.create(
            f"/api/v1/namespaces/{namespace}/configmaps",
            manifests.owner(run_id, execution_arn),
        )
        for namespace in namespaces(settings)
    }
    if any("deletionTimestamp" in owner["metadata"] for owner in owners.values()):
        return False
    if settings.nodes_on_demand:
        hold(
            run_id,
            execution_arn,
            planned.plan.node_sets(settings),
            settings,
            cluster,
        )
    complete = True
    # Nobody connects to the pods of load nodes and of arms with an endpoint. Their presence says
    # that their node can run pods.
    serving = {(arm.stack_arm, arm.server_network) for arm in planned.arms if not arm.endpoint}
    for nodes, network in _daemon_sets(planned, resources):
        namespace = namespace_of(network, settings)
        owner = Owner(run_id, owners[namespace]["metadata"]["uid"])
        created = cluster.create(
            f"/apis/apps/v1/namespaces/{namespace}/daemonsets",
            manifests.servers(
                owner=owner,
                nodes=nodes,
                network=network,
                tests=planned.plan.tests if (nodes.name, network) in serving else (),
                image=settings.tool_image,
                tolerations=settings.tolerations,
            ),
        )
        # The garbage collector deletes what belonged to an earlier owner object.
        complete &= created["metadata"]["ownerReferences"][0]["uid"] == owner.uid
    complete &= _make_members(planned, owners, resources)
    if has_ended(execution_of(resources.step_functions, execution_arn)):
        delete_owners(run_id, resources)
        raise ServersNotReady("the run has ended, so it needs no servers any more")
    return complete


def _make_members(planned: PlannedRun, owners: Mapping[str, Json], resources: Resources) -> bool:
    """Make the members of all workloads. Returns whether all belong to the owner object."""
    settings, cluster = resources.settings, resources.cluster
    of_plan = members.of_plan(planned)
    if not of_plan:
        return True
    namespace = namespace_of("pod", settings)
    base = f"/api/v1/namespaces/{namespace}"
    owner = Owner(planned.run_id, owners[namespace]["metadata"]["uid"])
    manifests_of = [(f"{base}/services", members.service(owner))]
    for test, arm in of_plan:
        configured = members.files(owner, test, arm.name)
        manifests_of += [(f"{base}/configmaps", config_map) for config_map in configured]
        pods = members.pods(
            owner=owner,
            test=test,
            arm=arm,
            load_nodes=planned.load_nodes,
            image=settings.tool_image,
            tolerations=settings.tolerations,
        )
        manifests_of += [(f"{base}/pods", pod) for pod in pods]
    created = [cluster.create(path, manifest) for path, manifest in manifests_of]
    return all(each["metadata"]["ownerReferences"][0]["uid"] == owner.uid for each in created)


def _daemon_sets(planned: PlannedRun, resources: Resources) -> list[tuple[StackArm, Network]]:
    """The nodes and the network of each DaemonSet: one for each set of nodes and server network."""
    stack_arms = {arm.name: arm for arm in resources.settings.arms}
    node_sets: list[tuple[StackArm, Network]] = [
        (stack_arms[arm.stack_arm], arm.server_network) for arm in planned.arms
    ]
    if planned.load_nodes and resources.settings.load is not None:
        node_sets.append((resources.settings.load, "pod"))
    return list(dict.fromkeys(node_sets))
