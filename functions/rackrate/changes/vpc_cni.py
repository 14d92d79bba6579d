"""A sweep over versions of the VPC CNI: the add-on is updated in place, on the same nodes."""

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
from rackrate.measure.nodes import CNI_DAEMON_SET
from rackrate.resources import Resources
from rackrate_text.words import listed

ADDON = "vpc-cni"
#: How many versions a fault names.
_VERSIONS_SHOWN = 6


class VpcCni(Change):
    """Another version of the VPC CNI."""

    name = "vpc_cni"
    needs_nodes = True
    seconds = ROLL_OUT_SECONDS

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Versions that EKS does not offer for the cluster's Kubernetes version."""
        eks, settings = resources.eks, resources.settings
        if addons.describe(eks, settings.cluster_name, ADDON) is None:
            return [
                Fault(
                    "sweep.vpc_cni",
                    f"the cluster {settings.cluster_name} has no EKS add-on {ADDON}",
                    "install the VPC CNI as an add-on, or sweep something else",
                )
            ]
        kubernetes = resources.cluster.version
        offered = addons.versions(eks, ADDON, kubernetes)
        return [
            Fault(
                f"sweep.vpc_cni[{index}]",
                f"EKS does not offer {value} of the VPC CNI for Kubernetes {kubernetes}",
                f"use one of {listed(offered, 'or', most=_VERSIONS_SHOWN)}",
            )
            for index, value in enumerate(values)
            if value not in offered
        ]

    def title(self, value: Value | None) -> str:
        """The version."""
        return f"VPC CNI {value}"

    def before(self, resources: Resources) -> Json:
        """The add-on's version and configuration."""
        return settings_before(ADDON, resources)

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Update the add-on with its configuration as it is.

        Raises:
            ChangeFailed: EKS refuses or fails, or the nodes do not get it in time.
        """
        wanted = replace(installed(ADDON, resources), version=str(value))
        return roll_out(wanted, CNI_DAEMON_SET, progress, resources)

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the version and the configuration back."""
        return put_back(ADDON, CNI_DAEMON_SET, before, resources)
