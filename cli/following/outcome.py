"""Print how a run ended, store its files, and determine the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError

from rackrate_text.failures import way_on

from ..errors import EXIT_FAILED, EXIT_USAGE, Refusal, explain
from ..printing.estimate import print_estimate
from ..printing.failures import RunFailure, explain_failure, failure_of
from ..printing.junit import junit_xml
from ..printing.output import Output
from ..printing.progress import display_for
from ..printing.verdict import print_checks, print_results
from ..reading import files
from ..reading.documents import document_of, read_estimates, read_results
from ..reading.kinds import RUN, Kind
from ..reading.records import GOOD, Record
from ..reading.requirements import Checked, Judged, Requirement, evaluate
from ..reading.run_ids import find_started
from ..reading.runs import Run
from ..reading.stack import Execution, Outcome, Stack
from .watch import Followed, Interruption, Watch, seconds_since

if TYPE_CHECKING:
    from rackrate_contract.estimates import EstimatedRun
    from rackrate_contract.results import Results


@dataclass(frozen=True)
class AtEnd:
    """What the user wants at the run's end. `out` is where to copy files, None for nowhere."""

    requirements: tuple[Requirement, ...] = ()
    out: Path | None = None
    junit: Path | None = None

    @property
    def needs_verdicts(self) -> bool:
        return bool(self.requirements) or self.junit is not None


@dataclass(frozen=True)
class Stored[R, E]:
    """The files of a run or campaign that the command prints or returns. None means missing.

    `folder` is theirs in the stack's bucket. `document` is that of the results, unchanged. `plan`
    is plan.json, and only read for a dry run.
    """

    stack: Stack
    folder: str
    document: Any = None
    results: R | None = None
    plan: Any = None
    estimate: E | None = None

    @property
    def address(self) -> str:
        """The address of the files in the bucket."""
        return f"s3://{self.stack.bucket}/{self.folder}/"

    def as_document(
        self, of: Mapping[str, Any], checks: Sequence[Checked] = (), error: str | None = None
    ) -> dict[str, Any]:
        """What `--json` prints of them and of their run or campaign; see docs/cli.md."""
        return {
            **of,
            "stack": self.stack.name,
            "files": self.address,
            "results": self.document,
            "plan": self.plan,
            "requirements": [check.as_document() for check in checks],
            "error": error,
        }


def read_stored[R, E](
    stack: Stack,
    folder: str,
    record: Record | None,
    results: tuple[str, Callable[[bytes, str], R]],
    estimate: Callable[[bytes, str], E],
) -> Stored[R, E]:
    """Read the files. `results` are a file's name and its reader, `estimate` is that of a plan's.

    Raises Refusal when this command does not know their schema.
    """
    name, read = results
    of = folder.rpartition("/")[2]
    content = stack.content(f"{folder}/{name}")
    is_dry = record is not None and record.status == "dry_run"
    plan = stack.content(f"{folder}/plan.json") if is_dry else None
    # The readers refuse, in a sentence, what is no JSON.
    parsed = None if content is None else read(content, of)
    estimated = None if plan is None else estimate(plan, of)
    return Stored(stack, folder, document_of(content), parsed, document_of(plan), estimated)


type RunFiles = Stored[Results, EstimatedRun]


def files_of(stack: Stack, run_id: str, record: Run | None) -> RunFiles:
    """The files of a run. Raises Refusal when this command does not know their schema."""
    results = "results.json", read_results
    return read_stored(stack, f"runs/{run_id}", record, results, read_estimates)


def require_results(record: Run, stored: RunFiles) -> Results:
    """The run's results. Raises Refusal when it has none."""
    if stored.results is None:
        raise Refusal(
            f"Run {record.id} ({record.status.replace('_', ' ')}) has no results; name one that"
            " measured, `rackrate list` shows them."
        )
    return stored.results


def conclude(output: Output, stack: Stack, run_id: str, ended: Outcome[Run], at_end: AtEnd) -> int:
    """Print how the run ended, store the wanted files, and return the exit code."""
    failure = failure_of(ended)
    copies: list[Path] = []
    unwritten = 0
    if at_end.out is not None and _has_files(ended.record, stack, run_id):
        try:
            copies = files.download(stack, run_id, at_end.out)
            fetch_raw(output, stack, run_id, at_end.out)
        except Refusal as refusal:
            # A full disk is no reason to print no verdict.
            output.complain(str(refusal))
            unwritten = refusal.exit_code
    stored = files_of(stack, run_id, ended.record)
    print_stored(output, ended.record, stored)
    if copies:
        page = next((copy for copy in copies if copy.name == "report.html"), copies[0].parent)
        output.line(f"Results: {page}")
    elif stored.results is not None:
        output.line(f"Files: {stored.address}")
    if at_end.needs_verdicts and failure is None and ended.record is not None:
        require_results(ended.record, stored)
    checks = checks_of(output, at_end.requirements, stored.results, failure)
    if at_end.junit is not None:
        files.save(at_end.junit, junit_xml(run_id, stored.results, checks, failure), "--junit")
    code, error = report_end(output, ended, failure)
    if code and (way := _way_on(ended.record, stack)) is not None:
        output.complain(way)
    output.document(
        {
            **stored.as_document(record_of(RUN, run_id, ended.record), checks, error),
            "directory": str(copies[0].parent) if copies else None,
        }
    )
    unmet = complain_of_unmet(output, checks)
    return code or unmet or unwritten


def _way_on(run: Run | None, stack: Stack) -> str | None:
    """How to go on with a run that ended badly."""
    if run is None:
        return None
    return way_on(
        run.id,
        run.status,
        error=run.error,
        trials_planned=run.trials_planned,
        stack=stack.name,
        campaign=run.campaign,
    )


def record_of(kind: Kind[Any], name: str, record: Record | None) -> dict[str, Any]:
    """A run or a campaign for `--json`, also one without a record."""
    return {kind.key: {"id": name} if record is None else record.as_document()}


type Conclude[R: Record] = Callable[[Output, Stack, str, Outcome[R], AtEnd], int]


def run_to_the_end[R: Record](
    output: Output,
    followed: Followed[R],
    begin: Callable[[], str],
    conclude: Conclude[R],
    at_end: AtEnd,
    *,
    detach: bool = False,
    leave: Callable[[Outcome[R]], bool] = lambda ended: False,
) -> None:
    """Begin an execution. Follow it to its end and conclude, unless `detach`.

    Returns only where `leave` says so of the end; nothing is concluded then.

    Raises typer.Exit with the exit code.
    """
    kind, stack, name = followed.kind, followed.stack, followed.id
    with Interruption() as interruption:
        arn = begin()
        if not detach:
            display = display_for(output.errors)
            ended = Watch(followed, display, interruption, at_end.requirements).until_over()
    code = 0
    if detach:
        output.note(f"`{kind.command} watch {name}` follows it to its end.")
        output.line(name)
        output.document({kind.key: {"id": name}, "stack": stack.name, "execution_arn": arn})
    elif not interruption.count and leave(ended):
        return
    else:
        code = conclude(output, stack, name, ended, at_end)
    raise typer.Exit(interruption.exit_code if interruption.count else code)


def watch_to_the_end[R: Record](
    output: Output,
    stack: Stack,
    name: str,
    followed: type[Followed[R]],
    conclude: Conclude[R],
    at_end: AtEnd,
) -> NoReturn:
    """Follow an execution that is started already, and conclude. A signal ends the watching only.

    Raises typer.Exit with the exit code.
    """
    kind = followed.kind
    record = find_started(stack, kind, name)
    name = name if record is None else record.id
    interruption = Interruption()
    if record is not None and record.is_cleaned_up:
        ended = Outcome(name, Execution.of(record), record, kind)
    else:
        output.note(
            f"{kind.noun} {name} on stack {stack.name}; Ctrl-C ends the watching, not the"
            f" {kind.key}."
        )
        with interruption:
            elapsed = 0.0 if record is None else seconds_since(record.started_at)
            ended = Watch(
                followed(stack, name),
                display_for(output.errors),
                interruption,
                at_end.requirements,
                stops=False,
                elapsed=elapsed,
            ).until_over()
    if interruption.count:
        goes_on = f"{kind.noun} {name} goes on; `{kind.command} watch {name}` follows it again."
        output.complain(goes_on)
        nothing = Stored[Any, Any](stack, f"{kind.key}s/{name}")
        of = record_of(kind, name, ended.record)
        output.document(nothing.as_document(of, error=goes_on))
        raise typer.Exit(interruption.exit_code)
    raise typer.Exit(conclude(output, stack, name, ended, at_end))


def print_stored(output: Output, record: Run | None, stored: RunFiles) -> None:
    """Print the verdicts, or a dry run's estimate."""
    if stored.results is not None:
        print_results(output.console, stored.results, verbose=output.is_verbose)
    elif record is not None and record.status == "dry_run":
        print_estimate(output.console, record, stored.estimate)


def check(output: Output, requirements: Sequence[Requirement], results: Judged) -> list[Checked]:
    """Check and print requirements. Raises Refusal for one that applies to no verdict."""
    checks = evaluate(requirements, results)
    print_checks(output.console, checks)
    return checks


def complain_of_unmet(output: Output, checks: Sequence[Checked]) -> int:
    """Print every requirement that is not met on standard error. Returns the exit code."""
    unmet = [check for check in checks if not check.is_met]
    for each in unmet:
        output.complain(f'The requirement "{each.requirement.text}" is not met: {each.why}.')
    return EXIT_FAILED if unmet else 0


def conclude_shown[R: Record](
    output: Output,
    kind: Kind[R],
    record: R,
    stored: Stored[Any, Any],
    checks: Sequence[Checked],
    error: str | None,
) -> int:
    """End what `show` printed: where the files are, the document, the exit code."""
    if stored.results is not None:
        output.line(f"Files: {stored.address}")
    output.document(stored.as_document(record_of(kind, record.id, record), checks, error))
    code = complain_of_unmet(output, checks)
    if checks and record.is_over and record.status not in GOOD:
        output.complain(f"{kind.noun} {record.id} did not end well, so it meets no requirement.")
        return EXIT_FAILED
    return code


def fetch_raw(output: Output, stack: Stack, run_id: str, out: Path) -> None:
    """Copy the raw outputs that the page links to. An error is printed and has no other effect."""
    try:
        raw = files.download_raw(stack, run_id, out, files.RAW_WITH_A_RUN)
    except (BotoCoreError, ClientError) as error:
        output.complain(f"The raw outputs could not be fetched: {explain(error)}")
        return
    if raw.missing or raw.left:
        output.note(f"Raw outputs: {raw}; `rackrate report {run_id} --raw` fetches all.")


def checks_of(
    output: Output,
    requirements: Sequence[Requirement],
    results: Judged | None,
    failure: RunFailure | None,
) -> list[Checked]:
    """Like `check`, at the end of a run or campaign that may have failed."""
    if results is None:
        return []
    try:
        return check(output, requirements, results)
    except Refusal:
        # What failed may lack the verdict, and sets its own exit code.
        if failure is None:
            raise
        return []


def _has_files(record: Run | None, stack: Stack, run_id: str) -> bool:
    if record is not None and record.status == "dry_run":
        return True
    return stack.file(run_id, "results.json") is not None


def report_end[R: Record](
    output: Output, ended: Outcome[R], failure: RunFailure | None
) -> tuple[int, str | None]:
    """Print why it failed. Returns the exit code and the text, or 0 and None."""
    if failure is None:
        return 0, None
    execution = ended.execution
    if execution.status in {"ABORTED", "SUCCEEDED"} or execution.is_running:
        output.complain(failure.cause)
        return EXIT_FAILED, failure.cause
    is_refused = failure.error == ended.kind.invalid
    if not is_refused:
        output.complain(f"{ended.kind.noun} {ended.id} failed.")
    lines = explain_failure(output, failure.error, failure.cause)
    return EXIT_USAGE if is_refused else EXIT_FAILED, "\n".join(lines)
