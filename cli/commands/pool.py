"""`rackrate pool`: one answer from runs of different days, clusters or stacks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..completion import complete_run
from ..errors import Refusal
from ..following.campaign_outcome import FollowedCampaign, conclude_campaign
from ..following.outcome import AtEnd, run_to_the_end
from ..options import OutOption, RequireOption, VerboseOption
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files, kinds
from ..reading.campaign_input import check_about_arms
from ..reading.documents import read_results
from ..reading.named_runs import find_named_runs
from ..reading.plan import CAMPAIGN, Json, as_input
from ..reading.requirements import parse_requirements
from ..reading.run_ids import checked_id, new_id
from ..reading.stack import Stack
from ..sentences import one_sentence

MOST_RUNS = 60
"""The most runs that a pool takes."""


@one_sentence
def pool(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|BASELINE|FILE...",
            help="Runs' ids, baselines' names, or results.json files of other stacks.",
            autocompletion=complete_run,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The pool's id; default: one made from the time."),
    ] = None,
    out: OutOption = Path("out"),
    require: RequireOption = None,
    stack_name: StackOption = "rackrate",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Answer from earlier runs of the same tests; each run is a draw.

    Print what differed between the runs, then the answers.

    Example: rackrate pool monday tuesday other-stack/results.json
    """
    requirements = parse_requirements(require or ())
    check_about_arms(requirements)
    pool_id = new_id("pool") if name is None else checked_id(kinds.CAMPAIGN, name)
    names = enumerate(dict.fromkeys(filter(_is_file, runs)), start=1)
    uploads = {name: _read(name, f"pools/{pool_id}/{number}.json") for number, name in names}
    files.prepare(out)
    stack = Stack.find(stack_name)
    stack.check_campaigns()
    entries = _entries(stack, runs, uploads)
    text = as_input({"pool": entries}, CAMPAIGN, None)
    for upload in uploads.values():
        stack.upload(upload.key, upload.content)
    output = Output(as_json, is_verbose=verbose)
    output.note(f"Pool {pool_id} on stack {stack.name}")
    followed = FollowedCampaign(stack, pool_id)
    begin = partial(stack.start, kinds.CAMPAIGN, pool_id, text)
    run_to_the_end(output, followed, begin, conclude_campaign, AtEnd(requirements, out))


@dataclass(frozen=True)
class _Upload:
    """A file of results: its key in the bucket, its content, and the run that it is of."""

    key: str
    content: bytes
    run_id: str


def _is_file(name: str) -> bool:
    """Whether an argument is meant as a file: no run's or baseline's name has a dot or a slash."""
    return "." in name or "/" in name


def _read(name: str, key: str) -> _Upload:
    """Read a file of results that goes to a key. Raises Refusal when it holds none."""
    try:
        content = Path(name).read_bytes()
    except FileNotFoundError as error:
        raise Refusal(
            f"There is no file {name}; name a results.json of a run, or a run's id."
        ) from error
    except OSError as error:
        raise Refusal(
            f"{name} cannot be read ({error.strerror}); name a results.json of a run."
        ) from error
    try:
        results = read_results(content, name)
    except Refusal as refusal:
        raise Refusal(
            f"{name} is not the results.json of a run; name one that `rackrate run` of this"
            " version wrote."
        ) from refusal
    return _Upload(key, content, results.run.id)


def _entries(stack: Stack, names: list[str], uploads: dict[str, _Upload]) -> list[Json]:
    """The field `pool`. Raises Refusal for runs that are missing or named twice, or too few."""
    entries: list[Json] = []
    run_ids: list[str] = []
    for name in names:
        if name in uploads:
            ids = [uploads[name].run_id]
            entries.append({"results": uploads[name].key})
        else:
            named = find_named_runs(stack, name)
            ids = list(named.run_ids)
            entries.append(named.name)
        for run_id in ids:
            if run_id in run_ids:
                raise Refusal(f"The run {run_id} is named twice; name each run once.")
            run_ids.append(run_id)
    if not 2 <= len(run_ids) <= MOST_RUNS:
        raise Refusal(
            f"A pool takes 2 to {MOST_RUNS} runs, and these are {len(run_ids)}; name"
            f" {'more' if len(run_ids) < 2 else 'fewer'}."
        )
    return entries
