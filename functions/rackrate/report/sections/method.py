"""The section on the method, folded: plan, method, versions, nodes, counters, estimates."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from rackrate.document import Json
from rackrate.plan.arms import Arm, InstancePlacement, Node
from rackrate.plan.replacements import Replacement
from rackrate.report.markup import (
    cell,
    folded,
    items,
    number,
    paragraph,
    row_head,
    scrolling,
    section,
    table,
    text,
)
from rackrate.report.material import Material
from rackrate.results.schema import CounterIncreases, Findings, Versions
from rackrate.results.workloads import PhasesOfWorkload, WorkloadOfResults
from rackrate_text.units import UNKNOWN, dollars, duration, percent, quantity
from rackrate_text.words import counted, listed, metric_of_test, span

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


def method_section(page: Material) -> str:
    """The information that a reader needs to judge the measurement and to repeat it."""
    results = page.results
    parts = [
        ("How the figures came about", _figures(results)),
        ("Plan and seed", _plan(results)),
        ("Expected and actual", _estimates(results)),
        ("Workloads", _workloads(page.workloads)),
        (
            "Nodes",
            _nodes(results.arms, page.replacements) + _dns(page.dns_nodes, results.arms),
        ),
        ("Topology", _topology(results.arms)),
        ("Versions", _versions(results.versions)),
        (
            "Counters of the interfaces",
            _counters(results.counters) + _ena_express(results.arms) + _unknown(results.arms),
        ),
    ]
    raw = (
        "the folders <code>raw</code> of the runs: they work where this page and the runs lie"
        " as they do in the bucket"
        if page.comparison
        else "the folder <code>raw</code> beside this page: they work where the page lies among its"
        " run's objects"
    )
    return section(
        "method",
        "How it was measured",
        "".join(folded(heading, content) for heading, content in parts if content)
        + f'<p class="quiet">Links to raw output lead to {raw}.</p>',
    )


def _figures(results: Findings) -> str:
    values = items(
        f"{escape(metric_of_test(of.test, of.metric))}: {escape(of.statistic)};"
        f" {escape(of.better)} is better"
        for of in results.metrics
    )
    return (
        paragraph(escape(results.method or ""))
        + f"<p>The value of a trial:</p>{values}"
        + "<p>Failed trials are left out, never counted as zero; marked ones and outliers stay.</p>"
    )


def _plan(results: Findings) -> str:
    return (
        f"<p>Seed of every order and of the resampling: <code>{results.run.seed}</code>. The plan"
        " with every default filled in; it can be run again as it is.</p>"
        + as_json(results.plan.to_json(), "The plan as JSON")
    )


def as_json(value: Json, name: str) -> str:
    """A value as JSON text in a region that scrolls, with its name."""
    return scrolling(f"<pre>{escape(json.dumps(value, indent=1, ensure_ascii=False))}</pre>", name)


def _estimates(results: Findings) -> str:
    found, cost = results.estimates, results.estimates.cost
    least = found.at_least
    least_seconds = found.seconds if least is None else least.seconds
    least_trials = found.trials if least is None else least.trials
    least_usd = cost.usd if least is None or least.usd is None else least.usd
    sent = max((traffic.sent for traffic in found.bytes_per_node.values()), default=0)
    rows = [
        (
            "took",
            span(duration(least_seconds), duration(found.seconds)),
            duration(results.run.seconds),
        ),
        ("duration of a block", duration(found.block_seconds), UNKNOWN),
        ("trials", span(text(least_trials), text(found.trials)), text(results.trials.measured)),
        ("sent by a node, at most", quantity(sent, "B"), UNKNOWN),
        ("state transitions, at most", text(found.state_transitions), UNKNOWN),
        ("cost", span(text(dollars(least_usd)), text(dollars(cost.usd))), UNKNOWN),
    ]
    tripped = items(
        f"{escape(guard.text)}." + (f" Remedy: {escape(guard.remedy)}." if guard.remedy else "")
        for guard in found.guards
        if guard.would_trip
    )
    return (
        table(
            ("what", "expected", "actual"),
            ([row_head(what), number(before), number(after)] for what, before, after in rows),
            caption="What was expected before the run, and what it came to",
        )
        + items(map(escape, cost.summary))
        + (f"<p>Guards that were expected to trip:</p>{tripped}" if tripped else "")
    )


def _nodes(arms: Iterable[Arm], replacements: Sequence[Replacement]) -> str:
    """The nodes of each arm, each followed by those that took its place one after the other."""
    after: dict[str, list[Replacement]] = defaultdict(list)
    for each in replacements:
        after[each.place].append(each)
    rows = [
        [
            row_head(f"{text(arm.name)} ({text(_setting(arm))})"),
            cell(text(node.name + came)),
            *(cell(text(fact(node))) for fact in _FACTS.values()),
        ]
        for arm in arms
        for first in arm.nodes
        for node, came in [
            (first, ""),
            *(
                (each.node, f", in place of {each.lost}, {each.since}")
                for each in after[first.name]
            ),
        ]
    ]
    return table(("arm (placement)", "node", *_FACTS), rows, caption="The nodes of each arm")


def _dns(nodes: Sequence[str] | None, arms: Sequence[Arm]) -> str:
    """Where the pods of the cluster's DNS were, which matters to the tests that ask it."""
    if nodes is None:
        return ""
    of = {node.name: arm.name for arm in reversed(arms) for node in arm.nodes}
    where = [
        f"{node} ({counted(pods, 'pod')}, {of.get(node, 'no arm')})"
        for node, pods in Counter(nodes).items()
    ]
    return paragraph(escape(f"The cluster's DNS answered from {listed(where)}."))


def _group(where: InstancePlacement | None) -> str | None:
    """The node's placement group and its partition there; None if EC2 did not tell."""
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
    if (arm.client_network, arm.server_network) != ("pod", "pod"):
        settings.append(f"network {arm.client_network} to {arm.server_network}")
    if arm.via == "service":
        settings.append("through a Service")
    if arm.pairs != "any":
        settings.append(f"pairs {arm.pairs.replace('-', ' ')}")
    return ", ".join(settings)


def _workloads(workloads: Iterable[WorkloadOfResults]) -> str:
    """Where members and load of each workload were, how long its phases took, and their CPU."""
    rows = [
        [
            row_head(text(f"{each.test}, {each.arm}")),
            cell(text(", ".join(member.node for member in each.members) or UNKNOWN)),
            cell(text(f"{', '.join(each.load_nodes)} ({each.load_from})")),
            cell(text(each.storage)),
            *(
                number(text(UNKNOWN if seconds is None else duration(seconds)))
                for _, seconds in each.phases
            ),
            *(
                number(text(UNKNOWN if used is None else percent(used / 100)))
                for used in (each.members_cpu_percent, each.busiest_member_cpu_percent)
            ),
        ]
        for each in workloads
    ]
    if not rows:
        return ""
    phases = (f"{name} took" for name in PhasesOfWorkload.model_fields)
    heads = ("workload", "members on", "load from", "data in", *phases, "CPU, mean", "CPU, most")
    caption = (
        "Workloads, with the time of each phase, and the CPU time of their members while they were"
        " measured: mean over the members, and the member with most. 100 % is one CPU"
    )
    return table(heads, rows, caption=caption)


def _topology(arms: Iterable[Arm]) -> str:
    """The places of each arm's nodes: zones, and EC2's network nodes where EC2 reports them."""
    lines = []
    for arm in arms:
        zones = Counter(node.zone or "unknown" for node in arm.nodes)
        said = ", ".join(f"{counted(n, 'node')} in {zone}" for zone, n in zones.most_common())
        layers = [node.network_layers or () for node in arm.nodes]
        depth = max(map(len, layers), default=0)
        shared = [
            f"layer {level + 1}: "
            + counted(
                len({each[: level + 1] for each in layers if len(each) > level}), "network node"
            )
            for level in range(depth)
        ]
        network = f"EC2's network nodes, {', '.join(shared)}" if shared else _untold(arm)
        lines.append(escape(f"{arm.name}: {said}; {network}"))
    return items(lines)


def _untold(arm: Arm) -> str:
    """Why no place in EC2's network is known."""
    if any(node.network_layers is None for node in arm.nodes):
        return "EC2 did not tell its network nodes"
    types = sorted({node.instance_type or "an unknown type" for node in arm.nodes})
    return f"EC2 reports no topology for {listed(types)}"


def _versions(versions: Versions) -> str:
    rows = (
        [row_head(text(name.replace("_", " "))), cell(_version(value))] for name, value in versions
    )
    return table(("what", "version"), rows, caption="Versions of what took part")


def _version(value: str | tuple[str, ...] | None) -> str:
    if isinstance(value, tuple):
        return text(", ".join(value) or "unknown")
    return text(value)


def _counters(counters: CounterIncreases | None) -> str:
    """The increases of the interfaces' counters during the run; empty without counters."""
    if counters is None:
        return ""
    note = f"<p>{text(counters.note)}</p>" if counters.note else ""
    rows = [
        [row_head(text(node)), cell(text(interface)), cell(text(name)), number(text(increase))]
        for node, interfaces in counters.nodes.items()
        for interface, increases in interfaces.items()
        for name, increase in increases.items()
        if increase != 0
    ]
    silent = "<p>Read before and after the run; none has risen.</p>" if counters.nodes else ""
    heads = ("node", "interface", "counter", "increase")
    told = table(heads, rows, caption="Counters that rose during the run") if rows else silent
    return note + told + _gauges(counters)


def _gauges(counters: CounterIncreases) -> str:
    rows = [
        [
            row_head(text(node)),
            cell(text(interface)),
            cell(text(name)),
            number(text(gauge.before)),
            number(text(gauge.after)),
        ]
        for node, interfaces in counters.gauges.items()
        for interface, gauges in interfaces.items()
        for name, gauge in gauges.items()
        if gauge.before != gauge.after
    ]
    heads = ("node", "interface", "value", "before", "after")
    return table(heads, rows, caption="Values of ENA that changed during the run") if rows else ""


def _ena_express(arms: Iterable[Arm]) -> str:
    """How far the arms that have ENA Express used it."""
    return items(
        f"{escape(arm.name)} sent {text(use.sent)} packets by ENA Express, of"
        f" {text(use.eligible)} that were eligible."
        if (use := arm.ena_express_use)
        else f"{escape(arm.name)} has ENA Express; whether it was used is unknown."
        for arm in arms
        if arm.ena_express
    )


def _unknown(arms: Iterable[Arm]) -> str:
    """Why facts about interfaces are unknown, with the number of interfaces of each reason."""
    nodes = {node.name: node for arm in arms for node in arm.nodes}.values()
    cards = [card for node in nodes for card in (node.interfaces or {}).values()]
    reasons = Counter(card.unknown for card in cards if card.unknown)
    return items(
        f"Unknown of {counted(number, 'interface')}: {escape(reason)}."
        for reason, number in reasons.most_common()
    )
