"""`rackrate baseline`: name the runs that you compare other runs with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from ..baselines import Baseline, checked_name
from ..errors import Refusal
from ..guard import one_sentence
from ..options import RunArgument
from ..output import JsonOption, Output, StackOption
from ..run_ids import find_measured_run
from ..stack import Stack

app = typer.Typer(
    help="Name runs that others are compared with.\n\nExample: rackrate baseline set golden latest",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The baseline's name.")]


@app.command("set")
@one_sentence
def set_baseline(
    name: NameArgument,
    run_id: RunArgument,
    stack: StackOption = "rackrate",
    as_json: JsonOption = False,
) -> None:
    """Give a run a name. This replaces a baseline that has the name already.

    Example: rackrate baseline set golden latest
    """
    output = Output(as_json)
    checked_name(name)
    found = Stack.find(stack)
    if found.run(name) is not None:
        raise Refusal(f'"{name}" is a run\'s id, which would win over a baseline; choose another.')
    run = find_measured_run(found, run_id)
    if found.file(run.run_id, "results.json") is None:
        raise Refusal(f"Run {run.run_id} left no results.json; name another run.")
    before = found.baseline(name)
    made = Baseline(name, run.run_id, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    found.set_baseline(made)
    was = "" if before is None or before.run_id == run.run_id else f"; it was {before.run_id}"
    output.say(f"Baseline {name} is run {run.run_id}{was}.")
    output.document({"baseline": made.as_document(), "was": before and before.as_document()})


@app.command("list")
@one_sentence
def list_baselines(stack: StackOption = "rackrate", as_json: JsonOption = False) -> None:
    """List the baselines by name.

    Example: rackrate baseline list
    """
    output = Output(as_json)
    baselines = Stack.find(stack).baselines()
    if baselines:
        output.print(_table(baselines))
    else:
        output.say(
            f'The stack "{stack}" has no baselines; name one with `rackrate baseline set NAME RUN`.'
        )
    output.document({"baselines": [baseline.as_document() for baseline in baselines]})


@app.command("remove")
@one_sentence
def remove_baseline(
    name: NameArgument, stack: StackOption = "rackrate", as_json: JsonOption = False
) -> None:
    """Remove a baseline's name. Its run stays.

    Example: rackrate baseline remove golden
    """
    output = Output(as_json)
    removed = Stack.find(stack).remove_baseline(name)
    if removed is None:
        raise Refusal(
            f'There is no baseline "{name}"; `rackrate baseline list` names those there are.'
        )
    output.say(f"Baseline {name} is forgotten; its run {removed.run_id} stays.")
    output.document({"removed": removed.as_document()})


def _table(baselines: list[Baseline]) -> Table:
    table = Table(box=box.HORIZONTALS, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("Baseline", overflow="fold")
    table.add_column("Run", overflow="fold")
    table.add_column("Set (UTC)", no_wrap=True)
    for baseline in baselines:
        table.add_row(
            Text(baseline.name), Text(baseline.run_id), baseline.set_at[:16].replace("T", " ")
        )
    return table
