"""The records of executions in the table, and their outputs.

A record is read from an item that an older or a later rackrate wrote, too: unknown
attributes are ignored, and missing ones have their defaults.
"""

from __future__ import annotations

import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from rackrate_contract.campaign import CampaignKind, CampaignStatus, CampaignStopped
from rackrate_contract.capacity import Launch
from rackrate_contract.document import Document, Json
from rackrate_contract.results import Replacement, Stopped
from rackrate_contract.verdicts import Difference

#: The kinds of executions. Either can hold a lease.
Kind = Literal["run", "campaign"]
Status = CampaignStatus
#: The error that a run ends with if an obstacle stays.
ObstacleError = Literal[
    "AccessLost", "NodesUnavailable", "ServersNotReady", "AdmissionRefused", "TrialsLost"
]


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
    """How long it took: a run from the time its servers were ready, a campaign from the time it
    held its nodes."""
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


class GaveUp(Document):
    """Why a run measures no more although it has not measured what it planned."""

    error: ObstacleError
    """The name of the error that it ends with."""
    message: str
    """The same in a sentence."""


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
    last_block: int = 0
    """The last block of the series that it measures, which begins with `block`."""
    blocks: int = 0
    """How many blocks it measures at most."""
    pods_started_after: float | None = None
    """How long its last client pods took to start, in seconds, for one container."""
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
    waking: Json = {}  # noqa: RUF012 (pydantic copies it)
    """How far it has come with waking nodes, since when, and what was wrong before."""
    launches: tuple[Launch, ...] = ()
    """How the nodes came that it woke, or with which the stack was created."""
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
    present_measured: bool = False
    """Whether a hunt has a figure of the present nodes, which it then keeps at its end."""
    changed: Json | None = None
    """What has to be put back, as it was before; null when nothing has to be."""
    restoring_since: str | None = None
    """When it began to put back what it changed."""

    @property
    def goes_on(self) -> bool:
        """Whether it may still change something: it has not begun to put things back."""
        return self.is_running and self.restoring_since is None


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


class ComparisonOutput(Document):
    """The execution's output, which people read in the console."""

    conclusion: str
    differences: tuple[Difference, ...]
    verdicts: tuple[str, ...]
    """A line each."""
    report: str
    """A link to the page."""
    report_valid: str
    """How long the link holds, in words."""
    comparison_key: str
