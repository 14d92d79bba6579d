"""Replacements: other nodes take the places of a plan's nodes that were lost. Pure.

A plan's pairs, and the keys of their trials, name places. A place is called after the node that the
plan found there. So trials of a block keep their keys and their partners when a node is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rackrate.plan.claims import placement_faults
from rackrate_contract.arms import Arm, Node
from rackrate_contract.results import Replacement

#: The most replacements that a run records.
MOST_REPLACEMENTS = 64


def nodes_at(replacements: Iterable[Replacement]) -> dict[str, Node]:
    """The nodes in the places where they were replaced, by place."""
    return {each.place: each.node for each in replacements}


def node_in(
    place: str,
    name: str,
    block: int,
    planned: Mapping[str, Node],
    replacements: Iterable[Replacement],
) -> Node | None:
    """The node of a name that was in a place in a block; None if nobody knows it.

    Args:
        place: the place.
        name: the node's name. A later instance can have the name of an earlier one.
        block: the block.
        planned: the nodes that the plan found, by name.
        replacements: the run's replacements, in the order in which they came.
    """
    here = [each for each in replacements if (each.place, each.node.name) == (place, name)]
    came = [each.node for each in here if each.block <= block]
    if came:
        return came[-1]
    return planned.get(place) if place == name else None


def choose(
    lost: Mapping[str, str],
    candidates: Mapping[str, Sequence[Node]],
    arms: Sequence[Arm],
    before: Sequence[Replacement],
    *,
    block: int,
    at: str,
) -> list[Replacement]:
    """Choose nodes for the places whose nodes are lost, in the order of their names.

    A node fits if it has the instance type and the scale of the place's first node, and its arm
    remains what it claims to be.

    Args:
        lost: why each node is lost, by place.
        candidates: the Ready nodes of each of the stack's arms, with what EC2 says of them.
        arms: the plan's arms.
        before: the run's replacements so far.
        block: the block that is to be measured.
        at: the time.
    """
    there = nodes_at(before)
    planned = {name for arm in arms for name in arm.node_names}
    taken = {there[name].name if name in there else name for name in planned}
    replacements: list[Replacement] = []
    for arm in {arm.stack_arm: arm for arm in arms}.values():
        free = sorted(candidates.get(arm.stack_arm, ()), key=lambda node: node.name)
        for first in arm.nodes:
            if first.name not in lost or len(before) + len(replacements) >= MOST_REPLACEMENTS:
                continue
            new = next(
                (each for each in free if each.name not in taken and _fits(each, first, arm, arms)),
                None,
            )
            if new is None:
                continue
            taken.add(new.name)
            replacements.append(
                Replacement(
                    place=first.name,
                    arm=arm.stack_arm,
                    lost=there.get(first.name, first).name,
                    why=lost[first.name],
                    node=new.model_copy(update={"cni": first.cni}),
                    block=block,
                    at=at,
                )
            )
    return replacements


def _fits(new: Node, first: Node, arm: Arm, arms: Sequence[Arm]) -> bool:
    """Whether a node can take the place that the plan gave to another node."""
    if (new.instance_type, new.network_scale) != (first.instance_type, first.network_scale):
        return False
    # Where EC2 reported where the first node was, it must report where the new one is.
    if (new.ec2_placement is None) != (first.ec2_placement is None):
        return False
    # Results report which pairs share a partition by the nodes that the plan found.
    if _partition(new) != _partition(first):
        return False
    zones = any(each.pairs != "any" for each in arms if each.stack_arm == arm.stack_arm)
    if zones and new.zone != first.zone:
        return False
    others = tuple(node for node in arm.nodes if node.name != first.name)
    # The nodes that the plan found come first, so they say which group is the arm's.
    claimed = arm.model_copy(update={"nodes": (*others, new)})
    return not placement_faults([claimed], {arm.stack_arm: ""})


def _partition(node: Node) -> int | None:
    """The node's partition of its placement group, if it has one."""
    return None if node.ec2_placement is None else node.ec2_placement.partition
