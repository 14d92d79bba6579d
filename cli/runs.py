"""A run as stored in the table of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Self

GOOD = frozenset({"succeeded", "degraded", "dry_run"})
TERMINAL = GOOD | {"failed", "aborted", "timed_out", "invalid"}


@dataclass(frozen=True)
class Run:
    """One run. Times are ISO 8601, durations in seconds. None means not known (yet)."""

    run_id: str
    status: str
    phase: str
    block: int
    blocks: int
    """At most."""
    next_look: int | None
    """The block after which it looks at its verdicts next."""
    stopped_after: int | None
    """The number of blocks after which it stopped, if it has looked at its verdicts."""
    pause_seconds: float
    started_at: str
    finished_at: str | None
    seconds: float | None
    expected_seconds: float | None
    expected_block_seconds: float | None
    trials_planned: int | None
    trials_measured: int | None
    trials_failed: int | None
    conclusion: str | None
    error: str | None
    cause: str | None

    @property
    def is_over(self) -> bool:
        """Whether the run is over. The stack writes the final status once, as its last action."""
        return self.status in TERMINAL

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
        return cls(
            run_id=str(item.get("run_id") or str(item["pk"]).removeprefix("run#")),
            status=str(item.get("status", "unknown")),
            phase=str(item.get("phase") or ""),
            block=_whole(item.get("block")) or 0,
            blocks=_whole(item.get("blocks")) or 0,
            next_look=_whole(item.get("next_look")),
            stopped_after=_whole((item.get("stopped") or {}).get("after_blocks")),
            pause_seconds=_number(item.get("pause_seconds")) or 0.0,
            started_at=str(item.get("started_at") or ""),
            finished_at=_text(item.get("finished_at")),
            seconds=_number(item.get("seconds")),
            expected_seconds=_number(item.get("expected_seconds")),
            expected_block_seconds=_number(item.get("expected_block_seconds")),
            trials_planned=_whole(item.get("trials_planned")),
            trials_measured=_whole(item.get("trials_measured")),
            trials_failed=_whole(item.get("trials_failed")),
            conclusion=_text(item.get("conclusion")),
            error=_text(item.get("error")),
            cause=_text(item.get("cause")),
        )


def as_document(run: Run) -> dict[str, Any]:
    """The run for `--json`: its fields by name, with `run_id` as `id`."""
    fields = asdict(run)
    return {"id": fields.pop("run_id"), **fields}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, Decimal | int | float) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, Decimal | int | float) else None


def _text(value: object) -> str | None:
    return str(value) if value else None
