"""The ids of runs and campaigns: make one, check one, and find what a user names."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from rackrate_text.failures import CONTINUABLE
from rackrate_text.names import is_id

from ..errors import Refusal
from .kinds import CAMPAIGN, RUN, Kind
from .records import Record
from .runs import Run
from .stack import Stack

LATEST = "latest"


def new_id(prefix: str) -> str:
    """Make an id that sorts by time (UTC). Two people are unlikely to make the same one."""
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def checked_id(kind: Kind[Any], name: str) -> str:
    """Return the name unchanged. Raises Refusal when it cannot be the id of a new execution."""
    if not is_id(name) or len(name) > kind.most_letters or name == LATEST:
        raise Refusal(
            f'"{name}" cannot be a {kind.key}\'s id; use 1 to {kind.most_letters} letters, digits,'
            ' hyphens and underscores, and not "latest".'
        )
    return name


def find_record[R: Record](stack: Stack, kind: Kind[R], name: str) -> R:
    """The record of this id; for `latest` the last that was not skipped.

    Raises Refusal if there is none.
    """
    if name == LATEST:
        # No run is skipped.
        newest = stack.records(kind, limit=100 if kind is CAMPAIGN else 1)
        if not newest:
            raise Refusal(
                f'The stack "{stack.name}" has no {kind.key}s yet; start one with'
                f" `{kind.command} run`."
            )
        return next((record for record in newest if record.status != "skipped"), newest[0])
    record = stack.record(kind, name)
    if record is not None:
        return record
    other: Kind[Any] = CAMPAIGN if kind is RUN else RUN
    if stack.record(other, name) is not None:
        raise Refusal(f"{name} is a {other.key}; use `{other.command} show {name}`.")
    raise Refusal(f'There is no {kind.key} "{name}"; `{kind.command} list` names those there are.')


def find_finished[R: Record](stack: Stack, kind: Kind[R], name: str) -> R:
    """Like `find_record`. Also raises Refusal while it is not over."""
    record = find_record(stack, kind, name)
    if not record.is_over:
        raise Refusal(
            f"{kind.noun} {record.id} is still going; wait for its end with"
            f" `{kind.command} watch {record.id}`."
        )
    return record


def find_started[R: Record](stack: Stack, kind: Kind[R], name: str) -> R | None:
    """Like `find_record`. None when it is started and has no record yet."""
    if name != LATEST and stack.find_execution(stack.arn(kind, name)) is not None:
        return stack.record(kind, name)
    return find_record(stack, kind, name)


def find_run_to_continue(stack: Stack, name: str) -> Run:
    """A run that failed, was stopped or took too long. Raises Refusal for any other."""
    run = find_finished(stack, RUN, name)
    if run.campaign is not None:
        raise Refusal(
            f"Run {run.id} is a step of the campaign {run.campaign}; continue that one with"
            f" `rackrate campaign run --continue {run.campaign}`."
        )
    if run.status == "invalid":
        raise Refusal(
            f"Run {run.id} has an invalid plan; correct it, and start a new run with"
            " `rackrate run --plan FILE`."
        )
    if run.status not in CONTINUABLE:
        raise Refusal(
            f"Run {run.id} ended with status {run.status.replace('_', ' ')} and has nothing"
            " to continue; start a new one with `rackrate run`."
        )
    return run


def find_measured_run(stack: Stack, name: str) -> Run:
    """A run that is over and has measured. Raises Refusal for any other.

    `latest` is the newest run that was meant to measure, so it skips dry runs and refused plans.
    """
    run = _newest_real_run(stack) if name == LATEST else find_record(stack, RUN, name)
    run = find_finished(stack, RUN, run.id)
    if run.status == "dry_run":
        raise Refusal(f"Run {run.id} is a dry run and has no trials; name one that measured.")
    if not run.trials_measured:
        raise Refusal(
            f"Run {run.id} ({run.status.replace('_', ' ')}) has no measured trials; name"
            " another, `rackrate list` shows them."
        )
    return run


def _newest_real_run(stack: Stack) -> Run:
    for run in stack.records(RUN, limit=100):
        if run.status not in {"dry_run", "invalid"}:
            return run
    raise Refusal(
        f'The stack "{stack.name}" has no run that measured; start one with `rackrate run`.'
    )
