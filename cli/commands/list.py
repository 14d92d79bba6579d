"""`rackrate list`: the runs of a stack."""

from __future__ import annotations

from typing import Annotated

import typer

from ..guard import one_sentence
from ..output import JsonOption, Output, StackOption
from ..runs import as_document
from ..stack import Stack
from ..verdict import run_table


@one_sentence
def list_runs(
    stack: StackOption = "rackrate",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many runs.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first."""
    output = Output(as_json)
    runs = Stack.find(stack).runs(limit)
    if runs:
        output.print(run_table(runs))
    else:
        output.say(f'The stack "{stack}" has no runs yet; start one with `rackrate run`.')
    output.document({"runs": [as_document(run) for run in runs]})
