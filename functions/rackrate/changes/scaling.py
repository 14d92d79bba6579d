"""The numbers of nodes of arms and load nodes: set them, wait for them, and put them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rackrate.changes.base import Made
from rackrate.errors import NodesUnavailable
from rackrate.measure.node_groups import (
    NodeGroup,
    Sizes,
    groups_of,
    new_complaints,
    reasons_of,
    resize,
    sizes_of,
)
from rackrate.measure.nodes import is_ready, node_of, nodes_of, ready_at
from rackrate.resources import Resources
from rackrate.settings import StackArm
from rackrate.times import later, now, seconds_between
from rackrate_contract.capacity import Launch
from rackrate_contract.document import Json
from rackrate_text.launches import lacks_capacity
from rackrate_text.units import duration
from rackrate_text.words import counted

#: How long nodes may take to come or to go. EKS waits up to 15 minutes for a node's pods to leave.
PATIENCE_SECONDS = 25 * 60


def sizes_before(resources: Resources, node_sets: Sequence[StackArm] = ()) -> Json:
    """The sizes of node groups, and the stack's number of nodes, for `put_back`.

    Args:
        resources: the stack's resources.
        node_sets: whose node groups, all with the same number of nodes; by default all arms'.
    """
    node_sets = node_sets or resources.settings.arms
    return {
        "node_count": resources.settings.count_of(node_sets[0]),
        "groups": {group.name: list(group.sizes) for group in _groups(node_sets, resources)},
    }


def resize_nodes(
    counts: Mapping[StackArm, int],
    progress: Json,
    resources: Resources,
    *,
    may_linger: bool = False,
) -> Made:
    """Give arms and load nodes so many nodes, and say whether all are Ready, and since when.

    All change at the same time. The node groups of an arm share its nodes, so that some may have
    none.

    Args:
        counts: the number of nodes of each; with 0 it is done when no node is left.
        progress: what the last call returned; empty at the first call.
        resources: the stack's resources.
        may_linger: whether nodes that are to leave, and take no pods any more, may still be there.

    Raises:
        NodesUnavailable: a node group reports a new health issue, or `PATIENCE_SECONDS` are over.
            It says how the nodes of each arm came.
    """
    groups = _groups(counts, resources)
    by_arm = {each.name: [g for g in groups if g.name in each.node_groups] for each in counts}
    nodes = {each.name: nodes_of(resources.cluster, each) for each in counts}
    progress = progress or {
        "since": now(),
        "complaints_before": [complaint for group in groups for complaint in group.complaints],
        "asked": {
            each.name: count - sum(group.desired for group in by_arm[each.name])
            for each, count in counts.items()
        },
    }
    applied = _apply(counts, groups, resources)
    ready = {name: sum(map(is_ready, of_arm)) for name, of_arm in nodes.items()}
    came = sum(min(count, ready[each.name]) for each, count in counts.items())
    there = came if may_linger else sum(map(len, nodes.values()))
    phase = _phase(there, came, sum(counts.values()))
    launches = tuple(
        _launch(each, asked, nodes[each.name], progress["since"], staying=count - asked)
        for each, count in counts.items()
        # A step that a function of an older rackrate began has not recorded what it asked for.
        if (asked := progress.get("asked", {}).get(each.name, 0)) > 0
    )
    complete = {
        each.name
        for each, count in counts.items()
        if ready[each.name] == count and (may_linger or len(nodes[each.name]) == count)
    }
    if applied and len(complete) == len(counts):
        return Made(True, progress, phase, launches)
    before, seconds = progress["complaints_before"], seconds_between(progress["since"], now())
    hopeless = {name for name, its in by_arm.items() if new_complaints(its, before)}
    # Until all other arms have their nodes: these serve the next step of a campaign, and show how
    # they come.
    is_coming = not hopeless or len(complete | hopeless) < len(counts)
    if seconds <= PATIENCE_SECONDS and is_coming:
        return Made(False, progress, phase)
    complaints = new_complaints(groups, before)
    if not complaints:
        complaints = [complaint for group in groups for complaint in group.complaints]
        phase = f"{phase} after {duration(seconds)}"
    reasons = reasons_of(groups, complaints, resources.autoscaling)
    error = NodesUnavailable("\n".join([phase, *reasons.lines()]))
    error.launches = tuple(_explained(each, by_arm[each.arm], resources) for each in launches)
    raise error


def _apply(
    counts: Mapping[StackArm, int], groups: Sequence[NodeGroup], resources: Resources
) -> bool:
    """Ask for the sizes that node groups do not have. Returns whether all had theirs already."""
    settings = resources.settings
    desired = sizes_of(counts)
    most = sizes_of({each: max(count, settings.count_of(each)) for each, count in counts.items()})
    target = {name: Sizes(0, desired[name], most[name]) for name in desired}
    for group in groups:
        if group.sizes != target[group.name]:
            resize(resources.eks, settings.cluster_name, group.name, target[group.name])
    return all(group.sizes == target[group.name] and not group.is_updating for group in groups)


def _phase(there: int, ready: int, expected: int) -> str:
    """How far nodes have come or gone, in words."""
    if there > expected:
        surplus = there - expected
        return f"{counted(surplus, 'node')} {'is' if surplus == 1 else 'are'} to leave"
    return f"{ready} of {expected} nodes are Ready" if expected else "the last node has left"


def launches_of_creation(node_sets: Iterable[StackArm], resources: Resources) -> list[Launch]:
    """How the nodes came with which the stack was created, of the sets that still have them.

    CloudFormation makes the stack's table after the nodes, and nothing launches others before. They
    are asked for when EKS makes the first of their node groups. A creation that EC2 refused leaves
    no stack, so these launches say how long nodes take, and not how often they come.
    """
    created_at = resources.store.table.created_at
    launches = []
    for node_set in node_sets:
        groups = _groups([node_set], resources)
        asked = sum(group.desired for group in groups)
        since = min(group.created_at for group in groups)
        launch = _launch(node_set, asked, nodes_of(resources.cluster, node_set), since)
        if launch.last_seconds is not None and later(since, launch.last_seconds) <= created_at:
            launches.append(launch)
    return launches


def _launch(
    node_set: StackArm, asked: int, nodes: Sequence[Json], since: str, *, staying: int = 0
) -> Launch:
    """How the nodes of an arm have come so far.

    Args:
        node_set: the arm, or the load nodes.
        asked: how many more nodes were asked for.
        nodes: its nodes, as the API returns them.
        since: when they were asked for.
        staying: how many nodes it had before and keeps.
    """
    ready = [node for node in nodes if is_ready(node)]
    seconds = sorted(_seconds_until_ready(node, since) for node in ready)[staying:]
    first = node_of(ready[0]) if ready else None
    got = min(len(seconds), asked)
    return Launch(
        arm=node_set.name,
        placement=node_set.placement,
        asked=asked,
        got=got,
        began_at=since,
        first_seconds=seconds[0] if seconds else None,
        last_seconds=seconds[-1] if got == asked else None,
        outcome="filled" if got == asked else "failed",
        reasons=(),
        instance_type=first.instance_type if first else None,
        zone=first.zone if first else None,
    )


def _seconds_until_ready(node: Json, since: str) -> float:
    try:
        return max(0.0, seconds_between(since, ready_at(node) or now()))
    except (TypeError, ValueError):  # the node writes the time itself
        return seconds_between(since, now())


def _explained(launch: Launch, groups: Sequence[NodeGroup], resources: Resources) -> Launch:
    """A launch that has come to its end, with the reasons why nodes are missing."""
    if launch.outcome == "filled":
        return launch
    complaints = [complaint for group in groups for complaint in group.complaints]
    reasons = reasons_of(groups, complaints, resources.autoscaling).known
    return launch.model_copy(
        update={
            "outcome": "refused" if any(map(lacks_capacity, reasons)) else "failed",
            "reasons": tuple(reasons),
            "instance_type": launch.instance_type or groups[0].instance_type,
        }
    )


def put_back(before: Json, resources: Resources, node_sets: Sequence[StackArm] = ()) -> Made:
    """Put the sizes of the node groups back.

    If the stack was updated to other numbers of nodes or node groups meanwhile, they get those.

    In a stack that idles at zero they stay as they are, because other runs may wait for the nodes:
    such a stack puts its nodes to rest when no run needs them.

    Args:
        before: what `sizes_before` returned.
        resources: the stack's resources.
        node_sets: what it was asked for; by default all arms.

    Raises:
        NodesUnavailable: EKS refuses.
    """
    phase = "putting back the sizes of the node groups"
    settings = resources.settings
    if settings.idle_scale_to_zero:
        return Made(True, {}, phase)
    node_sets = node_sets or settings.arms
    count = settings.count_of(node_sets[0])
    usual = sizes_of(dict.fromkeys(node_sets, count))
    updated = count != before["node_count"] or usual.keys() != before["groups"].keys()
    done = True
    for group in _groups(node_sets, resources):
        sizes = Sizes(*([usual[group.name]] * 3 if updated else before["groups"][group.name]))
        if group.sizes != sizes:
            resize(resources.eks, settings.cluster_name, group.name, sizes)
        done = done and group.sizes == sizes and not group.is_updating
    return Made(done, {}, phase)


def _groups(node_sets: Iterable[StackArm], resources: Resources) -> list[NodeGroup]:
    return groups_of(resources.eks, resources.settings.cluster_name, node_sets)
