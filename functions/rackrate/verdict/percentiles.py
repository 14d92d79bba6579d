"""Percentiles of an arm's raw values, with intervals from its blocks. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from rackrate.histograms import Histogram, merged
from rackrate.plan.fields import LEAST_BLOCKS
from rackrate.tools.base import least_for
from rackrate.verdict.layout import Floats
from rackrate_contract.student import student_t
from rackrate_contract.verdicts import Ends, Percentiles

#: The percentiles by name.
SHARES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}


def percentiles(blocks: Sequence[Sequence[float] | Floats | Histogram]) -> Percentiles:
    """Percentiles of the pooled raw values of all blocks, not percentiles of trials.

    The 95 % interval treats the percentiles of the blocks as replicates, with their center at that
    of the pooled values (sectioning; Nakayama 2014, doi 10.1145/2558328). No end
    contradicts the order of percentiles.

    Args:
        blocks: the raw values of each block, positive, or in all blocks their histogram.

    Returns:
        The percentiles in the unit of the values; None where there are too few values for at least
        one to lie beyond the percentile. A percentile has an interval if there are six blocks, each
        with five values or more expected on either side of it.
    """
    counted = [block for block in blocks if isinstance(block, Histogram)]
    sections: Sequence[Floats | Histogram] = counted or [
        np.asarray(block, dtype=np.float64) for block in blocks if len(block)
    ]
    pooled = merged(counted) if counted else np.concatenate([np.array([]), *sections])
    values = {name: _at(pooled, share) for name, share in SHARES.items()}
    intervals = {
        name: interval
        for name, share in SHARES.items()
        if len(sections) >= LEAST_BLOCKS
        and min(map(len, sections)) >= least_for(max(share, 1 - share))
        and (interval := _interval(values[name], [_at(section, share) for section in sections]))
    }
    return Percentiles(**values, intervals=_in_order(intervals), samples=len(pooled))


def _in_order(intervals: Mapping[str, Ends]) -> dict[str, Ends]:
    """Intervals cut to what the order of percentiles leaves: none is below the median's own."""
    ends = list(intervals.values())
    lows = accumulate((low for low, _ in ends), max)
    highs = [*accumulate((high for _, high in reversed(ends)), min)][::-1]
    return dict(zip(intervals, zip(lows, highs, strict=True), strict=True))


def _at(values: Floats | Histogram, share: float) -> float | None:
    if len(values) * (1 - share) < 1 - 1e-9:
        return None
    if not isinstance(values, Histogram):
        return float(np.quantile(values, share))
    place = share * (len(values) - 1)
    below = math.floor(place)
    low, high = values[below], values[min(below + 1, len(values) - 1)]
    return low + (high - low) * (place - below)


def _interval(pooled: float | None, sections: Sequence[float | None]) -> Ends | None:
    known = [value for value in sections if value is not None and value > 0]
    if not pooled or pooled <= 0 or len(known) < len(sections):
        return None
    error = float(np.std(np.log(np.array(known) / pooled), ddof=1)) / math.sqrt(len(known))
    half = student_t(0.95, len(known) - 1) * error
    return pooled * math.exp(-half), pooled * math.exp(half)
