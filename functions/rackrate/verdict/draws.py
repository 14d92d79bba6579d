"""Over draws: what a placement group buys on average, and what the next deployment will get. Pure.

A draw is one placement of all nodes. It gives one logarithm of a ratio. Draws are the replicates
for a claim about the placement group, as blocks are for a claim about these nodes.

- The interval of the mean and the prediction interval are Student's.
- The words leave half of the error to luck that is not normal: Student's test gets the other half.
  Better and worse need the whole interval beyond the threshold, no meaningful difference the whole
  interval within it.
- If half of all placements lie on one level and half on another, all of a few draws may lie on the
  same level. Near the threshold a word needs enough draws to make that unlikely (`draws_near`).

docs/statistics.md explains the method; benchmarks/draws.py measures its error rates.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean
from typing import NamedTuple

import mpmath
import numpy as np

from rackrate.plan.looks import look_level, looks
from rackrate.verdict.drift import LEAST_CHANGE
from rackrate.verdict.estimate import (
    CONFIDENCE,
    ERROR,
    TINY,
    Estimate,
    Outlook,
    Settled,
    further,
    prospect,
    settle,
    why_inconclusive,
)
from rackrate_contract.student import student_t
from rackrate_contract.verdicts import Better, Ends, Word
from rackrate_text.words import counted

#: From so many draws on an answer is about the placement group.
LEAST_DRAWS = 4
#: The most draws that a campaign may make, and that a recommendation may reach.
MOST_DRAWS = 60
#: A mean is near the threshold if its logarithm is at most this far from it. Two levels of
#: placements that are up to twice as far apart cannot deceive a few draws then.
REACH = 0.15
#: The share of the error that Student's test gets. The rest is for skewed luck.
_SHARE = 0.5
#: The same for a single new draw, whose own tail counts: heavy tails take the rest.
_SHARE_OF_NEWEST = 0.08


class Draw(NamedTuple):
    """The result of one draw.

    Attributes:
        ratio: the arm's mean divided by the baseline's; more than 0.
        error: standard error of its logarithm within its run; None if the run cannot tell.
    """

    ratio: float
    error: float | None = None


class DrawsQuestion(NamedTuple):
    """One comparison over draws.

    Attributes:
        draws: the draws, the newest last.
        better: the direction that is better.
    """

    draws: Sequence[Draw]
    better: Better


@dataclass(frozen=True)
class DrawsFinding:
    """An arm against the baseline on one metric, over draws.

    Attributes:
        draws: number of draws.
        ratio: geometric mean of the ratios; None without a draw.
        ci95: 95 % interval of that mean; None with fewer than two draws.
        ci_simultaneous: the same, adjusted for all answers and looks of the campaign, and cut to
            what the word says (`Estimate.shown`); None with fewer than `LEAST_DRAWS`.
        confidence_simultaneous: the confidence of that interval alone.
        prediction95: 95 % prediction interval of the next draw's ratio.
        variability: standard deviation of the logarithm between draws beyond what the runs' own
            errors explain; None with fewer than two draws.
        variability_at_most: its one-sided 95 % upper bound; None with fewer than two draws.
        trend: how many times the first draw's level the last one's is, along a line through all
            draws, if that trend is significant; None if it is not.
        verdict: the word.
        reason: why it is inconclusive, or None.
        more_draws: about how many more draws would settle it; None when it is settled, or when no
            reasonable number would.
        prospect: the probability that the campaign's most draws settle it; None when it is
            settled or nothing is known.
    """

    draws: int
    ratio: float | None = None
    ci95: Ends | None = None
    ci_simultaneous: Ends | None = None
    confidence_simultaneous: float = CONFIDENCE
    prediction95: Ends | None = None
    variability: float | None = None
    variability_at_most: float | None = None
    trend: float | None = None
    verdict: Word = "inconclusive"
    reason: str | None = None
    more_draws: int | None = None
    prospect: float | None = None


def draws_near(answers: int) -> int:
    """How many draws a word near the threshold needs.

    With so many draws the probability that all of them lie on one of two equally frequent levels,
    the one that deceives, is at most `ERROR` for all answers together.

    Args:
        answers: number of answers of the campaign, at least 1.
    """
    return max(LEAST_DRAWS, math.ceil(math.log2(answers / ERROR) - TINY))


def answer_draws(
    questions: Sequence[DrawsQuestion], *, threshold: float, least: int, most: int
) -> list[DrawsFinding]:
    """Estimate the mean ratios of a campaign's comparisons, and decide their words.

    All words of a campaign, at all of its looks, together have an error of 5 % (Holm, Pocock).
    With fewer than `LEAST_DRAWS` there is no word.

    Args:
        questions: the comparisons.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        least: the fewest draws of the campaign, where it looks first.
        most: the most draws of the campaign, at least `least`.
    """
    answers = max(1, len(questions))
    near = draws_near(answers)
    error = _SHARE * look_level(len(looks(least, most)))
    outlook = Outlook(
        threshold,
        1 - error / answers,
        most_blocks=most,
        replicates="draws",
        reach=REACH if most < near else 0.0,
    )
    means = [_mean(question.draws, near) for question in questions]
    words = settle(means, outlook.edge, error)
    slopes = [_slope(question.draws) for question in questions]
    trends = settle(slopes, math.log1p(LEAST_CHANGE), _SHARE * ERROR)
    return [
        replace(
            _finding(question, mean, settled, outlook),
            trend=math.exp(slope.log_ratio) if slope is not None and trend == "beyond" else None,
        )
        for question, mean, settled, slope, trend in zip(
            questions, means, words, slopes, trends, strict=True
        )
    ]


def draws_needed(
    effect: float,
    variability: float,
    *,
    threshold: float,
    power: float = 0.8,
    answers: int = 1,
) -> int | None:
    """The fewest draws whose word is right with a probability, if luck is normal.

    Args:
        effect: the true ratio: beyond the threshold it is to be found better or worse, within it
            to be found without a meaningful difference.
        variability: standard deviation of the logarithm of a draw's ratio.
        threshold: see `answer_draws`.
        power: the probability.
        answers: the number of answers that share the error.

    Returns:
        At least `LEAST_DRAWS`; None if even `MOST_DRAWS` do not suffice.
    """
    for draws in range(LEAST_DRAWS, MOST_DRAWS + 1):
        if _power(effect, variability, draws, threshold, answers) >= power:
            return draws
    return None


def has_changed(questions: Sequence[DrawsQuestion]) -> list[bool | None]:
    """Whether the newest draw differs from the draws before it.

    It differs if it lies outside the prediction interval of the draws before. All questions
    together have an error of 5 % (Holm). Student's test gets little of it, so that it also holds
    with tails as heavy as those of t with three degrees of freedom.

    Returns:
        For each question whether it differs; None with fewer than `LEAST_DRAWS` draws before.
    """
    steps = [_step(question.draws) for question in questions]
    testable = [step for step in steps if step is not None]
    words = iter(settle(testable, 0.0, _SHARE_OF_NEWEST * ERROR))
    return [None if step is None else next(words) == "beyond" for step in steps]


# -- the estimates


@dataclass(frozen=True)
class _Mean(Estimate):
    """The mean of draws, which are the estimate's blocks.

    Attributes:
        draws: number of draws.
        near: how many draws a word near the threshold needs.
    """

    draws: int = 0
    near: int = LEAST_DRAWS

    def settled(self, edge: float, error: float) -> Settled | None:
        """Whether its interval lies beyond the threshold or within it, with enough draws."""
        distance = abs(self.log_ratio) - edge
        if self.draws < LEAST_DRAWS or self.lacks_draws(edge):
            return None
        half = self.half_width(1 - error)
        if distance - half > TINY:
            return "beyond"
        return "within" if distance + half < -TINY else None

    def lacks_draws(self, edge: float) -> bool:
        """Whether it is near the threshold with too few draws for a word there."""
        return self.draws < self.near and abs(abs(self.log_ratio) - edge) <= REACH


def _mean(draws: Sequence[Draw], near: int) -> _Mean | None:
    """The mean of two or more draws; None of fewer."""
    if len(draws) < 2:
        return None
    logs = np.log([draw.ratio for draw in draws])
    return _Mean(
        float(logs.mean()),
        float(logs.var(ddof=1)) / logs.size,
        logs.size - 1.0,
        # Draws may agree more closely than their own errors allow, by chance or by rounding.
        least=_own_error(draws) / math.sqrt(logs.size),
        draws=logs.size,
        near=near,
    )


def _step(draws: Sequence[Draw]) -> Estimate | None:
    """The distance of the newest draw from those before; None with too few before."""
    *before, newest = draws or [Draw(1.0)]
    mean = _mean(before, LEAST_DRAWS)
    if mean is None or mean.draws < LEAST_DRAWS:
        return None
    share = mean.draws + 1.0
    return replace(
        Estimate(mean.log_ratio, mean.of_blocks, mean.block_freedom),
        log_ratio=math.log(newest.ratio) - mean.log_ratio,
        of_blocks=mean.of_blocks * share,
        least=mean.least * math.sqrt(share),
    )


def _slope(draws: Sequence[Draw]) -> Estimate | None:
    """The change from the first draw to the last along the line of least squares; None of few."""
    if len(draws) < LEAST_DRAWS:
        return None
    logs = np.log([draw.ratio for draw in draws])
    line = np.linspace(-0.5, 0.5, logs.size)
    squares, freedom = float(line @ line), logs.size - 2.0
    slope = float(line @ logs) / squares
    left = logs - logs.mean() - slope * line
    return Estimate(
        slope,
        float(left @ left) / freedom / squares,
        freedom,
        least=_own_error(draws) / math.sqrt(squares),
    )


@functools.lru_cache(maxsize=256)
def _variance_at_most(freedom: int) -> float:
    """The one-sided 95 % upper bound of a variance, divided by its estimate (chi-squared).

    Bisection between 0 and the mean of chi-squared, at which more than half lie below.
    """
    low, high = 0.0, float(freedom)
    while high - low > TINY * high:
        middle = (low + high) / 2
        below = mpmath.gammainc(freedom / 2, 0, middle / 2, regularized=True)
        low, high = (middle, high) if below < ERROR else (low, middle)
    return freedom / low


def _own_error(draws: Sequence[Draw]) -> float:
    """The standard error of a single draw within its run, over the runs that can tell."""
    known = [draw.error**2 for draw in draws if draw.error is not None]
    return math.sqrt(fmean(known)) if known else 0.0


# -- the words


def _finding(
    question: DrawsQuestion, mean: _Mean | None, settled: Settled | None, outlook: Outlook
) -> DrawsFinding:
    draws = len(question.draws)
    finding = DrawsFinding(draws, confidence_simultaneous=outlook.confidence)
    if mean is None:
        ratio = question.draws[0].ratio if question.draws else None
        return replace(finding, ratio=ratio, reason=_too_few(draws), more_draws=LEAST_DRAWS - draws)
    between = max(0.0, mean.of_blocks * draws - _own_error(question.draws) ** 2)
    # The variance of a next draw and of the mean, whose variance is 1/n of the former.
    next_draw = replace(
        mean, of_blocks=mean.of_blocks * (draws + 1), least=mean.least * math.sqrt(draws + 1)
    )
    finding = replace(
        finding,
        ratio=mean.ratio,
        ci95=mean.interval(CONFIDENCE),
        prediction95=next_draw.interval(CONFIDENCE),
        variability=math.sqrt(between),
        variability_at_most=max(
            _own_error(question.draws),
            math.sqrt(mean.of_blocks * draws * _variance_at_most(draws - 1)),
        ),
    )
    if draws < LEAST_DRAWS:
        return replace(finding, reason=_too_few(draws), more_draws=LEAST_DRAWS - draws)
    finding = replace(finding, ci_simultaneous=mean.shown(outlook, settled))
    if settled is not None:
        return replace(finding, verdict=mean.word(settled, question.better))
    return replace(
        finding,
        reason=_why_open(mean, outlook),
        more_draws=_more_draws(mean, outlook),
        prospect=prospect(mean, draws, outlook),
    )


def _too_few(draws: int) -> str:
    return f"{counted(draws, 'draw')}; an answer about the placement group needs {LEAST_DRAWS}"


def _why_open(mean: _Mean, outlook: Outlook) -> str:
    if mean.lacks_draws(outlook.edge):
        return (
            f"so near the threshold an answer needs {mean.near} draws, because fewer may all have"
            " the same luck"
        )
    return why_inconclusive(mean, outlook)


def _more_draws(mean: _Mean, outlook: Outlook) -> int | None:
    """About how many more draws would settle it, if the ratio is as estimated."""

    def settles(number: int) -> bool:
        few = replace(mean, draws=number).lacks_draws(outlook.edge)
        return not few and outlook.settles(mean, blocks=number / mean.draws)

    return further(settles, mean.draws, MOST_DRAWS)


# -- the power

_STEPS = 200


def _power(effect: float, variability: float, draws: int, threshold: float, answers: int) -> float:
    """The probability that so many draws give the right word, integrated over their spread."""
    edge, truth = math.log1p(threshold), abs(math.log(effect))
    freedom = draws - 1
    t = student_t(1 - _SHARE * ERROR / answers, freedom) / math.sqrt(draws)
    reach = REACH if draws < draws_near(answers) else 0.0
    error = max(TINY, variability / math.sqrt(draws))
    # Spread as a multiple of the variability: a chi distribution divided by the root of its freedom
    grid = (np.arange(_STEPS) + 0.5) / _STEPS * 4.0
    logs = (freedom - 1) * np.log(grid) - freedom * grid**2 / 2
    weights = np.exp(logs - logs.max())
    estimated = NormalDist(truth, error)
    chance = 0.0
    for spread, weight in zip(grid, weights / weights.sum(), strict=True):
        half = max(reach, t * variability * float(spread))
        if truth > edge:
            chance += float(weight) * (1 - estimated.cdf(edge + half))
        elif half < edge:
            within = estimated.cdf(edge - half) - estimated.cdf(half - edge)
            chance += float(weight) * within
    return chance
