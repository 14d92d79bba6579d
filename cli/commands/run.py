"""`rackrate run`: start a benchmark and print its verdict."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rackrate_text.failures import NODES_CHANGED

from ..completion import complete_run
from ..errors import Refusal
from ..following.outcome import AtEnd, conclude, run_to_the_end
from ..following.watch import FollowedRun
from ..options import (
    JunitOption,
    OutOption,
    PlanOption,
    RequireOption,
    SeedOption,
    VerboseOption,
    check_junit,
)
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files
from ..reading.kinds import RUN
from ..reading.plan import read_plan
from ..reading.requirements import check_plan, parse_requirements
from ..reading.run_ids import checked_id, find_run_to_continue, new_id
from ..reading.stack import Stack
from ..sentences import one_sentence


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
    continues: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="RUN",
            help="Go on with a run that failed or was stopped, from its stored trials.",
            autocompletion=complete_run,
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return after the start, and print the run's id.")
    ] = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the benchmark and print its verdict.

    Ctrl-C stops the run, its pods and this command.

    Example: rackrate run --plan plan.json --require 'tcp-1 better'
    """
    at_end = AtEnd(parse_requirements(require or ()), out, junit)
    if continues is not None:
        options = {"--plan": plan, "--seed": seed, "--name": name, "--dry-run": dry_run or None}
        for option in (option for option, value in options.items() if value is not None):
            raise Refusal(
                f"--continue takes the plan of the run that it continues; leave out {option}."
            )
    text = read_plan(plan, seed, dry_run=dry_run)
    _check_at_end(at_end, json.loads(text), detach=detach)
    run_id = new_id("run") if name is None else checked_id(RUN, name)
    if not detach:
        files.prepare(out)
    output, deployed = Output(as_json, is_verbose=verbose), Stack.find(stack)
    if continues is None:
        start(output, deployed, run_id, text, at_end, detach=detach)
    else:
        go_on(output, deployed, continues, at_end, detach=detach)


def start(
    output: Output, stack: Stack, run_id: str, plan: str, at_end: AtEnd, *, detach: bool = False
) -> None:
    """Start a run with the plan's JSON text. Follow it to its end, unless `detach`.

    Raises typer.Exit with the exit code at the end of the run.
    """
    output.note(f"Run {run_id} on stack {stack.name}")
    followed = FollowedRun(stack, run_id)
    begin = partial(stack.start, RUN, run_id, plan)
    run_to_the_end(output, followed, begin, conclude, at_end, detach=detach)


def go_on(output: Output, stack: Stack, name: str, at_end: AtEnd, *, detach: bool = False) -> None:
    """Continue a run. Start a new one with its plan where its nodes are missing.

    Raises typer.Exit with the exit code at the end of the run.
    """
    run_id = find_run_to_continue(stack, name).id
    output.note(f"Run {run_id} on stack {stack.name}, continued from its stored trials")
    run_to_the_end(
        output,
        FollowedRun(stack, run_id),
        partial(stack.redrive, run_id),
        conclude,
        at_end,
        detach=detach,
        leave=lambda ended: ended.execution.error == NODES_CHANGED,
    )
    new = new_id("run")
    output.note(
        f"The nodes of run {run_id} are gone. Run {new} measures its plan from the start, as a"
        f" new draw, and takes over no trials of run {run_id}."
    )
    start(output, stack, new, stack.input_of(run_id), at_end)


def _check_at_end(at_end: AtEnd, plan: dict[str, object], *, detach: bool) -> None:
    """Raise Refusal, before the start, for requirements and files that the run cannot provide."""
    option = "--require" if at_end.requirements else "--junit"
    if at_end.needs_verdicts and detach:
        raise Refusal(
            f"{option} needs the run's end, which --detach does not wait for; give it to"
            " `rackrate watch`."
        )
    if at_end.needs_verdicts and plan.get("dry_run"):
        raise Refusal(f"{option} needs verdicts and a dry run has none; leave out one of them.")
    check_junit(at_end.junit)
    check_plan(at_end.requirements, plan)
