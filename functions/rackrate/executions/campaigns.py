"""The campaigns of a stack: their records, objects, steps and series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rackrate.executions.objects import Objects
from rackrate.executions.records import Executions, read_item, readable
from rackrate.plan.planned_campaign import PlannedCampaign
from rackrate.table import Table
from rackrate.times import now, seconds_between
from rackrate_contract.campaign import Step
from rackrate_contract.document import Document, Json
from rackrate_contract.executions import CampaignRecord

#: A series has at most this many draws; the oldest leave it.
MAX_SERIES = 60
#: How many of the last changes of a kind predict how long the next one takes.
MOST_CHANGES = 20


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

    @property
    def is_lost(self) -> bool:
        """Whether it has neither a result nor an outcome of EC2's."""
        return not self.has_result and not self.is_unfilled

    def as_result(self) -> Step:
        """The step as in campaign.json."""
        return Step.from_fields(self)


class Series(Document):
    """The runs of a series of draws."""

    run_ids: tuple[str, ...] = ()
    """The newest last."""


class ChangeTimes(Document):
    """How long the changes of a kind took."""

    seconds: tuple[float, ...] = ()
    """The newest last."""


class Campaigns(Executions[CampaignRecord, PlannedCampaign]):
    """The campaigns of a stack."""

    unplanned: ClassVar[Mapping[str, str]] = {"kind": "draws"}

    def __init__(self, table: Table, objects: Objects) -> None:
        super().__init__(table, objects, CampaignRecord, PlannedCampaign)

    def seconds_of(self, record: CampaignRecord, end: str) -> float:
        """From the time it held its nodes."""
        return seconds_between(record.leased_at or record.started_at, end)

    def note(self, campaign_id: str, **attributes: Any) -> bool:
        """Record progress of a campaign that goes on. Returns whether it still did."""
        written = self.write(
            campaign_id,
            attributes,
            condition="#status = :running AND"
            " (attribute_not_exists(#restoring_since) OR #restoring_since = :nothing)",
            reads=("status", "restoring_since"),
            values={":running": "running", ":nothing": None},
        )
        return written is not None

    def reopen(self, campaign_id: str) -> None:
        """Record that a campaign goes on whose end is recorded: its execution was redriven."""
        cleared = ("finished_at", "seconds", "error", "cause", "stopped", "restoring_since")
        self.write(campaign_id, {**dict.fromkeys(cleared), "status": "running"})

    def unrestored(self) -> list[CampaignRecord]:
        """Every campaign that has ended and has not put back all that it changed."""
        chosen = "#status <> :running AND attribute_type(changed, :map)"
        values = {":running": "running", ":map": "M"}
        return self.query(chosen, {"#status": "status"}, values)

    # -- its steps

    def steps(self, campaign_id: str) -> list[CampaignStep]:
        """The steps of a campaign that were begun, in order."""
        items = self._table.query(f"campaign#{campaign_id}", "step#")
        return [read_item(CampaignStep, item) for item in items]

    def step(self, campaign_id: str, number: int) -> CampaignStep | None:
        """A step of a campaign, or None."""
        item = self._table.get(f"campaign#{campaign_id}", _step_key(number))
        return None if item is None else read_item(CampaignStep, item)

    def put_step(self, campaign_id: str, step: CampaignStep) -> None:
        """Write a step in place of what was recorded of it."""
        keys = {"pk": f"campaign#{campaign_id}", "sk": _step_key(step.number)}
        self._table.put({**step.to_json(), **keys, "campaign_id": campaign_id})

    # -- series of draws, and how long changes took

    def series(self, name: str) -> tuple[str, ...]:
        """The ids of the runs of a series, the newest last, without those that have left it."""
        series = self._kept("series", name, Series)
        return () if series is None else series.run_ids[-MAX_SERIES:]

    def add_to_series(self, name: str, run_id: str) -> None:
        """Add a run to a series, if it is not in it."""
        self._keep("series", name, Series, "run_ids", run_id, once=True)

    def change_seconds(self, name: str) -> tuple[float, ...]:
        """How long this stack's last changes of a kind took, the newest last."""
        changes = self._kept("change", name, ChangeTimes)
        return () if changes is None else changes.seconds[-MOST_CHANGES:]

    def note_change(self, name: str, seconds: float) -> None:
        """Note how long a change took, for the estimates of later campaigns."""
        self._keep("change", name, ChangeTimes, "seconds", seconds)

    def _kept[D: Document](self, noun: str, name: str, kind: type[D]) -> D | None:
        """An item with a list; None if there is none, or nobody can read it."""
        return readable(kind, self._table.get(f"{noun}#{name}", noun) or {}, noun)

    def _keep(
        self,
        noun: str,
        name: str,
        kind: type[Document],
        field: str,
        value: str | float,
        *,
        once: bool = False,
    ) -> None:
        """Append to the list of an item. What nobody can read is replaced.

        `once` appends nothing that is in the list.
        """
        set_: Json = {"name": name, "updated_at": now()}
        listed = {field: [value]}
        if self._kept(noun, name, kind) is None:
            self._table.update(f"{noun}#{name}", noun, set_=set_ | listed)
            return
        self._table.update(
            f"{noun}#{name}",
            noun,
            set_=set_,
            append=listed,
            condition=f"NOT contains(#{field}, :value)" if once else None,
            values={":value": value} if once else None,
        )


def _step_key(number: int) -> str:
    return f"step#{number:04d}"
