"""`rackrate plan`: estimate a run, or print an earlier run's plan to run it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..completion import complete_run
from ..errors import Refusal
from ..following.outcome import AtEnd
from ..options import OutOption, PlanOption, SeedOption
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files
from ..reading.documents import document_of
from ..reading.kinds import RUN
from ..reading.plan import read_plan
from ..reading.run_ids import find_record, new_id
from ..reading.stack import Stack
from ..sentences import one_sentence
from .run import start


@one_sentence
def plan(
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Print the plan of this run (an id, or latest).",
            autocompletion=complete_run,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only plan; so it is anyway without RUN.")
    ] = False,
    plan: PlanOption = None,
    seed: SeedOption = None,
    stack: StackOption = "rackrate",
    out: OutOption = Path("out"),
    as_json: JsonOption = False,
) -> None:
    """Plan without measuring, or print an earlier run's plan.

    Without RUN the stack checks the plan of --plan and estimates its run: time, bytes, cost and
    guards. It measures nothing. This is the same as `rackrate run --dry-run`.

    With RUN the command prints the plan of that run as JSON, with all defaults and the seed filled
    in. Pass it to `rackrate run --plan` to measure the same again.

    Example: rackrate plan latest > again.json
    """
    output = Output(as_json)
    if run_id is not None:
        if dry_run or plan is not None or seed is not None:
            raise Refusal(
                f"The plan of {run_id} is printed as it was; leave out --dry-run, --plan and"
                " --seed, or the run."
            )
        _print_plan(output, Stack.find(stack), run_id)
        return
    text = read_plan(plan, seed, dry_run=True)
    files.prepare(out)
    start(output, Stack.find(stack), new_id("run"), text, AtEnd(out=out))


def _print_plan(output: Output, stack: Stack, run_id: str) -> None:
    record = find_record(stack, RUN, run_id)
    content = stack.file(record.id, "plan.json")
    if content is None:
        raise Refusal(
            f"Run {record.id} ({record.status.replace('_', ' ')}) left no plan; name another,"
            " `rackrate list` shows them."
        )
    try:
        document: dict[str, Any] = document_of(content)["plan"]
        # The user wants this plan to run it, so it must not ask for a dry run again.
        document.pop("dry_run", None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refusal(
            f"The plan.json of {record.id} holds no plan; read it in {stack.bucket}."
        ) from error
    output.json(document)
