"""Named baselines: fixed names for runs that you compare other runs with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from rackrate_text.names import is_id

from ..errors import Refusal
from .records import texts_of

if TYPE_CHECKING:
    from rackrate_contract.results import Results

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


def what_a_gate_shows(runs: Sequence[Results]) -> dict[tuple[str, str, str], float]:
    """The smallest regressions that a gate against these runs shows in half of the cases.

    It has the tests and arms that all of the runs have, and the newest one's threshold. The results
    do not have the resolution of the values, so coarse values may hide a little more.

    Args:
        runs: the results of the baseline's runs, the newest last; at least `LEAST_RUNS`.

    Returns:
        For test, metric and arm the ratio of a further run's level to the mean level of these runs.
    """
    # Pydantic takes longer to import than the command takes to start.
    from rackrate_contract.gates import half_width, smallest_regression

    levels: dict[tuple[str, str, str], list[float | None]] = {}
    for run in runs:
        # Each of the verdicts on a metric has the same baseline.
        of_run = {(v.test, v.metric, v.baseline.name): v.levels[1] for v in run.verdicts}
        of_run |= {(v.test, v.metric, v.arm): v.levels[0] for v in run.verdicts}
        for key, level in of_run.items():
            levels.setdefault(key, []).append(level)
    shared = {key: each for key, each in levels.items() if len(each) == len(runs)}
    verdicts = {(verdict.test, verdict.metric): verdict for verdict in runs[-1].verdicts}
    shown = {}
    for key, each in shared.items():
        logs = [math.log(level) for level in each if level]
        if len(logs) >= LEAST_RUNS:
            half, verdict = half_width(logs, len(shared)), verdicts[key[:2]]
            shown[key] = smallest_regression(half, verdict.threshold, verdict.better)
    return shown


def measured_when(runs: Sequence[Results]) -> tuple[str, str, str | None]:
    """When the first run began and the last one ended, and a clause if that is within a day."""
    from rackrate_contract.gates import within_a_day

    starts = [(datetime.fromisoformat(run.run.started_at), run.run.seconds) for run in runs]
    first = min(start for start, _ in starts)
    last = max(start + timedelta(seconds=seconds) for start, seconds in starts)
    close = within_a_day(len(runs), (last - first).total_seconds())
    return f"{first:%Y-%m-%d %H:%M}", f"{last:%Y-%m-%d %H:%M}", close
