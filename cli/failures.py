"""Explain to people why a run failed."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from .output import Output
from .runs import GOOD, Run
from .watch import Outcome


@dataclass(frozen=True)
class RunFailure:
    """Why a run failed: the error's name and its cause as text of one or more lines."""

    error: str
    cause: str


def failure_of(ended: Outcome) -> RunFailure | None:
    """Why the run failed. None when it did not.

    The error comes from the execution, or else from the run's record.
    """
    execution, record, run_id = ended.execution, ended.run, ended.run_id
    if execution.status == "SUCCEEDED":
        if record is not None and record.status in GOOD:
            return None
        status = "no status" if record is None else f"status {record.status}"
        return RunFailure(
            "NoStatus",
            f"The execution of {run_id} succeeded but its record has {status}; look into the logs"
            " of the stack's functions.",
        )
    if execution.status == "ABORTED":
        return RunFailure("Aborted", _abortion(run_id, record))
    if execution.is_running:
        return RunFailure(
            "Aborted", f"Run {run_id} is being stopped; `rackrate show {run_id}` tells its end."
        )
    if execution.status == "TIMED_OUT" and not execution.error:
        cause = execution.cause or "the execution took longer than it may"
        return RunFailure("States.Timeout", cause)
    error = execution.error or (record.error if record else None) or ""
    cause = execution.cause or (record.cause if record else None) or ""
    return RunFailure(error, "\n".join(human(cause)))


def _abortion(run_id: str, record: Run | None) -> str:
    if record is None:
        return f"Run {run_id} was stopped before it began."
    if record.is_over:
        return f"Run {run_id} was stopped and cleaned up."
    return (
        f"Run {run_id} was stopped, but its clean-up is not confirmed; the stack's sweep removes"
        " what is left."
    )


def explain_failure(output: Output, error: str, cause: str) -> list[str]:
    """Print on standard error why a run failed: a line, and one for each detail. Returns them."""
    lines = human(cause)
    if error == "InvalidPlan":
        many = "a fault" if len(lines) == 1 else f"{len(lines)} faults"
        first = f"The plan has {many} and nothing was started:"
        output.complain(first)
        details = lines
    else:
        first = f"{error or 'Unknown error'}: {lines[0] if lines else 'no cause given'}"
        print(first, file=sys.stderr)
        details = lines[1:]
    for line in details:
        print(f"  {line}", file=sys.stderr)
    return [first, *details]


def human(cause: str) -> list[str]:
    """Split a cause into lines for people. Lambda wraps its message in JSON; states do not."""
    try:
        document = json.loads(cause)
    except ValueError:
        document = None
    if isinstance(document, dict) and document.get("errorMessage"):
        cause = str(document["errorMessage"])
    return [line for line in cause.splitlines() if line.strip()]
