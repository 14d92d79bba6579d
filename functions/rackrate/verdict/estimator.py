"""The verdict: an arm against the baseline, with its uncertainty. Pure.

A trial's value is modeled as a product of four factors: the level of the pair of nodes in its
direction, the effect of the block on the whole arm, the effect of the block on both arms, and
noise. So the estimator works on logarithms, where products are sums and a difference is a ratio.
docs/statistics.md explains the estimator; benchmarks/verdict.py measures its error rates.

- Both arms are measured in the same block, so each block gives one difference of the arms. Effects
  on both arms cancel in it. Blocks are the replicates for a claim about these nodes.
- Pairs are the replicates for a claim about the stack's placement, because the effect of a pair
  does not average out over blocks. Its variance adds those of blocks and pairs (two-way clustered
  variance, as Cameron, Gelbach and Miller, doi 10.1198/jbes.2010.07136). If both arms use the same
  pairs, each pair gives one difference of the arms, and the effects of the pairs cancel too.
- Runs are the replicates for a claim about a change since earlier runs.
- Neighboring blocks may be correlated. Estimated first-order autocorrelation widens the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

import numpy as np

from rackrate.plan.fields import LEAST_BLOCKS, LEAST_PAIRS, LEAST_RUNS
from rackrate.verdict.drift import Series
from rackrate.verdict.estimate import (
    CONFIDENCE,
    ERROR,
    Estimate,
    Outlook,
    Settled,
    Wider,
    further,
    prospect,
    ratios,
    settle,
    why_inconclusive,
)
from rackrate.verdict.layout import Floats, Layout, Value
from rackrate_contract.gates import smallest_regression, variance_of_next
from rackrate_contract.student import mean_freedom, satterthwaite
from rackrate_contract.verdicts import Better, Claim, Ends, Scope, Word
from rackrate_text.words import counted

#: The most blocks that a recommendation may reach in total.
MOST_BLOCKS = 200
#: The most pairs that a recommendation may reach, as a multiple of the present number.
MOST_TIMES_PAIRS = 20
_MOST_CORRELATION = 0.8

_PLACEMENT: Scope = "this stack's placement"


def exact(_: float) -> float:
    """The resolution of values that are not rounded."""
    return 0.0


class Question(NamedTuple):
    """One comparison: the values of an arm and of its baseline.

    Attributes:
        arm: the arm's values.
        baseline: the baseline's values, measured in the same blocks.
        better: the direction that is better.
        resolution: distance to the next value that the tool can report, by value, in its unit.
        unfit: why the values cannot be compared; None if they can.
    """

    arm: Sequence[Value]
    baseline: Sequence[Value]
    better: Better
    resolution: Callable[[float], float] = exact
    unfit: str | None = None

    @property
    def others(self) -> Sequence[Value]:
        """What the arm's values are compared with."""
        return self.baseline


class RunsQuestion(NamedTuple):
    """One comparison of an arm with the same arm in earlier runs.

    Attributes:
        arm: the arm's values.
        baselines: its values in each earlier run.
        better: the direction that is better.
        resolution: distance to the next value that the tool can report, by value, in its unit.
        unfit: why the values cannot be compared; None if they can.
    """

    arm: Sequence[Value]
    baselines: Sequence[Sequence[Value]]
    better: Better
    resolution: Callable[[float], float] = exact
    unfit: str | None = None

    @property
    def others(self) -> Sequence[Value]:
        """What the arm's values are compared with."""
        return [value for values in self.baselines for value in values]


@dataclass(frozen=True)
class Finding:
    """An arm against the baseline on one metric.

    Attributes:
        blocks: number of blocks in which both arms were measured. For arms of different runs, the
            number of blocks of the run with the fewest.
        arm_pairs: number of pairs of nodes behind the arm's values.
        baseline_pairs: number of pairs of nodes behind the baseline's values.
        arm_median: median of the arm's values; None without values.
        baseline_median: median of the baseline's values; None without values.
        left_out: number of values without a logarithm, which no figure contains.
        arm_mean: geometric mean of the arm, the level of its pairs over the common blocks; None
            when there is no ratio.
        baseline_mean: the same of the baseline; `ratio` is the quotient of both.
        ratio: ratio of the geometric means, arm to baseline; None when there is none.
        ci95: 95 % interval of the ratio on these nodes; None with fewer than two blocks.
        ci_simultaneous: the same, adjusted for all intervals of the run at all of its looks, and
            cut to what the word says (`Estimate.shown`); None with fewer than six blocks.
        confidence_simultaneous: the confidence of that interval alone, before it is cut.
        verdict: the verdict's word.
        reason: why the verdict is inconclusive, or None.
        scope: the widest scope to which the word applies.
        stack: the claim about the stack's placement; None with too few pairs.
        more_runs: how many further earlier runs a verdict needs.
        smallest_regression: the ratio of the smallest regression that the earlier runs show in half
            of the cases; None for arms of one run, and with fewer than `LEAST_RUNS` of them.
        more_blocks: about how many further blocks would settle the verdict; None when it is
            settled, or when no reasonable number would settle it.
        more_pairs: about how many further pairs in each arm would settle it for the stack.
        prospect: the probability that the run's most blocks settle the verdict; None when it is
            settled or nothing is known.
        series: the course of both arms over the blocks; None without common blocks.
    """

    blocks: int
    arm_pairs: int
    baseline_pairs: int
    arm_median: float | None
    baseline_median: float | None
    left_out: int
    arm_mean: float | None = None
    baseline_mean: float | None = None
    ratio: float | None = None
    ci95: Ends | None = None
    ci_simultaneous: Ends | None = None
    confidence_simultaneous: float = CONFIDENCE
    verdict: Word = "inconclusive"
    reason: str | None = None
    scope: Scope = "these nodes"
    stack: Claim | None = None
    more_runs: int | None = None
    smallest_regression: float | None = None
    more_blocks: int | None = None
    more_pairs: int | None = None
    prospect: float | None = None
    series: Series | None = None


def answer(
    questions: Sequence[Question],
    *,
    threshold: float,
    error: float = ERROR,
    most_blocks: int | None = None,
) -> list[Finding]:
    """Estimate the ratios of a run's comparisons, and decide their verdicts.

    The words keep the error of all comparisons together (Holm, 1979): better or worse by a
    two-sided test against the threshold, no meaningful difference by two one-sided tests.

    Args:
        questions: the comparisons.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        error: error of all comparisons together at this look; less than `ERROR` in a run that
            looks several times (`rackrate.plan.looks`).
        most_blocks: number of blocks after which the run ends at the latest, for `prospect`.
    """
    studies = [_studied(_study, question) for question in questions]
    edge = math.log1p(threshold)
    of_nodes = settle([study.nodes for study in studies], edge, error)
    of_stack = settle([study.stack for study in studies], edge, error)
    confidence = 1 - error / max(1, len(questions))
    findings = []
    for question, study, word, wider in zip(questions, studies, of_nodes, of_stack, strict=True):
        outlook = Outlook(threshold, confidence, most_blocks)
        finding = _finding(study, question.better, word, outlook)
        if finding.ci_simultaneous is not None and study.stack is not None:
            finding = replace(
                finding,
                stack=_claim(study.stack, question.better, wider, outlook),
                scope=finding.scope if wider is None else _PLACEMENT,
                more_pairs=_more_units(study.stack, outlook) if wider is None else None,
            )
        findings.append(finding)
    return findings


def answer_runs(questions: Sequence[RunsQuestion], *, threshold: float) -> list[Finding]:
    """Compare arms with the same arms in earlier runs, with the earlier runs as replicates.

    The interval is the prediction interval of a further such run: it contains what differs from
    run to run. With fewer than `LEAST_RUNS` that is unknown, so there is neither interval nor word.

    Args:
        questions: the comparisons.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
    """
    studies = [_studied(_study_of_runs, question) for question in questions]
    words = settle([study.nodes for study in studies], math.log1p(threshold), ERROR)
    outlook = Outlook(threshold, 1 - ERROR / max(1, len(questions)), replicates="runs")
    return [
        replace(
            _finding(study, question.better, word, outlook),
            scope="this run",
            more_blocks=None,
            prospect=None,
            smallest_regression=None
            if study.nodes is None
            else smallest_regression(
                study.nodes.half_width(outlook.confidence), threshold, question.better
            ),
        )
        for question, study, word in zip(questions, studies, words, strict=True)
    ]


# -- the estimates


@dataclass(frozen=True)
class _Study:
    """The data of a comparison, estimated.

    Attributes:
        finding: the figures that need no estimate.
        nodes: the estimate for these nodes; None without one.
        stack: the estimate for the stack's placement; None with too few pairs.
    """

    finding: Finding
    nodes: Estimate | None = None
    stack: Estimate | None = None


class _Open(ArithmeticError):
    """A comparison has too few values. Its verdict is open, and the others are decided."""


def _studied[Q: (Question, RunsQuestion)](
    study: Callable[[Finding, Q], _Study], question: Q
) -> _Study:
    """The study of a comparison; of one that fails, an open one with the reason."""
    finding = _plain(question.arm, question.others)
    try:
        if question.unfit is not None:
            raise _Open(question.unfit)
        studied = study(finding, question)
        if any(not each.is_finite for each in (studied.nodes, studied.stack) if each is not None):
            raise _Open("its values are too large or too small to compute with")
        return studied
    except ArithmeticError as error:
        return _Study(replace(finding, reason=str(error)))


def _study(finding: Finding, question: Question) -> _Study:
    ours, theirs = ([v for v in side if v.has_logarithm] for side in question[:2])
    common = sorted({v.block for v in ours} & {v.block for v in theirs})
    finding = replace(finding, blocks=len(common))
    if not common:
        raise _Open("no block has values of both arms")
    arm, baseline = (Layout.of(values).only(common) for values in (ours, theirs))
    least = _least(finding, question.resolution)
    if set(arm.pairs) == set(baseline.pairs):
        shared = arm.minus(baseline)
        if shared.numbers == arm.numbers and set(shared.pairs) == set(arm.pairs):
            series = _series(arm, baseline, shared.block_effects + shared.level)
            finding = _with_means(finding, arm.level, baseline.level, shared.level)
            return _Study(
                replace(finding, series=series),
                _of_blocks(shared.level, shared.block_effects, shared.parts, least),
                _of_units(shared.level, shared.block_effects, [shared], least),
            )
    level, effects = arm.level - baseline.level, arm.block_effects - baseline.block_effects
    parts = max(arm.parts, baseline.parts, key=len)
    finding = _with_means(finding, arm.level, baseline.level, level)
    return _Study(
        replace(finding, series=_series(arm, baseline, effects + level)),
        _of_blocks(level, effects, parts, least),
        _of_units(level, effects, [arm, baseline], least, parts),
    )


def _study_of_runs(finding: Finding, question: RunsQuestion) -> _Study:
    ours, *others = (
        Layout.of(v for v in values if v.has_logarithm)
        for values in (question.arm, *question.baselines)
    )
    theirs = [layout for layout in others if layout.rows]
    if not ours.rows or not theirs:
        raise _Open("no values")
    finding = replace(finding, blocks=min(len(layout.numbers) for layout in (ours, *theirs)))
    levels = np.array([layout.level for layout in theirs])
    difference, runs = ours.level - float(levels.mean()), levels.size
    finding = _with_means(finding, ours.level, float(levels.mean()), difference)
    if runs < LEAST_RUNS:
        reason = f"{counted(runs, 'earlier run')}: how much runs differ from each other is unknown"
        return _Study(
            replace(
                finding,
                ratio=ratios((difference, difference))[0],
                reason=f"{reason}; a verdict needs {LEAST_RUNS}",
                more_runs=LEAST_RUNS - runs,
            )
        )
    of_runs = variance_of_next(levels.tolist())
    least = _least(finding, question.resolution)
    return _Study(finding, Estimate(difference, 0.0, 1.0, of_runs, runs - 1.0, runs, least))


def _plain(arm: Sequence[Value], baseline: Sequence[Value]) -> Finding:
    ours, theirs = ([v for v in values if v.has_logarithm] for values in (arm, baseline))
    return Finding(
        blocks=0,
        arm_pairs=len({frozenset((v.client, v.server)) for v in ours}),
        baseline_pairs=len({frozenset((v.client, v.server)) for v in theirs}),
        arm_median=median(v.value for v in ours) if ours else None,
        baseline_median=median(v.value for v in theirs) if theirs else None,
        left_out=len(arm) + len(baseline) - len(ours) - len(theirs),
    )


def _series(arm: Layout, baseline: Layout, differences: Floats) -> Series:
    ours, theirs = (side.block_effects + side.level for side in (arm, baseline))
    return Series(arm.numbers, differences, np.exp(ours), np.exp(theirs))


def _with_means(finding: Finding, arm: float, baseline: float, difference: float) -> Finding:
    """With the geometric means of two levels, moved as little as this difference takes."""
    middle = (arm + baseline) / 2
    ours, theirs = ratios((middle + difference / 2, middle - difference / 2))
    return replace(finding, arm_mean=ours, baseline_mean=theirs)


def _least(finding: Finding, resolution: Callable[[float], float]) -> float:
    """The half-width that rounding alone gives the logarithm of a ratio of two values."""
    known = [m for m in (finding.arm_median, finding.baseline_median) if m is not None]
    return sum(resolution(value) / 2 / value for value in known)


def _of_blocks(level: float, effects: Floats, parts: tuple[int, ...], least: float) -> Estimate:
    freedom = float(max(1, effects.size - len(parts)))
    return Estimate(level, _variance_of_mean(effects, parts), freedom, least=least)


def _of_units(
    level: float,
    effects: Floats,
    layouts: Sequence[Layout],
    least: float,
    parts: tuple[int, ...] | None = None,
) -> Estimate | None:
    # Count the pairs first, because the pseudo-values of a large mesh are expensive to compute.
    if any(len(layout.pairs) < LEAST_PAIRS for layout in layouts):
        return None
    if any(layout.units.size < LEAST_PAIRS for layout in layouts):
        return None
    of_units = [
        (float(layout.units.var(ddof=1)) / layout.units.size, mean_freedom(layout.units.size))
        for layout in layouts
    ]
    blocks = _of_blocks(level, effects, parts or layouts[0].parts, least)
    # Both components contain the noise of single trials, so subtract it from one of them.
    twice = sum(layout.noise_of_level for layout in layouts)
    return Wider(
        level,
        max(0.0, blocks.of_blocks - twice),
        blocks.block_freedom,
        of_units=sum(variance for variance, _ in of_units),
        unit_freedom=satterthwaite(*of_units),
        units=min(layout.units.size for layout in layouts),
        least=least,
        narrower=blocks,
    )


def _variance_of_mean(effects: Floats, parts: tuple[int, ...]) -> float:
    """Variance of the mean of a series of blocks, whose parts have a mean of zero each."""
    squares, products = float((effects**2).sum()), float((effects[1:] * effects[:-1]).sum())
    return float(variance_of_mean(squares, products, effects.size, parts))


def variance_of_mean(
    squares: Floats | float, products: Floats | float, blocks: Floats | int, parts: tuple[int, ...]
) -> Floats:
    """Variances of the means of series of blocks, whose parts have a mean of zero each.

    Estimated first-order autocorrelation increases it. An estimate r of a correlation from n values
    is too low by about (1 + 3r)/n. The correction adds that and subtracts 6/n², because six values
    cannot distinguish a small correlation from none.

    Args:
        squares: the sum of each series' squares, of any shape.
        products: the sum of the products of its neighbors.
        blocks: the number of its blocks.
        parts: the number of blocks in each part of the design (`Layout.parts`).
    """
    total, n = np.asarray(squares, dtype=float), np.asarray(blocks, dtype=float)
    known = (n > len(parts)) & (total > 0)
    total, n = np.where(known, total, 0.0), np.where(known, n, len(parts) + 1.0)
    # The mean of the parts' means is the estimate; parts of unequal size make it less exact.
    unequal = n * sum(1 / size for size in parts) / len(parts) ** 2
    raw = np.divide(products, total, out=np.zeros_like(total), where=known)
    r = np.clip(raw + (1 + 3 * raw) / n - 6 / n**2, 0.0, _MOST_CORRELATION)
    r = np.where(n < LEAST_BLOCKS, 0.0, r)
    # 1 + 2 * the sum of (1 - lag/n) * r**lag over the lags below n.
    inflation = 1 + 2 * (r / (1 - r) - r * (1 - r**n) / (n * (1 - r) ** 2))
    # The correlation also biases the sample variance downward.
    freedom = np.maximum(n - len(parts) + 1 - inflation, 0.5)
    return np.asarray(total / freedom * inflation / n * unequal)


# -- the verdicts


def _finding(study: _Study, better: Better, settled: Settled | None, outlook: Outlook) -> Finding:
    finding, estimate = study.finding, study.nodes
    finding = replace(finding, confidence_simultaneous=outlook.confidence)
    if estimate is None:
        return finding
    finding = replace(finding, ratio=estimate.ratio)
    few = outlook.replicates == "blocks" and finding.blocks < LEAST_BLOCKS
    if few and finding.blocks < 2:
        return replace(
            finding,
            reason=f"one block; an interval of 95 % needs {LEAST_BLOCKS}",
            more_blocks=LEAST_BLOCKS - 1,
        )
    finding = replace(finding, ci95=estimate.interval(CONFIDENCE))
    if few:
        return replace(
            finding,
            reason=f"{finding.blocks} blocks; an interval of 95 % needs {LEAST_BLOCKS}",
            more_blocks=LEAST_BLOCKS - finding.blocks,
        )
    finding = replace(finding, ci_simultaneous=estimate.shown(outlook, settled))
    if settled is not None:
        return replace(finding, verdict=estimate.word(settled, better))
    return replace(
        finding,
        reason=why_inconclusive(estimate, outlook),
        more_blocks=_more_blocks(estimate, finding.blocks, outlook),
        prospect=prospect(estimate, finding.blocks, outlook),
    )


def _claim(estimate: Estimate, better: Better, settled: Settled | None, outlook: Outlook) -> Claim:
    return Claim(
        ci95=estimate.interval(CONFIDENCE),
        ci_simultaneous=estimate.shown(outlook, settled),
        verdict=estimate.word(settled, better),
        reason=None if settled is not None else why_inconclusive(estimate, outlook),
    )


def _more_blocks(estimate: Estimate, blocks: int, outlook: Outlook) -> int | None:
    """How many further blocks would probably settle the verdict, if the ratio is as estimated."""

    def settles(number: int) -> bool:
        return outlook.settles(estimate, blocks=number / blocks)

    return further(settles, blocks, MOST_BLOCKS)


def _more_units(estimate: Estimate, outlook: Outlook) -> int | None:
    """How many further pairs in each arm would probably settle the verdict."""
    pairs = estimate.units

    def settles(number: int) -> bool:
        return outlook.settles(estimate, units=number / pairs)

    return further(settles, pairs, MOST_TIMES_PAIRS * pairs)
