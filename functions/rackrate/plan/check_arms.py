"""The check of a plan's arms: their nodes, networks and pairs, and the baseline. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rackrate.plan.arms import ArmChoice
from rackrate.plan.capacity import LEAST_NODES
from rackrate.plan.faults import Faults, faults_of, kind_of, named_twice, shown
from rackrate.plan.fields import PlanInput
from rackrate.plan.pairing import Pairing
from rackrate.settings import StackArm
from rackrate_text.words import counted, listed, nearest


def read_arms(
    model: PlanInput,
    raw: object,
    stack_arms: Sequence[StackArm],
    faults: Faults,
) -> dict[str, ArmChoice]:
    """The valid arms, by their path in the plan."""
    by_name = {arm.name: arm for arm in stack_arms}
    entries = list(by_name) if model.arms is None else model.arms
    arms: dict[str, ArmChoice] = {}
    names: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"arms[{index}]"
        arm = _read_arm(entry, path, by_name, faults)
        twice = named_twice(entry, path, names, "name each arm once")
        faults += twice
        if arm is not None and not twice:
            arms[path] = arm
    if not entries:
        faults.add("arms", "is empty", f"name one or more of {listed(by_name)}")
    if isinstance(raw, dict) and raw.get("arms", ()) is None:
        faults.add("arms", "must be a list, not null", "leave it out to measure every arm")
    return arms


def _read_arm(
    entry: Any, path: str, by_name: Mapping[str, StackArm], faults: Faults
) -> ArmChoice | None:
    if isinstance(entry, str):
        if entry in by_name:
            return ArmChoice(name=entry, nodes=entry)
        faults.add_unknown(path, "there is no arm", entry, by_name)
        return None
    if not isinstance(entry, dict):
        faults.add(
            path,
            f"must be a name or an object, not {kind_of(entry)}",
            f"use one of {listed(by_name, 'or')}, or an object with a name and nodes",
        )
        return None
    try:
        model = ArmChoice.model_validate(entry)
    except ValidationError as error:
        faults.extend(faults_of(error, ArmChoice, f"{path}."))
        return None
    if model.nodes not in by_name:
        faults.add_unknown(f"{path}.nodes", "the stack has no arm", model.nodes, by_name)
        return None
    if model.name in by_name and model.name != model.nodes:
        faults.add(
            f"{path}.name",
            f"{shown(model.name)} is an arm of the stack, and this one uses other nodes",
            "give it another name",
        )
        return None
    return model


def check_nodes(
    arms: Mapping[str, ArmChoice],
    stack_arms: Sequence[StackArm],
    nodes: Mapping[str, int],
    faults: Faults,
) -> None:
    """Report arms without enough nodes.

    Args:
        arms: the arms by their path in the plan.
        stack_arms: the stack's arms.
        nodes: number of Ready nodes of each of those, by name.
        faults: where faults are added.
    """
    whereabouts = {arm.name: arm.whereabouts for arm in stack_arms}
    for path, arm in arms.items():
        ready, least = nodes[arm.nodes], 1 if arm.endpoint else LEAST_NODES
        if ready < least:
            faults.add(
                path,
                f"the arm {arm.name!r} has {counted(ready, 'Ready node')}; a pair needs {least}",
                f"wait for, repair or enlarge the {whereabouts[arm.nodes]}",
            )


def check_networks(arms: Mapping[str, ArmChoice], host_network: bool, faults: Faults) -> None:
    """Report pods in the network of their nodes, where the stack does not allow them."""
    for path, arm in arms.items():
        networks = {"client_network": arm.client_network, "server_network": arm.server_network}
        for side, network in networks.items():
            if network == "host" and not host_network:
                faults.add(
                    f"{path}.{side}",
                    "the stack does not let pods use the network of their nodes",
                    "update the stack with HostNetwork=true, or write 'pod'",
                )


def check_differences(arms: Mapping[str, ArmChoice], faults: Faults) -> None:
    """Report arms that are equal in everything but their names."""
    known: dict[ArmChoice, str] = {}
    for path, arm in arms.items():
        kind = arm.model_copy(update={"name": ""})
        if kind in known:
            faults.add(
                path,
                f"{arm.name!r} and {known[kind]!r} are the same nodes in the same networks",
                "let them differ in nodes, client_network, server_network, via, pairs or endpoint",
            )
        known.setdefault(kind, arm.name)


def choose_baseline(
    model: PlanInput, arms: Sequence[ArmChoice], stack_arms: Sequence[StackArm], faults: Faults
) -> str:
    """The baseline that a plan names, or else the stack's; empty if neither is among the arms."""
    names = [arm.name for arm in arms]
    if model.baseline is None and len(names) == 1:
        return names[0]
    if model.baseline is None:
        baselines = {arm.name for arm in stack_arms if arm.baseline}
        on_its_nodes = [arm.name for arm in arms if arm.nodes in baselines]
        itself = [arm.name for arm in arms if arm.nodes in baselines and arm.is_plain]
        if itself or len(on_its_nodes) == 1:
            return (itself or on_its_nodes)[0]
        if len(arms) >= 2:
            problem = (
                "none of the chosen arms is the stack's baseline"
                if not on_its_nodes
                else f"{listed(on_its_nodes)} all use the nodes of the stack's baseline"
            )
            faults.add("baseline", problem, f"name one of {listed(names, 'or')}")
        return ""
    if model.baseline not in names:
        known = names or [arm.name for arm in stack_arms]
        faults.add(
            "baseline",
            f"{shown(model.baseline)} is not among the arms of the plan"
            + nearest(model.baseline, known),
            f"use one of {listed(known, 'or')}",
        )
    return model.baseline


def check_pairing(
    pairing: Pairing, arms: Collection[ArmChoice], nodes: Mapping[str, int], faults: Faults
) -> None:
    """Report more random pairs than the nodes of the smallest arm make."""
    if pairing.kind != "random":
        return
    pairs_of = {
        arm.name: Pairing("mesh").pairs(nodes[arm.nodes], to_endpoint=bool(arm.endpoint))
        for arm in arms
    }
    fewest = min(arms, key=lambda arm: pairs_of[arm.name])
    number, possible = nodes[fewest.nodes], pairs_of[fewest.name]
    if pairing.count > possible:
        faults.add(
            "pairing.random",
            f"the {number} nodes of the arm {fewest.name!r} make {counted(possible, 'pair')},"
            f" fewer than {pairing.count}",
            "ask for fewer, or for the pairing 'mesh', which is all there are",
        )
