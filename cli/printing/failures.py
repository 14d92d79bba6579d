"""Explain to people why a run or a campaign failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rackrate_text.failures import explain, lines_of

from ..reading.kinds import CAMPAIGN, RUN, Kind
from ..reading.records import GOOD, Record
from ..reading.stack import Outcome
from .output import Output, print_error


@dataclass(frozen=True)
class RunFailure:
    """Why it failed: the error's name and its cause as text of one or more lines."""

    error: str
    cause: str


def failure_of[R: Record](ended: Outcome[R]) -> RunFailure | None:
    """Why it failed. None when it did not.

    The error comes from the execution, or else from the record.
    """
    execution, record, kind = ended.execution, ended.record, ended.kind
    if execution.status == "SUCCEEDED":
        if record is not None and record.status in GOOD:
            return None
        status = "no status" if record is None else f"status {record.status}"
        return RunFailure(
            "NoStatus",
            f"The execution of {ended.id} succeeded but its record has {status}; look into the logs"
            " of the stack's functions.",
        )
    if execution.status == "ABORTED":
        return RunFailure("Aborted", _abortion(ended.id, record, kind))
    if execution.is_running:
        return RunFailure(
            "Aborted",
            f"{kind.noun} {ended.id} is being stopped; `{kind.command} show {ended.id}` shows its"
            " end.",
        )
    if execution.status == "TIMED_OUT" and not execution.error:
        cause = execution.cause or "the execution took longer than it may"
        return RunFailure("States.Timeout", cause)
    error = execution.error or (record.error if record else None) or ""
    cause = execution.cause or (record.cause if record else None) or ""
    return RunFailure(error, explain(error, cause).text)


def _abortion(name: str, record: Record | None, kind: Kind[Any]) -> str:
    stopped = f"{kind.noun} {name} was stopped"
    if record is None:
        return f"{stopped} before it began."
    if record.is_cleaned_up:
        done = "what it changed is put back" if kind is CAMPAIGN else "cleaned up"
        return f"{stopped} and {done}."
    if kind is CAMPAIGN:
        return (
            f"{stopped}, but what it changed is not put back yet; the stack goes on with that, and"
            f" `{kind.command} show {name}` shows when it is."
        )
    return f"{stopped}, but its clean-up is not confirmed; the stack's sweep removes what is left."


def explain_end(output: Output, record: Record) -> str | None:
    """Print why a run or campaign that is over did not end well. Returns the text; None if it did.

    A stop is no error, so its sentence needs no name of one.
    """
    if not record.is_over or record.status in GOOD or not record.error:
        return None
    if record.status != "aborted":
        return "\n".join(explain_failure(output, record.error, record.cause or ""))
    output.complain(record.cause or record.error)
    return record.cause or record.error


def explain_failure(output: Output, error: str, cause: str) -> list[str]:
    """Print on standard error why it failed: a line, and one for each detail. Returns them."""
    lines = lines_of(cause)
    refused = next((kind.plan for kind in (RUN, CAMPAIGN) if kind.invalid == error), None)
    if refused is not None:
        many = "a fault" if len(lines) == 1 else "faults"
        first = f"The {refused} has {many} and nothing was started:"
        output.complain(first)
        details = lines
    else:
        first = f"{error or 'Unknown error'}: {lines[0] if lines else 'no cause given'}"
        print_error(first)
        details = lines[1:]
    for line in details:
        print_error(f"  {line}")
    return [first, *details]
