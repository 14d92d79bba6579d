"""Percentiles of an arm's raw values, with intervals from its blocks. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rackrate.plan.fields import LEAST_BLOCKS
from rackrate.verdict.layout import Floats
from rackrate.verdict.model import Ends, Percentiles
from rackrate.verdict.student import student_t

#: The percentiles by name.
SHARES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}


def percentiles(blocks: Sequence[Sequence[float] | Floats]) -> Percentiles:
    """Percentiles of the pooled raw values of all blocks, not percentiles of trials.

    The 95 % interval treats the percentiles of the blocks as replicates, with their center at that
    of the pooled values (sectioning; Nakayama 2014, doi 10.1145/2558328).

    Args:
        blocks: the raw values of each block, positive.

    Returns:
        The percentiles in the unit of the values; None where there are too few values for at least
        one to lie beyond the percentile. A percentile has an interval if every block of at least
        six has enough values for it.
    """
    sections = [np.asarray(block, dtype=np.float64) for block in blocks if len(block)]
    pooled = np.concatenate(sections) if sections else np.array([])
    found = {name: _at(pooled, share) for name, share in SHARES.items()}
    intervals = {
        name: interval
        for name, share in SHARES.items()
        if (interval := _interval(found[name], [_at(section, share) for section in sections]))
    }
    return Percentiles(**found, intervals=intervals, samples=int(pooled.size))


def _at(values: Floats, share: float) -> float | None:
    enough = values.size * (1 - share) >= 1 - 1e-9
    return float(np.quantile(values, share)) if enough else None


def _interval(pooled: float | None, sections: Sequence[float | None]) -> Ends | None:
    known = [value for value in sections if value is not None and value > 0]
    if not pooled or pooled <= 0 or len(known) < max(LEAST_BLOCKS, len(sections)):
        return None
    error = float(np.std(np.log(np.array(known) / pooled), ddof=1)) / math.sqrt(len(known))
    half = student_t(0.95, len(known) - 1) * error
    return pooled * math.exp(-half), pooled * math.exp(half)
