"""What is estimated before a run or a campaign: time, traffic, cost, and which guards trip."""

from __future__ import annotations

from rackrate_contract.arms import Arm
from rackrate_contract.document import Document


class CostLine(Document):
    """A line of the estimated cost; an unknown amount is null."""

    what: str
    quantity: float
    unit: str
    usd_per_unit: float | None
    usd: float | None
    source: str
    paid_anyway: bool
    """Whether you also pay it without the run."""


class Cost(Document):
    """The estimated cost, in US dollars."""

    region: str
    lines: tuple[CostLine, ...]
    usd: float
    """The sum of the known amounts."""
    usd_of_run: float
    """The part that you pay only because of the run."""
    unknown: tuple[str, ...]
    """Items without a price, which are not in the sum."""
    notes: tuple[str, ...]
    """Why a price did not come from the API."""
    not_included: tuple[str, ...]
    """What the estimate does not include."""
    summary: tuple[str, ...]
    """A few lines for a console."""


class Guard(Document):
    """A check of the plan before the run."""

    guard: str
    would_trip: bool
    text: str
    """What was found."""
    remedy: str
    """Empty if it would not trip."""


class Traffic(Document):
    """The most bytes that a node is expected to send and receive."""

    sent: int
    received: int

    @property
    def most(self) -> int:
        """The larger of the bytes sent and the bytes received."""
        return max(self.sent, self.received)


class AtLeast(Document):
    """The least that a run may come to: every verdict is settled at its first look."""

    blocks: int
    seconds: float
    trials: int
    usd: float | None
    """As far as prices are known; null if none is."""


class Estimates(Document):
    """The estimates that were made before the run, for the most blocks that it may measure."""

    seconds: float
    block_seconds: float
    trials: int
    bytes_per_node: dict[str, Traffic]
    state_transitions: int
    cost: Cost
    guards: tuple[Guard, ...]
    at_least: AtLeast | None = None
    """The same for the fewest blocks; null in results of earlier releases."""


class Span(Document):
    """The least and the most of a figure."""

    least: float
    most: float


class Steps(Document):
    """The least and the most steps."""

    least: int
    most: int


class Power(Document):
    """How many draws may be needed for an answer."""

    ratio: float
    """The true ratio: 1.3 is 30 % more than the baseline."""
    variability: float
    """How much draws differ: the standard deviation of the ratio's logarithm."""
    draws: int | None
    """The draws that settle it with a probability of 80 %; null if more than a campaign makes."""


class StepEstimate(Document):
    """What one step takes: its change, then its run."""

    value: str | int | None
    """The value of a sweep's step; null for a draw."""
    nodes: int
    """The number of nodes of each arm."""
    change_seconds: Span
    run_seconds: Span
    usd_per_hour: float | None
    """What nodes and cluster cost while they are up; null if no price is known."""
    usd_of_run: Span
    """What the step costs besides: state transitions, functions, traffic."""

    def usd(self, seconds: float) -> float | None:
        """What a step costs that takes so many seconds; None if no price is known."""
        if self.usd_per_hour is None:
            return None
        return self.usd_per_hour * seconds / 3600 + self.usd_of_run.most

    @property
    def most_seconds(self) -> float:
        """How long it takes at most."""
        return self.change_seconds.most + self.run_seconds.most

    @property
    def most_usd(self) -> float | None:
        """What it costs at most; None if no price is known."""
        return self.usd(self.most_seconds)

    @property
    def least_usd(self) -> float | None:
        """What it costs at least; None if no price is known."""
        if self.usd_per_hour is None:
            return None
        seconds = self.change_seconds.least + self.run_seconds.least
        return self.usd_per_hour * seconds / 3600 + self.usd_of_run.least


class CampaignEstimate(Document):
    """The estimate of a campaign, made before it changes anything."""

    steps: Steps
    """Without those that it takes over."""
    seconds: Span
    usd: Span | None
    """Null if no price is known."""
    step_estimates: tuple[StepEstimate, ...]
    """One for each value of a sweep; one for all draws."""
    power: tuple[Power, ...]
    """Empty except for draws."""
    guards_that_would_trip: tuple[str, ...]
    """What may go wrong in each run, with its remedy."""
    assumptions: tuple[str, ...]

    @property
    def mean_step_seconds(self) -> float:
        """How long a step takes at most, on the mean of the values."""
        seconds = [step.most_seconds for step in self.step_estimates]
        return sum(seconds) / len(seconds)

    def of_step(self, value: str | int | None) -> StepEstimate:
        """The estimate of the step with a value."""
        return next(each for each in self.step_estimates if each.value == value)


class EstimatedRun(Document):
    """What plan.json of a run estimates, and its arms; the rest of it is the plan's."""

    arms: tuple[Arm, ...] = ()
    estimates: Estimates
    placeholder_nodes: bool
    """Whether no node was awake, so that the estimates are for as many as the stack is to have."""


class EstimatedCampaign(Document):
    """What plan.json of a campaign estimates."""

    campaign_id: str
    estimate: CampaignEstimate | None
    """Null for a pool."""
    warnings: tuple[str, ...]
