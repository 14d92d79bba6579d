"""`rackrate show`: print the verdict of an earlier run from its stored results."""

from __future__ import annotations

import typer

from rackrate_text.units import took

from ..following.outcome import (
    check,
    conclude_shown,
    files_of,
    print_stored,
    require_results,
)
from ..options import RequireOption, RunArgument, VerboseOption
from ..printing.failures import explain_end
from ..printing.output import JsonOption, Output, StackOption
from ..printing.progress import describe
from ..reading.kinds import RUN
from ..reading.requirements import parse_requirements
from ..reading.run_ids import find_finished, find_record
from ..reading.runs import Run
from ..reading.stack import Stack
from ..sentences import one_sentence


@one_sentence
def show(
    run_id: RunArgument,
    stack_name: StackOption = "rackrate",
    require: RequireOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the verdict of an earlier run again, or the progress of a run.

    Example: rackrate show latest --require 'requests not worse'
    """
    requirements = parse_requirements(require or ())
    stack = Stack.find(stack_name)
    record = (find_finished if requirements else find_record)(stack, RUN, run_id)
    stored = files_of(stack, record.id, record)
    output = Output(as_json, is_verbose=verbose)
    _print_state(output, record)
    error = explain_end(output, record)
    print_stored(output, record, stored)
    checks = []
    if requirements:
        checks = check(output, requirements, require_results(record, stored))
    raise typer.Exit(conclude_shown(output, RUN, record, stored, checks, error))


def _print_state(output: Output, record: Run) -> None:
    time = took(record.seconds, record.waited_seconds) if record.is_over else ""
    state = f"{record.status.replace('_', ' ')}{time and f', {time}'}"
    output.say(f"Run {record.id}: {state}")
    if not record.is_over:
        output.say(f"Now: {describe(record).replace('\n', ', ')}")
        output.say(f"`rackrate watch {record.id}` follows it to its end.")
