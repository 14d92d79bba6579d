"""Kinds of pairs: within a partition or across partitions, and across which zones. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rackrate.measure.trials import Trial
from rackrate_contract.arms import Arm, Node
from rackrate_contract.verdicts import KindOfPairs, PartitionPairs
from rackrate_text.words import counted, listed


def partition_pairs(arm: Arm, trials: Sequence[Trial], metric: str) -> PartitionPairs | None:
    """An arm's measured pairs by whether their nodes share a partition.

    Args:
        arm: the arm.
        trials: its measured trials of one test.
        metric: one of the test's metrics.

    Returns:
        None if no pair has partitions, or EC2 did not report those of all.
    """
    nodes, trials = _nodes(arm), _within(arm, trials)
    values: dict[bool, list[float]] = defaultdict(list)
    pairs: dict[bool, set[frozenset[str]]] = defaultdict(set)
    for trial in trials:
        shares = nodes[trial.client].shares_partition(nodes[trial.server])
        if shares is None:
            return None
        values[shares] += [trial.values[metric]] if metric in trial.values else []
        pairs[shares].add(trial.nodes)
    if not pairs:
        return None
    within, across = (
        KindOfPairs(
            pairs=len(pairs[shares]),
            median=statistics.median(values[shares]) if values[shares] else None,
        )
        for shares in (True, False)
    )
    return PartitionPairs(within=within, across=across)


def partitions_in_words(partitions: PartitionPairs | None) -> str:
    """How many pairs are within one partition; empty where that has no meaning."""
    if partitions is None:
        return ""
    every = partitions.within.pairs + partitions.across.pairs
    return (
        f"{partitions.within.pairs} of its {counted(every, 'pair')} within one partition,"
        f" {partitions.across.pairs} across partitions"
    )


def zones_in_words(arm: Arm, trials: Sequence[Trial]) -> str:
    """Between which zones an arm's pairs were; empty if no pair is known to cross zones."""
    nodes, trials = _nodes(arm), _within(arm, trials)
    zones = {trial.nodes: {nodes[name].zone or "" for name in trial.nodes} for trial in trials}
    crossing = [of_pair for of_pair in zones.values() if len(of_pair) > 1 and "" not in of_pair]
    if not crossing:
        return ""
    between = listed(sorted({listed(sorted(of_pair)) for of_pair in crossing}), "or")
    return f"{len(crossing)} of {counted(len(zones), 'pair')} across zones, {between}"


def _within(arm: Arm, trials: Iterable[Trial]) -> list[Trial]:
    """The trials between two nodes of the arm: not those whose load came from load nodes."""
    names = set(arm.node_names)
    return [trial for trial in trials if trial.nodes <= names]


def _nodes(arm: Arm) -> Mapping[str, Node]:
    return {node.name: node for node in arm.nodes}
