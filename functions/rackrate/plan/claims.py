"""The check of what arms claim: placement, zones of pairs, and what their nodes can run. Pure.

An arm whose nodes are not where it says would give a verdict about something else. Facts that EC2
did not tell are not judged here; the guard `placements` says that they are unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from rackrate.errors import Fault
from rackrate.plan.faults import Faults
from rackrate.plan.pairing import Pairing
from rackrate.tools.base import TestBase
from rackrate_contract.arms import Arm, InstancePlacement, Node
from rackrate_text.words import counted, listed

#: How many nodes of an arm a fault names.
_MOST_NAMED = 3

_Placed = tuple[Node, InstancePlacement]


def placement_faults(arms: Sequence[Arm], whereabouts: Mapping[str, str]) -> list[Fault]:
    """The arms whose nodes are not placed, or have no ENA Express, as the arm says; as EC2 reports.

    Args:
        arms: the plan's arms in its order, with their nodes.
        whereabouts: a description of the nodes of each of the stack's arms.
    """
    faults = Faults()
    checked: set[str] = set()
    owners: dict[str, Arm] = {}
    for index, arm in enumerate(arms):
        faults += _without_ena_express(index, arm)
        if arm.stack_arm in checked:
            continue  # the arms share their nodes
        checked.add(arm.stack_arm)
        path, where = f"arms[{index}]", whereabouts[arm.stack_arm]
        if arm.placement == "none":
            faults += _in_a_group(arm, path, where)
            continue
        of_nodes = _not_in_its_group(arm, path, where)
        faults += of_nodes
        group = _group_of_most(arm)
        if group is None or of_nodes or arm.placement != "cluster":
            continue
        if (other := owners.setdefault(group, arm)) is not arm:
            faults.add(
                path,
                f"the arms {other.name!r} and {arm.name!r} are both in the cluster placement"
                f" group {group}, so they do not differ in it",
                f"launch the {where} in a group of its own",
            )
    return faults


def pair_faults(
    arms: Sequence[Arm], pairing: Pairing, whereabouts: Mapping[str, str]
) -> list[Fault]:
    """The arms whose nodes do not make the pairs of zones that the plan asks for.

    Nodes that do not exist yet have no zone; a run checks them when they are there.

    Args:
        arms: the plan's arms in its order, with their nodes.
        pairing: the plan's choice of pairs.
        whereabouts: a description of the nodes of each of the stack's arms.
    """
    faults = Faults()
    for index, arm in enumerate(arms):
        if arm.pairs == "any" or any(node.is_placeholder for node in arm.nodes):
            continue
        path, nowhere = f"arms[{index}].pairs", [n.name for n in arm.nodes if n.zone is None]
        where = arm.pairs.replace("-", " ")
        if nowhere:
            names = listed(nowhere, most=_MOST_NAMED)
            problem = f"the zone of {names} of the arm {arm.name!r} is not known"
            faults.add(path, problem, f"label it topology.kubernetes.io/zone: {names}")
            continue
        possible = sum(map(len, Pairing("mesh").edges(arm, 0)))
        zones = listed(sorted({node.zone or "" for node in arm.nodes}))
        nodes = f"the {len(arm.nodes)} nodes of the arm {arm.name!r}, in {zones}, make"
        if not possible:
            several = "one zone twice" if arm.pairs == "within-zone" else "several zones"
            remedy = f"let the {whereabouts[arm.stack_arm]} be in {several}, or write 'any'"
            faults.add(path, f"{nodes} no pair {where}", remedy)
        elif pairing.kind == "random" and pairing.count > possible:
            problem = f"{nodes} {counted(possible, 'pair')} {where}, fewer than {pairing.count}"
            faults.add("pairing.random", problem, "ask for fewer, or for 'mesh'")
    return faults


def _without_ena_express(index: int, arm: Arm) -> list[Fault]:
    """The fault of an arm with ENA Express whose pods may have addresses of interfaces without."""
    lacking = [each for each in _placements(arm) if each[1].ena_express is False]
    if not (arm.ena_express and lacking and "pod" in (arm.client_network, arm.server_network)):
        return []
    problem = (
        f"the arm {arm.name!r} is to use ENA Express, but {_some(lacking, arm)} with a network"
        " interface without it, and pods may get an address of that"
    )
    remedy = "set MAX_ENI=1 in the cluster's VPC CNI and replace these nodes, or update the stack"
    return [Fault(f"arms[{index}]", problem, f"{remedy} with EnaExpress none")]


def _placements(arm: Arm) -> list[_Placed]:
    """The nodes whose placement is known."""
    return [(node, node.ec2_placement) for node in arm.nodes if node.ec2_placement is not None]


def _group_of_most(arm: Arm) -> str | None:
    groups = Counter(where.group for _, where in _placements(arm) if where.group is not None)
    return groups.most_common(1)[0][0] if groups else None


def _in_a_group(arm: Arm, path: str, whereabouts: str) -> list[Fault]:
    """The fault of an arm without a group that has nodes in one."""
    inside = [(node, where) for node, where in _placements(arm) if where.group is not None]
    if not inside:
        return []
    actual = f"{_some(inside, arm)} in {_groups(inside)}"
    problem = f"the arm {arm.name!r} is to be in no placement group, but {actual}"
    remedy = f"take them out of the {whereabouts}, or replace them by instances outside any group"
    return [Fault(path, problem, remedy)]


def _not_in_its_group(arm: Arm, path: str, whereabouts: str) -> list[Fault]:
    """The faults of an arm in a group that has nodes elsewhere."""
    of_most, kind = _group_of_most(arm), f"{arm.placement} placement group"
    outside: list[_Placed] = []
    of_another_kind: list[_Placed] = []
    elsewhere: list[_Placed] = []
    for node, where in _placements(arm):
        if where.group is None:
            outside.append((node, where))
        elif where.strategy not in (None, arm.placement):
            of_another_kind.append((node, where))
        elif where.group != of_most:
            elsewhere.append((node, where))
    problems = []
    if outside:
        problems.append(f"is to be in a {kind}, but {_some(outside, arm)} in none")
    if of_another_kind:
        others = f"{_some(of_another_kind, arm)} in {_groups(of_another_kind)}"
        problems.append(f"is to be in a {kind}, but {others}")
    if elsewhere:
        others = f"{_some(elsewhere, arm)} in {_groups(elsewhere)}"
        problems.append(f"is to be in one {kind}, {of_most}, but {others}")
    remedy = f"take them out of the {whereabouts}, or replace them by instances in one {kind}"
    return [Fault(path, f"the arm {arm.name!r} {problem}", remedy) for problem in problems]


def _groups(placements: Sequence[_Placed]) -> str:
    return listed(dict.fromkeys(_called(where) for _, where in placements), most=_MOST_NAMED)


def _called(where: InstancePlacement) -> str:
    strategy = "" if where.strategy is None else f"{where.strategy} "
    return f"the {strategy}placement group {where.group}"


def _some(placements: Sequence[_Placed], arm: Arm) -> str:
    """The nodes by name, few of them, such as `2 of its 4 nodes (a and b) are`."""
    names = listed([node.name for node, _ in placements], most=_MOST_NAMED)
    verb = "is" if len(placements) == 1 else "are"
    return f"{len(placements)} of its {counted(len(arm.nodes), 'node')} ({names}) {verb}"


def architecture_faults(arms: Sequence[Arm], tests: Sequence[TestBase]) -> list[Fault]:
    """The tests whose tool does not work on the architecture of an arm's nodes."""
    arm_of = {node.architecture: arm.name for arm in arms for node in arm.nodes}
    return [
        Fault(
            f"tests[{index}]",
            f"{test.name} cannot run on the {architecture} nodes of the arm {arm!r}: {why}",
            remedy,
        )
        for index, test in enumerate(tests)
        for architecture, (why, remedy) in test.no_architecture.items()
        if (arm := arm_of.get(architecture)) is not None
    ]


def scale_faults(arms: Sequence[Arm]) -> list[Fault]:
    """Whether some nodes say that their network is scaled and others do not, or differently.

    A node may label itself. One that does alone must not change what results say of all of them.
    """
    scales = {node.name: node.network_scale for arm in arms for node in arm.nodes}
    if len(set(scales.values())) < 2:
        return []
    scaled = sorted({name for name, scale in scales.items() if scale is not None})
    return [
        Fault(
            "arms",
            f"not all nodes have the same label rackrate.dev/network-scale: {listed(scaled)} have"
            " one",
            "remove the label; only nodes of an emulated network have it, all the same",
        )
    ]
