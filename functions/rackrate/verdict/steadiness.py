"""The variability (CV) of an arm's values over time, and its comparison with the baseline. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rackrate.plan.fields import LEAST_BLOCKS
from rackrate.verdict.estimate import ERROR
from rackrate.verdict.layout import Layout, Value
from rackrate.verdict.model import Steadiness, Word
from rackrate.verdict.student import variance_ratio
from rackrate_text.units import percent

#: A difference in variability matters if the ratio exceeds this factor and the larger CV exceeds
#: this share.
STEADINESS_FACTOR = 1.5
STEADY = 0.01


@dataclass(frozen=True)
class Spread:
    """The variability of an arm's values, as standard deviations of their logarithms.

    Small ones equal coefficients of variation (CV). None means unknown.

    Attributes:
        between_blocks: between blocks, within pairs and directions.
        between_pairs: between pairs, without the part due to noise.
    """

    between_blocks: float | None
    between_pairs: float | None


def spread(values: Sequence[Value]) -> Spread:
    """Estimate the variability of an arm's values."""
    kept = [value for value in values if value.has_logarithm]
    if not kept:
        return Spread(None, None)
    layout = Layout.of(kept)
    within, between = layout.variance_within_rows(), layout.variance_between_pairs()
    return Spread(
        None if within is None else math.sqrt(within[0]),
        None if between is None else math.sqrt(between),
    )


def compare_steadiness(
    arm: Sequence[Value], baseline: Sequence[Value], *, error: float = ERROR
) -> Steadiness:
    """Compare the variability of two arms between blocks, with the interval of F.

    Args:
        arm: the arm's values.
        baseline: the baseline's values.
        error: error of this comparison.
    """
    layouts = [Layout.of([v for v in side if v.has_logarithm]) for side in (arm, baseline)]
    if not all(layout.rows for layout in layouts):
        return _unknown("no values of both arms")
    pooled = [variance for layout in layouts if (variance := layout.variance_within_rows())]
    if len(pooled) < len(layouts):
        return _unknown("one block has no spread")
    (ours, freedom), (theirs, other) = ((v, round(f)) for v, f in pooled)
    ratio = math.sqrt(ours / theirs) if ours > 0 and theirs > 0 else None

    def interval(error: float) -> tuple[float, float] | None:
        if ratio is None:
            return None
        above = math.sqrt(variance_ratio(1 - error, freedom, other))
        below = math.sqrt(variance_ratio(1 - error, other, freedom))
        return ratio / above, ratio * below

    def found(verdict: Word, reason: str | None) -> Steadiness:
        return Steadiness(
            arm=math.sqrt(ours),
            baseline=math.sqrt(theirs),
            ratio=ratio,
            ci95=interval(ERROR),
            verdict=verdict,
            reason=reason,
        )

    fewest = min(len(layout.numbers) for layout in layouts)
    if fewest < LEAST_BLOCKS:
        return found("inconclusive", f"{fewest} blocks; a verdict needs {LEAST_BLOCKS}")
    if max(ours, theirs) <= STEADY**2:
        both = f"both vary by no more than {percent(STEADY)} between blocks"
        return found("no meaningful difference", both)
    deciding = interval(error)
    if deciding is None:
        return found("inconclusive", "the values of one arm do not vary at all")
    low, high = deciding
    if high < 1 / STEADINESS_FACTOR:
        return found("better", None)
    if low > STEADINESS_FACTOR:
        return found("worse", None)
    if low >= 1 / STEADINESS_FACTOR and high <= STEADINESS_FACTOR:
        return found("no meaningful difference", None)
    return found(
        "inconclusive", "the interval holds both differences that matter and ones that do not"
    )


def _unknown(reason: str) -> Steadiness:
    return Steadiness(
        arm=None, baseline=None, ratio=None, ci95=None, verdict="inconclusive", reason=reason
    )
