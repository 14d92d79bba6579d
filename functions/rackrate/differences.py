"""What differed between two runs, as far as rackrate records it. Pure.

Seeds are left out: they differ from run to run, and decide nothing but orders and draws.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rackrate import tools
from rackrate.analysis import Evidence, shared_arms

Json = dict[str, Any]
#: What is known of something in a run: texts, sorted; none where it is not known.
Told = tuple[str, ...]
#: The same by arm, or under None for the whole run.
ByArm = Mapping[str | None, Told]

#: Facts of nodes in the order they are told in, by what they are called. The first ones are the
#: likeliest to matter.
NODE_FACTS = {
    "instance_type": "instance type",
    "cni": "CNI",
    "kernel": "kernel",
    "network_scale": "scale of the lab's network",
    "zone": "zone",
    "region": "Region",
    "image": "machine image",
    "os_image": "operating system",
    "architecture": "architecture",
    "cpus": "CPUs",
    "kubernetes": "kubelet",
    "container_runtime": "container runtime",
    "network_layers": "place in the network (network node layers)",
}
#: The same of arms.
ARM_FACTS = {
    "placement": "placement",
    "ena_express": "ENA Express",
    "client_network": "network of the clients",
    "server_network": "network of the servers",
    "stack_arm": "arm of the stack",
    "node_group": "node group",
}
#: Fields of a plan that decide how a run is measured or judged. Arms and tests are looked into, the
#: seed is no difference, and what a run is compared with does nothing to it.
PLAN_FIELDS = (
    *("baseline", "blocks", "pairing", "direction", "load", "warm_up", "threshold"),
    "tolerated_loss",
)
#: Values that are named one by one; of more, such as a thousand nodes, the number is told.
_MOST_NAMED = 4


@dataclass(frozen=True)
class Differences:
    """How two runs compare before anything was measured.

    Attributes:
        found: what differed, each with `what`, and its values as text in the one run (`run`) and
            in the other one (`with`).
        untold: what only one of the runs recorded, so that nobody knows whether it differed.
    """

    found: list[Json]
    untold: list[str]


def differences(after: Evidence, before: Evidence) -> Differences:
    """What differed between two runs: nodes, arms, versions, plans. Older runs recorded less."""
    arms = shared_arms(after, before)
    ours, theirs = (_facts(run, arms) for run in (after, before))
    found: list[Json] = []
    untold: list[str] = []
    for what in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(what, {}), theirs.get(what, {})
        if one.keys() != other.keys():
            untold.append(what)
        found += _changes(what, one, other)
    return Differences(found + _changed_options(after, before), untold)


def _changes(what: str, ours: ByArm, theirs: ByArm) -> list[Json]:
    """What differs of one fact: one entry where it does so alike in every arm, else one an arm."""
    both = [arm for arm in ours if arm in theirs]
    changed = [arm for arm in both if ours[arm] != theirs[arm]]
    alike = len({(ours[arm], theirs[arm]) for arm in changed}) == 1 and changed == both
    return [
        {
            "what": what if alike else f"{what} of {arm}",
            "run": _listed(ours[arm]),
            "with": _listed(theirs[arm]),
        }
        for arm in (changed[:1] if alike else changed)
    ]


def _facts(run: Evidence, arms: Iterable[str]) -> dict[str, ByArm]:
    """What is known of a run, by what it is called; what is not known is not there."""
    facts: dict[str, dict[str | None, Told]] = {}

    def tell(what: str, values: Iterable[Any], arm: str | None = None) -> None:
        if told := tuple(sorted({_shown(value) for value in values if value not in _UNKNOWN})):
            facts.setdefault(what, {})[arm] = told

    chosen = {name: _with_defaults(run.arms[name]) for name in arms}
    for fact, what in NODE_FACTS.items():
        for name, arm in chosen.items():
            tell(what, (node.get(fact) for node in arm["nodes"]), name)
    for fact, what in ARM_FACTS.items():
        for name, arm in chosen.items():
            tell(what, [arm[fact]], name)
    for name, arm in chosen.items():
        tell("nodes", (node.get("instance_id") or node["name"] for node in arm["nodes"]), name)
    stored, plan = run.stored_plan, run.stored_plan["plan"]
    tell("Kubernetes", [stored.get("kubernetes_version")])
    tell("image of the tools", [stored.get("image")])
    used = {test["name"]: test["tool"] for test in plan["tests"]}
    for tool in dict.fromkeys(used.values()):
        tell(
            f"version of {tool}",
            (
                trial.get("tool_version")
                for k, trial in run.measured.items()
                if used[k.test] == tool
            ),
        )
    tell("arms", run.arms)
    tell("tests", used)
    for field in PLAN_FIELDS:
        tell(field, [plan.get(field)])
    return {**facts}


def _with_defaults(arm: Mapping[str, Any]) -> Json:
    """An arm of plan.json; plans that were stored before there was a choice had less."""
    return {
        "client_network": "pod",
        "server_network": "pod",
        "ena_express": False,
        "stack_arm": arm["name"],
        "placement": None,
        "node_group": None,
        **arm,
        # Without the lab's label a network is as it is.
        "nodes": [
            {**node, "network_scale": 1 if (scale := node.get("network_scale")) is None else scale}
            for node in arm["nodes"]
        ],
    }


def _changed_options(after: Evidence, before: Evidence) -> list[Json]:
    """The parameters that tests of the same name do not share."""
    ours, theirs = (
        {test["name"]: _options(test) for test in run.stored_plan["plan"]["tests"]}
        for run in (after, before)
    )
    return [
        {
            "what": f"{option} of the test {name}",
            "run": _shown(ours[name].get(option)),
            "with": _shown(theirs[name].get(option)),
        }
        for name in ours
        if name in theirs
        for option in dict.fromkeys([*ours[name], *theirs[name]])
        if ours[name].get(option) != theirs[name].get(option)
    ]


def _options(test: Mapping[str, Any]) -> Json:
    """A stored test's parameters; those that its tool has got since had their defaults."""
    try:
        return tools.load_test(test).model_dump()
    except (KeyError, ValidationError):
        return dict(test)  # its tool does not take it any more


_UNKNOWN: tuple[Any, ...] = (None, "", [])


def _listed(values: Told) -> str:
    if len(values) <= _MOST_NAMED:
        return ", ".join(values)
    return f"{', '.join(values[:_MOST_NAMED])} and {len(values) - _MOST_NAMED} more"


def _shown(value: Any) -> str:
    """A JSON value as people read it."""
    return value if isinstance(value, str) else json.dumps(value)
