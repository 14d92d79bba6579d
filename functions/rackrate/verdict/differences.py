"""The recorded differences between a run and other runs. Pure.

Seeds are left out: they differ from run to run, and decide only orders and draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rackrate.verdict.evidence import Evidence, shared_arms
from rackrate_contract.arms import Arm, Node, arm_titles
from rackrate_contract.verdicts import VARYING, Difference

#: The values of one fact in a run as sorted texts; empty where it is not known.
Texts = tuple[str, ...]
#: The values of a fact by arm, or under None for the whole run.
ByArm = Mapping[str | None, Texts]

#: The facts about nodes by name, in the order of the report. The first are the likeliest to matter.
NODE_FACTS: Mapping[str, Callable[[Node], object]] = {
    "instance type": lambda node: node.instance_type,
    "CNI": lambda node: node.cni,
    "node pool": lambda node: node.node_pool,
    "placement group (Karpenter's label)": lambda node: node.labelled_group_id,
    "partition (Karpenter's label)": lambda node: node.labelled_partition,
    "kernel": lambda node: node.kernel,
    "network driver": lambda node: node.drivers,
    "MTU": lambda node: node.mtus,
    "network queues": lambda node: node.queues,
    # Without the lab's label a network is unscaled.
    "scale of the lab's network": lambda node: 1 if (s := node.network_scale) is None else s,
    "zone": lambda node: node.zone,
    "capacity type": lambda node: node.capacity_type,
    "Region": lambda node: node.region,
    "machine image": lambda node: node.image,
    "operating system": lambda node: node.os_image,
    "architecture": lambda node: node.architecture,
    "CPUs": lambda node: node.cpus,
    "kubelet": lambda node: node.kubernetes,
    "container runtime": lambda node: node.container_runtime,
    "place in the network (network node layers)": lambda node: list(node.network_layers or ()),
}
#: The facts about arms by name.
ARM_FACTS: Mapping[str, Callable[[Arm], object]] = {
    "placement": lambda arm: arm.placement,
    "ENA Express": lambda arm: arm.ena_express,
    "bandwidth weighting": lambda arm: arm.network.bandwidth_weighting,
    "network of the clients": lambda arm: arm.client_network,
    "network of the servers": lambda arm: arm.server_network,
    "way to the servers": lambda arm: arm.via,
    "zones of the pairs": lambda arm: arm.pairs,
    "endpoint": lambda arm: "none" if arm.endpoint is None else arm.endpoint.words,
    "arm of the stack": lambda arm: arm.stack_arm,
    "node groups": lambda arm: ", ".join(arm.node_groups),
}
#: The fields of a plan that decide how a run is measured or judged.
PLAN_FIELDS = (
    *("baseline", "blocks", "pause_seconds", "pairing", "direction", "load", "warm_up"),
    *("threshold", "tolerated_loss"),
)
#: The other fields of a plan: compared in detail, or no difference.
OTHER_FIELDS = ("arms", "tests", "seed", "compare_with", "if_busy", "dry_run", "campaign")
#: How many values are named. If there are more, such as a thousand nodes, their number is given.
_MOST_NAMED = 4


@dataclass(frozen=True)
class Differences:
    """The differences between a run and other runs apart from their measurements.

    Attributes:
        changes: the differences; first those in what the other runs have in common.
        unrecorded: the facts that not all of the runs recorded, so that they cannot be compared.
    """

    changes: list[Difference]
    unrecorded: list[str]


def differences(after: Evidence, before: Sequence[Evidence]) -> Differences:
    """Find the differences between a run and other runs: nodes, arms, versions, plans.

    A fact that varies among the other runs is named as varying, whatever it is in this run: it is
    part of what differs from run to run.
    """
    arms = shared_arms(after, before)
    ours, *theirs = (_facts(run, arms) for run in (after, *before))
    # An arm whose group changed has no title that holds for all runs.
    of_runs = [arm_titles(run.arms.values()).items() for run in (after, *before)]
    titles = dict(set.intersection(*map(set, of_runs)))
    changes: list[Difference] = []
    unrecorded: list[str] = []
    for what in dict.fromkeys(what for facts in (ours, *theirs) for what in facts):
        one, *others = (facts.get(what, {}) for facts in (ours, *theirs))
        if any(one.keys() != other.keys() for other in others):
            unrecorded.append(what)
        changes += _changes(what, one, others, titles)
    changes += _changed_options(after, before)
    return Differences(sorted(changes, key=lambda each: each.varies), unrecorded)


def _changes(
    what: str, ours: ByArm, theirs: Sequence[ByArm], titles: Mapping[str, str]
) -> list[Difference]:
    """The differences in one fact: one entry if all arms changed alike, else one for each arm."""
    shared = [arm for arm in ours if all(arm in run for run in theirs)]
    values = {arm: (ours[arm], tuple(run[arm] for run in theirs)) for arm in shared}
    changed = [arm for arm, (one, others) in values.items() if {one, *others} != {one}]
    alike = len({values[arm] for arm in changed}) == 1 and changed == shared
    return [
        Difference(
            what=what if alike else f"{what} of {titles.get(arm or '', arm)}",
            run=_listed(values[arm][0]),
            other=_of_runs(values[arm][1]),
        )
        for arm in (changed[:1] if alike else changed)
    ]


def _facts(run: Evidence, arms: Iterable[str]) -> dict[str, ByArm]:
    """The known facts about a run, by name."""
    facts: dict[str, dict[str | None, Texts]] = {}

    def add(what: str, values: Iterable[object], arm: str | None = None) -> None:
        if texts := tuple(sorted({_shown(value) for value in values if value not in _UNKNOWN})):
            facts.setdefault(what, {})[arm] = texts

    chosen = {name: run.arms[name] for name in arms}
    for what, fact_of_node in NODE_FACTS.items():
        for name, arm in chosen.items():
            add(what, map(fact_of_node, arm.nodes), name)
    for what, fact_of_arm in ARM_FACTS.items():
        for name, arm in chosen.items():
            add(what, [fact_of_arm(arm)], name)
    for name, arm in chosen.items():
        add("nodes", (node.instance_id or node.name for node in arm.nodes), name)
    add("Kubernetes", [run.planned_run.kubernetes_version])
    add("image of the tools", [run.planned_run.image])
    used = {test.name: test.tool for test in run.tests}
    for tool in dict.fromkeys(used.values()):
        versions = (t.tool_version for t in run.measured.values() if used[t.test] == tool)
        add(f"version of {tool}", versions)
    add("arms", run.arms)
    add("tests", used)
    written = run.planned_run.plan.to_json()
    for field in PLAN_FIELDS:
        add(field, [written[field]])
    return {**facts}


def _changed_options(after: Evidence, before: Sequence[Evidence]) -> list[Difference]:
    """The changed parameters of tests that all runs have by name."""
    ours, *theirs = (
        {test.name: test.model_dump(mode="json") for test in run.tests} for run in (after, *before)
    )
    changes: list[Difference] = []
    for name in ours:
        if not all(name in run for run in theirs):
            continue
        tests = [ours[name], *(run[name] for run in theirs)]
        for option in dict.fromkeys(option for test in tests for option in test):
            values: list[Texts] = [(_shown(test.get(option)),) for test in tests]
            changes += _changes(
                f"{option} of the test {name}",
                {None: values[0]},
                [{None: v} for v in values[1:]],
                {},
            )
    return changes


_UNKNOWN: tuple[object, ...] = (None, "", [])


def _of_runs(values: Sequence[Texts]) -> str:
    """The values of a fact in the other runs; once if they are the same in all."""
    if len(set(values)) == 1:
        return _listed(values[0])
    return VARYING + _listed(tuple(dict.fromkeys(value for of_run in values for value in of_run)))


def _listed(values: Texts) -> str:
    if len(values) <= _MOST_NAMED:
        return ", ".join(values)
    return f"{', '.join(values[:_MOST_NAMED])} and {len(values) - _MOST_NAMED} more"


def _shown(value: object) -> str:
    """A JSON value as text for people."""
    return value if isinstance(value, str) else json.dumps(value)
