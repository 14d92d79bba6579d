"""The commands: run, show, list."""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console

from . import files
from .errors import EXIT_FAILED, EXIT_USAGE, Refusal, explain
from .estimate import Estimate, print_estimate
from .plan import read_plan
from .progress import display_for
from .results import Results
from .runs import GOOD, Run
from .stack import Execution, Stack
from .verdict import print_results, run_table, say
from .watch import Interruption, Outcome, Watch

app = typer.Typer(
    help="Measure what a placement group buys the pods of an EKS cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

StackOption = Annotated[str, typer.Option("--stack", help="Name of the deployed stack.")]

# A run's id is an execution name, a key in the bucket and a directory here.
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


def _one_sentence[**P](command: Callable[P, None]) -> Callable[P, None]:
    """Print a refusal as one line on standard error and end with its exit code."""

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except Refusal as refusal:
            _complain(str(refusal))
            raise typer.Exit(refusal.exit_code) from refusal
        except (BotoCoreError, ClientError) as error:
            explained = explain(error)
            _complain(str(explained))
            raise typer.Exit(explained.exit_code) from error

    return guarded


@app.command()
@_one_sentence
def run(
    plan: Annotated[
        Path | None,
        typer.Option(help="JSON file of the plan, or - for standard input; default: {}."),
    ] = None,
    stack: StackOption = "rackrate",
    name: Annotated[
        str | None, typer.Option(help="The run's id; default: one made from the time.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("out"),
    seed: Annotated[
        int | None, typer.Option(help="Seed of the shuffled order; replaces the plan's.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only plan: print time, bytes, cost and guards.")
    ] = False,
) -> None:
    """Run the benchmark and print its verdict.

    Ctrl-C stops the run, its pods and this command.
    """
    text = read_plan(plan, seed, dry_run=dry_run)
    run_id = new_run_id() if name is None else _checked_run_id(name)
    files.prepare(out)
    found = Stack.find(stack)
    errors = Console(stderr=True)
    say(errors, f"Run {run_id} on stack {stack}")
    with Interruption() as interruption:
        arn = found.start(run_id, text)
        with display_for(errors) as display:
            outcome = Watch(found, run_id, arn, display, interruption).until_over()
    code = _report(found, run_id, outcome, out)
    raise typer.Exit(interruption.exit_code if interruption.count else code)


@app.command()
@_one_sentence
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or latest.")],
    stack: StackOption = "rackrate",
) -> None:
    """Print the verdict of an earlier run again."""
    found = Stack.find(stack)
    if run_id == "latest":
        newest = found.runs(limit=1)
        if not newest:
            raise Refusal(f'The stack "{stack}" has no runs yet; start one with `rackrate run`.')
        record: Run | None = newest[0]
    else:
        record = found.run(run_id)
    if record is None:
        raise Refusal(f'There is no run "{run_id}"; `rackrate list` names the runs there are.')
    console = Console()
    say(console, f"Run {record.run_id}: {record.status.replace('_', ' ')}")
    if not record.is_over:
        say(console, record.phase)
    if record.status not in GOOD and record.error:
        _explain_failure(record.error, record.cause or "")
    if record.status == "dry_run":
        print_estimate(console, record, _estimate(found, record.run_id))
    content = found.file(record.run_id, "results.json")
    if content is not None:
        print_results(console, Results.read(content, record.run_id), record)
        say(console, f"Files: s3://{found.bucket}/runs/{record.run_id}/")


@app.command(name="list")
@_one_sentence
def list_runs(
    stack: StackOption = "rackrate",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many runs.")] = 20,
) -> None:
    """List runs, newest first."""
    runs = Stack.find(stack).runs(limit)
    if not runs:
        typer.echo(f'The stack "{stack}" has no runs yet; start one with `rackrate run`.')
        return
    Console().print(run_table(runs))


def _report(stack: Stack, run_id: str, outcome: Outcome, out: Path) -> int:
    """Print how the run ended and fetch its files; returns the exit code."""
    console = Console()
    execution, record = outcome.execution, outcome.run
    error, cause = _failure(execution, record)
    content = stack.file(run_id, "results.json")
    dry = record is not None and record.status == "dry_run"
    if content is not None or dry:
        copies = files.download(stack, run_id, out)
        if content is not None:
            print_results(console, Results.read(content, run_id), record)
        elif record is not None:
            print_estimate(console, record, _estimate(stack, run_id))
        report = next((copy for copy in copies if copy.name == "report.html"), out / run_id)
        console.print(f"Results: {report}", markup=False, highlight=False, soft_wrap=True)
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
        _complain(_abortion(run_id, record))
        return EXIT_FAILED
    if execution.is_running:
        _complain(f"Run {run_id} is being stopped; `rackrate show {run_id}` tells its end.")
        return EXIT_FAILED
    if error != "InvalidPlan":
        _complain(f"Run {run_id} failed.")
    _explain_failure(error, cause)
    return EXIT_USAGE if error == "InvalidPlan" else EXIT_FAILED


def _estimate(stack: Stack, run_id: str) -> Estimate | None:
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


def _explain_failure(error: str, cause: str) -> None:
    lines = _human(cause)
    if error == "InvalidPlan":
        many = "a fault" if len(lines) == 1 else f"{len(lines)} faults"
        _complain(f"The plan has {many} and nothing was started:")
        for line in lines:
            typer.echo(f"  {line}", err=True)
        return
    typer.echo(f"{error or 'Unknown error'}: {lines[0] if lines else 'no cause given'}", err=True)
    for line in lines[1:]:
        typer.echo(f"  {line}", err=True)


def _human(cause: str) -> list[str]:
    """The lines of a cause for people: Lambda wraps its message in JSON, states do not."""
    try:
        document = json.loads(cause)
    except ValueError:
        document = None
    if isinstance(document, dict) and document.get("errorMessage"):
        cause = str(document["errorMessage"])
    return [line for line in cause.splitlines() if line.strip()]


def new_run_id() -> str:
    """An id that sorts by time (UTC) and that two people hardly make at once."""
    return f"run-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _checked_run_id(name: str) -> str:
    if not _RUN_ID.fullmatch(name) or name == "latest":
        raise Refusal(
            f'"{name}" cannot be a run\'s id; use 1 to 80 letters, digits, hyphens and'
            ' underscores, and not "latest".'
        )
    return name


def _complain(sentence: str) -> None:
    print(f"rackrate: {sentence}", file=sys.stderr)
