"""`rackrate watch`: follow a run that is already started."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..following.outcome import AtEnd, conclude, watch_to_the_end
from ..following.watch import FollowedRun
from ..options import JunitOption, RequireOption, RunArgument, VerboseOption, check_junit
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files
from ..reading.requirements import parse_requirements
from ..reading.stack import Stack
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
    watch_to_the_end(output, stack, run_id, FollowedRun, conclude, at_end)
