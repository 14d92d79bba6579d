"""`rackrate run`: start a benchmark and print its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import files, outcome
from ..guard import one_sentence
from ..output import Output, StackOption
from ..plan import read_plan
from ..progress import display_for
from ..run_ids import checked_run_id, new_run_id
from ..stack import Stack
from ..verdict import say
from ..watch import Interruption, Watch


@one_sentence
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
    run_id = new_run_id() if name is None else checked_run_id(name)
    files.prepare(out)
    found = Stack.find(stack)
    output = Output()
    say(output.errors, f"Run {run_id} on stack {stack}")
    with Interruption() as interruption:
        arn = found.start(run_id, text)
        with display_for(output.errors) as display:
            ended = Watch(found, run_id, arn, display, interruption).until_over()
    code = outcome.report(output, found, run_id, ended, out)
    raise typer.Exit(interruption.exit_code if interruption.count else code)
