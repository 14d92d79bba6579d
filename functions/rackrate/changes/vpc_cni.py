"""A sweep over versions of the VPC CNI: the add-on is updated in place, on the same nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rackrate.changes.base import Value
from rackrate.changes.rollout import AddonChange
from rackrate.measure import addons
from rackrate.measure.addons import Addon
from rackrate.measure.nodes import CNI_DAEMON_SET
from rackrate.resources import Resources


class VpcCni(AddonChange):
    """Another version of the VPC CNI, with its configuration as it is."""

    name = "vpc_cni"
    addon = "vpc-cni"
    program = "the VPC CNI"
    daemon_set = CNI_DAEMON_SET

    def offered(self, installed: Addon, resources: Resources) -> Sequence[str]:
        """The versions for the cluster's Kubernetes version."""
        return addons.versions(resources.eks, self.addon, resources.cluster.version)

    def refusal(self, value: Value, installed: Addon, resources: Resources) -> str:
        """That EKS does not offer a version."""
        kubernetes = resources.cluster.version
        return f"EKS does not offer {value} of the VPC CNI for Kubernetes {kubernetes}"

    def title(self, value: Value | None) -> str:
        """The version."""
        return f"VPC CNI {value}"

    def target(self, installed: Addon, value: str) -> Addon:
        """The add-on in a version."""
        return replace(installed, version=value)
