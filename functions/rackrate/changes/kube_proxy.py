"""A sweep over the modes of kube-proxy: the add-on is reconfigured on the same nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rackrate.changes.base import Value
from rackrate.changes.rollout import AddonChange
from rackrate.measure import addons
from rackrate.measure.addons import Addon
from rackrate.measure.nodes import KUBE_PROXY_DAEMON_SET
from rackrate.resources import Resources

#: The mode of an add-on whose configuration names none.
DEFAULT_MODE = "iptables"
#: A new mode changes only a ConfigMap, which running pods of kube-proxy do not notice, and EKS does
#: not restart them (aws/containers-roadmap#2849). A new annotation does.
ANNOTATION = "rackrate.dev/kube-proxy-mode"


class KubeProxy(AddonChange):
    """Another mode of kube-proxy, which restarts it on every node."""

    name = "kube_proxy"
    addon = "kube-proxy"
    program = "kube-proxy"
    daemon_set = KUBE_PROXY_DAEMON_SET

    def offered(self, installed: Addon, resources: Resources) -> Sequence[str] | None:
        """The modes of the installed version."""
        return addons.allowed_values(resources.eks, installed, "mode")

    def refusal(self, value: Value, installed: Addon, resources: Resources) -> str:
        """That the installed version does not have a mode."""
        return f"kube-proxy {installed.version} of EKS has no mode {value!r}"

    def title(self, value: Value | None) -> str:
        """The mode."""
        return f"kube-proxy in mode {value}"

    def target(self, installed: Addon, value: str) -> Addon:
        """The add-on in a mode; as it is if that is its mode already."""
        now = installed.configuration
        if now.get("mode", DEFAULT_MODE) == value:
            return installed
        annotations = {**now.get("podAnnotations", {}), ANNOTATION: value}
        configuration = {**now, "mode": value, "podAnnotations": annotations}
        return replace(installed, configuration=configuration)
