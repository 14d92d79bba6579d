"""The section on nodes: what each one measured, beside its arm, and what is to know about it."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from rackrate.measure.trials import Trial
from rackrate.report.material import Material, MetricMaterial
from rackrate.report.rendering import Part
from rackrate.report.tables import Cell, Table, head, number, without_unknown
from rackrate_contract.arms import Node
from rackrate_contract.ranking import Ranking
from rackrate_text.units import change, changes, quantity
from rackrate_text.words import host_name, metric_of_test


def nodes_section(page: Material) -> Part | None:
    """Each node's figures, marks and failures; None for a comparison, whose runs have pages."""
    if page.comparison or not page.results.trials.measured:
        return None
    metrics = [metric for test in page.tests.values() for metric in test.metrics]
    values = {metric.id: _by_node(metric) for metric in metrics}
    marks: dict[str, Counter[str]] = defaultdict(Counter)
    failed: Counter[str] = Counter()
    for mark in page.results.marks:
        for name in _ends(page.marked_trial(mark)):
            marks[name][mark.mark] += 1
    for trial in page.failed:
        failed.update(_ends(trial))
    after: dict[str, list[Node]] = defaultdict(list)
    for each in page.replacements:
        after[each.place].append(each.node)
    rows = [
        {
            "node": Cell(host_name(node.name), "head", _facts(node), arm=page.arm_number(arm.name)),
            **{
                metric.subject: _figure(
                    metric,
                    values[metric.id][arm.name],
                    node.name,
                    is_ranked=arm.name in page.rankings,
                )
                for metric in metrics
            },
            "marked trials": "; ".join(f"{n} {mark}" for mark, n in marks[node.name].items())
            or None,
            "failed trials": number(failed[node.name] or None),
        }
        for arm in page.results.arms
        for first in arm.nodes
        for node in (first, *after[first.name])
    ]
    return Part(
        "nodes",
        "Nodes",
        heading="Node by node",
        ranked=[
            (page.arm_title(ranking.arm), ranking.sentences(), _ranks(page, ranking))
            for ranking in page.rankings.values()
        ],
        nodes=Table("Medians of the trials in which a node took part", without_unknown(rows)),
    )


def _ranks(page: Material, ranking: Ranking) -> Table:
    """The ranked nodes of an arm against its median node, the best first."""
    rows = [
        {
            "node": head(host_name(node.name)),
            "overall": number(change(node.ratio) if len(node.figures) > 1 else None),
            "rank": f"not among {node.among_best - 1} best"
            if node.among_best > 1
            else "may be the best",
            **{
                metric_of_test(each.test, each.metric): number(
                    f"{quantity(each.mean, each.unit)}, {change(each.ratio)}",
                    f"{changes(each.ci_simultaneous)}, {each.verdict}",
                )
                for each in node.figures
            },
        }
        for node in ranking.nodes
    ]
    caption = f"Nodes of {page.arm_title(ranking.arm)} by rank: means of their pairs, against the"
    caption += " median node, with the 95 % CI adjusted for all nodes, tests and arms"
    return Table(caption, without_unknown(rows), most=page.detail.rows)


#: The values of each node, by arm and node.
_Values = Mapping[str, Mapping[str, Sequence[float]]]


def _by_node(metric: MetricMaterial) -> _Values:
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial, value in metric.values:
        for name in _ends(trial):
            values[trial.arm][name].append(value)
    return values


def _figure(
    metric: MetricMaterial, of_arm: Mapping[str, Sequence[float]], node: str, *, is_ranked: bool
) -> Cell:
    """A node's median; below it how far it is from that of its arm, if a pair is not all of it.

    In an arm whose nodes are ranked, only the ranks say how far it is from the others.
    """
    if node not in of_arm:
        return number(None)
    median = statistics.median(of_arm[node])
    of_all = statistics.median(value for values in of_arm.values() for value in values)
    is_part = len(of_arm) > 2 and of_all and not is_ranked
    below = f"{change(median / of_all)} from its arm" if is_part else ""
    return number(quantity(median, metric.unit), below)


def _ends(trial: Trial) -> set[str]:
    return {trial.client_name, trial.server_name}


def _facts(node: Node) -> str:
    return ", ".join(filter(None, (node.instance_type, node.zone)))
