"""How a run ended, in words and as an exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import files
from .errors import EXIT_FAILED, EXIT_USAGE, Refusal
from .estimate import Estimate, print_estimate
from .output import Output
from .results import Results
from .runs import GOOD, Run
from .stack import Execution, Stack
from .verdict import print_results
from .watch import Outcome


def report(output: Output, stack: Stack, run_id: str, outcome: Outcome, out: Path) -> int:
    """Print how the run ended and fetch its files; returns the exit code."""
    execution, record = outcome.execution, outcome.run
    error, cause = _failure(execution, record)
    content = stack.file(run_id, "results.json")
    dry = record is not None and record.status == "dry_run"
    if content is not None or dry:
        copies = files.download(stack, run_id, out)
        if content is not None:
            print_results(output.console, Results.read(content, run_id), record)
        elif record is not None:
            print_estimate(output.console, record, read_estimate(stack, run_id))
        page = next((copy for copy in copies if copy.name == "report.html"), out / run_id)
        output.line(f"Results: {page}")
    if execution.status == "SUCCEEDED":
        if record is None or record.status not in GOOD:
            status = "no status" if record is None else f"status {record.status}"
            raise Refusal(
                f"The execution of {run_id} succeeded but its record has {status}; look into the"
                " logs of the stack's functions.",
                EXIT_FAILED,
            )
        return 0
    if execution.status == "ABORTED":
        output.complain(_abortion(run_id, record))
        return EXIT_FAILED
    if execution.is_running:
        output.complain(f"Run {run_id} is being stopped; `rackrate show {run_id}` tells its end.")
        return EXIT_FAILED
    if error != "InvalidPlan":
        output.complain(f"Run {run_id} failed.")
    explain_failure(output, error, cause)
    return EXIT_USAGE if error == "InvalidPlan" else EXIT_FAILED


def read_estimate(stack: Stack, run_id: str) -> Estimate | None:
    """The estimates in the run's plan.json; None when the plan is not kept."""
    content = stack.file(run_id, "plan.json")
    return None if content is None else Estimate.read(content, run_id)


def _abortion(run_id: str, record: Run | None) -> str:
    if record is None:
        return f"Run {run_id} was stopped before it began."
    if record.is_over:
        return f"Run {run_id} was stopped and cleaned up."
    return (
        f"Run {run_id} was stopped, but its clean-up is not confirmed; the stack's sweep removes"
        " what is left."
    )


def _failure(execution: Execution, record: Run | None) -> tuple[str, str]:
    """The error's name and cause: the execution's, else what the run's record says."""
    if execution.status == "TIMED_OUT" and not execution.error:
        return "States.Timeout", execution.cause or "the execution took longer than it may"
    error = execution.error or (record.error if record else None) or ""
    cause = execution.cause or (record.cause if record else None) or ""
    return error, cause


def explain_failure(output: Output, error: str, cause: str) -> None:
    """Say on standard error why a run failed: one line, and a line for each detail."""
    lines = human(cause)
    if error == "InvalidPlan":
        many = "a fault" if len(lines) == 1 else f"{len(lines)} faults"
        output.complain(f"The plan has {many} and nothing was started:")
        details = lines
    else:
        first = lines[0] if lines else "no cause given"
        print(f"{error or 'Unknown error'}: {first}", file=sys.stderr)
        details = lines[1:]
    for line in details:
        print(f"  {line}", file=sys.stderr)


def human(cause: str) -> list[str]:
    """The lines of a cause for people: Lambda wraps its message in JSON, states do not."""
    try:
        document = json.loads(cause)
    except ValueError:
        document = None
    if isinstance(document, dict) and document.get("errorMessage"):
        cause = str(document["errorMessage"])
    return [line for line in cause.splitlines() if line.strip()]
