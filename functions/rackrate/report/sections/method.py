"""The section on the method, folded: plan, method, versions, nodes, counters, estimates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from rackrate.report.material import Material
from rackrate.report.rendering import Part
from rackrate.report.tables import Table, head, number
from rackrate_contract.arms import Arm, InstancePlacement, Node
from rackrate_contract.document import Json
from rackrate_contract.results import CounterIncreases, Findings, Replacement, WorkloadOfResults
from rackrate_text.grouping import grouped_by
from rackrate_text.units import dollars, duration, percent, quantity
from rackrate_text.words import counted, listed, span

_FACTS: Mapping[str, Callable[[Node], str | int | None]] = {
    "instance type": lambda node: node.instance_type,
    "node pool": lambda node: node.node_pool,
    "instance id": lambda node: node.instance_id,
    "zone": lambda node: node.zone,
    "placement group": lambda node: _group(node.ec2_placement),
    "capacity type": lambda node: node.capacity_type,
    "image": lambda node: node.image,
    "kernel": lambda node: node.kernel,
    "cpus": lambda node: node.cpus,
    "kubernetes": lambda node: node.kubernetes,
    "container runtime": lambda node: node.container_runtime,
    "network driver": lambda node: node.drivers,
    "MTU": lambda node: node.mtus,
    "network queues": lambda node: node.queues,
    "network layers": lambda node: " / ".join(node.network_layers or ()),
}


def method_section(page: Material) -> Part:
    """The information that a reader needs to judge the measurement and to repeat it."""
    results = page.results
    return Part(
        "method",
        "How it was measured",
        results=results,
        plan=as_json(results.plan),
        estimates=_estimates(results),
        workloads=_workloads(results.workloads),
        nodes=_nodes(results.arms, results.replacements),
        dns=_dns(results.dns_nodes, results.arms),
        topology=[_topology(arm) for arm in results.arms],
        versions=Table(
            "Versions of what took part",
            [
                {"what": head(name.replace("_", " ")), "version": _version(value)}
                for name, value in results.versions
            ],
        ),
        increases=_increases(results.counters),
        gauges=_gauges(results.counters),
        ena_express=[_ena_express(arm) for arm in results.arms if arm.ena_express],
        unknown_facts=_unknown(results.arms),
        comparison=page.comparison,
    )


def as_json(value: Json) -> str:
    """A value as JSON text."""
    return json.dumps(value, indent=1, ensure_ascii=False)


def _estimates(results: Findings) -> Table:
    estimates, cost = results.estimates, results.estimates.cost
    at_least, took = estimates.at_least, duration(results.run.seconds)
    least = at_least or estimates
    least_usd = cost.usd if at_least is None or at_least.usd is None else at_least.usd
    sent = max((traffic.sent for traffic in estimates.bytes_per_node.values()), default=0)
    rows = (
        ("took", span(duration(least.seconds), duration(estimates.seconds)), took),
        ("duration of a block", duration(estimates.block_seconds), None),
        ("trials", span(str(least.trials), str(estimates.trials)), results.trials.measured),
        ("sent by a node, at most", quantity(sent, "B"), None),
        ("state transitions, at most", estimates.state_transitions, None),
        ("cost", span(dollars(least_usd), dollars(cost.usd)), None),
    )
    return Table(
        "What was expected before the run, and what it came to",
        [
            {"what": head(what), "expected": number(expected), "actual": number(actual)}
            for what, expected, actual in rows
        ],
    )


def _nodes(arms: Iterable[Arm], replacements: Sequence[Replacement]) -> Table:
    """The nodes of each arm, each followed by those that took its place one after the other."""
    after = grouped_by(replacements, lambda each: each.place)
    rows = [
        {
            "arm (placement)": head(f"{arm.name} ({_setting(arm)})"),
            "node": f"{node.name}{came}",
            **{name: fact(node) or None for name, fact in _FACTS.items()},
        }
        for arm in arms
        for first in arm.nodes
        for node, came in [
            (first, ""),
            *(
                (each.node, f", in place of {each.lost}, {each.since}")
                for each in after.get(first.name, ())
            ),
        ]
    ]
    return Table("The nodes of each arm", rows)


def _dns(nodes: Sequence[str] | None, arms: Sequence[Arm]) -> str:
    """Where the pods of the cluster's DNS were, which matters to the tests that ask it."""
    if nodes is None:
        return ""
    of = {node.name: arm.name for arm in reversed(arms) for node in arm.nodes}
    where = [
        f"{node} ({counted(pods, 'pod')}, {of.get(node, 'no arm')})"
        for node, pods in Counter(nodes).items()
    ]
    return f"The cluster's DNS answered from {listed(where)}."


def _group(where: InstancePlacement | None) -> str | None:
    """The node's placement group and its partition there; None if EC2 did not report it."""
    if where is None:
        return None
    partition = "" if where.partition is None else f", partition {where.partition}"
    return "none" if where.group is None else f"{where.group}{partition}"


def _setting(arm: Arm) -> str:
    """The settings that distinguish the arm."""
    settings = [arm.placement]
    if arm.ena_express:
        settings.append("ENA Express, not used" if arm.ena_express_unused else "ENA Express")
    if arm.network.bandwidth_weighting != "default":
        settings.append(f"bandwidth weighting {arm.network.bandwidth_weighting}")
    if arm.stack_arm != arm.name:
        settings.append(f"nodes of {arm.stack_arm}")
    if arm.endpoint is not None or (arm.client_network, arm.server_network) != ("pod", "pod"):
        to = "" if arm.endpoint else f" to {arm.server_network}"
        settings.append(f"network {arm.client_network}{to}")
    if arm.via == "service":
        settings.append("through a Service")
    if arm.way:
        settings.append(arm.way)
    return ", ".join(settings)


def _workloads(workloads: Iterable[WorkloadOfResults]) -> Table:
    """Where members and load of each workload were, how long its phases took, and their CPU."""
    rows = [
        {
            "workload": head(f"{each.test}, {each.arm}"),
            "members on": ", ".join(member.node for member in each.members) or None,
            "load from": f"{', '.join(each.load_nodes)} ({each.load_from})",
            "data in": each.storage,
            **{f"{name} took": number(duration(seconds)) for name, seconds in each.phases},
            "CPU, mean": number(_share(each.members_cpu_percent)),
            "CPU, most": number(_share(each.busiest_member_cpu_percent)),
        }
        for each in workloads
    ]
    return Table(
        "Workloads, with the time of each phase, and the CPU time of their members while they were"
        " measured: mean over the members, and the member with most. 100 % is one CPU",
        rows,
    )


def _share(used: float | None) -> str | None:
    return None if used is None else percent(used / 100)


def _topology(arm: Arm) -> str:
    """The places of an arm's nodes: zones, and EC2's network nodes where EC2 reports them."""
    zones = Counter(node.zone or "unknown" for node in arm.nodes)
    where = ", ".join(f"{counted(n, 'node')} in {zone}" for zone, n in zones.most_common())
    layers = [node.network_layers or () for node in arm.nodes]
    depth = max(map(len, layers), default=0)
    shared = [
        f"layer {level + 1}: "
        + counted(len({each[: level + 1] for each in layers if len(each) > level}), "network node")
        for level in range(depth)
    ]
    network = f"EC2's network nodes, {', '.join(shared)}" if shared else _not_recorded(arm)
    return f"{arm.name}: {where}; {network}"


def _not_recorded(arm: Arm) -> str:
    """Why no place in EC2's network is known."""
    if any(node.network_layers is None for node in arm.nodes):
        return "EC2 did not tell its network nodes"
    types = sorted({node.instance_type or "an unknown type" for node in arm.nodes})
    return f"EC2 reports no topology for {listed(types)}"


def _version(value: str | tuple[str, ...] | None) -> str | None:
    return (", ".join(value) or "unknown") if isinstance(value, tuple) else value


def _increases(counters: CounterIncreases | None) -> Table:
    rows = [
        {
            "node": head(node),
            "interface": interface,
            "counter": name,
            "increase": number(increase),
        }
        for node, interfaces in (counters.nodes if counters else {}).items()
        for interface, increases in interfaces.items()
        for name, increase in increases.items()
        if increase != 0
    ]
    return Table("Counters that rose during the run", rows)


def _gauges(counters: CounterIncreases | None) -> Table:
    rows = [
        {
            "node": head(node),
            "interface": interface,
            "value": name,
            "before": number(gauge.before),
            "after": number(gauge.after),
        }
        for node, interfaces in (counters.gauges if counters else {}).items()
        for interface, gauges in interfaces.items()
        for name, gauge in gauges.items()
        if gauge.before != gauge.after
    ]
    return Table("Values of ENA that changed during the run", rows)


def _ena_express(arm: Arm) -> str:
    """How far an arm that has ENA Express used it."""
    if (use := arm.ena_express_use) is None:
        return f"{arm.name} has ENA Express; whether it was used is unknown."
    eligible = f"of {use.eligible} that were eligible"
    return f"{arm.name} sent {use.sent} packets by ENA Express, {eligible}."


def _unknown(arms: Iterable[Arm]) -> list[str]:
    """Why facts about interfaces are unknown, with the number of interfaces of each reason."""
    nodes = {node.name: node for arm in arms for node in arm.nodes}.values()
    cards = [card for node in nodes for card in (node.interfaces or {}).values()]
    reasons = Counter(card.unknown for card in cards if card.unknown)
    return [
        f"Unknown of {counted(interfaces, 'interface')}: {reason}."
        for reason, interfaces in reasons.most_common()
    ]
