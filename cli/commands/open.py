"""`rackrate open`: open the page of a run or a campaign in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ..completion import complete_run
from ..errors import Refusal
from ..following.campaign_outcome import files_of
from ..options import OutOption
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files
from ..reading.kinds import CAMPAIGN, RUN
from ..reading.run_ids import LATEST, find_finished
from ..reading.stack import Stack
from ..sentences import one_sentence

_LOOKED_AT = 100
"""How many of the newest runs are looked at for one with a page."""


@one_sentence
def open_page(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The id of a run or campaign; default: the newest run that has a page.",
            autocompletion=complete_run,
        ),
    ] = LATEST,
    stack: StackOption = "rackrate",
    out: OutOption = Path("out"),
    as_json: JsonOption = False,
) -> None:
    """Open the page of a run or a campaign in your browser, and print its path.

    The page is fetched if it is not here yet. Without a display only its path is printed.

    Example: rackrate open
    """
    output = Output(as_json)
    page = None if name == LATEST else files.directory_of(out, name) / files.PAGE
    if page is None or not page.exists():
        files.prepare(out)
        page = _fetched(Stack.find(stack), name, out)
    page = page.absolute()
    output.line(str(page))
    opened = _has_display() and webbrowser.open(page.as_uri())
    output.document({"id": page.parent.name, "path": str(page), "opened": opened})


def _fetched(stack: Stack, name: str, out: Path) -> Path:
    """Copy the files of a run or a campaign. Returns the page."""
    run_id = _newest_with_a_page(stack) if name == LATEST else name
    if stack.record(RUN, run_id) is None and stack.record(CAMPAIGN, run_id) is not None:
        campaign = find_finished(stack, CAMPAIGN, run_id)
        stored = files_of(stack, run_id, campaign)
        linked = () if stored.results is None else stored.results.linked
        copies = files.download_campaign(stack, run_id, out, linked)
        show = f"rackrate campaign show {run_id}"
    else:
        find_finished(stack, RUN, run_id)
        copies = files.download(stack, run_id, out, latest=False)
        show = f"rackrate show {run_id}"
    page = files.directory_of(out, run_id) / files.PAGE
    if page not in copies:
        raise Refusal(f"{run_id} left no {files.PAGE}; see `{show}` for how it ended.")
    return page


def _newest_with_a_page(stack: Stack) -> str:
    for run in stack.records(RUN, limit=_LOOKED_AT):
        if run.trials_measured and stack.file(run.id, files.PAGE) is not None:
            return run.id
    raise Refusal(
        f'The stack "{stack.name}" has no run with a page; start one with `rackrate run`.'
    )


def _has_display() -> bool:
    """Whether a browser can appear. Without a display one in the terminal might open."""
    if sys.platform in {"darwin", "win32"}:
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
