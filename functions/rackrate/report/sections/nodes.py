"""The section on nodes: what each one measured, beside its arm, and what is to know about it."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rackrate.measure.trials import Trial
from rackrate.report.material import Material, MetricMaterial
from rackrate.report.rendering import Part
from rackrate.report.tables import Cell, Table, number, without_unknown
from rackrate_contract.arms import Node
from rackrate_contract.ranking import NodeFigure
from rackrate_text.grouping import grouped_by
from rackrate_text.units import change, changes, quantity
from rackrate_text.words import host_name


def nodes_section(page: Material) -> Part | None:
    """Each node's figures, marks and failures; None for a comparison, whose runs have pages."""
    if page.comparison or not page.results.trials.measured:
        return None
    metrics = [metric for test in page.tests.values() for metric in test.metrics]
    values = {metric.id: _by_node(metric) for metric in metrics}
    rankings = page.results.rankings
    ranks = {node.name: node.rank for each in rankings for node in each.nodes}
    marks: dict[str, Counter[str]] = defaultdict(Counter)
    failed: Counter[str] = Counter()
    for mark in page.results.marks:
        for name in _ends(page.marked_trial(mark)):
            marks[name][mark.mark] += 1
    for trial in page.failed:
        failed.update(_ends(trial))
    after = grouped_by(page.results.replacements, lambda each: each.place)
    nodes = [
        (arm, node)
        for arm in page.results.arms
        for first in arm.nodes
        for node in (first, *(each.node for each in after.get(first.name, ())))
    ]
    # A table of many nodes is cut, and these are what to look at.
    worse = {name for each in rankings for name in each.worse}
    nodes.sort(key=lambda of: of[1].name not in worse)
    rows = [
        {
            "node": Cell(host_name(node.name), "head", _facts(node), arm=page.arm_number(arm.name)),
            "rank": ranks.get(node.name),
            **{
                metric.subject: _figure(
                    metric,
                    values[metric.id][arm.name],
                    node.name,
                    page.node_figures.get((arm.name, metric.test.name, metric.name), {}),
                )
                for metric in metrics
            },
            "marked trials": "; ".join(f"{n} {mark}" for mark, n in marks[node.name].items())
            or None,
            "failed trials": number(failed[node.name] or None),
        }
        for arm, node in nodes
    ]
    return Part(
        "nodes",
        "Nodes",
        heading="Node by node",
        how_nodes_came=page.results.how_nodes_came,
        rankings=[(page.arm_title(ranking.arm), ranking.sentences()) for ranking in rankings],
        nodes=Table(
            "Medians of the trials in which a node took part"
            + ("; of ranked nodes the means of their pairs, against the median node" * bool(ranks)),
            without_unknown(rows),
        ),
    )


#: The values of each node, by arm and node.
_Values = Mapping[str, Mapping[str, Sequence[float]]]


def _by_node(metric: MetricMaterial) -> _Values:
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial, value in metric.values:
        for name in _ends(trial):
            values[trial.arm][name].append(value)
    return values


def _figure(
    metric: MetricMaterial,
    of_arm: Mapping[str, Sequence[float]],
    node: str,
    ranked: Mapping[str, NodeFigure],
) -> Cell:
    """A node's figure of its rank, and how it compares with the arm's median node.

    Without a rank it is the median of its trials, and below it how far that is from that of its
    arm, if a pair is not all of it.
    """
    if (figure := ranked.get(node)) is not None:
        compared = f"{change(figure.ratio)} ({changes(figure.ci_simultaneous)}), {figure.verdict}"
        return number(quantity(figure.mean, metric.unit), compared)
    if node not in of_arm:
        return number(None)
    median = statistics.median(of_arm[node])
    of_all = statistics.median(value for values in of_arm.values() for value in values)
    below = f"{change(median / of_all)} from its arm" if len(of_arm) > 2 and of_all else ""
    return number(quantity(median, metric.unit), below)


def _ends(trial: Trial) -> set[str]:
    return {trial.client_name, trial.server_name}


def _facts(node: Node) -> str:
    return ", ".join(filter(None, (node.instance_type, node.zone)))
