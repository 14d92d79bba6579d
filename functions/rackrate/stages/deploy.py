"""Deploy: create the run's owner objects and its servers."""

from __future__ import annotations

from rackrate.document import Document
from rackrate.measure import manifests
from rackrate.measure.networks import namespace_of, namespaces
from rackrate.resources import Resources


class Deployed(Document):
    """The objects that were created or already existed."""

    daemon_sets: int


def deploy(run_id: str, execution_arn: str, resources: Resources) -> Deployed:
    """Create the run's owner objects and the DaemonSets of servers; keep those that exist.

    Each namespace has an owner object. Each combination of nodes and server network in the plan's
    arms has a DaemonSet.
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
                tolerations=settings.tolerations,
            ),
        )
    return Deployed(daemon_sets=len(wanted))
