"""The models of campaign.json: what a campaign did, and what its runs tell together.

`make docs` generates docs/campaign.schema.json from them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from rackrate_contract.capacity import UNFILLED, Capacity, Launch
from rackrate_contract.document import Document, Json
from rackrate_contract.verdicts import Difference, Ends, Judged, Levels, OnMetric, Word
from rackrate_text.units import UNKNOWN, quantity
from rackrate_text.words import counted

CAMPAIGN: Literal["rackrate.campaign.v1"] = "rackrate.campaign.v1"
#: What a campaign's steps have in common: each gets new nodes, each has another value, or they are
#: runs that were made before. A hunt draws new nodes of one arm until they are good enough.
CampaignKind = Literal["draws", "sweep", "pool", "hunt"]
StopReason = Literal["settled", "no prospect", "most", "budget", "failures", "unfilled", "found"]
_Ended = Literal["succeeded", "degraded", "failed", "aborted", "timed_out"]
CampaignStatus = Literal[_Ended, "running", "invalid", "dry_run", "skipped"]
#: What an answer is about. With fewer than `LEAST_DRAWS` draws nothing can be said of the group.
#: A pool of fewer stacks is about those.
AnswerScope = Literal["these draws", "these stacks", "the placement group"]
#: Separates the ids of the runs of a draw.
BETWEEN_RUNS = ", "


class CampaignFacts(Document):
    """The campaign."""

    id: str
    """Name of the execution."""
    kind: CampaignKind
    status: CampaignStatus
    started_at: str
    """ISO 8601, UTC."""
    seconds: float
    """How long it took: from the time it held its nodes until these results were written."""
    execution_arn: str
    lab_scale: float | None
    """Factor by which the lab scaled the nodes' network; null on AWS."""
    budget_dollars: float | None
    """Null for a pool, which costs nothing."""
    dollars: float | None
    """The estimate of what the steps cost; null if no price is known."""
    swept: str | None = None
    """The swept field of the input, such as `nodes` or `vpc_cni`; null for draws and pools."""
    series: str | None = None
    """The series to which its draws were added."""
    continues: str | None = None
    """The campaign whose finished steps it took over."""
    error: str | None
    """Name of the error that ended it; null if it did not fail."""
    cause: str | None
    """The error in words."""


class Step(Document):
    """A step of a campaign: a change, then a run."""

    number: int
    """From 1."""
    change: str
    """What was changed, such as `new nodes` or `VPC CNI v1.15.4-eksbuild.1`."""
    value: str | int | None
    """The value of a sweep's step; null for a draw."""
    run_id: str
    status: str
    """The status of its run; `unfilled` if EC2 had no capacity for all nodes of an arm, or `lost`
    if the change failed otherwise."""
    started_at: str | None
    """When its run started; null if it never did. ISO 8601, UTC."""
    change_seconds: float | None
    """How long the change took."""
    run_seconds: float | None
    """How long its run held the nodes, with the start of its servers and its clean-up; of a pooled
    run, how long it took."""
    dollars: float | None
    nodes: dict[str, tuple[str, ...]]
    """The names of the nodes of each arm."""
    source: str | None = None
    """For a pool: where the run is from, such as another stack's name."""
    reason: str | None = None
    """Why it has no result."""
    launches: tuple[Launch, ...] = ()
    """How the nodes came that were launched for it. After a step that was not filled, the arms
    whose nodes came keep them, and launch none. Empty in older files."""

    @property
    def is_unfilled(self) -> bool:
        """Whether EC2 had no capacity for it: an outcome, not a loss."""
        return self.status == UNFILLED


class DrawRatio(Levels):
    """The ratio that one draw found."""

    run_id: str
    """The run's id; those of several runs on the same nodes, separated by a comma and a space."""
    ratio: float
    """The arm's geometric mean divided by the baseline's, on the nodes of this draw."""
    ci95: Ends | None
    """The 95 % interval of that run alone; null if it measured too little for one."""
    started_at: str | None = None
    """When its first run started. ISO 8601, UTC."""

    @property
    def run_ids(self) -> list[str]:
        """The ids of its runs."""
        return self.run_id.split(BETWEEN_RUNS)


class Answer(Levels, Judged):
    """An arm against the baseline on one metric, over draws."""

    baseline: str
    draws: tuple[DrawRatio, ...]
    """In the order in which they were made."""
    left_out: int = 0
    """Number of draws without a ratio for this metric. No figure contains them."""
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
    def sides(self) -> tuple[str, str]:
        """What people read for the arm and for the baseline."""
        return self.arm_title or self.arm, self.baseline_title or self.baseline

    @property
    def lacks(self) -> str:
        """What a clear answer needs, such as `about 3 more draws`; empty if unknown."""
        return f"about {counted(self.more_draws, 'more draw')}" if self.more_draws else ""

    @property
    def shown_interval(self) -> Ends | None:
        """The interval that the word belongs to."""
        return self.ci_simultaneous

    @property
    def needed(self) -> int | None:
        """How many draws would settle it; None if that is unknown, or it is settled."""
        return None if self.more_draws is None else len(self.draws) + self.more_draws


class SweepCell(OnMetric):
    """An arm's values of one metric at one step of a sweep."""

    value: str | int
    arm: str
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


class HuntedDraw(Document):
    """What a hunt measured on one placement."""

    run_id: str
    nodes: dict[str, str | None]
    """The instance id of each node, by its name; null if it is not known."""
    value: float
    """The median of its trials, in the metric's unit."""
    ci95: Ends | None
    """Its interval within the run, from the variability between blocks; null with too few blocks
    to tell."""


class SinceEarlierHunt(Document):
    """What has become of the nodes that an earlier hunt measured last."""

    campaign: str
    """Such as `campaign campaign-20261121-082710-d4cc`."""
    gone: tuple[str, ...]
    """Those that were not found any more; `ratio` is null if there are any."""
    ratio: float | None
    """The figure now divided by the figure then."""
    ci95: Ends | None


class HuntGoal(OnMetric):
    """What a hunt hunts for. At most one of the last three is set."""

    arm: str
    endpoint: str | None
    """What each of its nodes is measured towards, as in the plan; null: another of its nodes."""
    target: float | None
    """A value that is good enough, in the metric's unit."""
    best_share: float | None
    """Among which share of placements the nodes are to be."""
    dollars_per_percent: float | None
    """What 1 % better is worth."""


class Hunt(HuntGoal):
    """The present nodes of an arm among all placements that draws may give.

    All that is known of the present nodes is null if they were not measured.
    """

    arm_title: str
    draws: tuple[HuntedDraw, ...]
    """In order. The last is the present placement, if that was measured."""
    met: bool | None = None
    """Whether the present nodes are good enough; null without a goal."""
    rank: int | None = None
    """Among the draws; 1 is the best."""
    better_than: float | None = None
    """The share of placements than which the present one is better."""
    better_than_ci95: Ends | None = None
    chance: float | None = None
    """The probability that the next draw meets the goal; null if it is not known."""
    gain: float | None = None
    """What going on would gain on average, in the metric's unit: with as many draws as the hunt
    has left, at least one, and stopping in time. Null with fewer than three draws."""
    dollars_per_draw: float | None
    since: SinceEarlierHunt | None

    def figures(self, draw: HuntedDraw) -> tuple[str, str]:
        """A draw's value, and its interval or a dash."""
        ends = [quantity(end, self.unit) for end in draw.ci95 or ()]
        return quantity(draw.value, self.unit), " to ".join(ends) or UNKNOWN


class CampaignStopped(Document):
    """Why a campaign made no more steps."""

    after: int
    """The number of steps that it had made."""
    most: int
    why: StopReason
    """`found`: a hunt's present nodes are good enough. `no prospect`: more draws would hardly
    settle another answer, or meet a hunt's goal. `budget`: the next step would have exceeded the
    budget. `failures`: too many steps failed in a row. `unfilled`: EC2 had no capacity for too many
    steps in a row."""
    text: str
    """The same in a sentence."""

    @classmethod
    def because(
        cls, why: StopReason, reason: str, *, after: int, most: int, noun: str
    ) -> CampaignStopped:
        """With the end of a sentence as the reason; `noun` is what its steps are called."""
        text = f"Stopped after {after} of at most {counted(most, noun)}: {reason}."
        return cls(after=after, most=most, why=why, text=text)


class CampaignResults(Document):
    """The results of a rackrate campaign."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    version: Annotated[Literal["rackrate.campaign.v1"], Field(alias="schema")] = CAMPAIGN
    campaign: CampaignFacts
    conclusion: str
    """The answers in sentences, and what qualifies them."""
    method: str
    """How the figures were computed."""
    plan: Json
    """The plan of every run, as it was given."""
    stopped: CampaignStopped | None
    steps: tuple[Step, ...]
    placements: dict[str, str] = Field(default_factory=dict)
    """The placement strategy of each arm, `none` without a group; empty in older files."""
    answers: tuple[Answer, ...]
    """Empty for a sweep."""
    capacity: tuple[Capacity, ...] = ()
    """How often the nodes of each arm came; empty for a pool, and in older files."""
    sweep: tuple[SweepCell, ...]
    """Empty except for a sweep."""
    differences: tuple[Difference, ...]
    """For a pool: what differed between its runs; `run` is the newest run's value."""
    pooling: str = ""
    """For a pool: which of its runs count as one draw, and why."""
    hunt: Hunt | None = None
    """For a hunt whose runs have results."""
    warnings: tuple[str, ...]

    @property
    def verdicts(self) -> tuple[Answer, ...]:
        """The answers: what the verdicts are in a run's results."""
        return self.answers

    @property
    def regressions(self) -> tuple[Answer, ...]:
        """None: the answers are between arms."""
        return ()

    @property
    def linked(self) -> list[str]:
        """The runs to whose pages its page links; those of other stacks are not there."""
        elsewhere = {step.run_id for step in self.steps if step.source is not None}
        runs = [step.run_id for step in self.steps]
        runs += [
            run_id for answer in self.answers for draw in answer.draws for run_id in draw.run_ids
        ]
        return [run_id for run_id in dict.fromkeys(runs) if run_id not in elsewhere]
