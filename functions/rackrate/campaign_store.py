"""The storage of campaigns: their items in the table, their objects in the bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from rackrate.document import Document, Json
from rackrate.plan.planned_campaign import PlannedCampaign
from rackrate.results.campaign import CampaignKind, CampaignStatus, CampaignStopped, Step
from rackrate.store import Records, Store, Time, now, seconds_between
from rackrate.table import Table

#: A series has at most this many draws; the oldest leave it.
MAX_SERIES = 60
_KEYS_OF_ITEMS = ("pk", "sk", "campaign_id")

#: How many of the last changes of a kind tell how long the next one takes.
MOST_CHANGES = 20


class CampaignRecord(Document):
    """A campaign's item in the table. A field that is not known yet is null."""

    campaign_id: str
    kind: CampaignKind
    status: CampaignStatus
    started_at: Time
    """ISO 8601, UTC; so are the other times."""
    updated_at: str | None = None
    finished_at: str | None = None
    seconds: float | None = None
    """How long it took: from the time it held its nodes until its results were written."""
    execution_arn: str = ""
    phase: str = ""
    """What it is doing, in words."""
    stack_arms: tuple[str, ...] = ()
    """The stack's arms whose nodes it uses; empty for a pool."""
    waiting_since: str | None = None
    """When it first found that another run holds its nodes."""
    leased_at: Time | None = None
    """Since when it holds its nodes."""
    step: int = 0
    """The step that goes on, from 1."""
    step_run_id: str | None = None
    """The id of that step's run."""
    steps: int = 0
    """How many steps it makes at most."""
    least: int = 0
    """How many it makes at least, unless something fails."""
    next_look: int = 0
    """The number of finished steps after which it looks at its answers next, or ends."""
    expected_seconds: float = 0.0
    """How long it takes at most."""
    expected_step_seconds: float = 0.0
    usd: float | None = None
    """The estimated cost of the steps so far; null if no price is known."""
    budget_dollars: float | None = None
    series: str | None = None
    seed: int | None = None
    lab_scale: float | None = None
    warnings: tuple[str, ...] = ()
    conclusion: str = ""
    stopped: CampaignStopped | None = None
    changed: Json | None = None
    """What has to be put back, as it was before; null when nothing has to be."""
    restoring_since: str | None = None
    """When it began to put back what it changed."""
    error: str | None = None
    cause: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether the campaign's end has not been recorded yet."""
        return self.status == "running"

    @property
    def goes_on(self) -> bool:
        """Whether it may still change something: it has not begun to put things back."""
        return self.is_running and self.restoring_since is None


class CampaignProgress(TypedDict, total=False):
    """The attributes of a campaign's item that change while it runs, as in `CampaignRecord`."""

    kind: CampaignKind
    execution_arn: str
    phase: str
    stack_arms: Sequence[str]
    waiting_since: str
    leased_at: str
    step: int
    step_run_id: str
    steps: int
    least: int
    next_look: int
    finished_at: str | None
    seconds: float | None
    expected_seconds: float
    expected_step_seconds: float
    usd: float | None
    budget_dollars: float | None
    series: str | None
    seed: int
    lab_scale: float | None
    warnings: Sequence[str]
    conclusion: str
    stopped: Json
    changed: Json | None
    restoring_since: str | None
    error: str | None
    cause: str | None


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


class CampaignStore:
    """The campaigns of a stack.

    Raises, from every method:
        Throttled: too many requests.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table: Table = store.table
        self._records = Records(store.table, "campaign", CampaignRecord)

    # -- objects

    def key(self, campaign_id: str, name: str) -> str:
        """The key of one of a campaign's objects."""
        return f"campaigns/{campaign_id}/{name}"

    def put(self, campaign_id: str, name: str, document: Document) -> str:
        """Write one of a campaign's objects as JSON and return its key."""
        return self._store.put_json(self.key(campaign_id, name), document.to_json())

    def put_page(self, campaign_id: str, page: str) -> str:
        """Write the campaign's page and return its key."""
        return self._store.put_object(self.key(campaign_id, "report.html"), page, "text/html")

    def find[D: Document](self, campaign_id: str, name: str, kind: type[D]) -> D | None:
        """One of a campaign's objects, or None where the campaign has none."""
        text = self._store.find_object(self.key(campaign_id, name))
        return None if text is None else kind.from_json(text)

    def plan(self, campaign_id: str) -> PlannedCampaign:
        """The campaign's plan.json.

        Raises:
            LookupError: there is no such campaign.
        """
        found = self.find(campaign_id, "plan.json", PlannedCampaign)
        if found is None:
            raise LookupError(f"the campaign {campaign_id} has no plan.json")
        return found

    # -- the campaign itself

    def get(self, campaign_id: str) -> CampaignRecord:
        """The campaign's item.

        Raises:
            LookupError: there is no such campaign.
        """
        found = self.campaign(campaign_id)
        if found is None:
            raise LookupError(f"the campaign {campaign_id} is not in the table")
        return found

    def campaign(self, campaign_id: str) -> CampaignRecord | None:
        """The campaign's item, or None."""
        return self._records.get(campaign_id)

    def start(
        self,
        campaign_id: str,
        status: CampaignStatus,
        started_at: str,
        **attributes: Unpack[CampaignProgress],
    ) -> None:
        """Record a planned campaign; a repeated call changes only the attributes that it passes.

        Args:
            campaign_id: the campaign.
            status: `running`, or `dry_run`.
            started_at: ISO 8601; ignored when the campaign is recorded already.
            attributes: further attributes of the campaign.
        """
        self._records.start(campaign_id, status, started_at, attributes)

    def update(self, campaign_id: str, **attributes: Unpack[CampaignProgress]) -> None:
        """Record progress by overwriting attributes."""
        set_ = {**attributes, "updated_at": now()}
        self._table.update(*self._records.keys(campaign_id), set_=set_)

    def note(self, campaign_id: str, **attributes: Unpack[CampaignProgress]) -> bool:
        """Record progress of a campaign that goes on. Returns whether it still did."""
        set_ = {**attributes, "updated_at": now()}
        written = self._table.update(
            *self._records.keys(campaign_id),
            set_=set_,
            condition="#status = :running AND"
            " (attribute_not_exists(#restoring_since) OR #restoring_since = :nothing)",
            reads=("status", "restoring_since"),
            values={":running": "running", ":nothing": None},
        )
        return written is not None

    def reopen(self, campaign_id: str) -> None:
        """Record that a campaign goes on whose end is recorded: its execution was redriven."""
        gone = ("finished_at", "seconds", "error", "cause", "stopped", "restoring_since")
        set_ = {**dict.fromkeys(gone), "status": "running", "updated_at": now()}
        self._table.update(*self._records.keys(campaign_id), set_=set_)

    def finish(
        self,
        campaign_id: str,
        status: CampaignStatus,
        **attributes: Unpack[CampaignProgress],
    ) -> float | None:
        """Record how a campaign ended, unless its end is recorded already.

        A campaign with an invalid input was never recorded; this call records it, as one of draws.

        Args:
            campaign_id: the campaign.
            status: the final status.
            attributes: further attributes of the campaign.

        Returns:
            The seconds that it took, or None when its end was recorded before.
        """
        time = now()
        found = self.campaign(campaign_id)
        started_at = time if found is None else found.started_at
        began = started_at if found is None else found.leased_at or started_at
        known = None if found is None else found.seconds
        seconds = seconds_between(began, time) if known is None else known
        return self._records.finish(
            campaign_id,
            status,
            attributes,
            started_at=started_at,
            time=time,
            seconds=seconds,
            kind="draws",
        )

    def running(self) -> list[CampaignRecord]:
        """Every campaign whose status in the table is `running`."""
        return self._records.running()

    def unrestored(self) -> list[CampaignRecord]:
        """Every campaign that has ended and has not put back all that it changed."""
        chosen = "#status <> :running AND attribute_type(changed, :map)"
        values = {":running": "running", ":map": "M"}
        return self._records.query(chosen, {"#status": "status"}, values)

    # -- its steps

    def steps(self, campaign_id: str) -> list[CampaignStep]:
        """The steps of a campaign that were begun, in order."""
        found = self._table.query(f"campaign#{campaign_id}", "step#")
        return [_step(item) for item in found]

    def step(self, campaign_id: str, number: int) -> CampaignStep | None:
        """A step of a campaign, or None."""
        found = self._table.get(f"campaign#{campaign_id}", _step_key(number))
        return None if found is None else _step(found)

    def put_step(self, campaign_id: str, step: CampaignStep) -> None:
        """Write a step in place of what was recorded of it."""
        keys = {"pk": f"campaign#{campaign_id}", "sk": _step_key(step.number)}
        self._table.put({**step.to_json(), **keys, "campaign_id": campaign_id})

    # -- series of draws

    def series(self, name: str) -> tuple[str, ...]:
        """The ids of the runs of a series, the newest last, without those that have left it."""
        found = self._table.get(*_series_keys(name)) or {}
        return tuple(found.get("run_ids", ())[-MAX_SERIES:])

    def add_to_series(self, name: str, run_id: str) -> None:
        """Add a run to a series, if it is not in it."""
        self._table.update(
            *_series_keys(name),
            set_={"name": name, "updated_at": now()},
            append={"run_ids": [run_id]},
            condition="NOT contains(#run_ids, :run)",
            values={":run": run_id},
        )

    # -- how long changes took

    def change_seconds(self, name: str) -> tuple[float, ...]:
        """How long this stack's last changes of a kind took, the newest last."""
        found = self._table.get(*_change_keys(name)) or {}
        return tuple(map(float, found.get("seconds", ())[-MOST_CHANGES:]))

    def note_change(self, name: str, seconds: float) -> None:
        """Note how long a change took, for the estimates of later campaigns."""
        set_ = {"name": name, "updated_at": now()}
        self._table.update(*_change_keys(name), set_=set_, append={"seconds": [seconds]})


def _change_keys(name: str) -> tuple[str, str]:
    return f"change#{name}", "change"


def _step_key(number: int) -> str:
    return f"step#{number:04d}"


def _series_keys(name: str) -> tuple[str, str]:
    return f"series#{name}", "series"


def _step(item: Mapping[str, Any]) -> CampaignStep:
    known = {name: value for name, value in item.items() if name not in _KEYS_OF_ITEMS}
    return CampaignStep.model_validate(known, strict=False)
