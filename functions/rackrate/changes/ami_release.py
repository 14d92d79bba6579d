"""A sweep over the releases of EKS's node images, which is how kernels are compared.

EKS takes a node group to an earlier release too, although the API reference says otherwise (a
change of the EKS user guide: https://github.com/awsdocs/amazon-eks-user-guide/pull/340). What EKS
refuses ends the step with its words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rackrate.changes.base import Change, Made, Value
from rackrate.changes.renewal import RENEWAL_SECONDS, Renewal, all_groups, renew, update_groups
from rackrate.changes.scaling import put_back, sizes_before
from rackrate.errors import Fault
from rackrate.measure.node_groups import update_release
from rackrate.measure.releases import Images, releases
from rackrate.resources import Resources
from rackrate_contract.document import Json
from rackrate_text.words import listed

#: How many releases a fault names.
_RELEASES_SHOWN = 6


class AmiRelease(Change):
    """Another release of the node image in all arms, on new nodes."""

    name = "ami_release"
    needs_nodes = False
    seconds = RENEWAL_SECONDS

    def faults(self, values: Sequence[Value], resources: Resources) -> list[Fault]:
        """Releases that EC2 does not have for the nodes' Kubernetes version and architecture."""
        group = all_groups(resources)[0]
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

    def before(self, resources: Resources) -> Json:
        """The releases and the sizes of the node groups."""
        releases = {group.name: group.release for group in all_groups(resources)}
        return {**sizes_before(resources), "releases": releases}

    def make(self, value: Value | None, progress: Json, resources: Resources) -> Made:
        """Empty all node groups, give them the release, then fill them again; see `renew`."""

        def renewal() -> Renewal[str]:
            target = {group.name: str(value) for group in all_groups(resources)}
            return _to(target, resources)

        return renew(progress, resources, renewal=renewal)

    def undo(self, before: Json, resources: Resources) -> Made:
        """Put the releases and the sizes of the node groups back.

        Raises:
            ChangeFailed: EKS refuses the release.
            NodesUnavailable: EKS refuses a size.
        """
        released = update_groups(_to(before["releases"], resources), {}, resources)
        return put_back(before, resources) if released.done else released


def _to(releases: Mapping[str, str | None], resources: Resources) -> Renewal[str]:
    """Releases for node groups, by their names."""
    return Renewal(
        "the release",
        releases,
        lambda group: group.release,
        lambda group, release: update_release(
            resources.eks, resources.settings.cluster_name, group.name, release
        ),
    )
