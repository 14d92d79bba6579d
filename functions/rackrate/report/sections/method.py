"""How it was measured, folded away: plan, method, versions, nodes, counters, estimates."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from html import escape

from rackrate.report.markup import (
    NOTHING,
    cell,
    count,
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
from rackrate.report.material import Json, Material
from rackrate.report.units import si

_FACTS = (
    *("instance_type", "instance_id", "zone", "image", "kernel", "cpus", "kubernetes"),
    *("container_runtime", "network_layers"),
)


def method_section(material: Material) -> str:
    """What is needed to judge the measurement, and to repeat it."""
    results = material.results
    parts = [
        ("How the figures came about", _figures(results)),
        ("Plan and seed", _plan(results)),
        ("Expected and actual", _estimates(results)),
        ("Nodes", _nodes(results["arms"])),
        ("Topology", _topology(results["arms"])),
        ("Versions", _versions(results.get("versions") or {})),
        ("Counters of the interfaces", _counters(results.get("counters"))),
    ]
    raw = (
        "the folders <code>raw</code> of the two runs: they work where this page and the runs lie"
        " as they do in the bucket"
        if results.get("comparison")
        else "the folder <code>raw</code> beside this page: they work where the page lies among its"
        " run's objects"
    )
    return section(
        "method",
        "How it was measured",
        "".join(folded(heading, content) for heading, content in parts if content)
        + f'<p class="quiet">Links to raw output lead to {raw}.</p>',
    )


def _figures(results: Json) -> str:
    values = items(
        f"{escape(m['metric'] if m['metric'] == m['test'] else m['test'] + ' ' + m['metric'])}:"
        f" {escape(m['statistic'])}; {escape(m['better'])} is better"
        for m in results["metrics"]
    )
    return (
        paragraph(escape(results.get("method") or ""))
        + f"<p>The value of a trial:</p>{values or NOTHING}"
        + "<p>Failed trials are left out, never counted as zero; marked ones and outliers stay.</p>"
    )


def _plan(results: Json) -> str:
    written = escape(json.dumps(results["plan"], indent=1, ensure_ascii=False))
    seed = results["run"].get("seed")
    return (
        f"<p>Seed of every order and of the resampling: <code>{text(seed)}</code>. The plan with"
        " every default filled in; it can be run again as it is.</p>"
        + scrolling(f"<pre>{written}</pre>", "The plan as JSON")
    )


def _estimates(results: Json) -> str:
    found, run, counts = results.get("estimates") or {}, results["run"], results["trials"]
    if not found:
        return ""
    sent = [each.get("sent", 0) for each in (found.get("bytes_per_node") or {}).values()]
    cost = found.get("cost") or {}
    rows = [
        ("duration", _seconds(found.get("seconds")), _seconds(run.get("seconds"))),
        ("duration of a block", _seconds(found.get("block_seconds")), NOTHING),
        ("trials", text(found.get("trials")), text(counts.get("measured"))),
        ("sent by a node, at most", si(float(max(sent)), "B") if sent else NOTHING, NOTHING),
        ("state transitions", text(found.get("state_transitions")), NOTHING),
        ("cost", f"${cost['usd']:.2f}" if cost.get("usd") is not None else NOTHING, NOTHING),
    ]
    told = [row for row in rows if row[1] != NOTHING]
    guards = [guard for guard in found.get("guards") or () if guard.get("would_trip")]
    tripped = items(
        f"{escape(str(guard.get('text')))}."
        + (f" Remedy: {escape(str(guard['remedy']))}." if guard.get("remedy") else "")
        for guard in guards
    )
    return (
        table(
            ("what", "expected", "actual"),
            ([row_head(what), number(before), number(after)] for what, before, after in told),
            caption="What was expected before the run, and what it came to",
        )
        + items(escape(str(line)) for line in cost.get("summary") or ())
        + (f"<p>Guards that were expected to trip:</p>{tripped}" if tripped else "")
    )


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f} s"


def _nodes(arms: Iterable[Json]) -> str:
    rows = [
        [
            row_head(f"{text(arm['name'])} ({text(_setting(arm))})"),
            cell(text(node["name"])),
            *(cell(_fact(node.get(fact))) for fact in _FACTS),
        ]
        for arm in arms
        for node in arm["node_facts"]
    ]
    heads = ("arm (placement)", "node", *(fact.replace("_", " ") for fact in _FACTS))
    return table(heads, rows, caption="The nodes of each arm")


def _fact(value: object) -> str:
    if isinstance(value, list | tuple):
        return text(" / ".join(map(str, value)))
    return text(value)


def _setting(arm: Json) -> str:
    """What distinguishes the arm."""
    settings = [str(arm["placement"])]
    if arm.get("ena_express"):
        settings.append("ENA Express")
    if arm.get("stack_arm", arm["name"]) != arm["name"]:
        settings.append(f"nodes of {arm['stack_arm']}")
    networks = (arm.get("client_network", "pod"), arm.get("server_network", "pod"))
    if networks != ("pod", "pod"):
        settings.append("network {} to {}".format(*networks))
    return ", ".join(settings)


def _topology(arms: Iterable[Json]) -> str:
    """Where each arm's nodes are: zones, and EC2's network nodes where it tells them."""
    lines = []
    for arm in arms:
        nodes = arm["node_facts"]
        zones = Counter(str(node.get("zone") or "unknown") for node in nodes)
        said = ", ".join(f"{count(n, 'node')} in {zone}" for zone, n in zones.most_common())
        layers = [tuple(node.get("network_layers") or ()) for node in nodes]
        depth = max(map(len, layers), default=0)
        shared = [
            f"layer {level + 1}: "
            + count(
                len({each[: level + 1] for each in layers if len(each) > level}), "network node"
            )
            for level in range(depth)
        ]
        network = (
            f"; EC2's network nodes, {', '.join(shared)}"
            if shared
            else "; EC2 told nothing of network nodes"
        )
        lines.append(f"{escape(str(arm['name']))}: {escape(said)}{escape(network)}")
    return items(lines)


def _versions(versions: Json) -> str:
    rows = (
        [row_head(text(name.replace("_", " "))), cell(_version(value))]
        for name, value in versions.items()
    )
    return table(("what", "version"), rows, caption="Versions of what took part")


def _version(value: object) -> str:
    if isinstance(value, list | tuple):
        return text(", ".join(map(str, value)) or "unknown")
    return text(value)


def _counters(counters: Json | None) -> str:
    """What was counted of the interfaces during the run, where anything was."""
    if counters is None:
        return ""
    note = f"<p>{text(counters['note'])}</p>" if counters["note"] else ""
    rows = [
        [row_head(text(node)), cell(text(interface)), cell(text(name)), number(text(increase))]
        for node, interfaces in counters["nodes"].items()
        for interface, increases in interfaces.items()
        for name, increase in increases.items()
        if increase != 0
    ]
    silent = "<p>Read before and after the run; none has risen.</p>" if counters["nodes"] else ""
    heads = ("node", "interface", "counter", "increase")
    told = table(heads, rows, caption="Counters that rose during the run") if rows else silent
    return note + told
