"""The rank of each node in its arm, and what a shared layer of EC2's network is worth. Pure.

A node's figure is the mean of its pairs, fitted together with blocks (`Layout`). It contains the
effects of the nodes that it was measured with. Blocks are the replicates, as in a verdict on these
nodes: each block tells how far a node is from its level, and the difference of two such series
gives the interval of the difference of two nodes, whatever their noise has in common.

- A node against the median node of its arm gets a verdict like an arm; all nodes, tests and arms of
  a run share one error (Holm, Bonferroni).
- The set of nodes that may be among the k best: a node leaves it if k others are better than it
  with certainty (multiple comparisons with the best, as in J. Hsu, "Multiple Comparisons", 1996,
  for any k). Only a false comparison between one of the k best and one of the other n - k can lose
  one of the k best, so the error is divided by k (n - k).
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rackrate.plan.fields import LEAST_BLOCKS
from rackrate.tools.base import Metric, TestBase
from rackrate.verdict.estimate import ERROR, TINY, Estimate, Outlook, Settled, ratios, settle
from rackrate.verdict.estimator import Question, answer, variance_of_mean
from rackrate.verdict.evidence import Evidence
from rackrate.verdict.layout import Floats, Layout, Value
from rackrate_contract.arms import Arm
from rackrate_contract.ranking import (
    NodeFigure,
    RankedNode,
    Ranking,
    SharedLayer,
    UnrankedNode,
)
from rackrate_contract.student import student_t
from rackrate_text.words import counted, host_name

#: With fewer nodes there is no rank, and a node with one partner cannot be told from it.
_LEAST_NODES, _LEAST_PARTNERS = 3, 2

#: The level of a pair, and its series.
_Pair = tuple[float, Floats]


@dataclass(frozen=True)
class NodeLevels:
    """The nodes of an arm on one metric, in logarithms.

    Attributes:
        nodes: their names.
        levels: the mean of each node's pairs, shape (nodes,).
        series: how far a node's pairs are from their levels in each block, shape (nodes, blocks);
            NaN in a block without any.
        numbers: the numbers of the blocks, ascending.
        parts: see `Layout.parts`.
        sign: 1 if higher is better, or else -1.
        least: least half of an interval's width, from the resolution of the values.
        pairs: of each node its partners' names, with the level and the series of their pair.
    """

    nodes: tuple[str, ...]
    levels: Floats
    series: Floats
    numbers: tuple[int, ...]
    parts: tuple[int, ...]
    sign: int
    least: float
    pairs: Mapping[str, Mapping[str, _Pair]]

    @classmethod
    def of(cls, values: Iterable[Value], metric: Metric) -> NodeLevels:
        """The levels of the nodes of a metric's values; without nodes if none has a logarithm."""
        layout = Layout.of(value for value in values if value.has_logarithm)
        sign = 1 if metric.better == "higher" else -1
        if not layout.rows:
            return cls((), np.empty(0), np.empty((0, 0)), (), (), sign, 0.0, {})
        rows = defaultdict(list)
        for row, inner in zip(layout.rows, layout.logs - layout.row_levels[:, None], strict=True):
            rows[frozenset(row)].append(inner - layout.block_effects)
        pairs: dict[str, dict[str, _Pair]] = defaultdict(dict)
        for (one, other), level in zip(map(sorted, layout.pairs), layout.pair_levels, strict=True):
            pair = float(level), _mean(rows[frozenset((one, other))])
            pairs[one][other] = pairs[other][one] = pair
        nodes = tuple(sorted(pairs))
        levels, series = zip(*(_mean_of(pairs[node].values()) for node in nodes), strict=True)
        usual = math.exp(layout.level)
        least = metric.resolution_at(usual) / usual
        of_nodes = np.array(levels), np.array(series)
        return cls(nodes, *of_nodes, layout.numbers, layout.parts, sign, least, pairs)

    def fault(self, node: str) -> str | None:
        """Why a node has no rank; None if it has one."""
        if node not in self.nodes:
            return "not measured"
        if len(self.pairs[node]) < _LEAST_PARTNERS:
            (other,) = self.pairs[node]
            return f"measured with {host_name(other)} only, from which it cannot be told"
        blocks = int(np.isfinite(self.series[self.nodes.index(node)]).sum())
        if blocks < LEAST_BLOCKS:
            return f"measured in {counted(blocks, 'block')}; a rank needs {LEAST_BLOCKS}"
        return None

    def only(self, nodes: Sequence[str]) -> NodeLevels:
        """The levels of these nodes."""
        index = [self.nodes.index(node) for node in nodes]
        levels, series = self.levels[index], self.series[index]
        return replace(self, nodes=tuple(nodes), levels=levels, series=series)

    @functools.cached_property
    def _middle(self) -> Floats:
        """Series of the median node, as it may be, shape (2, blocks).

        If nodes differ clearly, the median is that of one or two nodes. If they do not, noise
        decides which node that is, and the middle half of them has the median's noise.
        """
        count, order = len(self.nodes), np.argsort(self.levels)
        outside = (count - 1) // 2, count // 4
        return np.array([_mean(self.series[order[out : count - out]]) for out in outside])

    def against_median(self, level: float, series: Floats) -> Estimate:
        """A level against that of the median node."""
        variances, freedom = _noise(series - self._middle, self.parts)
        ratio = float(level - np.median(self.levels))
        return Estimate(ratio, float(variances.max()), float(freedom.min()), least=self.least)

    @functools.cached_property
    def estimates(self) -> list[Estimate]:
        """Each node against the median node."""
        return [*map(self.against_median, map(float, self.levels), self.series)]

    def only_with(self, node: str, edge: float, error: float) -> str | None:
        """The partner without which a node is not shown to be worse; None if there is none."""
        pairs = self.pairs[node]
        worst = min(pairs, key=lambda other: self.sign * pairs[other][0])
        others = _mean_of(pair for other, pair in pairs.items() if other != worst)
        without = self.against_median(*others)
        worse = without.log_ratio * self.sign < 0 and without.settled(edge, error) == "beyond"
        return None if worse else worst

    @functools.cached_property
    def among_best(self) -> list[int]:
        """Of each node the least k for which it may be among the k best."""
        count = len(self.nodes)
        noise = [_noise(self.series - series, self.parts) for series in self.series]
        errors = np.sqrt([variances for variances, _ in noise])
        freedom = np.array([each for _, each in noise])
        errors[freedom < LEAST_BLOCKS - len(self.parts)] = np.inf
        gaps = self.sign * (self.levels[:, None] - self.levels[None, :])
        least = np.full(count, count)
        # The quantiles of all k up to a power of two are those of the power, so that they are few.
        low, high = 0, 1
        while low < count and (left := least == count).any():
            error = ERROR / (high * max(1, count - low - 1))
            t = {each: student_t(1 - 2 * error, float(each)) for each in np.unique(freedom)}
            half = np.vectorize(t.__getitem__)(freedom) * errors
            better = (gaps > np.maximum(self.least, half) + TINY).sum(axis=0)
            least = np.where(left & (better < high), np.maximum(low, better) + 1, least)
            low, high = high, 2 * high
        return [min(count, int(each)) for each in least]


def combined(tests: Sequence[NodeLevels]) -> NodeLevels:
    """The mean of several tests of the same nodes in the same blocks, where higher is better."""
    numbers = sorted(set.intersection(*(set(each.numbers) for each in tests)))
    columns = [np.searchsorted(each.numbers, numbers) for each in tests]
    pairs_of = [*zip(tests, columns, strict=True)]
    return replace(
        tests[0],
        levels=np.mean([each.sign * each.levels for each in tests], axis=0),
        series=np.mean([each.sign * each.series[:, of] for each, of in pairs_of], axis=0),
        sign=1,
        least=float(np.mean([each.least for each in tests])),
    )


def _noise(series: Floats, parts: tuple[int, ...]) -> tuple[Floats, Floats]:
    """The variances of the means of series, and their degrees of freedom."""
    blocks = np.isfinite(series).sum(axis=-1)
    known = np.nan_to_num(series)
    squares, products = known**2, known[..., 1:] * known[..., :-1]
    variances = variance_of_mean(squares.sum(axis=-1), products.sum(axis=-1), blocks, parts)
    return variances, np.maximum(1.0, blocks - len(parts))


def _mean(rows: Any) -> Floats:
    """The mean of the rows where they have values, NaN where none has; shape (columns,)."""
    return np.asarray(np.ma.masked_invalid(rows).mean(axis=0).filled(np.nan))


def _mean_of(pairs: Iterable[_Pair]) -> _Pair:
    """The mean level of pairs, and their mean series."""
    levels, series = zip(*pairs, strict=True)
    return float(np.mean(levels)), _mean(series)


# -- a run


def rank_nodes(evidence: Evidence) -> tuple[Ranking, ...]:
    """Rank the nodes of each arm whose pairs cover it, and compare pairs by their shared layers.

    Tests of the cluster's DNS and workloads do not measure between two nodes, so they rank none.
    """
    plan = evidence.planned_run.plan
    tests = {test.name: test for test in evidence.tests if not test.uses_cluster_dns}
    covered = {
        arm.name: _covered(evidence, arm, tests.values())
        for arm in evidence.arms.values()
        if tests and plan.pairing != "one" and len(arm.nodes) >= _LEAST_NODES and not arm.endpoint
    }
    levels = [each for of_tests, _ in covered.values() for each in of_tests.values()]
    estimates = [estimate for each in levels for estimate in each.estimates]
    settled = iter(settle(estimates, math.log1p(plan.threshold), ERROR))
    outlook = Outlook(plan.threshold, 1 - ERROR / max(1, len(estimates)))
    layers = _shared_layers(evidence, tests.values())
    return tuple(
        Ranking(
            arm=arm,
            nodes=_ranked(of, tests, outlook, settled),
            unranked=unranked,
            least_partners=min(
                (len(each.pairs[node]) for each in of.values() for node in each.nodes), default=0
            ),
            layers=tuple(layers[arm]),
        )
        for arm in evidence.arms
        for of, unranked in [covered.get(arm, ({}, ()))]
        if arm in covered or layers[arm]
    )


def _values(evidence: Evidence, test: TestBase, arm: Arm) -> list[Value]:
    """The values of a test by the nodes that were measured, which may have replaced others."""
    return [
        Value(trial.block, trial.client_name, trial.server_name, value)
        for trial in evidence.by_test_and_arm.get((test.name, arm.name), [])
        if (value := trial.values.get(test.primary.name)) is not None
    ]


def _covered(
    evidence: Evidence, arm: Arm, tests: Iterable[TestBase]
) -> tuple[dict[str, NodeLevels], tuple[UnrankedNode, ...]]:
    """An arm's levels in each test that ranks three nodes, and the nodes without a rank."""
    levels = {t.name: NodeLevels.of(_values(evidence, t, arm), t.primary) for t in tests}
    names = dict.fromkeys((*arm.node_names, *(n for each in levels.values() for n in each.nodes)))
    faults = {
        test: {name: why for name in names if (why := each.fault(name)) is not None}
        for test, each in levels.items()
    }
    ranks = {t: of for t, of in faults.items() if len(names) - len(of) >= _LEAST_NODES}
    reasons = {name: why for of in (ranks or faults).values() for name, why in of.items()}
    ranked = [name for name in names if name not in reasons]
    if len(ranked) < _LEAST_NODES:
        few = f"{counted(len(ranked), 'node')} of its arm could be ranked; that takes three"
        ranks, reasons = {}, {name: reasons.get(name, few) for name in names}
    unranked = (UnrankedNode(name=name, reason=why) for name, why in reasons.items())
    return {test: levels[test].only(ranked) for test in ranks}, tuple(unranked)


def _ranked(
    levels_of: Mapping[str, NodeLevels],
    tests: Mapping[str, TestBase],
    outlook: Outlook,
    settled: Iterator[Settled | None],
) -> tuple[RankedNode, ...]:
    """An arm's nodes by the mean of its tests, the best first; `settled` has their next words."""
    figures: dict[str, list[NodeFigure]] = defaultdict(list)
    for name, levels in levels_of.items():
        test = tests[name]
        for index, (node, estimate) in enumerate(zip(levels.nodes, levels.estimates, strict=True)):
            word = estimate.word(side := next(settled), test.primary.better)
            figures[node].append(
                NodeFigure.from_fields(
                    test.primary,
                    test=test.name,
                    metric=test.primary.name,
                    mean=ratios((levels.levels[index],) * 2)[0],
                    ratio=estimate.ratio,
                    ci_simultaneous=estimate.shown(outlook, side),
                    verdict=word,
                    among_best=levels.among_best[index],
                    only_with=levels.only_with(node, outlook.edge, 1 - outlook.confidence)
                    if word == "worse"
                    else None,
                )
            )
    if not figures:
        return ()
    all_tests = combined([*levels_of.values()])
    order = sorted(range(len(figures)), key=lambda node: -all_tests.estimates[node].log_ratio)
    return tuple(
        RankedNode(
            name=name,
            ratio=all_tests.estimates[node].ratio,
            among_best=all_tests.among_best[node],
            figures=tuple(figures[name]),
        )
        for node in order
        for name in [all_tests.nodes[node]]
    )


def _shared_layers(
    evidence: Evidence, tests: Iterable[TestBase]
) -> defaultdict[str, list[SharedLayer]]:
    """By arm: pairs that share the network's lowest layer against those that share the next.

    Arms whose pairs all share the same layers, or whose topology EC2 does not tell, have none.
    """
    compared = []
    for arm, test in itertools.product(evidence.arms.values(), tests):
        layers = {node.name: node.network_layers or () for node in arm.nodes}
        by_depth: dict[int, list[Value]] = defaultdict(list)
        for value in _values(evidence, test, arm):
            ends = [layers.get(name, ()) for name in (value.client, value.server)]
            if all(ends):
                by_depth[sum(itertools.takewhile(bool, map(operator.eq, *ends)))].append(value)
        if len(by_depth) > 1:
            compared.append((arm.name, test, sorted(by_depth.items(), reverse=True)[:2]))
    findings = answer(
        [
            Question(ours, theirs, test.primary.better, test.primary.resolution_at)
            for _, test, ((_, ours), (_, theirs)) in compared
        ],
        threshold=evidence.planned_run.plan.threshold,
    )
    shared = defaultdict(list)
    for (arm_name, test, ((layer, _), (following, _))), finding in zip(
        compared, findings, strict=True
    ):
        layer_worth = SharedLayer.from_fields(
            finding.stack or finding,
            test=test.name,
            metric=test.primary.name,
            layer=layer,
            next_layer=following,
            pairs=finding.arm_pairs,
            next_pairs=finding.baseline_pairs,
            ratio=finding.ratio,
            scope="these nodes" if finding.stack is None else "this stack's placement",
        )
        shared[arm_name].append(layer_worth)
    return shared
