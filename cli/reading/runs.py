"""A run as stored in the table of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .records import Record, fields_of, read_item, whole_of


@dataclass(frozen=True)
class Run(Record):
    """One run."""

    block: int
    last_block: int
    """The last of the blocks that it measures together."""
    blocks: int
    """At most."""
    pause_seconds: float
    waited_seconds: float | None
    """How long it was until its servers were ready, which `seconds` leaves out."""
    expected_block_seconds: float | None
    trials_planned: int | None
    trials_measured: int | None
    trials_failed: int | None
    campaign: str | None = None
    """The id of the campaign whose step it is."""
    missing_nodes: tuple[str, ...] = ()
    """The nodes of its plan that have no server now."""

    @property
    def least_blocks(self) -> int:
        """How many blocks it measures at least, as far as is known."""
        return self.stopped_after or self.next_look or self.blocks

    @property
    def most_blocks(self) -> int:
        """How many blocks it measures at most, as far as is known."""
        return self.stopped_after or self.blocks

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Read the item `sk=run` as the table resource returns it."""
        return read_item(
            cls,
            item,
            id=str(item.get("run_id") or str(item["pk"]).removeprefix("run#")),
            status=str(item.get("status", "starting")),
            stopped_after=whole_of(fields_of(item.get("stopped")).get("after_blocks")),
            missing_nodes=tuple(sorted(map(str, fields_of(item.get("missing_since"))))),
        )
