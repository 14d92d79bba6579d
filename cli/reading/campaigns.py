"""A campaign as stored in the table of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rackrate_text.units import dollars

from .records import Pace, Record, fields_of, read_item, texts_of, whole_of


@dataclass(frozen=True)
class Campaign(Record):
    """One campaign."""

    kind: str
    """`draws`, `sweep` or `pool`."""
    step: int
    """The step that is going on, from 1; 0 before the first."""
    step_run_id: str | None
    """The id of its run."""
    steps: int
    """At most."""
    least: int | None
    """The fewest steps."""
    expected_step_seconds: float | None
    usd: float | None
    """The estimate of what its steps cost so far."""
    budget_dollars: float | None
    must_put_back: bool
    """Whether it has changed something that is not put back yet."""
    warnings: tuple[str, ...]
    """What its plan is warned of, such as few pairs of nodes."""

    @property
    def is_cleaned_up(self) -> bool:
        """Whether it is over and what it changed is put back."""
        return self.is_over and not self.must_put_back

    @property
    def pace(self) -> Pace:
        """How far it is in its steps."""
        least = self.stopped_after or self.next_look or self.least or self.steps
        return Pace(
            now=self.step,
            least=min(least, self.steps),
            most=self.stopped_after or self.steps,
            planned=self.steps,
            expected_seconds=self.expected_seconds,
            part_seconds=self.expected_step_seconds,
        )

    @property
    def spent(self) -> str:
        """Such as `$0.61 of $5.00`; empty while no price is known."""
        if self.usd is None:
            return ""
        budget = "" if self.budget_dollars is None else f" of {dollars(self.budget_dollars)}"
        return f"{dollars(self.usd)}{budget}"

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Read the item `sk=campaign` as the table resource returns it."""
        return read_item(
            cls,
            item,
            id=str(item.get("campaign_id") or str(item["pk"]).removeprefix("campaign#")),
            status=str(item.get("status", "unknown")),
            stopped_after=whole_of(fields_of(item.get("stopped")).get("after")),
            must_put_back=bool(item.get("changed")),
            warnings=texts_of(item.get("warnings")),
        )
