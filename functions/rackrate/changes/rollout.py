"""The rollout of an EKS add-on: update it in place, and wait until every node runs it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from rackrate.changes.base import Change, Made, Value
from rackrate.errors import ChangeFailed, Fault
from rackrate.measure import addons
from rackrate.measure.addons import Addon, nodes_with_it
from rackrate.resources import Resources
from rackrate.times import now, seconds_between
from rackrate_contract.document import Json
from rackrate_text.units import duration
from rackrate_text.words import listed

#: How long EKS and the DaemonSet may take. A DaemonSet of EKS replaces its pods on a tenth of the
#: nodes at a time.
PATIENCE_SECONDS = 25 * 60
#: How long a step takes, at least and at most: two nodes are quick, hundreds go a tenth at a time.
#: Only second-hand sources have figures for AWS.
ROLL_OUT_SECONDS = (60.0, 300.0)
#: How many values a fault names.
_VALUES_SHOWN = 6


def installed(name: str, resources: Resources) -> Addon:
    """The add-on that the cluster has.

    Raises:
        ChangeFailed: the cluster does not have it as an EKS add-on.
    """
    addon = addons.describe(resources.eks, resources.settings.cluster_name, name)
    if addon is None:
        raise ChangeFailed(f"the cluster {resources.settings.cluster_name} has no add-on {name}")
    return addon


class AddonChange(Change):
    """A change of the settings of an add-on, which is updated in place, on the same nodes."""

    needs_nodes = True
    seconds = ROLL_OUT_SECONDS
    addon: str
    """The add-on's name."""
    program: str
    """The name of its program, for people."""
    daemon_set: str
    """The DaemonSet that it runs on the nodes."""

    @abstractmethod
    def offered(self, installed: Addon, resources: Resources) -> Sequence[str] | None:
        """The values that EKS offers; None if that is not known."""

    @abstractmethod
    def refusal(self, value: Value, installed: Addon, resources: Resources) -> str:
        """What is wrong with a value that EKS does not offer."""

    @abstractmethod
    def target(self, installed: Addon, value: str) -> Addon:
        """The add-on with a value."""

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Values that EKS does not offer."""
        cluster_name = resources.settings.cluster_name
        current = addons.describe(resources.eks, cluster_name, self.addon)
        if current is None:
            return [
                Fault(
                    f"sweep.{self.name}",
                    f"the cluster {cluster_name} has no EKS add-on {self.addon}",
                    f"install {self.program} as an add-on, or sweep something else",
                )
            ]
        offered = self.offered(current, resources)
        if offered is None:
            return []
        return [
            Fault(
                f"sweep.{self.name}[{index}]",
                self.refusal(value, current, resources),
                f"use one of {listed(offered, 'or', most=_VALUES_SHOWN)}",
            )
            for index, value in enumerate(values)
            if value not in offered
        ]

    def before(self, resources: Resources) -> Json:
        """The add-on's version and configuration."""
        current = installed(self.addon, resources)
        return {"version": current.version, "configuration": current.configuration}

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Update the add-on.

        Raises:
            ChangeFailed: EKS refuses or fails, or the nodes do not get it in time.
        """
        target = self.target(installed(self.addon, resources), str(value))
        return roll_out(target, self.daemon_set, progress, resources)

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the version and the configuration back."""
        current = installed(self.addon, resources)
        original = replace(
            current, version=before["version"], configuration=before["configuration"]
        )
        return roll_out(original, self.daemon_set, {}, resources)


def roll_out(target: Addon, daemon_set: str, progress: Json, resources: Resources) -> Made:
    """Update an add-on, and say whether it is active and on every node.

    A call whose answer got lost is no problem: the next one finds EKS updating, and waits.

    Args:
        target: the add-on with the version and the configuration that it is to have.
        daemon_set: the DaemonSet that it runs on the nodes, in the namespace `kube-system`.
        progress: what the last call returned; empty at the first call.
        resources: the stack's resources.

    Raises:
        ChangeFailed: EKS refuses or fails, or `PATIENCE_SECONDS` are over; the message quotes EKS.
    """
    progress = progress or {"since": now()}
    eks, cluster_name = resources.eks, resources.settings.cluster_name
    addon = installed(target.name, resources)
    has_it = (addon.version, addon.configuration) == (target.version, target.configuration)
    if "update" in progress:
        addons.require_no_failure(
            eks,
            f"the add-on {target.name} to {target.version}",
            name=cluster_name,
            addonName=target.name,
            updateId=progress["update"],
        )
    elif addon.status != "UPDATING" and (not has_it or addon.status == "UPDATE_FAILED"):
        update_id = addons.update(eks, cluster_name, target)
        progress = progress if update_id is None else {**progress, "update": update_id}
        return Made(False, progress, f"EKS updates the add-on {target.name}")
    path = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{daemon_set}"
    have, all_nodes = nodes_with_it(resources.cluster.get(path))
    phase = f"the add-on {target.name} is {addon.status}, and {have} of {all_nodes} nodes have it"
    if has_it and addon.status == "ACTIVE" and have == all_nodes:
        return Made(True, progress, phase)
    seconds = seconds_between(progress["since"], now())
    if seconds > PATIENCE_SECONDS:
        reasons = addon.issues or ("EKS reports no health issue",)
        raise ChangeFailed("\n".join([f"{phase} after {duration(seconds)}", *reasons]))
    return Made(False, progress, phase)
