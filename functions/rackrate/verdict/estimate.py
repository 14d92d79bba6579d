"""An estimate of a ratio, its intervals, and the words that a family of estimates gets. Pure.

Runs and campaigns decide alike: better or worse by a two-sided test against the threshold, no
meaningful difference by two one-sided tests, all answers together with one error (Holm, 1979).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

from rackrate_contract.gates import ERROR as ERROR
from rackrate_contract.student import satterthwaite, student_t
from rackrate_contract.verdicts import Better, Ends, Word
from rackrate_text.units import percent

CONFIDENCE = 1 - ERROR
#: Probability that the recommended blocks or pairs settle a verdict, if the difference is as
#: estimated.
_POWER = 0.8
_POWER_QUANTILE = NormalDist().inv_cdf(_POWER)
# Differences of logarithms below this are rounding errors of the arithmetic.
TINY = 1e-9

#: Where a settled estimate lies with respect to the threshold.
Settled = Literal["beyond", "within"]


@dataclass(frozen=True)
class Estimate:
    """The logarithm of a ratio, and its uncertainty.

    Attributes:
        log_ratio: difference of the logarithms, arm minus baseline.
        of_blocks: the component of its variance that further blocks reduce.
        block_freedom: degrees of freedom of `of_blocks`.
        of_units: the component that only further units reduce: pairs or runs.
        unit_freedom: degrees of freedom of `of_units`.
        units: number of units of the arm with fewer.
        least: least half of an interval's width, from the resolution of the values.
    """

    log_ratio: float
    of_blocks: float
    block_freedom: float
    of_units: float = 0.0
    unit_freedom: float = 1.0
    units: int = 1
    least: float = 0.0

    @property
    def is_finite(self) -> bool:
        """Whether all of its figures could be computed."""
        return all(map(math.isfinite, (self.log_ratio, self.of_blocks, self.of_units, self.least)))

    @property
    def ratio(self) -> float:
        """The ratio."""
        return ratios((self.log_ratio, self.log_ratio))[0]

    def half_width(self, confidence: float, *, blocks: float = 1.0, units: float = 1.0) -> float:
        """Half the width of Student's interval with this many times the blocks and units."""
        return max(self.least, self._t(confidence, blocks, units) * self.error(blocks, units))

    def _t(self, confidence: float, blocks: float, units: float) -> float:
        freedom = satterthwaite(
            (self.of_blocks / blocks, (self.block_freedom + 1) * blocks - 1),
            (self.of_units / units, (self.unit_freedom + 1) * units - 1),
        )
        return student_t(confidence, freedom)

    def error(self, blocks: float = 1.0, units: float = 1.0) -> float:
        """The standard error with this many times the blocks and units."""
        return math.sqrt(self.of_blocks / blocks + self.of_units / units)

    def interval(self, confidence: float) -> Ends:
        """The interval of the ratio."""
        half = self.half_width(confidence)
        return ratios((self.log_ratio - half, self.log_ratio + half))

    def settled(self, edge: float, error: float) -> Settled | None:
        """Whether it is significantly beyond the threshold, or significantly within it."""
        beyond = abs(self.log_ratio) - edge
        if beyond - self.half_width(1 - error) > TINY:
            return "beyond"
        # Two one-sided tests, each of them with this error.
        return "within" if beyond + self.half_width(1 - 2 * error) < TINY else None

    def shown(self, outlook: Outlook, settled: Settled | None) -> Ends:
        """The adjusted interval of the ratio, cut to what its word says.

        A decided word excludes a side of the threshold (Strassburger and Bretz 2008, doi
        10.1002/sim.3338), so the interval ends there. It misses the truth only if the interval that
        is not cut misses it, or if the word is false. The interval of an open one crosses the
        threshold, also after rounding: what its word lacks may be more than width.
        """
        low, high = self.interval(outlook.confidence)
        least, most = 1 / (1 + outlook.threshold), 1 + outlook.threshold
        if settled == "within":
            return max(low, least), min(high, most)
        if settled == "beyond":
            return (max(low, most), high) if self.log_ratio > 0 else (low, min(high, least))
        # More than the last digit of a printed change.
        step = 0.0011 if outlook.threshold < 0.99 else 0.011
        low, high = min(low, most - step), max(high, least + step)
        if low > least - step and high < most + step:
            return (low, most + step) if most / high < low / least else (least - step, high)
        return low, high

    def word(self, settled: Settled | None, better: Better) -> Word:
        """The verdict's word."""
        if settled is None:
            return "inconclusive"
        if settled == "within":
            return "no meaningful difference"
        return "better" if (self.log_ratio > 0) == (better == "higher") else "worse"


@dataclass(frozen=True)
class Wider(Estimate):
    """An estimate for a wider scope: no surer than that for the narrower one.

    Attributes:
        narrower: the estimate for the narrower scope, of the same ratio.
    """

    narrower: Estimate = field(kw_only=True)

    def half_width(self, confidence: float, *, blocks: float = 1.0, units: float = 1.0) -> float:
        """Half the width of Student's interval, of the narrower scope if that is wider."""
        half = super().half_width(confidence, blocks=blocks, units=units)
        return max(half, self.narrower.half_width(confidence, blocks=blocks))


def settle(estimates: Sequence[Estimate | None], edge: float, error: float) -> list[Settled | None]:
    """Settle as many estimates as the error of all of them together allows (Holm)."""
    words: list[Settled | None] = [None] * len(estimates)
    while (left := words.count(None)) > 0:
        further = [
            (index, settled)
            for index, estimate in enumerate(estimates)
            if words[index] is None
            and estimate is not None
            and (settled := estimate.settled(edge, error / left)) is not None
        ]
        if not further:
            break
        for index, settled in further:
            words[index] = settled
    return words


@dataclass(frozen=True)
class Outlook:
    """What a verdict that is not settled depends on.

    Attributes:
        threshold: see `answer`.
        confidence: the confidence of the adjusted interval.
        most_blocks: number of replicates after which the run or campaign ends at the latest.
        replicates: what the estimate's interval is computed from.
        reach: distance from the threshold, as a logarithm, within which even the most replicates
            settle nothing.
    """

    threshold: float
    confidence: float
    most_blocks: int | None = None
    replicates: Literal["blocks", "runs", "draws"] = "blocks"
    reach: float = 0.0

    @property
    def edge(self) -> float:
        """The threshold as a logarithm."""
        return math.log1p(self.threshold)

    @property
    def confidence_within(self) -> float:
        """The confidence of the interval that has to lie within the threshold."""
        # Two one-sided tests; over draws the whole interval, because luck may be skewed.
        return self.confidence if self.replicates == "draws" else 2 * self.confidence - 1

    def settles(self, estimate: Estimate, *, blocks: float = 1.0, units: float = 1.0) -> bool:
        """Whether this many times the blocks and units would probably settle a verdict."""
        distance = abs(estimate.log_ratio) - self.edge
        confidence = self.confidence if distance > 0 else self.confidence_within
        half = estimate.half_width(confidence, blocks=blocks, units=units)
        return half + _POWER_QUANTILE * estimate.error(blocks, units) <= abs(distance)


def why_inconclusive(estimate: Estimate, outlook: Outlook) -> str:
    """The sentence on an interval that settles nothing."""
    half, edge = estimate.half_width(outlook.confidence), outlook.edge
    low, high = estimate.log_ratio - half, estimate.log_ratio + half
    if low > 0 or high < 0:
        least = percent(outlook.threshold)
        return f"there is a difference, but it may be less than the {least} that matter"
    # The 95 % interval beside it may be narrower and lie beyond the threshold.
    is_adjusted = outlook.confidence > CONFIDENCE + TINY
    interval = "the interval adjusted for all comparisons" if is_adjusted else "the interval"
    if low < -edge and high > edge:
        return f"{interval} holds differences that matter in both directions"
    return f"{interval} holds both differences that matter and ones that do not"


def further(settles: Callable[[int], bool], present: int, most: int) -> int | None:
    """The least number above the present one that settles a verdict, less the present one."""
    if present >= most or not settles(most):
        return None
    low, high = present, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle) else (middle, high)
    return high - present


def prospect(estimate: Estimate, blocks: int, outlook: Outlook) -> float | None:
    """The predictive probability that the run's most blocks settle the verdict.

    The estimate after all blocks is normal around the present one, with the variance that the
    further blocks can add.
    """
    if outlook.most_blocks is None:
        return None
    if outlook.most_blocks <= blocks:
        return 0.0
    share = outlook.most_blocks / blocks
    change = max(TINY, estimate.error() * math.sqrt(1 - 1 / share))
    later = NormalDist(estimate.log_ratio, change)
    half = estimate.half_width(outlook.confidence, blocks=share)
    half_within = estimate.half_width(outlook.confidence_within, blocks=share)
    beyond = outlook.edge + max(outlook.reach, half)
    within = outlook.edge - max(outlook.reach, half_within)
    chance = later.cdf(-beyond) + 1 - later.cdf(beyond)
    if within > 0:
        chance += later.cdf(within) - later.cdf(-within)
    return min(1.0, chance)


def ratios(interval: tuple[float, float]) -> Ends:
    """The ratios of an interval of logarithms."""
    # The limits keep the exponential of an unbounded interval from overflowing.
    low, high = (math.exp(min(max(bound, -700.0), 700.0)) for bound in interval)
    return low, high
