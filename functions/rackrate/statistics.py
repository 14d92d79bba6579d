"""The verdict: an arm against the baseline, with its uncertainty. Pure.

Both arms are measured at the same time in each block, so blocks are the units that are resampled,
and each resample takes both arms' values of a block together (a paired bootstrap).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

#: With n blocks the interval from least to greatest covers the median with 1 - 2^(1-n): 94 % with
#: five blocks, 97 % with six. Fewer than six cannot support an interval of 95 %.
LEAST_BLOCKS = 6
RESAMPLES = 10_000
CONFIDENCE = 0.95

Word = Literal["better", "worse", "no meaningful difference", "inconclusive"]


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline on one metric.

    Attributes:
        blocks: how many blocks both arms were measured in.
        arm_median: median over those blocks of the arm's value; None without any.
        baseline_median: the same of the baseline.
        ratio: arm_median / baseline_median.
        ci95: interval of the ratio; None with fewer than two blocks.
        verdict: the word.
        reason: why the verdict is inconclusive, or None.
    """

    blocks: int
    arm_median: float | None
    baseline_median: float | None
    ratio: float | None
    ci95: tuple[float, float] | None
    verdict: Word
    reason: str | None


def compare(
    arm: Mapping[int, Sequence[float]],
    baseline: Mapping[int, Sequence[float]],
    *,
    better: Literal["higher", "lower"],
    threshold: float,
    seed: int,
) -> Comparison:
    """Compares two arms.

    Args:
        arm: the values of each block, by block number; several where several pairs were measured.
        baseline: the same of the baseline.
        better: which way is better.
        threshold: a ratio within 1 / (1 + threshold) and 1 + threshold does not matter.
        seed: of the resampling, so that the same trials give the same verdict.
    """
    blocks = sorted(block for block in arm if arm[block] and baseline.get(block))
    if not blocks:
        return Comparison(
            0, None, None, None, None, "inconclusive", "no block has values of both arms"
        )
    of_arm = [statistics.median(arm[block]) for block in blocks]
    of_baseline = [statistics.median(baseline[block]) for block in blocks]
    arm_median, baseline_median = statistics.median(of_arm), statistics.median(of_baseline)
    if min(of_baseline) <= 0 or min(of_arm) <= 0:
        return Comparison(
            len(blocks), arm_median, baseline_median, None, None, "inconclusive",
            "a value is not positive, so there is no ratio",
        )  # fmt: skip
    ratio = arm_median / baseline_median
    if len(blocks) < 2:
        return Comparison(
            1, arm_median, baseline_median, ratio, None, "inconclusive",
            f"one block; an interval of 95 % needs {LEAST_BLOCKS}",
        )  # fmt: skip
    interval = bootstrap_interval(of_arm, of_baseline, seed=seed)
    word, reason = _word(interval, better=better, threshold=threshold)
    if len(blocks) < LEAST_BLOCKS:
        word = "inconclusive"
        reason = f"{len(blocks)} blocks; an interval of 95 % needs {LEAST_BLOCKS}"
    return Comparison(len(blocks), arm_median, baseline_median, ratio, interval, word, reason)


def bootstrap_interval(
    arm: Sequence[float], baseline: Sequence[float], *, seed: int
) -> tuple[float, float]:
    """The percentile bootstrap interval of the ratio of the medians, pairs resampled together.

    Args:
        arm: one value for each block, shape (n,), n >= 1.
        baseline: the baseline's values of the same blocks, shape (n,), all positive.
        seed: of the random numbers.
    """
    values = np.array([arm, baseline], dtype=float)  # (2, n)
    chance = np.random.default_rng(seed)
    chosen = chance.integers(values.shape[1], size=(RESAMPLES, values.shape[1]))
    medians = np.median(values[:, chosen], axis=2)  # (2, RESAMPLES)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians[0] / medians[1], [tail, 1 - tail])
    return float(low), float(high)


def _word(
    interval: tuple[float, float], *, better: Literal["higher", "lower"], threshold: float
) -> tuple[Word, str | None]:
    low, high = interval
    least, most = 1 / (1 + threshold), 1 + threshold
    if low > most:
        return ("better" if better == "higher" else "worse"), None
    if high < least:
        return ("worse" if better == "higher" else "better"), None
    if least <= low and high <= most:
        return "no meaningful difference", None
    return "inconclusive", "the interval holds both differences that matter and ones that do not"
