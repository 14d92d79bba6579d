"""The ids of runs and campaigns: make one, check one, and find what a user names."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from rackrate_text.failures import CONTINUABLE
from rackrate_text.names import is_id

from .campaigns import Campaign
from .errors import Refusal
from .kinds import CAMPAIGN, RUN, Kind, Record
from .runs import Run
from .stack import Stack

LATEST = "latest"

_MOST_LETTERS = 80
# The id of a step's run is that of its campaign with the step's number.
_MOST_LETTERS_OF_CAMPAIGN = _MOST_LETTERS - len("-100")


def new_run_id() -> str:
    """Make an id that sorts by time (UTC). Two people are unlikely to make the same one."""
    return new_id("run")


def new_id(prefix: str) -> str:
    """Like `new_run_id`, with another first word."""
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def checked_run_id(name: str) -> str:
    """Return the name unchanged. Raises Refusal when it is not a valid run id."""
    return _checked(name, "run", _MOST_LETTERS)


def checked_campaign_id(name: str) -> str:
    """Return the name unchanged. Raises Refusal when it is not a valid campaign id."""
    return _checked(name, "campaign", _MOST_LETTERS_OF_CAMPAIGN)


def _checked(name: str, noun: str, most: int) -> str:
    if not is_id(name) or len(name) > most or name == LATEST:
        raise Refusal(
            f'"{name}" cannot be a {noun}\'s id; use 1 to {most} letters, digits, hyphens and'
            ' underscores, and not "latest".'
        )
    return name


def _newest[R](stack: Stack, records: Sequence[R], kind: Kind) -> R:
    if not records:
        raise Refusal(
            f'The stack "{stack.name}" has no {kind.noun.lower()}s yet; start one with'
            f" `{kind.command} run`."
        )
    return records[0]


def _over[R: Record](found: R, name: str, kind: Kind) -> R:
    if not found.is_over:
        raise Refusal(
            f"{kind.noun} {name} is still going; wait for its end with"
            f" `{kind.command} watch {name}`."
        )
    return found


def find_run(stack: Stack, name: str) -> Run:
    """The run of this id; for `latest` the one that started last. Raises Refusal if none."""
    if name == LATEST:
        return _newest(stack, stack.runs(limit=1), RUN)
    found = stack.run(name)
    if found is None:
        if stack.campaign(name) is not None:
            raise Refusal(f"{name} is a campaign; use `rackrate campaign show {name}`.")
        raise Refusal(f'There is no run "{name}"; `rackrate list` names the runs there are.')
    return found


def find_campaign(stack: Stack, name: str) -> Campaign:
    """The campaign of this id; for `latest` the last not skipped. Raises Refusal if none."""
    if name == LATEST:
        newest = stack.campaigns(limit=100)
        return _newest(stack, [c for c in newest if c.status != "skipped"] or newest, CAMPAIGN)
    found = stack.campaign(name)
    if found is None:
        raise Refusal(
            f'There is no campaign "{name}"; `rackrate campaign list` names those there are.'
        )
    return found


def find_finished_campaign(stack: Stack, name: str) -> Campaign:
    """Like `find_campaign`. Also raises Refusal while the campaign is not over."""
    found = find_campaign(stack, name)
    return _over(found, found.campaign_id, CAMPAIGN)


def find_finished_run(stack: Stack, name: str) -> Run:
    """Like `find_run`. Also raises Refusal while the run is not over."""
    found = find_run(stack, name)
    return _over(found, found.run_id, RUN)


def find_run_to_continue(stack: Stack, name: str) -> Run:
    """A run that failed, was stopped or took too long. Raises Refusal for any other."""
    found = find_finished_run(stack, name)
    if found.campaign is not None:
        raise Refusal(
            f"Run {found.run_id} is a step of the campaign {found.campaign}; continue that one with"
            f" `rackrate campaign run --continue {found.campaign}`."
        )
    if found.status == "invalid":
        raise Refusal(
            f"Run {found.run_id} has an invalid plan; correct it, and start a new run with"
            " `rackrate run --plan FILE`."
        )
    if found.status not in CONTINUABLE:
        raise Refusal(
            f"Run {found.run_id} ended with status {found.status.replace('_', ' ')} and has nothing"
            " to continue; start a new one with `rackrate run`."
        )
    return found


def find_measured_run(stack: Stack, name: str) -> Run:
    """A run that is over and has measured. Raises Refusal for any other.

    `latest` is the newest run that was meant to measure, so it skips dry runs and refused plans.
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
