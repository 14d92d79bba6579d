"""The names of runs: making one, checking one, and finding the run that a person means."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from .errors import Refusal
from .runs import Run
from .stack import Stack

LATEST = "latest"

# A run's id is an execution name, a key in the bucket and a directory here.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


def new_run_id() -> str:
    """An id that sorts by time (UTC) and that two people hardly make at once."""
    return f"run-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def checked_run_id(name: str) -> str:
    """The name as it is. Raises Refusal when it cannot be a run's id."""
    if not _RUN_ID.fullmatch(name) or name == LATEST:
        raise Refusal(
            f'"{name}" cannot be a run\'s id; use 1 to 80 letters, digits, hyphens and'
            ' underscores, and not "latest".'
        )
    return name


def find_run(stack: Stack, name: str) -> Run:
    """The run of this id, or the one that started last for `latest`. Raises Refusal if none."""
    if name == LATEST:
        newest = stack.runs(limit=1)
        if not newest:
            raise Refusal(
                f'The stack "{stack.name}" has no runs yet; start one with `rackrate run`.'
            )
        return newest[0]
    found = stack.run(name)
    if found is None:
        raise Refusal(f'There is no run "{name}"; `rackrate list` names the runs there are.')
    return found


def find_finished_run(stack: Stack, name: str) -> Run:
    """Like `find_run`; raises Refusal also while the run goes on."""
    found = find_run(stack, name)
    if not found.is_over:
        raise Refusal(
            f"Run {found.run_id} is still going; wait for its end with"
            f" `rackrate watch {found.run_id}`."
        )
    return found


def find_measured_run(stack: Stack, name: str) -> Run:
    """A run that is over and has measured; raises Refusal for any other.

    `latest` is the newest run that was meant to measure: a dry run or a refused plan is passed
    over.
    """
    found = _newest_real_run(stack) if name == LATEST else find_run(stack, name)
    found = find_finished_run(stack, found.run_id)
    if found.status == "dry_run":
        raise Refusal(f"Run {found.run_id} is a dry run and has no trials; name one that measured.")
    if not found.trials_measured:
        raise Refusal(
            f"Run {found.run_id} ({found.status.replace('_', ' ')}) has no measured trials; name"
            " another, `rackrate list` shows them."
        )
    return found


def _newest_real_run(stack: Stack) -> Run:
    for run in stack.runs(limit=100):
        if run.status not in {"dry_run", "invalid"}:
            return run
    raise Refusal(
        f'The stack "{stack.name}" has no run that measured; start one with `rackrate run`.'
    )
