"""`rackrate baseline`: name the runs that you compare other runs with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from rackrate_text.units import change, percent
from rackrate_text.words import counted, listed, metric_of_test

from ..completion import complete_run
from ..errors import EXIT_FAILED, Refusal
from ..printing.output import JsonOption, Output, StackOption
from ..printing.verdict import add_columns, listing, plain_table, run_table
from ..reading.baselines import (
    LEAST_RUNS,
    MOST_RUNS,
    Baseline,
    checked_name,
    measured_when,
    what_a_gate_needs,
    what_a_gate_shows,
)
from ..reading.documents import read_results
from ..reading.kinds import RUN
from ..reading.run_ids import find_measured_run
from ..reading.stack import Stack
from ..sentences import Command, Group, one_sentence

app = typer.Typer(
    cls=Group,
    help="Name runs that others are compared with. A gate needs four.\n\nExample: rackrate baseline"
    " add main latest",
    no_args_is_help=True,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The baseline's name.")]
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Runs' ids, or latest.", autocompletion=complete_run),
]

_TRIES = 5
type _Change = Callable[[tuple[str, ...]], tuple[str, ...]]


@app.command("set", cls=Command)
@one_sentence
def set_baseline(
    name: NameArgument,
    run_ids: RunsArgument,
    stack_name: StackOption = "rackrate",
    as_json: JsonOption = False,
) -> None:
    """Give runs a name. This replaces a baseline that has the name already.

    Example: rackrate baseline set golden latest
    """
    stack = Stack.find(stack_name)
    runs = _checked_runs(stack, name, run_ids)
    if len(runs) > MOST_RUNS:
        raise Refusal(f"A baseline has at most {MOST_RUNS} runs; name fewer than {len(runs)}.")
    before, after = _change(stack, name, lambda _: runs)
    was = "" if before is None or before.run_ids == runs else f"; it was {_shown(before.run_ids)}"
    message = f"Baseline {name} is {_shown(runs)}{was}."
    _print_change(Output(as_json), stack, message, before, after)


@app.command("add", cls=Command)
@one_sentence
def add_to_baseline(
    name: NameArgument,
    run_ids: RunsArgument,
    stack_name: StackOption = "rackrate",
    as_json: JsonOption = False,
) -> None:
    """Add runs to a baseline, which is made if there is none. It keeps the newest 20.

    Example: rackrate baseline add main latest
    """
    stack = Stack.find(stack_name)
    runs = _checked_runs(stack, name, run_ids)

    def with_them(before: tuple[str, ...]) -> tuple[str, ...]:
        return (*before, *(run for run in runs if run not in before))[-MOST_RUNS:]

    before, after = _change(stack, name, with_them)
    had = () if before is None else before.run_ids
    added = [run for run in after.run_ids if run not in had]
    dropped = [run for run in had if run not in after.run_ids]
    has = f"Baseline {name} has {counted(len(after.run_ids), 'run')}"
    message = (
        f"{has}{f', with {listed(added)}' if added else '; it had them already'}"
        f"{f', and no longer {listed(dropped)}' if dropped else ''}."
    )
    _print_change(Output(as_json), stack, message, before, after)


@app.command("show", cls=Command)
@one_sentence
def show_baseline(
    name: NameArgument, stack_name: StackOption = "rackrate", as_json: JsonOption = False
) -> None:
    """Show the runs of a baseline, and what a gate against it needs or shows.

    Example: rackrate baseline show main
    """
    output = Output(as_json)
    stack = Stack.find(stack_name)
    baseline = stack.baseline(name)
    if baseline is None:
        raise _no_baseline(name)
    records = {run_id: stack.record(RUN, run_id) for run_id in baseline.run_ids}
    runs = [run for run in records.values() if run is not None]
    missing = [run_id for run_id, run in records.items() if run is None]
    if runs:
        output.print(run_table(runs))
    for run_id in missing:
        output.say(
            f"The run {run_id} is gone; take it out with `rackrate baseline remove {name}"
            f" {run_id}`."
        )
    output.document(
        {
            "baseline": baseline.as_document(),
            "runs": [run.as_document() for run in runs],
            "gone": missing,
            "gate": _print_gate(output, stack, baseline),
        }
    )


@app.command("list", cls=Command)
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


@app.command("remove", cls=Command)
@one_sentence
def remove_baseline(
    name: NameArgument,
    run_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN...]", help="Take out these runs only."),
    ] = None,
    stack_name: StackOption = "rackrate",
    as_json: JsonOption = False,
) -> None:
    """Remove a baseline's name, or take runs out of it. The runs themselves stay.

    Example: rackrate baseline remove golden
    """
    output = Output(as_json)
    stack = Stack.find(stack_name)
    if run_ids:
        _take_out(output, stack, name, run_ids)
        return
    removed = stack.remove_baseline(name)
    if removed is None:
        raise _no_baseline(name)
    verb = "stays" if len(removed.run_ids) == 1 else "stay"
    output.say(f"Baseline {name} is forgotten; {_shown(removed.run_ids)} {verb}.")
    output.document({"removed": removed.as_document()})


def _take_out(output: Output, stack: Stack, name: str, run_ids: Sequence[str]) -> None:
    def without_them(before: tuple[str, ...]) -> tuple[str, ...]:
        if not before:
            raise _no_baseline(name)
        for run_id in run_ids:
            if run_id not in before:
                raise Refusal(f"Run {run_id} is not in the baseline {name}; name one that is.")
        left = tuple(run_id for run_id in before if run_id not in run_ids)
        if not left:
            raise Refusal(
                f"The baseline {name} would have no run left; remove it with `rackrate baseline"
                f" remove {name}`."
            )
        return left

    before, after = _change(stack, name, without_them)
    _print_change(output, stack, f"Baseline {name} is {_shown(after.run_ids)}.", before, after)


def _checked_runs(stack: Stack, name: str, run_ids: Sequence[str]) -> tuple[str, ...]:
    """The ids of runs that a baseline can have, each once. Raises Refusal for any other."""
    checked_name(name)
    if stack.record(RUN, name) is not None:
        raise Refusal(f'"{name}" is a run\'s id, which would win over a baseline; choose another.')
    measured = []
    for run_id in run_ids:
        run = find_measured_run(stack, run_id)
        if stack.file(run.id, "results.json") is None:
            raise Refusal(f"Run {run.id} left no results.json; name another run.")
        measured.append(run.id)
    return tuple(dict.fromkeys(measured))


def _change(stack: Stack, name: str, change: _Change) -> tuple[Baseline | None, Baseline]:
    """Change a baseline's runs. Returns the baseline before and after.

    Two jobs may add a run at the same time, so the change is repeated if somebody else was first.
    """
    for _ in range(_TRIES):
        before = stack.baseline(name)
        run_ids = change(() if before is None else before.run_ids)
        after = Baseline(name, run_ids, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        if stack.set_baseline(after, before):
            return before, after
    raise Refusal(f"Others keep changing the baseline {name}; try again.", EXIT_FAILED)


def _print_change(
    output: Output, stack: Stack, message: str, before: Baseline | None, after: Baseline
) -> None:
    """Say what a baseline is after a change, and what a gate against it needs or shows."""
    output.say(message)
    gate = _print_gate(output, stack, after)
    was = before and before.as_document()
    output.document({"baseline": after.as_document(), "was": was, "gate": gate})


def _print_gate(output: Output, stack: Stack, baseline: Baseline) -> dict[str, Any] | None:
    """Print what a gate still needs, or shows. Returns what it shows for `--json`, or None."""
    contents = {run_id: stack.file(run_id, "results.json") for run_id in baseline.run_ids}
    runs = [read_results(content, id_) for id_, content in contents.items() if content is not None]
    if len(runs) < LEAST_RUNS:
        output.say(f"For now: {what_a_gate_needs(len(runs), baseline.name)}.")
        return None
    first, last, close = measured_when(runs)
    output.say(f"Measured from {first} to {last} (UTC).")
    if close is not None:
        output.say(f"Warning: {close}.", style="yellow")
    shown = what_a_gate_shows(runs)
    if shown:
        # Pydantic takes longer to import than the command takes to start.
        from rackrate_contract.arms import arm_titles

        table = plain_table(80)
        add_columns(table, "Test", "Arm", "Smallest regression", overflow="fold")
        titles = arm_titles(runs[-1].arms)
        for (test, metric, arm), ratio in sorted(shown.items()):
            named = metric_of_test(test, metric), titles.get(arm, arm)
            table.add_row(*map(Text, named), change(ratio))
        output.print(table)
        newest = runs[-1].verdicts[0]
        output.say(
            f"A gate with the threshold {percent(newest.threshold)} finds a regression of this size"
            f" in half of the cases. Where it exceeds {percent(newest.margin)}, the margin, a gate"
            " can hardly fail. More runs, and runs that differ less, make it smaller."
        )
    names = ("test", "metric", "arm", "ratio")
    smallest = [dict(zip(names, (*key, ratio), strict=True)) for key, ratio in shown.items()]
    return {"measured_from": first, "measured_to": last, "smallest_regressions": smallest}


def _shown(run_ids: Sequence[str]) -> str:
    """`run r1`, or `the runs r1 and r2`."""
    return f"run {run_ids[0]}" if len(run_ids) == 1 else f"the runs {listed(run_ids)}"


def _no_baseline(name: str) -> Refusal:
    return Refusal(
        f'There is no baseline "{name}"; `rackrate baseline list` names those there are.'
    )


def _table(baselines: list[Baseline]) -> Table:
    table = listing()
    table.add_column("Baseline", overflow="fold")
    table.add_column("Runs", justify="right", no_wrap=True)
    table.add_column("Newest run", overflow="fold")
    table.add_column("Set (UTC)", no_wrap=True)
    for baseline in baselines:
        table.add_row(
            Text(baseline.name),
            str(len(baseline.run_ids)),
            Text(baseline.run_ids[-1] if baseline.run_ids else "none"),
            baseline.set_at[:16].replace("T", " "),
        )
    return table
