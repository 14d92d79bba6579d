"""The variability (CV) of an arm's values over time, and its comparison with the baseline. Pure.

Variability is the mean absolute deviation of the blocks from the median. The interval of the ratio
of two arms' variabilities is that of a permutation test. If the arm varies R times as much as the
baseline, its deviations divided by R and the baseline's are alike, whatever their distribution, and
so are all ways to divide them into two groups. A way that exchanges some deviations of the arm for
some of the baseline has the larger difference if R is above the ratio of their sums. So the
interval's ends are quantiles of that ratio over all ways, or over some thousands drawn by chance.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rackrate.verdict.estimate import ERROR
from rackrate.verdict.layout import Floats, Layout, Value
from rackrate_contract.verdicts import Ends, Steadiness, Word
from rackrate_text.units import percent

#: A difference in variability matters if the ratio exceeds this factor and the larger CV exceeds
#: this share.
STEADINESS_FACTOR = 1.5
STEADY = 0.01
#: With fewer blocks two outliers of one arm may be half of its blocks of one direction.
LEAST_BLOCKS_OF_STEADINESS = 10
#: All ways to divide the blocks of both arms are tried if they are no more.
_MOST_WAYS = 10_000
#: The standard deviation of normal noise, in mean absolute deviations.
_OF_NORMAL_NOISE = math.sqrt(math.pi / 2)


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
    with_logarithm = [value for value in values if value.has_logarithm]
    if not with_logarithm:
        return Spread(None, None)
    layout = Layout.of(with_logarithm)
    between = layout.variance_between_pairs()
    return Spread(
        _variability(layout.block_deviations), None if between is None else math.sqrt(between)
    )


def compare_steadiness(
    arm: Sequence[Value] | Layout, baseline: Sequence[Value] | Layout, *, error: float = ERROR
) -> Steadiness:
    """Compare the variability of two arms between blocks.

    Args:
        arm: the arm's values, or their layout.
        baseline: the baseline's values, or their layout.
        error: error of this comparison.
    """
    layouts = [
        side if isinstance(side, Layout) else Layout.of(v for v in side if v.has_logarithm)
        for side in (arm, baseline)
    ]
    ours, theirs = (layout.block_deviations for layout in layouts)
    spreads = (_variability(ours), _variability(theirs))
    if None in spreads:
        return Steadiness(
            arm=spreads[0],
            baseline=spreads[1],
            ratio=None,
            ci95=None,
            ci_simultaneous=None,
            verdict="inconclusive",
            reason="variability needs two blocks of both arms",
        )
    alone, deciding = _intervals(ours, theirs, (ERROR, error))
    blocks = min(len(layout.numbers) for layout in layouts)
    word, reason = _word(deciding, max(filter(None, spreads), default=0.0), blocks)
    return Steadiness(
        arm=spreads[0],
        baseline=spreads[1],
        ratio=spreads[0] / spreads[1] if spreads[0] and spreads[1] else None,
        ci95=alone,
        ci_simultaneous=deciding,
        verdict=word,
        reason=reason,
    )


def _variability(deviations: Floats) -> float | None:
    return float(deviations.mean()) * _OF_NORMAL_NOISE if deviations.size else None


def _word(interval: Ends | None, most: float, blocks: int) -> tuple[Word, str | None]:
    """The word on an interval, and the reason for it where the interval is not enough.

    Args:
        interval: the ratio's interval that decides; None without one.
        most: the variability of the arm that varies more.
        blocks: the number of blocks of the arm with fewer.
    """
    if blocks < (least := LEAST_BLOCKS_OF_STEADINESS):
        return "inconclusive", f"{blocks} blocks; a verdict on variability needs {least}"
    if most <= STEADY:
        both = f"both vary by no more than {percent(STEADY)} between blocks"
        return "no meaningful difference", both
    if interval is None:
        return "inconclusive", "one arm's values hardly vary, or there are too few blocks"
    low, high = interval
    if high < 1 / STEADINESS_FACTOR:
        return "better", None
    if low > STEADINESS_FACTOR:
        return "worse", None
    if low >= 1 / STEADINESS_FACTOR and high <= STEADINESS_FACTOR:
        return "no meaningful difference", None
    both = "the interval holds both differences that matter and ones that do not"
    return "inconclusive", both


def _intervals(ours: Floats, theirs: Floats, errors: Sequence[float]) -> list[Ends | None]:
    """The intervals of the ratio of two arms' mean deviations; None for one without two ends."""
    leaving, coming, ways = _exchanges(ours.size, theirs.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (leaving @ ours) / (coming @ theirs)
    ratios = np.sort(ratios[~np.isnan(ratios)])
    # A way that exchanges nothing, or only zeros, is no evidence against any ratio.
    places = [math.floor(ways * error / 2 + 1e-9) - (ways - ratios.size) for error in errors]
    ends = [
        (ratios[place], ratios[-1 - place]) if place >= 0 else (0, math.inf) for place in places
    ]
    return [
        (float(low), float(high)) if low > 0 and math.isfinite(high) else None for low, high in ends
    ]


@functools.lru_cache(maxsize=8)
def _exchanges(ours: int, theirs: int) -> tuple[Floats, Floats, int]:
    """Ways to divide the deviations of two arms again, the same ones in every call.

    Returns:
        For each way that exchanges some, which of the arm's it takes away and which of the
        baseline's it brings in, of shapes (ways, ours) and (ways, theirs); and the number of all.
    """
    both = ours + theirs
    if math.comb(both, ours) <= _MOST_WAYS:
        chosen = np.array([*itertools.combinations(range(both), ours)])
    else:
        # The blocks' order says nothing about their deviations, so any seed will do.
        order = np.random.default_rng(0).random((_MOST_WAYS // 2, both)).argsort(axis=1)
        # The first way is the arms as they are.
        chosen = np.vstack([np.arange(ours), order[1:, :ours]])
    unchanged = np.zeros((len(chosen), both), dtype=bool)
    np.put_along_axis(unchanged, chosen, True, axis=1)
    leaving, coming = ~unchanged[:, :ours], unchanged[:, ours:]
    if ours == theirs:  # mirror images, so that arms that trade places get the inverse interval
        leaving, coming = np.vstack([leaving, coming]), np.vstack([coming, leaving])
    some = leaving.any(axis=1)
    return leaving[some].astype(float), coming[some].astype(float), len(some)
