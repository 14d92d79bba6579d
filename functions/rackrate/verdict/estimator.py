"""The verdict: an arm against the baseline, with its uncertainty. Pure.

A trial's value is modeled as a product of four factors: the arm's level, the effect of the pair of
nodes, the effect of the block on the whole arm, and noise. So the estimator works on logarithms,
where products are sums and a difference is a ratio. docs/statistics.md explains the estimator and
why it was chosen. benchmarks/verdict.py measures its coverage and error rates.

- Both arms are measured in the same block, so each block gives one difference of the arms. Effects
  on both arms cancel in it. Blocks are the replicates for a claim about these nodes.
- Pairs are the replicates for a claim about the placement, because the effect of a pair does not
  average out over blocks. With enough pairs in both arms the variances of blocks and pairs are
  added (two-way clustered variance, as Cameron, Gelbach and Miller, doi 10.1198/jbes.2010.07136),
  and the claim applies to the placement.
- Neighboring blocks may be correlated. Estimated first-order autocorrelation widens the interval.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import mpmath
import numpy as np
from numpy.typing import NDArray

from rackrate.plan.fields import LEAST_BLOCKS, LEAST_RUNS
from rackrate.tools import Better
from rackrate.verdict.model import Ends, Percentiles, Scope, Steadiness, Word
from rackrate_text.units import percent
from rackrate_text.words import counted

#: An arm needs this many independent pairs for a claim about its placement. Where pairs share
#: nodes, nodes are counted instead.
LEAST_UNITS = 6
CONFIDENCE = 0.95
#: A difference in variability (CV) matters if the ratio exceeds this factor and the larger CV
#: exceeds this share.
STEADINESS_FACTOR = 1.5
STEADY = 0.01
PERMUTATIONS = 2000
#: The most blocks that a recommendation may reach in total.
MOST_BLOCKS = 200
#: Normal quantile for a power of 80 %: the probability that the recommended blocks settle a verdict
#: if the difference is as estimated.
_POWER_QUANTILE = 0.8416

Floats = NDArray[np.float64]


class Value(NamedTuple):
    """The value of a trial, with its pair and block."""

    block: int
    client: str
    server: str
    value: float


@dataclass(frozen=True)
class Finding:
    """An arm against the baseline on one metric.

    Attributes:
        blocks: number of blocks in which both arms were measured. For arms of different runs, the
            number of blocks of the run with fewer.
        arm_pairs: number of pairs of nodes behind the arm's values.
        baseline_pairs: number of pairs of nodes behind the baseline's values.
        arm_median: median of the arm's values; None without values.
        baseline_median: median of the baseline's values; None without values.
        ratio: ratio of the geometric means, arm to baseline; None when there is none.
        ci95: 95 % interval of the ratio; None with fewer than two blocks.
        ci_simultaneous: the interval that decides the verdict, adjusted for the number of verdicts:
            the intervals of all verdicts of the run jointly cover their ratios with 95 %.
        confidence_simultaneous: the confidence of that interval alone.
        verdict: the verdict's word.
        reason: why the verdict is inconclusive, or None.
        scope: what the claim applies to.
        more_blocks: about how many further blocks would settle the verdict; None when it is
            settled, or when no reasonable number would settle it.
        more_pairs: about how many further pairs in each arm would settle it, where more blocks
            cannot.
        more_runs: how many further earlier runs a verdict needs.
    """

    blocks: int
    arm_pairs: int
    baseline_pairs: int
    arm_median: float | None
    baseline_median: float | None
    ratio: float | None = None
    ci95: Ends | None = None
    ci_simultaneous: Ends | None = None
    confidence_simultaneous: float = CONFIDENCE
    verdict: Word = "inconclusive"
    reason: str | None = None
    scope: Scope = "these nodes"
    more_blocks: int | None = None
    more_pairs: int | None = None
    more_runs: int | None = None


@dataclass(frozen=True)
class Spread:
    """The variability of an arm's values, as standard deviations of their logarithms.

    Small ones equal coefficients of variation (CV). None means unknown.

    Attributes:
        between_blocks: between blocks, within pairs.
        between_pairs: between pairs, without the part due to blocks.
    """

    between_blocks: float | None
    between_pairs: float | None


def estimate(
    arm: Sequence[Value],
    baseline: Sequence[Value],
    *,
    better: Better,
    threshold: float,
    family: int = 1,
    paired: bool = True,
) -> Finding:
    """Estimate the ratio of two arms, and decide the verdict.

    Args:
        arm: the arm's values.
        baseline: the baseline's values.
        better: which direction is better.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        family: number of verdicts of the run, for the Bonferroni adjustment of the interval.
        paired: whether both arms were measured in the same blocks; False for different runs.
    """
    of_arm, of_baseline = _Layout.of(arm), _Layout.of(baseline)
    confidence = 1 - (1 - CONFIDENCE) / family
    found = Finding(
        blocks=_common_blocks(of_arm, of_baseline, paired=paired),
        arm_pairs=of_arm.pairs,
        baseline_pairs=of_baseline.pairs,
        arm_median=_median(arm),
        baseline_median=_median(baseline),
        confidence_simultaneous=confidence,
    )
    if found.blocks == 0:
        reason = "no block has values of both arms" if paired else "no values"
        return replace(found, reason=reason)
    if not (of_arm.positive and of_baseline.positive):
        return replace(found, reason="a value is not positive, so there is no ratio")
    estimated = _log_ratio(of_arm, of_baseline, paired=paired)
    found = replace(found, ratio=math.exp(estimated.log_ratio), scope=estimated.scope)
    if found.blocks < 2:
        return replace(
            found,
            reason=f"one block; an interval of 95 % needs {LEAST_BLOCKS}",
            more_blocks=LEAST_BLOCKS - 1,
        )
    interval = estimated.interval(confidence)
    found = replace(
        found, ci95=_ratios(estimated.interval(CONFIDENCE)), ci_simultaneous=_ratios(interval)
    )
    if found.blocks < LEAST_BLOCKS:
        return replace(
            found,
            reason=f"{found.blocks} blocks; an interval of 95 % needs {LEAST_BLOCKS}",
            more_blocks=LEAST_BLOCKS - found.blocks,
        )
    word = _word(interval, better=better, threshold=threshold)
    if word != "inconclusive":
        return replace(found, verdict=word)
    blocks = _more_blocks(estimated, found.blocks, confidence, threshold)
    return replace(
        found,
        reason=_why_inconclusive(interval, threshold),
        more_blocks=blocks,
        more_pairs=None if blocks else _more_pairs(estimated, confidence, threshold),
    )


def estimate_against_runs(
    arm: Sequence[Value],
    runs: Sequence[Sequence[Value]],
    *,
    better: Better,
    threshold: float,
    family: int = 1,
) -> Finding:
    """Estimate the ratio of an arm to the same arm in earlier runs, and decide the verdict.

    Each earlier run is one value: its level. The interval is the prediction interval of a further
    such run (Student's t over runs), so it holds what differs from run to run.

    Args:
        arm: the arm's values.
        runs: the values of the same arm in each earlier run.
        better: which direction is better.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        family: number of verdicts against these runs, for the adjustment of the interval.
    """
    of_arm, *of_runs = map(_Layout.of, (arm, *filter(None, runs)))
    confidence = 1 - (1 - CONFIDENCE) / family
    found = Finding(
        blocks=min(len(layout.numbers) for layout in (of_arm, *of_runs)) if of_runs else 0,
        arm_pairs=of_arm.pairs,
        baseline_pairs=len({pair for layout in of_runs for pair in layout.nodes_of}),
        arm_median=_median(arm),
        baseline_median=_median([value for values in runs for value in values]),
        confidence_simultaneous=confidence,
    )
    if found.blocks == 0:
        return replace(found, reason="no values")
    if not all(layout.positive for layout in (of_arm, *of_runs)):
        return replace(found, reason="a value is not positive, so there is no ratio")
    levels = np.array([layout.level for layout in of_runs])
    log_ratio = of_arm.level - float(levels.mean())
    found = replace(found, ratio=math.exp(log_ratio))
    if levels.size < LEAST_RUNS:
        return replace(
            found,
            reason=f"{counted(levels.size, 'earlier run')}: nobody knows how much runs differ from"
            f" each other; a verdict needs {LEAST_RUNS}",
            more_runs=LEAST_RUNS - levels.size,
        )
    error = float(levels.std(ddof=1)) * math.sqrt(1 + 1 / levels.size)

    def interval(confidence: float) -> Ends:
        half = student_t(confidence, levels.size - 1) * error
        return log_ratio - half, log_ratio + half

    word = _word(interval(confidence), better=better, threshold=threshold)
    return replace(
        found,
        ci95=_ratios(interval(CONFIDENCE)),
        ci_simultaneous=_ratios(interval(confidence)),
        verdict=word,
        reason=_why_inconclusive(interval(confidence), threshold)
        if word == "inconclusive"
        else None,
    )


def spread(values: Sequence[Value]) -> Spread:
    """Estimate the variability of an arm's values."""
    layout = _Layout.of(values)
    if not values or not layout.positive:
        return Spread(None, None)
    within = layout.variance_within_pairs()
    between = layout.variance_between_pairs(within)
    return Spread(
        None if within is None else math.sqrt(within),
        None if between is None else math.sqrt(between),
    )


def estimate_steadiness(
    arm: Sequence[Value], baseline: Sequence[Value], *, family: int = 1, seed: int
) -> Steadiness:
    """Compare the variability (CV) of two arms.

    A verdict of better or worse needs an interval beyond `STEADINESS_FACTOR` and a significant
    permutation test. The interval alone would report a difference when one arm happened to meet a
    rare disturbance.

    Args:
        arm: the arm's values.
        baseline: the baseline's values.
        family: number of such verdicts of the run.
        seed: seed of the permutations, used when there are too many to try all.
    """
    of_arm, of_baseline = _Layout.of(arm), _Layout.of(baseline)
    if not (arm and baseline and of_arm.positive and of_baseline.positive):
        return _unknown_steadiness("no values of both arms")
    by_pairs = _scope(of_arm, of_baseline) == "the placement"
    series = [layout.deviations(by_pairs=by_pairs) for layout in (of_arm, of_baseline)]
    units, fewest = ("pairs" if by_pairs else "blocks"), min(len(d) for d in series)
    if fewest < 2:
        return _unknown_steadiness("one block has no spread")
    ours, theirs = (_spread_of(deviations) for deviations in series)
    ratio = _spread_ratio(series[0], series[1]) if ours > 0 and theirs > 0 else None

    def said(verdict: Word, reason: str | None) -> Steadiness:
        return Steadiness(
            arm=ours,
            baseline=theirs,
            ratio=ours / theirs if theirs > 0 else None,
            ci95=None if ratio is None else _ratios(ratio.interval(CONFIDENCE)),
            verdict=verdict,
            reason=reason,
        )

    if fewest < LEAST_BLOCKS:
        return said("inconclusive", f"{fewest} {units}; a verdict needs {LEAST_BLOCKS}")
    if max(ours, theirs) <= STEADY:
        both = f"both scatter by no more than {percent(STEADY)} between {units}"
        return said("no meaningful difference", both)
    if ratio is None:
        return said("inconclusive", "one arm's values do not scatter at all")
    deciding = ratio.interval(1 - (1 - CONFIDENCE) / family)
    word = _word(deciding, better="lower", threshold=STEADINESS_FACTOR - 1)
    if word == "inconclusive":
        both = "the interval holds both differences that matter and ones that do not"
        return said("inconclusive", both)
    by_chance = _permutation_p(series[0], series[1], seed)
    if word != "no meaningful difference" and by_chance > (1 - CONFIDENCE) / family:
        return said("inconclusive", "a few bad moments of one arm could be chance")
    return said(word, None)


def _unknown_steadiness(reason: str) -> Steadiness:
    return Steadiness(
        arm=None, baseline=None, ratio=None, ci95=None, verdict="inconclusive", reason=reason
    )


def percentiles(samples: Sequence[float] | Floats) -> Percentiles:
    """Percentiles of pooled raw values.

    Args:
        samples: pooled raw values of all trials, shape (n,); not percentiles of trials.

    Returns:
        The percentiles in the unit of the samples; None where there are too few values for at least
        one to lie beyond the percentile.
    """
    pooled = np.asarray(samples, dtype=np.float64)

    def at(share: float) -> float | None:
        enough = pooled.size * (1 - share) >= 1 - 1e-9
        return float(np.quantile(pooled, share)) if enough else None

    return Percentiles(
        p50=at(0.5), p90=at(0.9), p99=at(0.99), p99_9=at(0.999), samples=int(pooled.size)
    )


@functools.lru_cache(maxsize=4096)
def _student_t(confidence: float, tenths: int) -> float:
    freedom = tenths / 10

    def beyond(t: float) -> float:
        x = freedom / (freedom + t * t)
        return float(mpmath.betainc(freedom / 2, 0.5, 0, x, regularized=True)) - (1 - confidence)

    high = 2.0
    while beyond(high) > 0:
        high *= 2
    root = mpmath.findroot(beyond, (0.5, high), solver="anderson", tol=1e-20, verify=False)
    return float(root)


def student_t(confidence: float, freedom: float) -> float:
    """Half the width of Student's two-sided interval, in standard errors.

    Args:
        confidence: confidence of the interval, between 0 and 1.
        freedom: degrees of freedom; rounded down to a tenth, which is conservative.
    """
    return _student_t(confidence, max(10, math.floor(freedom * 10 + 1e-6)))


# -- the design of an arm's values


@dataclass(frozen=True)
class _Layout:
    """An arm's values as a matrix of logarithms, shape (pairs, blocks), NaN where one is missing.

    Both directions of a pair, and repeated values, are one cell: their mean.
    """

    logs: Floats
    nodes_of: tuple[frozenset[str], ...]
    numbers: tuple[int, ...]
    positive: bool

    @classmethod
    def of(cls, values: Sequence[Value]) -> _Layout:
        numbers = tuple(sorted({value.block for value in values}))
        pairs = sorted({tuple(sorted((v.client, v.server))) for v in values})
        column = {block: index for index, block in enumerate(numbers)}
        row = {pair: index for index, pair in enumerate(pairs)}
        positive = all(value.value > 0 and math.isfinite(value.value) for value in values)
        total = np.zeros((len(pairs), len(numbers)))
        count = np.zeros((len(pairs), len(numbers)))
        if positive:
            rows = [row[tuple(sorted((v.client, v.server)))] for v in values]
            columns = [column[v.block] for v in values]
            np.add.at(total, (rows, columns), [math.log(v.value) for v in values])
            np.add.at(count, (rows, columns), 1.0)
        logs = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        return cls(logs, tuple(frozenset(pair) for pair in pairs), numbers, positive)

    @property
    def pairs(self) -> int:
        return len(self.nodes_of)

    @functools.cached_property
    def pair_means(self) -> Floats:
        """Mean of each pair over its blocks, shape (pairs,)."""
        return np.asarray(np.nanmean(self.logs, axis=1))

    @functools.cached_property
    def level(self) -> float:
        """The arm's mean; pairs have equal weight, regardless of their number of lost trials."""
        return float(self.pair_means.mean())

    @functools.cached_property
    def block_means(self) -> Floats:
        """The arm's mean in each block, shape (blocks,), corrected for missing pairs."""
        deviations = self.logs - self.pair_means[:, None]
        return np.asarray(np.nanmean(deviations, axis=0)) + self.level

    @functools.cached_property
    def units(self) -> Floats:
        """Independent estimates of the arm's level, shape (units,).

        If pairs share no node, the pairs are the units. If pairs share nodes, a slow node slows all
        its pairs, so the units are the nodes, with their jackknife pseudo-values.
        """
        nodes = sorted(frozenset().union(*self.nodes_of))
        if len(nodes) == 2 * self.pairs:
            return self.pair_means
        member = np.array([[node in pair for pair in self.nodes_of] for node in nodes])
        left = self.pairs - member.sum(axis=1)
        if (left == 0).any():
            return self.pair_means[:0]
        without = (self.pair_means.sum() - member @ self.pair_means) / left
        return np.asarray(len(nodes) * self.level - (len(nodes) - 1) * without)

    def variance_within_pairs(self) -> float | None:
        """Pooled variance between blocks within pairs; None without repeated blocks."""
        freedom = int(np.isfinite(self.logs).sum()) - self.pairs
        if freedom < 1:
            return None
        return float(np.nansum((self.logs - self.pair_means[:, None]) ** 2) / freedom)

    def variance_between_pairs(self, within: float | None) -> float | None:
        """Variance between pairs without the part due to blocks; None with one pair."""
        if self.pairs < 2:
            return None
        blocks_of_pair = np.isfinite(self.logs).sum(axis=1)
        noise = 0.0 if within is None else within * float((1 / blocks_of_pair).mean())
        return max(0.0, float(self.pair_means.var(ddof=1)) - noise)

    def residual_share(self) -> float:
        """The part of the level's variance from noise that is due to neither pair nor block."""
        rows, columns = self.logs.shape
        if rows < 2 or columns < 2:
            return 0.0
        inner = self.logs - self.pair_means[:, None] - (self.block_means - self.level)[None, :]
        variance = float(np.nansum(inner**2)) / ((rows - 1) * (columns - 1))
        return float(variance / (rows * columns))

    def deviations(self, *, by_pairs: bool) -> Floats:
        """Deviations from the center, shape (units, values): of pairs, or of blocks within pairs.

        A missing value is NaN. The center is the median, so that a few outliers do not enlarge the
        deviations of the other units.
        """
        if by_pairs:
            return (self.pair_means - np.median(self.pair_means))[:, None]
        return np.asarray((self.logs - np.nanmedian(self.logs, axis=1)[:, None]).T)


# -- the estimate


@dataclass(frozen=True)
class _LogRatio:
    """The logarithm of the ratio, and the components of its variance.

    Attributes:
        log_ratio: difference of the logarithms, arm minus baseline.
        of_blocks: the component that further blocks reduce.
        block_freedom: degrees of freedom of `of_blocks`.
        of_pairs: the component that only further pairs reduce; 0 for a claim about these nodes.
        pair_freedom: degrees of freedom of `of_pairs`.
        scope: what the claim applies to.
    """

    log_ratio: float
    of_blocks: float
    block_freedom: float
    of_pairs: float
    pair_freedom: float
    scope: Scope

    def interval(self, confidence: float) -> tuple[float, float]:
        half = self.half_width(confidence)
        return self.log_ratio - half, self.log_ratio + half

    def half_width(
        self, confidence: float, *, blocks: float = 1.0, pairs: float = 1.0, extra: float = 0.0
    ) -> float:
        """Half the interval's width with this many times the blocks and pairs.

        `extra` is added to Student's t, for the power to detect a difference.
        """
        of_blocks, of_pairs = self.of_blocks / blocks, self.of_pairs / pairs
        total = of_blocks + of_pairs
        if total == 0:
            return 0.0
        block_freedom = (self.block_freedom + 1) * blocks - 1
        pair_freedom = (self.pair_freedom + 1) * pairs - 1
        # Satterthwaite's degrees of freedom of a sum of independent variances.
        part = (of_blocks / total) ** 2 / block_freedom + (of_pairs / total) ** 2 / pair_freedom
        t = student_t(confidence, min(1 / part, 1e4))
        return (t + extra) * math.sqrt(total)


def _log_ratio(arm: _Layout, baseline: _Layout, *, paired: bool) -> _LogRatio:
    scope = _scope(arm, baseline)
    if paired:
        common = sorted(set(arm.numbers) & set(baseline.numbers))
        ours = arm.block_means[[arm.numbers.index(b) for b in common]]
        theirs = baseline.block_means[[baseline.numbers.index(b) for b in common]]
        differences = ours - theirs
        log_ratio = float(differences.mean())
        of_blocks = _variance_of_mean(differences)
        block_freedom = float(max(1, len(common) - 1))
    else:
        log_ratio = float(arm.block_means.mean() - baseline.block_means.mean())
        of_blocks, block_freedom = _welch(
            *((_variance_of_mean(x), x.size) for x in (arm.block_means, baseline.block_means))
        )
    if scope == "these nodes":
        return _LogRatio(log_ratio, of_blocks, block_freedom, 0.0, 1.0, scope)
    of_pairs, pair_freedom = _welch(
        *((float(x.var(ddof=1)) / x.size, x.size) for x in (arm.units, baseline.units))
    )
    # Both components contain the noise of single trials, so subtract it from one of them.
    twice = arm.residual_share() + baseline.residual_share()
    return _LogRatio(
        log_ratio, max(0.0, of_blocks - twice), block_freedom, of_pairs, pair_freedom, scope
    )


def _scope(arm: _Layout, baseline: _Layout) -> Scope:
    # Count the pairs first, because the pseudo-values of a large mesh are expensive to compute.
    enough = all(
        layout.pairs >= LEAST_UNITS and layout.units.size >= LEAST_UNITS
        for layout in (arm, baseline)
    )
    return "the placement" if enough else "these nodes"


def _welch(*parts: tuple[float, int]) -> tuple[float, float]:
    """The sum of variances of means, and its degrees of freedom (Welch-Satterthwaite)."""
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / (size - 1) for variance, size in parts if size > 1)
    least = min((size - 1 for _, size in parts), default=1)
    return total, (total**2 / below if below > 0 else float(max(1, least)))


def _variance_of_mean(series: Floats) -> float:
    """Variance of the mean of values in the order of their blocks, shape (blocks,).

    Estimated first-order autocorrelation increases it. An estimate r of a correlation from n values
    is too low by about (1 + 3r)/n. The correction adds that and subtracts 6/n², because six values
    cannot distinguish a small correlation from none.
    """
    n = series.size
    if n < 2:
        return 0.0
    variance = float(series.var(ddof=1))
    if variance == 0 or n < LEAST_BLOCKS:
        return variance / n
    centred = series - series.mean()
    raw = float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
    correlation = min(0.8, max(0.0, raw + (1 + 3 * raw) / n - 6 / n**2))
    lags = np.arange(1, n)
    inflation = float(1 + 2 * ((1 - lags / n) * correlation**lags).sum())
    # The correlation also biases the sample variance downward.
    return variance * (n - 1) / max(n - inflation, 0.5) * inflation / n


def _word(interval: tuple[float, float], *, better: Better, threshold: float) -> Word:
    """The verdict's word for an interval of logarithms."""
    low, high = interval
    edge = math.log1p(threshold)
    if low > edge:
        return "better" if better == "higher" else "worse"
    if high < -edge:
        return "worse" if better == "higher" else "better"
    if -edge <= low and high <= edge:
        return "no meaningful difference"
    return "inconclusive"


def _why_inconclusive(interval: tuple[float, float], threshold: float) -> str:
    low, high = interval
    edge = math.log1p(threshold)
    if low > 0 or high < 0:
        least = percent(threshold)
        return f"there is a difference, but it may be less than the {least} that matter"
    if low < -edge and high > edge:
        return "the interval holds differences that matter in both directions"
    return "the interval holds both differences that matter and ones that do not"


def _more_blocks(
    estimate: _LogRatio, blocks: int, confidence: float, threshold: float
) -> int | None:
    """How many further blocks would probably settle the verdict, if the ratio is as estimated."""
    room = abs(abs(estimate.log_ratio) - math.log1p(threshold))

    def settles(number: int) -> bool:
        half = estimate.half_width(confidence, blocks=number / blocks, extra=_POWER_QUANTILE)
        return half <= room

    if not settles(MOST_BLOCKS):
        return None
    low, high = blocks, MOST_BLOCKS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle) else (middle, high)
    return high - blocks


def _more_pairs(estimate: _LogRatio, confidence: float, threshold: float) -> int | None:
    """How many further pairs in each arm would probably settle the verdict.

    The present number of pairs is inferred from `pair_freedom`.
    """
    if estimate.of_pairs == 0:
        return None
    room = abs(abs(estimate.log_ratio) - math.log1p(threshold))
    pairs = max(LEAST_UNITS, round(estimate.pair_freedom / 2 + 1))
    for number in range(pairs + 1, 20 * pairs):
        half = estimate.half_width(confidence, pairs=number / pairs, extra=_POWER_QUANTILE)
        if half <= room:
            return number - pairs
    return None


# -- variability


@dataclass(frozen=True)
class _SpreadRatio:
    """The logarithm of the ratio of two standard deviations, with its jackknife variance."""

    log: float
    variance: float
    freedom: float

    def interval(self, confidence: float) -> tuple[float, float]:
        if math.isinf(self.variance):
            return -math.inf, math.inf
        half = student_t(confidence, self.freedom) * math.sqrt(self.variance)
        return self.log - half, self.log + half


def _spread_of(deviations: Floats) -> float:
    """Standard deviation of deviations from any center, shape (units, values)."""
    units = len(deviations)
    centred = deviations - np.nanmean(deviations, axis=0)
    return math.sqrt(float(np.nanmean(centred**2)) * units / (units - 1))


def _spreads_without_each(deviations: Floats) -> Floats:
    """`_spread_of` with each unit left out in turn, shape (units,)."""
    units = len(deviations)
    there = np.isfinite(deviations)
    filled = np.where(there, deviations, 0.0)
    left = there.sum(axis=0) - there
    sums, squares = filled.sum(axis=0) - filled, (filled**2).sum(axis=0) - filled**2
    around_mean = squares - sums**2 / np.maximum(left, 1)
    total = around_mean.sum(axis=1) / np.maximum(left.sum(axis=1), 1)
    return np.asarray(np.sqrt(np.maximum(total, 0.0) * (units - 1) / (units - 2)))


def _spread_ratio(ours: Floats, theirs: Floats) -> _SpreadRatio:
    logs, parts = [], []
    for deviations in (ours, theirs):
        n = len(deviations)
        log = math.log(_spread_of(deviations))
        logs.append(log)
        without = _spreads_without_each(deviations) if n > 2 else np.zeros(n)
        if without.min() < 1e-6 * math.exp(log):  # one unit alone causes the variability
            return _SpreadRatio(0.0, math.inf, 1.0)
        pseudo = n * log - (n - 1) * np.log(without)
        parts.append((float(pseudo.var(ddof=1)) / n, n))
    variance, freedom = _welch(*parts)
    return _SpreadRatio(logs[0] - logs[1], variance, freedom)


def _permutation_p(ours: Floats, theirs: Floats, seed: int) -> float:
    """The p-value of a permutation test that exchanges the units' squared deviations."""
    squares = [np.nanmean(deviations**2, axis=1) for deviations in (ours, theirs)]
    pooled = np.concatenate(squares)
    size, rest = len(ours), len(theirs)
    total = float(pooled.sum())

    def unevenness(sums: Floats) -> Floats:
        mine, others = np.maximum(sums, 1e-300), np.maximum(total - sums, 1e-300)
        return np.asarray(np.abs(np.log(mine / size) - np.log(others / rest)))

    seen = float(unevenness(squares[0].sum(keepdims=True))[0]) - 1e-12
    if math.comb(pooled.size, size) <= PERMUTATIONS:
        dealt = np.array(list(itertools.combinations(range(pooled.size), size)))
        return float((unevenness(pooled[dealt].sum(axis=1)) >= seen).mean())
    chance = np.random.default_rng(seed)
    sums = np.array([chance.permutation(pooled)[:size].sum() for _ in range(PERMUTATIONS)])
    return float(((unevenness(sums) >= seen).sum() + 1) / (PERMUTATIONS + 1))


# -- helpers


def _common_blocks(arm: _Layout, baseline: _Layout, *, paired: bool) -> int:
    if paired:
        return len(set(arm.numbers) & set(baseline.numbers))
    return min(len(arm.numbers), len(baseline.numbers))


def _median(values: Sequence[Value]) -> float | None:
    return float(np.median([value.value for value in values])) if values else None


def _ratios(interval: tuple[float, float]) -> tuple[float, float]:
    # The limits keep the exponential of an unbounded interval from overflowing.
    low, high = (math.exp(min(max(bound, -700.0), 700.0)) for bound in interval)
    return low, high
