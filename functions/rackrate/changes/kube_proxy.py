"""A sweep over the modes of kube-proxy: the add-on is configured anew, on the same nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rackrate.changes.base import Change, Made, Value
from rackrate.changes.rollout import (
    ROLL_OUT_SECONDS,
    installed,
    put_back,
    roll_out,
    settings_before,
)
from rackrate.document import Json
from rackrate.errors import Fault
from rackrate.measure import addons
from rackrate.measure.addons import Addon
from rackrate.measure.nodes import KUBE_PROXY_DAEMON_SET
from rackrate.resources import Resources
from rackrate_text.words import listed

ADDON = "kube-proxy"
#: The mode of an add-on whose configuration names none.
DEFAULT_MODE = "iptables"
#: A new mode changes only a ConfigMap, which running pods of kube-proxy do not notice, and EKS does
#: not restart them (aws/containers-roadmap#2849). A new annotation does.
ANNOTATION = "rackrate.dev/kube-proxy-mode"


class KubeProxy(Change):
    """Another mode of kube-proxy."""

    name = "kube_proxy"
    needs_nodes = True
    seconds = ROLL_OUT_SECONDS

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Modes that the installed version of the add-on does not have."""
        eks, settings = resources.eks, resources.settings
        found = addons.describe(eks, settings.cluster_name, ADDON)
        if found is None:
            return [
                Fault(
                    "sweep.kube_proxy",
                    f"the cluster {settings.cluster_name} has no EKS add-on {ADDON}",
                    "install kube-proxy as an add-on, or sweep something else",
                )
            ]
        modes = addons.allowed_values(eks, found, "mode")
        return [
            Fault(
                f"sweep.kube_proxy[{index}]",
                f"kube-proxy {found.version} of EKS has no mode {value!r}",
                f"use one of {listed(modes, 'or')}",
            )
            for index, value in enumerate(values)
            if modes is not None and value not in modes
        ]

    def title(self, value: Value | None) -> str:
        """The mode."""
        return f"kube-proxy in mode {value}"

    def before(self, resources: Resources) -> Json:
        """The add-on's version and configuration."""
        return settings_before(ADDON, resources)

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Set the mode, and restart kube-proxy on every node.

        Raises:
            ChangeFailed: EKS refuses or fails, or the nodes do not get it in time.
        """
        wanted = _with_mode(installed(ADDON, resources), str(value))
        return roll_out(wanted, KUBE_PROXY_DAEMON_SET, progress, resources)

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the configuration back, which restarts kube-proxy as well."""
        return put_back(ADDON, KUBE_PROXY_DAEMON_SET, before, resources)


def _with_mode(addon: Addon, mode: str) -> Addon:
    """The add-on in a mode; as it is if that is its mode already."""
    now = addon.configuration
    if now.get("mode", DEFAULT_MODE) == mode:
        return addon
    annotations = {**now.get("podAnnotations", {}), ANNOTATION: mode}
    return replace(addon, configuration={**now, "mode": mode, "podAnnotations": annotations})
