"""The numbers of nodes of arms and load nodes: set them, wait for them, and put them back."""

from __future__ import annotations

from collections.abc import Sequence

from rackrate.changes.base import Made
from rackrate.errors import NodesUnavailable
from rackrate.measure.node_groups import (
    NodeGroup,
    Sizes,
    check_hope,
    groups_of,
    new_complaints,
    reasons_of,
    resize,
    sizes_of,
)
from rackrate.measure.nodes import is_ready, node_of, nodes_of, ready_at
from rackrate.resources import Resources
from rackrate.settings import StackArm
from rackrate.times import now, seconds_between
from rackrate_contract.capacity import Launch
from rackrate_contract.document import Json
from rackrate_text.launches import lacks_capacity
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


def resize_arms(count: int, progress: Json, resources: Resources) -> Made:
    """Give every arm so many nodes; see `resize_nodes`."""
    return resize_nodes(resources.settings.arms, count, progress, resources)


def resize_nodes(
    node_sets: Sequence[StackArm], count: int, progress: Json, resources: Resources
) -> Made:
    """Give arms, or the load nodes, so many nodes, and say whether all are Ready, and since when.

    All change at the same time. The node groups of an arm share its nodes, so that some may have
    none.

    Args:
        node_sets: the arms, or the load nodes.
        count: the number of nodes of each; with 0 it is done when no node is left.
        progress: what the last call returned; empty at the first call.
        resources: the stack's resources.

    Raises:
        NodesUnavailable: a node group reports a new health issue, or `PATIENCE_SECONDS` are over.
            It says how the nodes of each arm came.
    """
    settings = resources.settings
    groups = _groups(node_sets, resources)
    nodes = {each.name: nodes_of(resources.cluster, each) for each in node_sets}
    if not progress:
        complaints = [complaint for group in groups for complaint in group.complaints]
        there_before = {name: len(of_arm) for name, of_arm in nodes.items()}
        progress = {"since": now(), "complaints_before": complaints, "nodes_before": there_before}
    desired = sizes_of(dict.fromkeys(node_sets, count))
    most = sizes_of({each: max(count, settings.count_of(each)) for each in node_sets})
    target = {name: Sizes(0, desired[name], most[name]) for name in desired}
    for group in groups:
        if group.sizes != target[group.name]:
            resize(resources.eks, settings.cluster_name, group.name, target[group.name])
    there = sum(map(len, nodes.values()))
    ready = sum(sum(map(is_ready, of_arm)) for of_arm in nodes.values())
    expected = count * len(node_sets)
    if there > expected:
        surplus = there - expected
        phase = f"{counted(surplus, 'node')} {'is' if surplus == 1 else 'are'} to leave"
    else:
        phase = f"{ready} of {expected} nodes are Ready" if count else "the last node has left"
    applied = all(group.sizes == target[group.name] and not group.is_updating for group in groups)
    begun = (_launch(each, count, nodes[each.name], progress) for each in node_sets)
    launches = [launch for launch in begun if launch is not None]
    complete = {
        name
        for name, of_arm in nodes.items()
        if len(of_arm) == count and all(map(is_ready, of_arm))
    }
    if applied and len(complete) == len(node_sets):
        return Made(True, progress, phase, tuple(launches))
    by_arm = {each.name: [g for g in groups if g.name in each.node_groups] for each in node_sets}
    before, seconds = progress["complaints_before"], seconds_between(progress["since"], now())
    hopeless = {name for name, its in by_arm.items() if new_complaints(its, before)}
    if hopeless and seconds <= PATIENCE_SECONDS and len(complete | hopeless) < len(node_sets):
        # The nodes of the other arms are still coming, and serve the next step.
        return Made(False, progress, phase)
    try:
        check_hope(
            groups,
            phase,
            lambda: resources.autoscaling,
            complaints_before=before,
            seconds=seconds,
            patience_seconds=PATIENCE_SECONDS,
        )
    except NodesUnavailable as error:
        error.launches = tuple(
            _explained(launch, by_arm[launch.arm], resources) for launch in launches
        )
        raise
    return Made(False, progress, phase)


def _launch(node_set: StackArm, count: int, nodes: Sequence[Json], progress: Json) -> Launch | None:
    """How the nodes of an arm have come so far; None if none were asked for.

    Args:
        node_set: the arm, or the load nodes.
        count: how many nodes it is to have.
        nodes: its nodes, as the API returns them.
        progress: what `resize_nodes` recorded when it asked for them.
    """
    # A step that a function of an older rackrate began has not recorded them.
    before = progress.get("nodes_before", {}).get(node_set.name, count)
    asked = count - before
    if asked <= 0:
        return None
    ready = [node for node in nodes if is_ready(node)]
    seconds = sorted(_seconds_until_ready(node, progress["since"]) for node in ready)[before:]
    first = node_of(ready[0]) if ready else None
    got = min(len(seconds), asked)
    return Launch(
        arm=node_set.name,
        placement=node_set.placement,
        asked=asked,
        got=got,
        began_at=progress["since"],
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


def _groups(node_sets: Sequence[StackArm], resources: Resources) -> list[NodeGroup]:
    return groups_of(resources.eks, resources.settings.cluster_name, node_sets)
