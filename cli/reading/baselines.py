"""Named baselines: fixed names for runs that you compare other runs with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from rackrate_text.names import is_id

from ..errors import Refusal
from .records import texts_of

LEAST_RUNS = 4
"""A verdict against earlier runs needs this many; fewer do not show how much runs differ."""
MOST_RUNS = 20
"""The most earlier runs that a plan or a comparison takes."""


@dataclass(frozen=True)
class Baseline:
    """A name for one or more runs, the newest last. `set_at` is ISO 8601, UTC."""

    name: str
    run_ids: tuple[str, ...]
    set_at: str

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Read the item `sk=baseline` as the table resource returns it."""
        # Earlier versions wrote one run.
        runs = texts_of(item.get("run_ids", [item.get("run_id")]))
        name = item.get("name") or str(item.get("pk", "")).removeprefix("baseline#")
        return cls(str(name), runs, str(item.get("set_at") or ""))

    def as_document(self) -> dict[str, Any]:
        """The baseline for `--json`."""
        return {"name": self.name, "run_ids": list(self.run_ids), "set_at": self.set_at}


def checked_name(name: str) -> str:
    """Return the name unchanged. Raises Refusal when it is not a valid baseline name."""
    if not is_id(name) or name == "latest":
        raise Refusal(
            f'"{name}" cannot be a baseline\'s name; use 1 to 80 letters, digits, hyphens and'
            ' underscores, and not "latest".'
        )
    return name


def what_a_gate_needs(runs: int, baseline: str | None = None) -> str:
    """A clause on a gate with fewer than `LEAST_RUNS` runs, and its remedy, without a period.

    Args:
        runs: how many runs there are.
        baseline: the name of their baseline, or None.
    """
    whose = "this baseline" if baseline is None else f"the baseline {baseline}"
    return (
        f"a gate needs {LEAST_RUNS} baseline runs and {whose} has {runs}; add more with"
        f" `rackrate baseline add {baseline or 'NAME'} RUN...`"
    )
