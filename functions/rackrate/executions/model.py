"""What is stored of executions in the table, and their outputs: the types of runs and campaigns.

Pure types. A record is read from an item that an older or a later rackrate wrote, too: unknown
attributes are ignored, and missing ones have their defaults.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from rackrate.measure.obstacles import GaveUp
from rackrate.times import seconds_between
from rackrate_contract.campaign import CampaignKind, CampaignStopped, Step
from rackrate_contract.campaign import CampaignStatus as Status
from rackrate_contract.document import Document, Json
from rackrate_contract.results import Replacement, Stopped

__all__ = [
    "CampaignOutput",
    "CampaignRecord",
    "CampaignStep",
    "ChangeTimes",
    "ExecutionRecord",
    "Kind",
    "Lease",
    "RunOutput",
    "RunRecord",
    "Series",
    "Status",
    "Time",
]

#: The kinds of executions. Either can hold a lease.
Kind = Literal["run", "campaign"]


def _time(text: str) -> str:
    """Refuse what is no time, has no time zone, or lies where Python cannot calculate."""
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None or not 1970 <= time.year < 3000:
        raise ValueError("it is no time of an execution")
    return text


#: A time in ISO 8601 with its zone.
Time = Annotated[str, AfterValidator(_time)]


class ExecutionRecord(Document):
    """What the items of runs and of campaigns have. A field that is not known yet is null."""

    of_kind: ClassVar[Kind]

    id: str
    """Name of the execution; `run_id` or `campaign_id` in the item."""
    status: Status
    started_at: Time
    """ISO 8601, UTC; so are the other times."""
    updated_at: str | None = None
    finished_at: Time | None = None
    seconds: float | None = None
    """How long it took, as `seconds_until` counts it."""
    execution_arn: str = ""
    phase: str = ""
    """What it is doing, in words."""
    stack_arms: tuple[str, ...] = ()
    """The stack's arms whose nodes it uses; empty for a pool, and a run of an older rackrate."""
    waiting_since: str | None = None
    """When it first found that another execution holds its nodes."""
    leased_at: Time | None = None
    """Since when it holds its nodes; null for a run of an older rackrate, too."""
    next_look: int = 0
    """The number of finished blocks or steps after which it looks next, or ends."""
    expected_seconds: float = 0.0
    """How long it takes at most."""
    seed: int | None = None
    lab_scale: float | None = None
    warnings: tuple[str, ...] = ()
    conclusion: str = ""
    error: str | None = None
    cause: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether its end has not been recorded yet."""
        return self.status == "running"

    @abstractmethod
    def seconds_until(self, time: str) -> float:
        """How long it has taken at a time."""


class RunRecord(ExecutionRecord):
    """A run's item in the table."""

    of_kind: ClassVar[Kind] = "run"

    waited_seconds: float | None = None
    """How long it was from its start until its servers were ready."""
    campaign: str | None = None
    """The campaign whose lease on the nodes it uses."""
    lease_ends_at: str | None = None
    """When that campaign is expected to end."""
    block: int = 0
    blocks: int = 0
    """How many blocks it measures at most."""
    pause_seconds: float = 0.0
    stopped: Stopped | None = None
    """Why it measured no more blocks, if it looked at its verdicts."""
    lost_arms: dict[str, str] = {}  # noqa: RUF012 (pydantic copies it)
    """The arms without a pair that can be measured now, and since when."""
    refused_items: int = 0
    """How many items in a row had all of their pods refused."""
    quota_waits: int = 0
    """How often it waited since the namespace's quota last let one of its pods in."""
    heals: int = 0
    """How often it asked to have its namespace and its rights recreated."""
    gave_up: GaveUp | None = None
    """Why it measures no more, if it ends before it has measured what it planned."""
    expected_block_seconds: float = 0.0
    trials_planned: int = 0
    trials_measured: int = 0
    trials_failed: int = 0
    complaints_before: tuple[str, ...] = ()
    """What was wrong with the node groups before they were woken."""
    missing_since: dict[str, str] = {}  # noqa: RUF012 (pydantic copies it)
    """Since when places of the plan have had no server, by place."""
    replacements: tuple[Replacement, ...] = ()
    """The nodes that took the places of lost ones."""
    redrives: int = 0
    """How often it went on after its end: the number of the last redrive of its execution."""
    torn_down_at: str | None = None
    """When its clean-up began. A trial that this cut is not measured, and has not failed."""
    continued_at: tuple[str, ...] = ()
    """When it went on after its end."""

    def seconds_until(self, time: str) -> float:
        """From the time its servers were ready."""
        return max(0.0, seconds_between(self.started_at, time) - (self.waited_seconds or 0.0))


class CampaignRecord(ExecutionRecord):
    """A campaign's item in the table."""

    of_kind: ClassVar[Kind] = "campaign"

    kind: CampaignKind
    step: int = 0
    """The step that goes on, from 1."""
    step_run_id: str | None = None
    """The id of that step's run."""
    steps: int = 0
    """How many steps it makes at most."""
    least: int = 0
    """How many it makes at least, unless something fails."""
    expected_step_seconds: float = 0.0
    usd: float | None = None
    """The estimated cost of the steps so far; null if no price is known."""
    budget_dollars: float | None = None
    series: str | None = None
    stopped: CampaignStopped | None = None
    changed: Json | None = None
    """What has to be put back, as it was before; null when nothing has to be."""
    restoring_since: str | None = None
    """When it began to put back what it changed."""

    @property
    def goes_on(self) -> bool:
        """Whether it may still change something: it has not begun to put things back."""
        return self.is_running and self.restoring_since is None

    def seconds_until(self, time: str) -> float:
        """From the time it held its nodes."""
        return seconds_between(self.leased_at or self.started_at, time)


class CampaignStep(Step):
    """A step's item in the table. Its status is `changing` or `running` before its run's."""

    begins_at: str | None = None
    """The end of the pause before it; null without one."""
    change_started_at: str | None = None
    progress: Json = {}  # noqa: RUF012 (pydantic copies it)
    """What the change needs to go on."""

    @property
    def is_open(self) -> bool:
        """Whether its outcome is not recorded yet."""
        return self.status in ("changing", "running")

    @property
    def has_result(self) -> bool:
        """Whether its run ended well, so that the answers may use it."""
        return self.status in ("succeeded", "degraded")

    def as_result(self) -> Step:
        """The step as in campaign.json."""
        return Step.from_fields(self)


class RunOutput(Document):
    """The execution's output, which people read in the console."""

    status: str
    conclusion: str
    verdicts: tuple[str, ...]
    """A line each."""
    report: str | None
    """A link to the page."""
    report_valid: str | None
    """How long the link holds, in words."""
    dashboard: str | None
    results: str
    """Where the run's objects are."""


class CampaignOutput(Document):
    """The execution's output, which people read in the console."""

    status: str
    conclusion: str
    answers: tuple[str, ...]
    """A line each."""
    report: str | None
    """A link to the page."""
    report_valid: str | None
    """How long the link holds, in words."""
    results: str
    """Where the campaign's objects are."""


class Series(Document):
    """The runs of a series of draws."""

    run_ids: tuple[str, ...] = ()
    """The newest last."""


class ChangeTimes(Document):
    """How long the changes of a kind took."""

    seconds: tuple[float, ...] = ()
    """The newest last."""


class Lease(Document):
    """A lease on the nodes of one of the stack's arms."""

    run_id: str
    """The run that holds the nodes, or the campaign that holds them for its runs."""
    kind: Kind | None = None
    """Which of the two it is, as both may have one id; null in a lease of an older rackrate."""
    taken_at: str
    """ISO 8601, UTC; so are the other times."""
    expected_end: Time
    """When the run is expected to end."""
    expires_at: Time
    """When another run may take the nodes if nobody knows what became of this one."""

    def is_of(self, kind: Kind | None, holder: str) -> bool:
        """Whether the run or the campaign holds it. Without a kind, whoever has the id does."""
        return self.run_id == holder and self.kind in (kind, None)
