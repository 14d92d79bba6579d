"""`rackrate show`: the verdict of an earlier run, from what it left."""

from __future__ import annotations

from typing import Annotated

import typer

from ..estimate import print_estimate
from ..guard import one_sentence
from ..outcome import explain_failure, read_estimate
from ..output import Output, StackOption
from ..results import Results
from ..run_ids import find_run
from ..runs import GOOD
from ..stack import Stack
from ..verdict import print_results


@one_sentence
def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or latest.")],
    stack: StackOption = "rackrate",
) -> None:
    """Print the verdict of an earlier run again."""
    found = Stack.find(stack)
    record = find_run(found, run_id)
    output = Output()
    output.say(f"Run {record.run_id}: {record.status.replace('_', ' ')}")
    if not record.is_over:
        output.say(record.phase)
    if record.status not in GOOD and record.error:
        explain_failure(output, record.error, record.cause or "")
    if record.status == "dry_run":
        print_estimate(output.console, record, read_estimate(found, record.run_id))
    content = found.file(record.run_id, "results.json")
    if content is not None:
        print_results(output.console, Results.read(content, record.run_id), record)
        output.say(f"Files: s3://{found.bucket}/runs/{record.run_id}/")
