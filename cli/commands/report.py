"""`rackrate report`: get a run's page as a file or a link."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ..errors import EXIT_USAGE, Refusal
from ..options import RunArgument
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files
from ..reading.run_ids import find_measured_run
from ..reading.stack import Stack
from ..sentences import one_sentence

# The maximum of a version 4 signature (Amazon S3 user guide, presigned URLs).
_MOST_HOURS = 7 * 24


@one_sentence
def report(
    run_id: RunArgument,
    stack_name: StackOption = "rackrate",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the page.")] = Path("out"),
    raw: Annotated[
        bool, typer.Option("--raw", help="Fetch the tools' raw outputs that it links to, too.")
    ] = False,
    url: Annotated[
        bool, typer.Option("--url", help="Print a link that works without credentials instead.")
    ] = False,
    hours: Annotated[
        int, typer.Option(metavar="N", min=1, max=_MOST_HOURS, help="How long the link is to work.")
    ] = 24,
    as_json: JsonOption = False,
) -> None:
    """Fetch a run's page, or make a link to it.

    Example: rackrate report latest --url
    """
    output = Output(as_json)
    if url and raw:
        raise Refusal("A link leads to the page alone; use --raw without --url.", EXIT_USAGE)
    if not url:
        files.prepare(out)
    stack = Stack.find(stack_name)
    run = find_measured_run(stack, run_id)
    if stack.file(run.id, files.PAGE) is None:
        raise Refusal(
            f"Run {run.id} left no {files.PAGE}; see `rackrate show {run.id}` for how it ended."
        )
    if url:
        _link(output, stack, run.id, hours)
    else:
        _copy(output, stack, run.id, out, raw=raw)


def _link(output: Output, stack: Stack, run_id: str, hours: int) -> None:
    address = stack.link(f"runs/{run_id}/{files.PAGE}", hours * 3600)
    until = f"{datetime.now(UTC) + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"
    # A link signed with a session's credentials expires with the session.
    temporary = stack.has_temporary_credentials
    output.line(address)
    holds = "hour" if hours == 1 else f"{hours} hours"
    output.note(
        f"The link holds for {holds}, until {until}, and whoever has it can read the page."
        + (
            " It is signed with temporary credentials and ends with them if that is sooner."
            if temporary
            else ""
        ),
    )
    output.document(
        {
            "run": run_id,
            "url": address,
            "expires_at": until,
            "seconds": hours * 3600,
            "temporary_credentials": temporary,
        }
    )


def _copy(output: Output, stack: Stack, run_id: str, out: Path, *, raw: bool) -> None:
    copies = files.download(stack, run_id, out, latest=False)
    page = next(copy for copy in copies if copy.name == files.PAGE).absolute()
    fetched = files.download_raw(stack, run_id, out) if raw else None
    output.line(str(page))
    if fetched is not None:
        output.note(f"Raw outputs, in raw/ beside it: {fetched}.")
    output.document(
        {
            "run": run_id,
            "path": str(page),
            "raw_outputs": None
            if fetched is None
            else {"copied": fetched.copied, "missing": fetched.missing},
        }
    )
