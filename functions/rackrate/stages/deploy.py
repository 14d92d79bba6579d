"""Deploy: create the run's owners and its servers."""

from __future__ import annotations

from rackrate.document import Document
from rackrate.measure import manifests
from rackrate.measure.networks import namespace_of, namespaces
from rackrate.resources import Resources


class Deployed(Document):
    """What was created, or was there already."""

    daemon_sets: int


def deploy(run_id: str, execution_arn: str, resources: Resources) -> Deployed:
    """Creates the run's owners and the DaemonSets of servers; what exists is kept.

    There is an owner in each namespace, and a DaemonSet for each set of nodes and each network of
    which an arm of the plan has its servers.
    """
    settings, cluster = resources.settings, resources.cluster
    planned = resources.store.plan(run_id)
    resources.store.update_run(run_id, phase="starting servers")
    owners = {
        namespace: cluster.create(
            f"/api/v1/namespaces/{namespace}/configmaps", manifests.owner(run_id, execution_arn)
        )
        for namespace in namespaces(settings)
    }
    wanted = {(arm.stack_arm, arm.server_network): arm for arm in planned.arms}
    for arm in wanted.values():
        namespace = namespace_of(arm.server_network, settings)
        cluster.create(
            f"/apis/apps/v1/namespaces/{namespace}/daemonsets",
            manifests.servers(
                run_id=run_id,
                owner_uid=owners[namespace]["metadata"]["uid"],
                arm=arm,
                tests=planned.plan.tests,
                image=settings.tool_image,
            ),
        )
    return Deployed(daemon_sets=len(wanted))
