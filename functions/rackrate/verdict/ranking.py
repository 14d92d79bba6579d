"""The rank of each node in its arm, and what a shared layer of EC2's network is worth. Pure.

A node's figure is the mean of its pairs, fitted together with blocks (`Layout`). It contains the
effects of the nodes that it was measured with. Blocks are the replicates, as in a verdict on these
nodes: each block tells how far a node is from its level, and the difference of two such series
gives the interval of the difference of two nodes, whatever their noise has in common.

- A node against the median node of its arm gets a verdict like an arm; all nodes, tests and arms of
  a run share one error (Holm, Bonferroni).
- The set of nodes that may be among the k best: a node leaves it if k others are better than it
  with certainty (multiple comparisons with the best, as Hsu 1984, doi 10.1214/aos/1176346725, for
  any k). It then takes at least one false comparison between one of the k best and one of the other
  n - k to lose one of the k best, so the error is divided by k (n - k).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rackrate.plan.fields import LEAST_BLOCKS
from rackrate.tools.base import Metric, TestBase
from rackrate.verdict.estimate import ERROR, TINY, Estimate, Outlook, ratios, settle
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
_NOT_MEASURED = "it was not measured"


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
    pairs: Mapping[str, Mapping[str, tuple[float, Floats]]]

    @classmethod
    def of(cls, values: Iterable[Value], metric: Metric) -> NodeLevels | None:
        """The levels of the nodes of a metric's values; None without logarithms."""
        layout = Layout.of(value for value in values if value.has_logarithm)
        if not layout.rows:
            return None
        inner = layout.logs - layout.row_levels[:, None] - layout.block_effects[None, :]
        place = {pair: index for index, pair in enumerate(layout.pairs)}
        of_pair = _mean_by([place[frozenset(row)] for row in layout.rows], inner, len(place))
        nodes = tuple(sorted(frozenset().union(*layout.pairs)))
        pairs: dict[str, dict[str, tuple[float, Floats]]] = {node: {} for node in nodes}
        for pair, level, series in zip(layout.pairs, layout.pair_levels, of_pair, strict=True):
            one, other = sorted(pair)
            pairs[one][other] = pairs[other][one] = (float(level), series)
        figures = [_mean_of(pairs[node].values()) for node in nodes]
        usual = math.exp(layout.level)
        return cls(
            nodes,
            np.array([level for level, _ in figures]),
            np.array([series for _, series in figures]),
            layout.numbers,
            layout.parts,
            1 if metric.better == "higher" else -1,
            metric.resolution_at(usual) / usual,
            pairs,
        )

    def fault(self, node: str) -> str | None:
        """Why a node has no rank; None if it has one."""
        if node not in self.nodes:
            return _NOT_MEASURED
        if len(self.pairs[node]) < _LEAST_PARTNERS:
            (other,) = self.pairs[node]
            return f"it was measured with {host_name(other)} only, from which it cannot be told"
        blocks = int(np.isfinite(self.series[self.nodes.index(node)]).sum())
        if blocks < LEAST_BLOCKS:
            return f"it was measured in {counted(blocks, 'block')}; a rank needs {LEAST_BLOCKS}"
        return None

    def only(self, nodes: Sequence[str]) -> NodeLevels:
        """The levels of these nodes."""
        index = [self.nodes.index(node) for node in nodes]
        levels, series = self.levels[index], self.series[index]
        return replace(self, nodes=tuple(nodes), levels=levels, series=series)

    @functools.cached_property
    def middle(self) -> tuple[float, tuple[Floats, Floats]]:
        """The median of the nodes, and the series of it, shape (blocks,), as it may be.

        If nodes differ clearly, the median is that of one or two nodes. If they do not, noise
        decides which node that is, and the middle half of them has the median's noise.
        """
        count, order = len(self.nodes), np.argsort(self.levels)
        halves = [order[out : count - out] for out in ((count - 1) // 2, count // 4)]
        alone, half = (_mean(self.series[nodes]) for nodes in halves)
        return float(np.median(self.levels)), (alone, half)

    def against_median(self, level: float, series: Floats) -> Estimate:
        """A level against that of the median node."""
        median, of_median = self.middle
        apart = series - np.array(of_median)
        there = np.isfinite(apart)
        apart = np.where(there, apart, 0.0)
        squares, products = (apart**2).sum(axis=1), (apart[:, 1:] * apart[:, :-1]).sum(axis=1)
        blocks = there.sum(axis=1)
        variances = variance_of_mean(squares, products, blocks, self.parts)
        freedom = float(max(1, blocks.min() - len(self.parts)))
        return Estimate(level - median, float(variances.max()), freedom, least=self.least)

    @functools.cached_property
    def estimates(self) -> list[Estimate]:
        """Each node against the median node."""
        return [*map(self.against_median, map(float, self.levels), self.series)]

    def only_with(self, node: str, edge: float, error: float) -> str | None:
        """The partner without which a node is not shown to be worse; None if there is none."""
        pairs = self.pairs[node]
        worst = min(pairs, key=lambda other: self.sign * pairs[other][0])
        level, series = _mean_of(of for other, of in pairs.items() if other != worst)
        without = self.against_median(level, series)
        worse = without.log_ratio * self.sign < 0 and without.settled(edge, error) == "beyond"
        return None if worse else worst

    @functools.cached_property
    def among_best(self) -> list[int]:
        """Of each node the least k for which it may be among the k best."""
        count = len(self.nodes)
        gaps = self.sign * (self.levels[:, None] - self.levels[None, :])
        errors, freedom = self._differences
        least = np.full(count, count)
        # The quantiles of all k up to a power of two are those of the power, so that they are few.
        low, high = 0, 1
        while low < count and (left := least == count).any():
            error = ERROR / (high * max(1, count - low - 1))
            t = np.zeros_like(errors)
            for each in np.unique(freedom):
                t[freedom == each] = student_t(1 - 2 * error, float(each))
            better = (gaps > np.maximum(self.least, t * errors) + TINY).sum(axis=0)
            found = left & (better < high)
            least[found] = np.minimum(count, np.maximum(low, better[found]) + 1)
            low, high = high, 2 * high
        return [int(each) for each in least]

    @property
    def _differences(self) -> tuple[Floats, Floats]:
        """The standard errors of the differences of two nodes, and their degrees of freedom."""
        there = np.isfinite(self.series).astype(float)
        series = np.where(there > 0, self.series, 0.0)
        both = there[:, 1:] * there[:, :-1]
        earlier, later = series[:, :-1] * both, series[:, 1:] * both
        squares = _sum_with((series**2) @ there.T) - 2 * series @ series.T
        products = _sum_with((earlier * later) @ both.T) - _sum_with(earlier @ later.T)
        blocks = there @ there.T
        variances = variance_of_mean(np.maximum(squares, 0.0), products, blocks, self.parts)
        errors = np.where(blocks < LEAST_BLOCKS, np.inf, np.sqrt(variances))
        return errors, np.maximum(1.0, blocks - len(self.parts))


def combined(tests: Sequence[NodeLevels]) -> NodeLevels:
    """The mean of several tests of the same nodes in the same blocks, where higher is better."""
    numbers = sorted(set.intersection(*(set(each.numbers) for each in tests)))
    series = [each.sign * each.series[:, np.searchsorted(each.numbers, numbers)] for each in tests]
    return replace(
        tests[0],
        levels=np.mean([each.sign * each.levels for each in tests], axis=0),
        series=np.mean(series, axis=0),
        numbers=tuple(numbers),
        sign=1,
        least=float(np.mean([each.least for each in tests])),
    )


def _sum_with(square: Floats) -> Floats:
    both: Floats = square + square.T
    return both


def _mean(rows: Floats) -> Floats:
    """The mean of the rows where they have values, NaN where none has; shape (columns,)."""
    return _mean_by([0] * len(rows), rows, 1).ravel()


def _mean_by(group: Sequence[int], rows: Floats, groups: int) -> Floats:
    """The means of groups of rows where they have values, shape (groups, columns)."""
    total = np.zeros((groups, rows.shape[1]))
    count = np.zeros_like(total)
    np.add.at(total, group, np.nan_to_num(rows))
    np.add.at(count, group, np.isfinite(rows))
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _mean_of(pairs: Iterable[tuple[float, Floats]]) -> tuple[float, Floats]:
    """The mean level of pairs, and their mean series."""
    levels, series = zip(*pairs, strict=True)
    return float(np.mean(levels)), _mean(np.array(series))


# -- a run


@dataclass(frozen=True)
class _Covered:
    """An arm whose pairs cover it.

    Attributes:
        tests: the levels of its ranked nodes by test, the same nodes in each.
        unranked: its other nodes.
    """

    tests: Mapping[str, NodeLevels]
    unranked: tuple[UnrankedNode, ...]

    @classmethod
    def of(cls, evidence: Evidence, arm: Arm, tests: Iterable[TestBase]) -> _Covered:
        """The arm's levels in each test that ranks three nodes, and the nodes without a rank."""
        levels = {
            test.name: NodeLevels.of(_values(evidence, test, arm), test.primary) for test in tests
        }
        measured = {name: each for name, each in levels.items() if each is not None}
        names = dict.fromkeys(
            (*arm.node_names, *(n for each in measured.values() for n in each.nodes))
        )
        faults = {
            test: {name: why for name in names if (why := each.fault(name)) is not None}
            for test, each in measured.items()
        }
        ranks = {test: of for test, of in faults.items() if len(names) - len(of) >= _LEAST_NODES}
        unmeasured = {"": dict.fromkeys(names, _NOT_MEASURED)}
        reasons = {
            name: why for of in (ranks or faults or unmeasured).values() for name, why in of.items()
        }
        ranked = [name for name in names if name not in reasons]
        if len(ranked) < _LEAST_NODES:
            few = f"{counted(len(ranked), 'node')} of its arm could be ranked; that takes three"
            ranks, reasons = {}, {name: reasons.get(name, few) for name in names}
        return cls(
            {test: measured[test].only(ranked) for test in ranks},
            tuple(UnrankedNode(name=name, reason=why) for name, why in reasons.items()),
        )


def rank_nodes(evidence: Evidence) -> tuple[Ranking, ...]:
    """Rank the nodes of each arm whose pairs cover it, and compare pairs by their shared layers.

    Tests of the cluster's DNS and workloads do not measure between two nodes, so they rank none.
    """
    plan = evidence.planned_run.plan
    tests = {test.name: test for test in evidence.tests if not test.uses_cluster_dns}
    covered = {
        name: _Covered.of(evidence, arm, tests.values())
        for name, arm in evidence.arms.items()
        if plan.pairing != "one" and len(arm.nodes) >= _LEAST_NODES
    }
    figures = _figures(covered, tests, plan.threshold)
    layers = _shared_layers(evidence, tests.values())
    return tuple(
        Ranking(
            arm=arm,
            nodes=_ranked(covered[arm], figures[arm]) if arm in covered else (),
            unranked=covered[arm].unranked if arm in covered else (),
            partners=_partners(covered[arm]) if arm in covered else None,
            layers=tuple(layers.get(arm, ())),
        )
        for arm in evidence.arms
        if arm in covered or arm in layers
    )


def _values(evidence: Evidence, test: TestBase, arm: Arm) -> list[Value]:
    """The values of a test by the nodes that were measured, which may have replaced others."""
    return [
        Value(trial.block, trial.client_name, trial.server_name, value)
        for trial in evidence.by_test_and_arm.get((test.name, arm.name), [])
        if (value := trial.values.get(test.primary.name)) is not None
    ]


def _figures(
    covered: Mapping[str, _Covered], tests: Mapping[str, TestBase], threshold: float
) -> dict[str, dict[str, list[NodeFigure]]]:
    """The figures of each arm's nodes, which share one error."""
    families = [(arm, test, of) for arm, each in covered.items() for test, of in each.tests.items()]
    estimates = [estimate for *_, levels in families for estimate in levels.estimates]
    edge, error = math.log1p(threshold), ERROR / max(1, len(estimates))
    outlook = Outlook(threshold, 1 - error)
    settled = iter(zip(estimates, settle(estimates, edge, ERROR), strict=True))
    figures: dict[str, dict[str, list[NodeFigure]]] = {
        arm: {node: [] for node in _nodes(each)} for arm, each in covered.items()
    }
    for arm, test, levels in families:
        metric = tests[test].primary
        for index, node in enumerate(levels.nodes):
            estimate, side = next(settled)
            word = estimate.word(side, metric.better)
            figure = NodeFigure.from_fields(
                metric,
                test=test,
                metric=metric.name,
                mean=ratios((levels.levels[index],) * 2)[0],
                ratio=ratios((estimate.log_ratio,) * 2)[0],
                ci_simultaneous=estimate.shown(outlook, side),
                verdict=word,
                among_best=levels.among_best[index],
                only_with=levels.only_with(node, edge, error) if word == "worse" else None,
            )
            figures[arm][node].append(figure)
    return figures


def _nodes(covered: _Covered) -> tuple[str, ...]:
    return next((levels.nodes for levels in covered.tests.values()), ())


def _ranked(
    covered: _Covered, figures: Mapping[str, Sequence[NodeFigure]]
) -> tuple[RankedNode, ...]:
    """The nodes by the mean of their tests, the best first."""
    if not covered.tests:
        return ()
    together = combined([*covered.tests.values()])
    best_first = sorted(
        zip(together.estimates, together.nodes, together.among_best, strict=True),
        key=lambda each: (-each[0].log_ratio, each[1]),
    )
    return tuple(
        RankedNode(
            name=node,
            ratio=ratios((estimate.log_ratio,) * 2)[0],
            among_best=among,
            figures=tuple(figures[node]),
        )
        for estimate, node, among in best_first
    )


def _partners(covered: _Covered) -> tuple[int, int] | None:
    numbers = [
        len(levels.pairs[node]) for levels in covered.tests.values() for node in levels.nodes
    ]
    return (min(numbers), max(numbers)) if numbers else None


def _shared_depth(one: Sequence[str], other: Sequence[str]) -> int:
    """How many layers two nodes share, from the top of the network."""
    same = (ours == theirs for ours, theirs in zip(one, other, strict=False))
    return sum(itertools.takewhile(bool, same))


def _shared_layers(evidence: Evidence, tests: Iterable[TestBase]) -> dict[str, list[SharedLayer]]:
    """By arm: pairs that share the network's lowest layer against those that share the next.

    Arms whose pairs all share the same layers, or whose topology EC2 does not tell, have none.
    """
    compared = []
    for arm in evidence.arms.values():
        layers = {node.name: node.network_layers or () for node in arm.nodes}
        for test in tests:
            by_depth: dict[int, list[Value]] = defaultdict(list)
            for value in _values(evidence, test, arm):
                ends = [layers.get(name, ()) for name in (value.client, value.server)]
                if all(ends):
                    by_depth[_shared_depth(*ends)].append(value)
            if len(by_depth) > 1:
                lowest, following = sorted(by_depth, reverse=True)[:2]
                compared.append((arm.name, test, lowest, following, by_depth))
    questions = [
        Question(of[lowest], of[following], test.primary.better, test.primary.resolution_at)
        for _, test, lowest, following, of in compared
    ]
    findings = answer(questions, threshold=evidence.planned_run.plan.threshold)
    shared: dict[str, list[SharedLayer]] = defaultdict(list)
    for (arm_name, test, lowest, following, _), finding in zip(compared, findings, strict=True):
        claim = finding.stack or finding
        shared[arm_name].append(
            SharedLayer.from_fields(
                claim,
                unit=test.primary.unit,
                better=test.primary.better,
                test=test.name,
                metric=test.primary.name,
                layer=lowest,
                next_layer=following,
                pairs=finding.arm_pairs,
                next_pairs=finding.baseline_pairs,
                ratio=finding.ratio,
                scope="these nodes" if finding.stack is None else "this stack's placement",
            )
        )
    return shared
