"""The rollout of an EKS add-on: update it in place, and wait until every node runs it."""

from __future__ import annotations

from dataclasses import replace

from rackrate.changes.base import Made
from rackrate.document import Json
from rackrate.errors import ChangeFailed
from rackrate.measure import addons
from rackrate.measure.addons import Addon, nodes_with_it
from rackrate.resources import Resources
from rackrate.store import now, seconds_between
from rackrate_text.units import duration

#: How long EKS and the DaemonSet may take. A DaemonSet of EKS replaces its pods on a tenth of the
#: nodes at a time.
PATIENCE_SECONDS = 25 * 60
#: How long a step takes, at least and at most: two nodes are quick, hundreds go a tenth at a time.
#: Only second-hand sources have figures for AWS.
ROLL_OUT_SECONDS = (60.0, 300.0)


def installed(name: str, resources: Resources) -> Addon:
    """The add-on that the cluster has.

    Raises:
        ChangeFailed: the cluster does not have it as an EKS add-on.
    """
    found = addons.describe(resources.eks, resources.settings.cluster_name, name)
    if found is None:
        raise ChangeFailed(f"the cluster {resources.settings.cluster_name} has no add-on {name}")
    return found


def settings_before(name: str, resources: Resources) -> Json:
    """The version and the configuration of an add-on, for `put_back`."""
    found = installed(name, resources)
    return {"version": found.version, "configuration": found.configuration}


def put_back(name: str, daemon_set: str, before: Json, resources: Resources) -> Made:
    """Give an add-on its earlier version and configuration; raises as `roll_out` does."""
    found = installed(name, resources)
    wanted = replace(found, version=before["version"], configuration=before["configuration"])
    return roll_out(wanted, daemon_set, {}, resources)


def roll_out(wanted: Addon, daemon_set: str, progress: Json, resources: Resources) -> Made:
    """Update an add-on, and say whether it is active and on every node.

    A call whose answer got lost is no problem: the next one finds EKS updating, and waits.

    Args:
        wanted: the add-on with the version and the configuration that it is to have.
        daemon_set: the DaemonSet that it runs on the nodes, in the namespace `kube-system`.
        progress: what the last call returned; empty at the first call.
        resources: the stack's resources.

    Raises:
        ChangeFailed: EKS refuses or fails, or `PATIENCE_SECONDS` are over; the message quotes EKS.
    """
    progress = progress or {"since": now()}
    eks, cluster_name = resources.eks, resources.settings.cluster_name
    found = installed(wanted.name, resources)
    has_it = (found.version, found.configuration) == (wanted.version, wanted.configuration)
    if "update" in progress:
        _check_update(progress["update"], wanted, resources)
    elif found.status != "UPDATING" and (not has_it or found.status == "UPDATE_FAILED"):
        update_id = addons.update(eks, cluster_name, wanted)
        progress = progress if update_id is None else {**progress, "update": update_id}
        return Made(False, progress, f"EKS updates the add-on {wanted.name}")
    path = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{daemon_set}"
    have, all_nodes = nodes_with_it(resources.cluster.get(path))
    told = f"the add-on {wanted.name} is {found.status}, and {have} of {all_nodes} nodes have it"
    if has_it and found.status == "ACTIVE" and have == all_nodes:
        return Made(True, progress, told)
    seconds = seconds_between(progress["since"], now())
    if seconds > PATIENCE_SECONDS:
        reasons = found.issues or ("EKS reports no health issue",)
        raise ChangeFailed("\n".join([f"{told} after {duration(seconds)}", *reasons]))
    return Made(False, progress, told)


def _check_update(update_id: str, wanted: Addon, resources: Resources) -> None:
    """Raise ChangeFailed when EKS's update did not succeed."""
    cluster_name = resources.settings.cluster_name
    update = addons.describe_update(resources.eks, cluster_name, wanted.name, update_id)
    if update.status in ("Failed", "Cancelled"):
        said = f"the update of the add-on {wanted.name} to {wanted.version} is {update.status}"
        raise ChangeFailed("\n".join([said, *(update.errors or ("EKS reports no reason",))]))
