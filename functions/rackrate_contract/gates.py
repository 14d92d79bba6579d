"""What a comparison with earlier runs can show.

Each earlier run is one value. The interval is Student's prediction interval of a further run, so it
follows from the spread of the earlier runs before a further one exists. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import variance

from rackrate_contract.student import student_t
from rackrate_contract.verdicts import Better
from rackrate_text.units import duration

#: The probability that any verdict of a run is wrong about a difference, or about its absence.
ERROR = 0.05
_DAY_SECONDS = 86_400


def variance_of_next(levels: Sequence[float]) -> float:
    """The variance of the difference between a further run's level and the mean of these levels.

    Args:
        levels: the logarithms of two or more runs' levels.
    """
    return variance(levels) * (1 + 1 / len(levels))


def half_width(levels: Sequence[float], comparisons: int) -> float:
    """Half the width of the adjusted interval of a further run's ratio, as a logarithm.

    Args:
        levels: the logarithms of two or more runs' levels.
        comparisons: for how many comparisons it is adjusted.
    """
    confidence = 1 - ERROR / comparisons
    return student_t(confidence, len(levels) - 1) * math.sqrt(variance_of_next(levels))


def smallest_regression(half: float, threshold: float, better: Better) -> float:
    """The ratio of the smallest regression that is found to be worse in half of the cases or more.

    The whole interval has to lie beyond the threshold. The estimate is above a true change as often
    as below, and so the interval of a true change of this size lies there in half of the cases.

    Args:
        half: half the width of the interval, as a logarithm.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        better: the direction that is better.
    """
    change = min(math.log1p(threshold) + half, 700.0)  # exp overflows beyond
    return math.exp(change if better == "lower" else -change)


def within_a_day(runs: int, seconds: float) -> str | None:
    """A clause on runs that do not show how days differ; None if they were measured on several.

    Args:
        runs: how many runs there are.
        seconds: from the start of the first to the end of the last.
    """
    if seconds >= _DAY_SECONDS:
        return None
    return (
        f"the {runs} runs were measured within {duration(seconds)}, so their spread does not hold"
        " what differs from day to day; measure on different days, at the same hour and on the same"
        " nodes or stack"
    )
