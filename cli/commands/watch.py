"""`rackrate watch`: follow a run that is already started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..following.outcome import AtEnd, check_when_planned, conclude, watch_to_the_end
from ..following.watch import FollowedRun, Interruption, Watch
from ..options import JunitOption, RequireOption, RunArgument, VerboseOption, check_junit
from ..printing.output import JsonOption, Output, StackOption
from ..printing.progress import display_for
from ..reading import files
from ..reading.kinds import RUN
from ..reading.requirements import parse_requirements
from ..reading.runs import Run
from ..reading.stack import Outcome, Stack
from ..sentences import one_sentence


@one_sentence
def watch(
    run_id: RunArgument,
    stack_name: StackOption = "rackrate",
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
    at_end = AtEnd(parse_requirements(require or ()), out, junit)
    check_junit(junit)
    if out is not None:
        files.prepare(out)
    stack = Stack.find(stack_name)
    output = Output(as_json, is_verbose=verbose)

    def follow(name: str, interruption: Interruption, elapsed: float) -> Outcome[Run]:
        return Watch(
            stack,
            FollowedRun(stack, name),
            display_for(output.errors),
            interruption,
            stops=False,
            elapsed=elapsed,
            when_planned=check_when_planned(stack, name, at_end.requirements),
        ).until_over()

    watch_to_the_end(
        output,
        stack,
        RUN,
        run_id,
        follow,
        lambda name, ended: conclude(output, stack, name, ended, at_end),
    )
