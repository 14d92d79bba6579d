"""Nodes of another kind in all arms: empty the node groups, update them, then fill them again.

EKS replaces nodes to give them another image or instance type. Like a draw, a step also draws the
placement anew. Otherwise runs of the same value would share a placement, and their differences
would be too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rackrate.changes.base import Made
from rackrate.changes.scaling import PATIENCE_SECONDS, resize_nodes
from rackrate.errors import ChangeFailed
from rackrate.measure.addons import require_no_failure
from rackrate.measure.node_groups import NodeGroup, groups_of
from rackrate.plan.campaign_estimate import DRAW_SECONDS
from rackrate.resources import Resources
from rackrate.times import now, seconds_between
from rackrate_contract.document import Json
from rackrate_text.units import duration

#: The key of a step's progress with the names of the arms that keep their nodes.
KEEP = "keep"
#: How long a step takes, at least and at most. An update of a node group without nodes takes one to
#: five minutes besides the draw. Only second-hand sources have figures for AWS.
RENEWAL_SECONDS = (DRAW_SECONDS[0] + 60.0, DRAW_SECONDS[1] + 300.0)


@dataclass(frozen=True)
class Renewal[T: (int, str)]:
    """What node groups are to have.

    Attributes:
        what: what it is, in words: `the release`.
        targets: the value of each node group, by its name; None leaves it as it is.
        of: the value that a node group has.
        update: asks EKS for another value. Returns the update's id, or None while EKS is busy.
    """

    what: str
    targets: Mapping[str, T | None]
    of: Callable[[NodeGroup], T | None]
    update: Callable[[NodeGroup, T], str | None]


def all_groups(resources: Resources) -> list[NodeGroup]:
    """The node groups of all arms."""
    settings = resources.settings
    return groups_of(resources.eks, settings.cluster_name, settings.arms)


def renew[T: (int, str)](
    progress: Json,
    resources: Resources,
    *,
    renewal: Callable[[], Renewal[T]] | None = None,
    count: int | None = None,
) -> Made:
    """Empty all node groups, update them if asked to, then fill them again.

    Args:
        progress: what the last call returned; at the first call empty, or `KEEP` with the arms
            whose nodes stay, because they are new and nothing was measured on them.
        resources: the stack's resources.
        renewal: returns what they are to have, once they are empty; None leaves them as they are.
        count: the number of nodes of each arm; by default the stack's.

    Raises:
        NodesUnavailable: nodes stay, or do not come back.
        ChangeFailed: EKS refuses the value or fails; the message quotes EKS.
    """
    if "coming" not in progress and "updating" not in progress:
        keep = progress.get(KEEP, [])
        arms = [arm for arm in resources.settings.arms if arm.name not in keep]
        leaving = resize_nodes(dict.fromkeys(arms, 0), progress.get("leaving", {}), resources)
        if not leaving.done:
            return leaving._replace(progress={KEEP: keep, "leaving": leaving.progress})
    if renewal is not None and "coming" not in progress:
        updated = update_groups(renewal(), progress.get("updating", {}), resources)
        if not updated.done:
            return updated._replace(progress={"updating": updated.progress})
    count = resources.settings.node_count if count is None else count
    counts = dict.fromkeys(resources.settings.arms, count)
    resized = resize_nodes(counts, progress.get("coming", {}), resources)
    return resized._replace(progress={"coming": resized.progress})


def update_groups[T: (int, str)](renewal: Renewal[T], progress: Json, resources: Resources) -> Made:
    """Update node groups, all at the same time, and say whether EKS is done.

    A call whose answer got lost is no problem: the next one finds EKS updating, and waits.

    Args:
        renewal: what they are to have.
        progress: what the last call returned; empty at the first call.
        resources: the stack's resources.

    Raises:
        ChangeFailed: EKS refuses or fails, or `PATIENCE_SECONDS` are over.
    """
    since, updates = progress.get("since") or now(), dict(progress.get("updates", {}))
    groups = {
        group: target
        for group in all_groups(resources)
        if (target := renewal.targets.get(group.name)) is not None
    }
    for group, target in groups.items():
        if group.name in updates:
            require_no_failure(
                resources.eks,
                f"the node group {group.name} to {target}",
                name=resources.settings.cluster_name,
                nodegroupName=group.name,
                updateId=updates[group.name],
            )
        elif renewal.of(group) != target and not group.is_updating:
            begun = renewal.update(group, target)
            if begun is not None:
                updates[group.name] = begun
    have = sum(
        renewal.of(each) == target and not each.is_updating for each, target in groups.items()
    )
    phase = f"{have} of {len(groups)} node groups have {renewal.what}"
    if have == len(groups):
        return Made(True, {}, phase)
    seconds = seconds_between(since, now())
    if seconds > PATIENCE_SECONDS:
        complaints = [each for group in groups for each in group.complaints]
        reasons = "\n".join(complaints or ["EKS reports no health issue"])
        raise ChangeFailed(f"{phase} after {duration(seconds)}\n{reasons}")
    return Made(False, {"since": since, "updates": updates}, phase)
