"""A sweep over the releases of EKS's node images, which is how kernels are compared.

EKS replaces nodes to give them another image. So each step empties all node groups, gives them the
release, and fills them again: like a draw, it also draws the placement anew. Otherwise runs of the
same release would share a placement, and their differences would be too small.

EKS takes a node group to an earlier release too, although the API reference says otherwise (a
change of the EKS user guide: https://github.com/awsdocs/amazon-eks-user-guide/pull/340). What EKS
refuses ends the step with its words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackrate.changes.base import Made, Value
from rackrate.changes.scaling import PATIENCE_SECONDS, put_back, resize_arms, sizes_before
from rackrate.document import Json
from rackrate.errors import ChangeFailed, Fault
from rackrate.measure.node_groups import NodeGroup, groups_of, update_of, update_release
from rackrate.measure.releases import Images, releases
from rackrate.plan.campaign_estimate import DRAW_SECONDS
from rackrate.resources import Resources
from rackrate.store import now, seconds_between
from rackrate_text.units import duration
from rackrate_text.words import listed

#: How long EKS takes besides to update a node group without nodes, at least and at most. Only
#: second-hand sources have figures for AWS.
_UPDATE_SECONDS = (60.0, 300.0)
#: How many releases a fault names.
_RELEASES_SHOWN = 6


class AmiRelease:
    """Another release of the node image in all arms, on new nodes."""

    name = "ami_release"
    needs_nodes = False
    seconds = (DRAW_SECONDS[0] + _UPDATE_SECONDS[0], DRAW_SECONDS[1] + _UPDATE_SECONDS[1])

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Releases that EC2 does not have for the nodes' Kubernetes version and architecture."""
        group = _groups(resources)[0]
        images = Images(group.ami_type, group.kubernetes)
        offered = releases(resources.ec2, images)
        known = listed(offered, "or", most=_RELEASES_SHOWN) or "none"
        return [
            Fault(
                f"sweep.ami_release[{index}]",
                f"EC2 has no image {value} of {group.ami_type} for Kubernetes {group.kubernetes}",
                f"use one of {known}; a release is written like {images.example}",
            )
            for index, value in enumerate(values)
            if value not in offered
        ]

    def title(self, value: Value | None) -> str:
        """The release."""
        return f"AMI release {value}"

    def node_count(self, value: Value | None, usual: int) -> int:
        """There are as many nodes as the stack has."""
        return usual

    def before(self, resources: Resources) -> Json:
        """The releases and the sizes of the node groups."""
        found = {group.name: group.release for group in _groups(resources)}
        return {**sizes_before(resources), "releases": found}

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Empty all node groups, give them the release, then fill them again.

        Raises:
            NodesUnavailable: nodes stay, or do not come back.
            ChangeFailed: EKS refuses the release or fails; the message quotes EKS.
        """
        told = self.title(value)
        if "coming" not in progress and "releasing" not in progress:
            leaving = resize_arms(0, progress.get("leaving", {}), resources)
            if not leaving.done:
                return Made(False, {"leaving": leaving.progress}, f"{told}: {leaving.phase}")
        if "coming" not in progress:
            names = (group.name for group in _groups(resources))
            wanted = dict.fromkeys(names, str(value))
            released = _release(wanted, progress.get("releasing", {}), resources)
            if not released.done:
                return Made(False, {"releasing": released.progress}, f"{told}: {released.phase}")
        count = resources.settings.node_count
        made = resize_arms(count, progress.get("coming", {}), resources)
        return Made(made.done, {"coming": made.progress}, f"{told}: {made.phase}")

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the releases and the sizes of the node groups back.

        Raises:
            ChangeFailed: EKS refuses the release.
            NodesUnavailable: EKS refuses a size.
        """
        released = _release(before["releases"], {}, resources)
        return put_back(before, resources) if released.done else released


def _release(wanted: Mapping[str, str | None], progress: Json, resources: Resources) -> Made:
    """Give node groups their releases, all at the same time, and say whether EKS is done.

    A call whose answer got lost is no problem: the next one finds EKS updating, and waits.

    Args:
        wanted: the release of each node group, by its name; None leaves it as it is.
        progress: what the last call returned; empty at the first call.
        resources: the stack's resources.

    Raises:
        ChangeFailed: EKS refuses or fails, or `PATIENCE_SECONDS` are over.
    """
    eks, cluster_name = resources.eks, resources.settings.cluster_name
    since, updates = progress.get("since") or now(), dict(progress.get("updates", {}))
    groups = [group for group in _groups(resources) if wanted.get(group.name) is not None]
    for group in groups:
        release = wanted[group.name]
        if group.name in updates:
            _check(group, str(release), updates[group.name], resources)
        elif group.release != release and not group.is_updating:
            begun = update_release(eks, cluster_name, group.name, str(release))
            if begun is not None:
                updates[group.name] = begun
    have = sum(group.release == wanted[group.name] and not group.is_updating for group in groups)
    told = f"{have} of {len(groups)} node groups have the release"
    if have == len(groups):
        return Made(True, {}, told)
    seconds = seconds_between(since, now())
    if seconds > PATIENCE_SECONDS:
        complaints = [each for group in groups for each in group.complaints]
        reasons = complaints or ["EKS reports no health issue"]
        raise ChangeFailed("\n".join([f"{told} after {duration(seconds)}", *reasons]))
    return Made(False, {"since": since, "updates": updates}, told)


def _check(group: NodeGroup, release: str, update_id: str, resources: Resources) -> None:
    """Raise ChangeFailed when EKS's update of a node group did not succeed."""
    cluster_name = resources.settings.cluster_name
    update = update_of(resources.eks, cluster_name, group.name, update_id)
    if update.status in ("Failed", "Cancelled"):
        said = f"the update of the node group {group.name} to {release} is {update.status}"
        raise ChangeFailed("\n".join([said, *(update.errors or ("EKS reports no reason",))]))


def _groups(resources: Resources) -> list[NodeGroup]:
    settings = resources.settings
    return groups_of(resources.eks, settings.cluster_name, settings.arms)
