"""`rackrate compare`: let the stack compare a run with others, or with a named baseline."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from rackrate_text.failures import lines_of

from ..completion import complete_run
from ..errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, Refusal, explain
from ..following.outcome import check, complain_of_unmet, fetch_raw
from ..following.watch import FIRST_POLL_SECONDS, POLL_SECONDS, Interruption
from ..options import OutOption, RequireOption, VerboseOption
from ..printing.comparison import print_differences
from ..printing.output import JsonOption, Output, StackOption
from ..printing.progress import display_for
from ..printing.verdict import print_results
from ..reading import files
from ..reading.documents import document_of, read_comparison
from ..reading.named_runs import NamedRuns, find_named_runs
from ..reading.requirements import Requirement, check_number_of_runs, parse_requirements
from ..reading.run_ids import new_id
from ..reading.stack import Execution, Stack
from ..sentences import one_sentence

if TYPE_CHECKING:
    from rackrate_contract.comparison import Compared


@one_sentence
def compare(
    run_id: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run's id, a baseline's name, or latest.",
            autocompletion=complete_run,
        ),
    ],
    others: Annotated[
        list[str],
        typer.Argument(
            metavar="OTHER...",
            help="What it is compared with, named alike.",
            autocompletion=complete_run,
        ),
    ],
    stack_name: StackOption = "rackrate",
    out: OutOption = Path("out"),
    require: RequireOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare a run with others: print what differed and the verdicts.

    A verdict needs four other runs; --require with fewer is refused.

    Example: rackrate compare latest main
    """
    requirements = parse_requirements(require or ())
    if any(requirement.is_about_earlier for requirement in requirements):
        raise Refusal(
            'A comparison is with other runs anyway; leave "than before" out of --require.'
        )
    files.prepare(out)
    stack = Stack.find(stack_name)
    ours, *theirs = (find_named_runs(stack, name) for name in (run_id, *others))
    other_ids = _other_ids(ours, theirs)
    for requirement in requirements:
        check_number_of_runs(requirement, len(other_ids), theirs[0].baseline)
    output = Output(as_json, is_verbose=verbose)
    comparison_id = new_id("compare")
    named = [each.name for each in theirs]
    document = {"compare": {"run": ours.name, "with": named[0] if len(named) == 1 else named}}
    execution = _execute(output, stack, comparison_id, json.dumps(document))
    _check_end(execution, comparison_id)
    _conclude(output, stack, comparison_id, out, requirements)


def _other_ids(ours: NamedRuns, theirs: Sequence[NamedRuns]) -> list[str]:
    """The ids of the other runs. Raises Refusal where the stack would refuse them later."""
    if len(ours.run_ids) > 1:
        raise Refusal(
            f'The baseline "{ours.name}" has {len(ours.run_ids)} runs; name one run first, and'
            " then those that it is compared with."
        )
    ids: list[str] = []
    for run_id in (run_id for named in theirs for run_id in named.run_ids):
        if run_id in ours.run_ids:
            raise Refusal(f"Both are the run {run_id}; name another run to compare with.")
        if run_id in ids:
            raise Refusal(f"The run {run_id} is named twice; name each run once.")
        ids.append(run_id)
    return ids


def _execute(output: Output, stack: Stack, comparison_id: str, text: str) -> Execution:
    """Start the comparison and wait for its end. A signal stops the comparison."""
    with Interruption() as interruption, display_for(output.errors) as display:
        arn = stack.start_comparison(comparison_id, text)
        began, poll_seconds = time.monotonic(), FIRST_POLL_SECONDS
        while (execution := stack.execution(arn)).is_running:
            if interruption.count:
                _stop(stack, arn)
                raise typer.Exit(interruption.exit_code)
            display.show("comparing", time.monotonic() - began, None)
            interruption.pause(poll_seconds, count=1)
            poll_seconds = min(POLL_SECONDS, 2 * poll_seconds)
    return execution


def _stop(stack: Stack, arn: str) -> None:
    try:
        stack.stop(arn, "stopped from the command line")
    except (BotoCoreError, ClientError) as error:
        raise Refusal(
            f"The comparison could not be stopped and ends by itself: {explain(error)}",
            EXIT_INTERRUPTED,
        ) from error


def _check_end(execution: Execution, comparison_id: str) -> None:
    if execution.status == "SUCCEEDED":
        return
    cause = "; ".join(line.rstrip(".") for line in lines_of(execution.cause)) or "no cause given"
    if execution.error == "InvalidComparison":
        raise Refusal(f"The runs cannot be compared: {cause}.", EXIT_USAGE)
    raise Refusal(
        f"The comparison {comparison_id} ended with {execution.error or execution.status}:"
        f" {cause}.",
        EXIT_FAILED,
    )


def _conclude(
    output: Output,
    stack: Stack,
    comparison_id: str,
    out: Path,
    requirements: tuple[Requirement, ...],
) -> None:
    prefix = f"comparisons/{comparison_id}"
    content = stack.content(f"{prefix}/comparison.json")
    if content is None:
        raise Refusal(f"The comparison {comparison_id} left no comparison.json.", EXIT_FAILED)
    comparison = read_comparison(content, comparison_id)
    compared = comparison.comparison
    page = _keep(output, stack, compared, content, comparison_id, out)
    output.say(f"Run {compared.run} against {_name_of_others(compared)}")
    several = len(compared.with_runs) > 1
    others = "The others" if several else "The other"
    print_differences(output, compared.differences, "This run", others)
    print_results(output.console, comparison, verbose=output.is_verbose)
    checks = check(output, requirements, comparison)
    output.line(f"Results: {page}")
    output.document(
        {
            "id": comparison_id,
            "stack": stack.name,
            "files": f"s3://{stack.bucket}/{prefix}/",
            "directory": str(page.parent),
            "comparison": document_of(content),
            "requirements": [each.as_document() for each in checks],
        }
    )
    raise typer.Exit(complain_of_unmet(output, checks))


def _name_of_others(compared: Compared) -> str:
    """The other run, with its baseline's name first if it has one, or several by their number."""
    is_named = compared.baseline is not None and len(compared.with_runs) == 1
    return f"{compared.baseline} ({compared.other})" if is_named else compared.others


def _keep(
    output: Output,
    stack: Stack,
    compared: Compared,
    content: bytes,
    comparison_id: str,
    out: Path,
) -> Path:
    """Copy the comparison to `out`, and its runs' raw outputs to where its page links."""
    directory = files.directory_of(out, comparison_id)
    page = stack.content(f"comparisons/{comparison_id}/{files.PAGE}")
    files.save(directory / "comparison.json", content)
    if page is None:
        return directory / "comparison.json"
    files.save(directory / files.PAGE, files.beside_runs(page))
    for run_id in (compared.run, *compared.with_runs):
        fetch_raw(output, stack, run_id, out)
    return directory / files.PAGE
