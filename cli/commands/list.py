"""`rackrate list`: the runs of a stack."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ..printing.output import JsonOption, Output, StackOption
from ..printing.verdict import OF_CAMPAIGN, run_table
from ..reading.kinds import RUN
from ..reading.stack import Stack
from ..sentences import one_sentence


class Status(StrEnum):
    """A run's status, as in the table of runs."""

    running = "running"
    succeeded = "succeeded"
    degraded = "degraded"
    failed = "failed"
    aborted = "aborted"
    timed_out = "timed_out"
    invalid = "invalid"
    dry_run = "dry_run"


@one_sentence
def list_runs(
    stack: StackOption = "rackrate",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="At most so many runs.")
    ] = 20,
    status: Annotated[
        list[Status] | None,
        typer.Option(
            metavar="STATUS",
            help=f"Only runs of this status ({', '.join(Status)}); again for more.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first.

    Example: rackrate list --status failed --limit 5
    """
    output = Output(as_json)
    statuses = [each.value for each in status or ()]
    runs = Stack.find(stack).records(RUN, limit, statuses)
    if runs:
        output.print(run_table(runs, output.console.width))
        if any(run.campaign for run in runs):
            output.say(f"{OF_CAMPAIGN.strip()} a step of a campaign; `rackrate campaign list`.")
    elif statuses:
        words = " or ".join(each.replace("_", " ") for each in statuses)
        output.say(f'The stack "{stack}" has no run that is {words}.')
    else:
        output.say(f'The stack "{stack}" has no runs yet; start one with `rackrate run`.')
    output.document({"runs": [run.as_document() for run in runs]})
