"""The changes that a campaign can make, by the field of its input that asks for them."""

from __future__ import annotations

from collections.abc import Mapping

from rackrate.changes.ami_release import AmiRelease
from rackrate.changes.base import Change
from rackrate.changes.draws import NewNodes
from rackrate.changes.instance_type import InstanceType
from rackrate.changes.kube_proxy import KubeProxy
from rackrate.changes.nodes import NodeCount
from rackrate.changes.vpc_cni import VpcCni
from rackrate.plan.campaign import Campaign

#: The change of a campaign that sweeps nothing: each of its steps is a draw.
DRAWS: Change = NewNodes()
_OF_SWEEPS: tuple[Change, ...] = (
    VpcCni(),
    KubeProxy(),
    AmiRelease(),
    InstanceType(),
    NodeCount(),
)
#: The changes of sweeps, by the field of `sweep`.
SWEEPS: Mapping[str, Change] = {change.name: change for change in _OF_SWEEPS}
#: All changes by name.
CHANGES: Mapping[str, Change] = {DRAWS.name: DRAWS, **SWEEPS}


def change_of(campaign: Campaign) -> Change:
    """The change that a campaign of draws or a sweep makes before each of its runs."""
    return DRAWS if campaign.sweep is None else SWEEPS[campaign.sweep.change]
