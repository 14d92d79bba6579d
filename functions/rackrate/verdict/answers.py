"""What several runs tell together: answers, cells of a sweep, why a campaign stopped."""

from __future__ import annotations

from typing import Literal

from rackrate.document import Document
from rackrate.tools.base import Better
from rackrate.verdict.model import Ends, Word

#: What an answer is about. With fewer than `LEAST_DRAWS` draws nothing can be said of the group.
#: A pool of fewer stacks is about those.
AnswerScope = Literal["these draws", "these stacks", "the placement group"]
#: Separates the ids of the runs of a draw.
BETWEEN_RUNS = ", "


class DrawRatio(Document):
    """The ratio that one draw found."""

    run_id: str
    """The run's id; those of several runs on the same nodes, separated by a comma and a space."""
    ratio: float
    """The arm's geometric mean divided by the baseline's, on the nodes of this draw."""
    ci95: Ends | None
    """The 95 % interval of that run alone; null if it measured too little for one."""
    arm_median: float | None
    baseline_median: float | None
    arm_mean: float | None = None
    """The arm's geometric mean, of which `ratio` is the quotient; null in older files."""
    baseline_mean: float | None = None
    started_at: str | None = None
    """When its first run started. ISO 8601, UTC."""

    @property
    def run_ids(self) -> list[str]:
        """The ids of its runs."""
        return self.run_id.split(BETWEEN_RUNS)


class Answer(Document):
    """An arm against the baseline on one metric, over draws."""

    test: str
    metric: str
    unit: str
    better: Better
    arm: str
    baseline: str
    draws: tuple[DrawRatio, ...]
    """In the order in which they were made."""
    left_out: int = 0
    """Number of draws without a ratio for this metric. No figure contains them."""
    arm_median: float | None
    """The median of the draws' medians, in the metric's unit."""
    baseline_median: float | None
    arm_mean: float | None = None
    """The geometric mean of the draws' means, of which `ratio` is the quotient; null if a draw has
    none, as in older files."""
    baseline_mean: float | None = None
    ratio: float | None
    """The geometric mean of the draws' ratios: what the group buys on average."""
    ci95: Ends | None
    """The 95 % interval of that mean alone; null with one draw."""
    ci_simultaneous: Ends | None
    """The same, adjusted for all answers and looks of the campaign, and cut to what the word says;
    null with fewer than four draws."""
    confidence_simultaneous: float | None
    prediction95: Ends | None
    """The 95 % prediction interval: the ratio that the next deployment will get."""
    variability: float | None
    """The standard deviation of the logarithm of the ratio between draws, beyond what the runs'
    own uncertainty explains; 0.05 is about 5 %."""
    variability_at_most: float | None = None
    """Its one-sided 95 % upper bound; null with one draw, and in older files."""
    trend: float | None = None
    """How many times the first draw's ratio the last one's is, along a line through all draws, if
    that trend is significant; null if it is not."""
    verdict: Word
    reason: str | None
    """Why it is inconclusive."""
    scope: AnswerScope
    time: str = ""
    """The time that the draws took, such as `in these 2 h 05 min`; empty if unknown."""
    claim: str
    more_draws: int | None = None
    """About how many more draws would settle it."""
    prospect: float | None = None
    """Probability that the campaign's most draws settle it, while it is open."""
    threshold: float
    """Differences below this share do not matter."""
    changed: bool | None = None
    """Whether the newest draw differs from the draws before it; null if that was not asked."""

    @property
    def shown_interval(self) -> Ends | None:
        """The interval that the word belongs to."""
        return self.ci_simultaneous

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is conclusive."""
        return self.verdict != "inconclusive"


class SweepCell(Document):
    """An arm's values of one metric at one step of a sweep."""

    value: str | int
    arm: str
    test: str
    metric: str
    unit: str
    better: Better
    runs: int
    """The number of runs with this value."""
    mean: float | None
    """The geometric mean of the runs' medians."""
    share_of_nominal: float | None
    """The mean divided by the instance type's documented peak bandwidth; null for other units."""
    ratio: float | None
    """The mean divided by that of the sweep's first value; null for the first."""
    ci95: Ends | None
    """The 95 % interval of the ratio alone; null with one run per value."""
    ci_simultaneous: Ends | None = None
    """The same, adjusted for all words of the sweep, and cut to what the word says."""
    verdict: Word | None
    """Against the first value; null for the first."""
    reason: str | None
    total: float | None = None
    """For a sweep over nodes: the sum over all pairs that were measured at the same time."""

    @property
    def shown_interval(self) -> Ends | None:
        """The interval that the word belongs to; results of earlier versions have no such."""
        return self.ci_simultaneous or self.ci95


class CampaignStopped(Document):
    """Why a campaign made no more steps."""

    after: int
    """The number of steps that it had made."""
    most: int
    why: Literal["settled", "no prospect", "most", "budget", "failures"]
    """`no prospect`: more draws would hardly settle another answer. `budget`: the next step would
    have exceeded the budget. `failures`: too many steps failed in a row."""
    text: str
    """The same in a sentence."""
