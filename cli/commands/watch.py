"""`rackrate watch`: follow a run that is already started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import files
from ..kinds import RUN
from ..options import JunitOption, RequireOption, RunArgument, VerboseOption, check_junit
from ..outcome import Stored, Wanted, check_when_planned, conclude, leave, run_of
from ..output import JsonOption, Output, StackOption
from ..progress import display_for
from ..requirements import parse_requirements
from ..run_ids import LATEST, find_run
from ..runs import Run
from ..sentences import one_sentence
from ..stack import Execution, Stack
from ..watch import FollowedRun, Interruption, Outcome, Watch, seconds_since


@one_sentence
def watch(
    run_id: RunArgument,
    stack: StackOption = "rackrate",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory for the results; default: none are fetched."),
    ] = None,
    require: RequireOption = None,
    junit: JunitOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Follow a run to its end and print its verdict.

    Ctrl-C ends this command. The run continues.

    Example: rackrate watch latest
    """
    wanted = Wanted(parse_requirements(require or ()), out, junit)
    check_junit(junit)
    if out is not None:
        files.prepare(out)
    found = Stack.find(stack)
    output = Output(as_json, is_verbose=verbose)
    record = _find(found, run_id)
    run_id = run_id if record is None else record.run_id
    interruption = Interruption()
    if record is not None and record.is_over:
        ended = Outcome(run_id, Execution.of(record), record)
    else:
        output.note(f"Run {run_id} on stack {found.name}; Ctrl-C ends the watching, not the run.")
        with interruption:
            ended = Watch(
                found,
                FollowedRun(found, run_id),
                display_for(output.errors),
                interruption,
                stops=False,
                elapsed=0.0 if record is None else seconds_since(record.started_at),
                when_planned=check_when_planned(found, run_id, wanted.requirements),
            ).until_over()
    if interruption.count:
        nothing = Stored[Any, Any](found, f"runs/{run_id}")
        leave(output, RUN, run_id, nothing, run_of(run_id, ended.record))
        raise typer.Exit(interruption.exit_code)
    raise typer.Exit(conclude(output, found, run_id, ended, wanted))


def _find(stack: Stack, run_id: str) -> Run | None:
    """The run's record. None when the run is started and has no record yet."""
    if run_id != LATEST and stack.find_execution(stack.execution_arn(run_id)) is not None:
        return stack.run(run_id)
    return find_run(stack, run_id)
