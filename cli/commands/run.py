"""`rackrate run`: start a benchmark and print its verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .. import files
from ..errors import Refusal
from ..guard import one_sentence
from ..options import JunitOption, OutOption, PlanOption, RequireOption, SeedOption, check_junit
from ..outcome import Wanted, check_when_planned, conclude
from ..output import JsonOption, Output, StackOption
from ..plan import read_plan
from ..progress import display_for
from ..requirements import check_plan, parse_requirements
from ..run_ids import checked_run_id, new_run_id
from ..stack import Stack
from ..watch import FollowedRun, Interruption, Watch


@one_sentence
def run(
    plan: PlanOption = None,
    stack: StackOption = "rackrate",
    name: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The run's id; default: one made from the time."),
    ] = None,
    out: OutOption = Path("out"),
    seed: SeedOption = None,
    require: RequireOption = None,
    junit: JunitOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only plan: print time, bytes, cost and guards.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return after the start, and print the run's id.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the benchmark and print its verdict.

    Ctrl-C stops the run, its pods and this command.

    Example: rackrate run --plan plan.json --require 'tcp-1 better'
    """
    wanted = Wanted(parse_requirements(require or ()), out, junit)
    text = read_plan(plan, seed, dry_run=dry_run)
    _check_wanted(wanted, json.loads(text), detach=detach)
    run_id = new_run_id() if name is None else checked_run_id(name)
    if not detach:
        files.prepare(out)
    start(Output(as_json), Stack.find(stack), run_id, text, wanted, detach=detach)


def start(
    output: Output, stack: Stack, run_id: str, plan: str, wanted: Wanted, *, detach: bool = False
) -> None:
    """Start a run with the plan's JSON text. Follow it to its end, unless `detach`.

    Raises typer.Exit with the exit code at the end of the run.
    """
    output.note(f"Run {run_id} on stack {stack.name}")
    if detach:
        arn = stack.start(run_id, plan)
        output.note(f"`rackrate watch {run_id}` follows it to its end.")
        output.line(run_id)
        output.document({"run": {"id": run_id}, "stack": stack.name, "execution_arn": arn})
        return
    with Interruption() as interruption:
        stack.start(run_id, plan)
        with display_for(output.errors) as display:
            ended = Watch(
                stack,
                FollowedRun(stack, run_id),
                display,
                interruption,
                when_planned=check_when_planned(stack, run_id, wanted.requirements),
            ).until_over()
    code = conclude(output, stack, run_id, ended, wanted)
    raise typer.Exit(interruption.exit_code if interruption.count else code)


def _check_wanted(wanted: Wanted, plan: dict[str, object], *, detach: bool) -> None:
    """Raise Refusal, before the start, for requirements and files that the run cannot provide."""
    option = "--require" if wanted.requirements else "--junit"
    if wanted.needs_verdicts and detach:
        raise Refusal(
            f"{option} needs the run's end, which --detach does not wait for; give it to"
            " `rackrate watch`."
        )
    if wanted.needs_verdicts and plan.get("dry_run"):
        raise Refusal(f"{option} needs verdicts and a dry run has none; leave out one of them.")
    check_junit(wanted.junit)
    check_plan(wanted.requirements, plan)
