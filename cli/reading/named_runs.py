"""Runs as a user names them: by id, by `latest`, or by a baseline's name."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import Refusal
from .kinds import RUN
from .run_ids import LATEST, find_measured_run
from .stack import Stack


@dataclass(frozen=True)
class NamedRuns:
    """Runs as the user named them: their ids, the name for the stack, and the baseline's."""

    run_ids: tuple[str, ...]
    name: str
    baseline: str | None = None


def find_named_runs(stack: Stack, name: str) -> NamedRuns:
    """Find the named runs. Raises Refusal where the stack would refuse them later.

    When a run and a baseline have the same name, the run is meant.
    """
    if name != LATEST and stack.record(RUN, name) is None:
        baseline = stack.baseline(name)
        if baseline is None:
            raise Refusal(
                f'There is no run and no baseline "{name}"; `rackrate list` and `rackrate baseline'
                " list` name those there are."
            )
        for run_id in baseline.run_ids:
            if stack.record(RUN, run_id) is None:
                raise Refusal(
                    f'The run {run_id} of the baseline "{name}" is gone; take it out with'
                    f" `rackrate baseline remove {name} {run_id}`, or set the baseline again."
                )
            find_measured_run(stack, run_id)
        return NamedRuns(baseline.run_ids, name, name)
    run = find_measured_run(stack, name)
    return NamedRuns((run.id,), run.id)
