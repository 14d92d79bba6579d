"""`rackrate export`: write the trials or results of runs to files for other programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import Refusal
from ..printing.failures import RunFailure, human
from ..printing.junit import junit_xml
from ..printing.markdown import markdown
from ..printing.output import JsonOption, Output, StackOption
from ..reading import files
from ..reading.documents import read_results
from ..reading.records import GOOD
from ..reading.run_ids import find_measured_run
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


_SUFFIXES = {
    Format.csv: "csv",
    Format.parquet: "parquet",
    Format.json: "json",
    Format.junit: "xml",
    Format.markdown: "md",
}


@dataclass(frozen=True)
class Exported:
    """One run in the requested format."""

    run_id: str
    content: bytes


@one_sentence
def export(
    run_ids: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs' ids, or latest.", show_default=False),
    ],
    format: Annotated[
        Format,
        typer.Option(help="csv and parquet are trials, the others results.", show_default=False),
    ],
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
    """Write the trials or the results of runs for other programs.

    Example: rackrate export latest --format parquet --out trials.parquet
    """
    output = Output(as_json)
    to_stdout = out is not None and str(out) == "-"
    if to_stdout and as_json:
        raise Refusal("Standard output cannot take both; use --json with a file as --out.")
    stack = Stack.find(stack_name)
    runs = list(
        {run.id: run for run in (find_measured_run(stack, one) for one in run_ids)}.values()
    )
    if to_stdout:
        _print(format, [_export(stack, run, format) for run in runs])
        return
    # Check the paths before fetching anything, and write nothing before everything is fetched.
    paths = [_path(run.id, format, out, several=len(runs) > 1) for run in runs]
    _check(paths, force=force)
    exported = [_export(stack, run, format) for run in runs]
    for one, path in zip(exported, paths, strict=True):
        files.save(path, one.content)
        output.line(str(path))
    output.document(
        {
            "format": format.value,
            "files": [
                {"run": one.run_id, "path": str(path), "bytes": len(one.content)}
                for one, path in zip(exported, paths, strict=True)
            ],
        }
    )


def _export(stack: Stack, run: Run, format: Format) -> Exported:
    match format:
        case Format.csv:
            content = _needed(stack.file(run.id, "trials.csv"), run, "trials.csv")
        case Format.parquet:
            key = f"trials/day={run.started_at[:10]}/{run.id}.parquet"
            content = _needed(stack.content(key), run, key)
        case Format.json:
            content = _results(stack, run)
            read_results(content, run.id)  # raises Refusal for another schema or no results
        case Format.junit:
            results = read_results(_results(stack, run), run.id)
            content = junit_xml(run.id, results, (), _failure(run))
        case Format.markdown:
            results = read_results(_results(stack, run), run.id)
            content = markdown(run.id, results, _failure(run))
    return Exported(run.id, content)


def _results(stack: Stack, run: Run) -> bytes:
    return _needed(stack.file(run.id, "results.json"), run, "results.json")


def _failure(run: Run) -> RunFailure | None:
    if run.status in GOOD:
        return None
    return RunFailure(run.error or run.status, "\n".join(human(run.cause or "")))


def _needed(content: bytes | None, run: Run, name: str) -> bytes:
    if content is None:
        raise Refusal(f"Run {run.id} left no {name}; choose another --format.")
    return content


def _path(run_id: str, format: Format, out: Path | None, *, several: bool) -> Path:
    name = f"{files.directory_of(Path(), run_id)}.{_SUFFIXES[format]}"
    if out is None:
        return Path(name)
    return out / name if several or out.is_dir() else out


def _check(paths: list[Path], *, force: bool) -> None:
    for path in paths:
        if path.is_dir():
            raise Refusal(f"{path} is a directory; name a file, or another directory, with --out.")
        if path.parent.exists() and not path.parent.is_dir():
            raise Refusal(f"{path.parent} is a file; several runs need a directory as --out.")
        if path.exists() and not force:
            raise Refusal(f"{path} exists; overwrite it with --force, or name another with --out.")


def _print(format: Format, exported: list[Exported]) -> None:
    """Write to standard output: one run, or the trials of several runs under one header."""
    if len(exported) > 1 and format is not Format.csv:
        raise Refusal(
            f"Several runs are several {format} files; name a directory with --out, or export one"
            " run."
        )
    if format is Format.parquet and sys.stdout.isatty():
        raise Refusal("Parquet is no text for a terminal; name a file with --out, or pipe it on.")
    content = join([one.content for one in exported]) if len(exported) > 1 else exported[0].content
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def join(tables: list[bytes]) -> bytes:
    """Join CSV tables under one header. Raises Refusal when their columns differ."""
    headers = {table.split(b"\n", 1)[0].strip() for table in tables}
    if len(headers) > 1:
        raise Refusal(
            "The runs' trials have other columns, as those of other versions do; export each to a"
            " file of its own."
        )
    bodies = [table.split(b"\n", 1)[1] if b"\n" in table else b"" for table in tables]
    first = tables[0].split(b"\n", 1)[0] + b"\n"
    return first + b"".join(
        body if not body or body.endswith(b"\n") else body + b"\n" for body in bodies
    )
