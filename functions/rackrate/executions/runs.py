"""The runs of a stack: their records, objects, and the baselines that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rackrate.executions.objects import Objects
from rackrate.executions.records import Executions
from rackrate.plan.items import Item, items_from_json
from rackrate.plan.planned_run import PlannedRun
from rackrate.plan.replacements import nodes_at
from rackrate.table import Table
from rackrate.times import later, now, seconds_between
from rackrate_contract.arms import Node
from rackrate_contract.executions import RunRecord
from rackrate_contract.results import Replacement
from rackrate_text.names import is_id

#: What a run's item has from its end, from what led to it, or from a hold on nodes given back.
_OF_AN_END = (
    "finished_at",
    "seconds",
    "error",
    "cause",
    "conclusion",
    "stopped",
    "gave_up",
    "lost_arms",
    "missing_since",
    "refused_items",
    "quota_waits",
    "heals",
    "waiting_since",
    "waking",
    "leased_at",
    "torn_down_at",
)


class NamedRuns(NamedTuple):
    """The runs that a name stands for.

    Attributes:
        name: the name.
        runs: the run with that id, or the runs of the baseline with that name, without those that
            are missing.
        gone: the ids of the baseline's runs that are missing.
        is_baseline: whether the name is a baseline's.
    """

    name: str
    runs: tuple[RunRecord, ...] = ()
    gone: tuple[str, ...] = ()
    is_baseline: bool = False

    @property
    def baseline(self) -> str | None:
        """The baseline's name, if the name is a baseline's."""
        return self.name if self.is_baseline else None

    @property
    def problem(self) -> str | None:
        """Why the name cannot be used, or None."""
        if self.gone:
            return f"the run {self.gone[0]!r} of the baseline {self.name!r} is gone"
        return None if self.runs else f"there is no run and no baseline {self.name!r}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.gone:
            return "take it out of the baseline, or name runs of this stack"
        return "name a run of this stack, or a baseline set in it"


class Runs(Executions[RunRecord, PlannedRun]):
    """The runs of a stack."""

    def __init__(self, table: Table, objects: Objects) -> None:
        super().__init__(table, objects, RunRecord, PlannedRun)

    def seconds_of(self, record: RunRecord, end: str) -> float:
        """From the time its servers were ready."""
        whole = seconds_between(record.started_at, end)
        return max(0.0, whole - (record.waited_seconds or 0.0))

    def named(self, name: str) -> NamedRuns:
        """The run with an id, or the runs of the baseline with that name, the newest last."""
        if not is_id(name):
            return NamedRuns(name[:80])  # nor could it be a key of the table
        if (run := self.find(name)) is not None:
            return NamedRuns(name, (run,))
        if (baseline := self._table.get(f"baseline#{name}", "baseline")) is None:
            return NamedRuns(name)
        # A baseline of an earlier version has one run.
        run_ids = baseline["run_ids"] if "run_ids" in baseline else [baseline["run_id"]]
        records = {run_id: self.find(run_id) for run_id in run_ids}
        runs = tuple(run for run in records.values() if run is not None)
        missing = tuple(run_id for run_id, run in records.items() if run is None)
        return NamedRuns(name, runs, missing, is_baseline=True)

    def between(self, start: str, end: str, *, longest_seconds: float) -> list[RunRecord]:
        """Every run that went on at some time in an interval.

        Args:
            start: ISO 8601.
            end: the same.
            longest_seconds: how long a run may take. A run that started earlier than that before
                the interval is not found.
        """
        return self.query(
            "attribute_not_exists(finished_at) OR finished_at > :start",
            {},
            {":earliest": later(start, -longest_seconds), ":start": start, ":end": end},
            started="BETWEEN :earliest AND :end",
        )

    # -- what changes while it goes on

    def begin(self, run: RunRecord) -> None:
        """Record how long a run waited until its servers were ready, the first time that they are.

        Nodes that wake, another run's lease and servers that start are not what it measures.
        """
        waited = {"waited_seconds": seconds_between(run.started_at, now())}
        self.write(run.id, {}, set_once=waited)

    def begin_teardown(self, run_id: str) -> None:
        """Record that the clean-up of a run began, if the run has an item."""
        if self._table.get(*self.keys(run_id)) is not None:
            self.write(run_id, {"torn_down_at": now()})

    def count_heal(self, run_id: str) -> int:
        """Count that a run asks to have its access recreated. Returns how often it did."""
        written = self.write(run_id, {}, add={"heals": 1})
        assert written is not None  # there is no condition
        return int(written["heals"])

    def count_trials(self, run_id: str, *, measured: int, failed: int) -> None:
        """Add to the run's counts of trials.

        `failed` is negative when more failed trials were repaired than failed again.
        """
        self.write(run_id, {}, add={"trials_measured": measured, "trials_failed": failed})

    def replace_nodes(
        self, run_id: str, replacements: Sequence[Replacement], before: Sequence[Replacement]
    ) -> RunRecord | None:
        """Record that nodes took the places of lost ones.

        Args:
            run_id: the run.
            replacements: the new replacements.
            before: those that the caller knows of.

        Returns:
            The run's item, or None where another call has recorded some since.
        """
        condition = "size(#replacements) = :count"
        if not before:
            condition = f"attribute_not_exists(#replacements) OR {condition}"
        written = self.write(
            run_id,
            {"replacements": [each.to_json() for each in (*before, *replacements)]},
            condition=condition,
            values={":count": len(before)},
        )
        return None if written is None else self._read(written)

    def nodes_at(self, run_id: str) -> dict[str, Node]:
        """The nodes in the places where a run replaced the plan's nodes, by place."""
        # Exactly the run's item: no other sort key begins so.
        items = self._table.query(*self.keys(run_id), ("sk", "replacements"))
        return nodes_at(
            Replacement.model_validate(each, strict=False)
            for item in items
            for each in item.get("replacements", ())
        )

    def forget_replacements(self, run_id: str) -> None:
        """Delete which nodes took the places of others: a new plan names places after its nodes."""
        self.write(run_id, {}, remove=("replacements",))

    def reopen(self, run_id: str, redrives: int) -> bool:
        """Record that a run goes on whose end is recorded, because its execution was redriven.

        Args:
            run_id: the run.
            redrives: how often its execution was redriven.

        Returns:
            False when there is no such run, or when this redrive is recorded already.
        """
        written = self.write(
            run_id,
            {"status": "running", "phase": "going on after its end", "redrives": redrives},
            append={"continued_at": [now()]},
            remove=_OF_AN_END,
            condition=(
                "attribute_exists(#status)"
                " AND (attribute_not_exists(#redrives) OR #redrives < :redrives)"
            ),
        )
        return written is not None

    # -- its schedules

    def put_items(self, run_id: str, name: str, items: Sequence[Item]) -> str:
        """Write a schedule and return its key."""
        return self._objects.put_json(self.key(run_id, name), [item.to_json() for item in items])

    def items(self, run_id: str, name: str = "schedule.json") -> list[Item]:
        """A schedule of the run."""
        return items_from_json(self._objects.read(self.key(run_id, name)))
