"""`rackrate export`: write trials, verdicts or results to files for other programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rackrate_text.failures import lines_of
from rackrate_text.words import listed

from ..errors import Refusal
from ..printing.failures import RunFailure
from ..printing.junit import junit_xml
from ..printing.markdown import markdown
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files
from ..reading.campaigns import Campaign
from ..reading.documents import read_campaign, read_results
from ..reading.kinds import CAMPAIGN
from ..reading.records import GOOD
from ..reading.run_ids import LATEST, find_finished, find_measured_run
from ..reading.runs import Run
from ..reading.stack import Stack
from ..sentences import one_sentence


class Format(StrEnum):
    """The formats of an export."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    junit = "junit"
    markdown = "markdown"


_SUFFIXES = {format: format.value for format in Format}
_SUFFIXES |= {Format.junit: "xml", Format.markdown: "md"}


class Table(StrEnum):
    """What the rows of a CSV or Parquet file are."""

    trials = "trials"
    verdicts = "verdicts"


@one_sentence
def export(
    run_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Ids of runs or campaigns, or latest.", show_default=False
        ),
    ],
    format: Annotated[
        Format | None,
        typer.Option(
            help="csv and parquet are tables, the others results; default: by the ending of --out."
        ),
    ] = None,
    table: Annotated[
        Table | None,
        typer.Option(
            help="Rows of csv and parquet; default: trials of runs, verdicts of campaigns."
        ),
    ] = None,
    stack_name: StackOption = "rackrate",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR|-",
            help="File, directory, or - for standard output; default: RUN.csv, .parquet, .json,"
            " .xml or .md in this directory.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the trials, verdicts or results of runs and campaigns for other programs.

    Example: rackrate export latest --format csv --table verdicts
    """
    output = Output(as_json)
    to_stdout = out is not None and str(out) == "-"
    if to_stdout and as_json:
        raise Refusal("Standard output cannot take both; use --json with a file as --out.")
    format = format or _format_of(out)
    stack = Stack.find(stack_name)
    sources = list({each.id: each for each in (_find(stack, one) for one in run_ids)}.values())
    if to_stdout:
        _print(format, [_export(stack, each, format, table) for each in sources])
        return
    # Check the paths before fetching anything, and write nothing before everything is fetched.
    paths = _paths([each.id for each in sources], format, out)
    _check(paths, force=force)
    contents: dict[Path, list[bytes]] = {}
    for each, path in zip(sources, paths, strict=True):
        contents.setdefault(path, []).append(_export(stack, each, format, table))
    written = {path: _together(format, parts) for path, parts in contents.items()}
    for path, content in written.items():
        files.save(path, content)
        output.line(str(path))
    output.document(
        {
            "format": format.value,
            "files": [
                {"run": each.id, "path": str(path), "bytes": len(written[path])}
                for each, path in zip(sources, paths, strict=True)
            ],
        }
    )


def _format_of(out: Path | None) -> Format:
    """The format that the ending of a file's name stands for."""
    for format, suffix in _SUFFIXES.items():
        if out is not None and out.suffix == f".{suffix}":
            return format
    formats = listed([each.value for each in Format], "or")
    raise Refusal(f"No --format is given, and --out names none by its ending; write {formats}.")


def _find(stack: Stack, name: str) -> Run | Campaign:
    if name != LATEST and stack.record(CAMPAIGN, name) is not None:
        return find_finished(stack, CAMPAIGN, name)
    return find_measured_run(stack, name)


def _export(stack: Stack, of: Run | Campaign, format: Format, table: Table | None) -> bytes:
    """A run or campaign in the requested format. Raises Refusal if it has none."""
    if isinstance(of, Campaign):
        return _export_campaign(stack, of, format, table)
    if format is Format.csv and table is not Table.verdicts:
        return _needed(stack.file(of.id, "trials.csv"), of, "trials.csv")
    if format is Format.parquet:
        key = f"{table or Table.trials}/day={of.started_at[:10]}/{of.id}.parquet"
        return _needed(stack.content(key), of, key)
    content = _needed(stack.file(of.id, "results.json"), of, "results.json")
    results = read_results(content, of.id)  # raises Refusal for another schema
    match format:
        case Format.csv:
            from rackrate_contract.tables import VERDICTS, to_csv, verdict_rows

            return to_csv(VERDICTS, verdict_rows(results)).encode()
        case Format.junit:
            return junit_xml(of.id, results, (), _failure(of))
        case Format.markdown:
            return markdown(of.id, results, _failure(of))
    return content


def _export_campaign(stack: Stack, of: Campaign, format: Format, table: Table | None) -> bytes:
    name = "campaign.json"
    content = _needed(stack.content(f"campaigns/{of.id}/{name}"), of, name)
    results = read_campaign(content, of.id)
    if format is Format.json:
        return content
    if format is not Format.csv or table is Table.trials:
        raise Refusal(
            f"Campaign {of.id} is exported as csv with its verdicts, or as json; name its runs for"
            " anything else."
        )
    from rackrate_contract.tables import ANSWERS, answer_rows, to_csv

    return to_csv(ANSWERS, answer_rows(results)).encode()


def _failure(run: Run) -> RunFailure | None:
    if run.status in GOOD:
        return None
    return RunFailure(run.error or run.status, "\n".join(lines_of(run.cause or "")))


def _needed(content: bytes | None, of: Run | Campaign, name: str) -> bytes:
    if content is None:
        raise Refusal(f"{type(of).__name__} {of.id} left no {name}; choose another --format.")
    return content


def _paths(ids: Sequence[str], format: Format, out: Path | None) -> list[Path]:
    """The path of each; the same for all if `out` is called like a file of the format."""
    suffix = f".{_SUFFIXES[format]}"
    if out is not None and not out.is_dir() and (len(ids) == 1 or out.suffix == suffix):
        return [out] * len(ids)
    return [(out or Path()) / f"{files.directory_of(Path(), each)}{suffix}" for each in ids]


def _check(paths: list[Path], *, force: bool) -> None:
    for path in paths:
        if path.is_dir():
            raise Refusal(f"{path} is a directory; name a file, or another directory, with --out.")
        if path.parent.exists() and not path.parent.is_dir():
            raise Refusal(f"{path.parent} is a file; several runs need a directory as --out.")
        if path.exists() and not force:
            raise Refusal(f"{path} exists; overwrite it with --force, or name another with --out.")


def _print(format: Format, contents: Sequence[bytes]) -> None:
    """Write to standard output."""
    content = _together(format, contents)
    if format is Format.parquet and sys.stdout.isatty():
        raise Refusal("Parquet is no text for a terminal; name a file with --out, or pipe it on.")
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _together(format: Format, contents: Sequence[bytes]) -> bytes:
    """The content of one file. Raises Refusal for several but tables in CSV."""
    if len(contents) == 1:
        return contents[0]
    if format is not Format.csv:
        raise Refusal(
            f"Several runs are several {format} files; name a directory with --out, or export one"
            " run."
        )
    return join(contents)


def join(tables: Sequence[bytes]) -> bytes:
    """Join CSV tables under one header. Raises Refusal when their columns differ."""
    headers = {table.split(b"\n", 1)[0].strip() for table in tables}
    if len(headers) > 1:
        raise Refusal(
            "The tables have other columns, as those of campaigns and of other versions do; export"
            " each to a file of its own."
        )
    bodies = [table.split(b"\n", 1)[1] if b"\n" in table else b"" for table in tables]
    first = tables[0].split(b"\n", 1)[0] + b"\n"
    return first + b"".join(
        body if not body or body.endswith(b"\n") else body + b"\n" for body in bodies
    )
