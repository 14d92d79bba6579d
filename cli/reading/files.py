"""Copies of the files of runs and campaigns on this machine: out/<id>/, and out/latest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rackrate_text.names import ID_WORDS, is_id

from ..errors import EXIT_FAILED, EXIT_USAGE, Refusal
from .stack import Stack

RAW_WITH_A_RUN = 1000
"""How many raw outputs `rackrate run` copies; `rackrate report --raw` copies all."""

_READERS = 16

PAGE = "report.html"
WITH_A_CAMPAIGN = (PAGE, "results.json", "trials.csv", "plan.json")
"""The files of a campaign's runs that `rackrate campaign run` copies."""

NAMES = ("results.json", "trials.csv", "report.html", "plan.json", "schedule.json")


def prepare(out: Path) -> None:
    """Make the directory before the run starts, so that its results can be stored at the end."""
    with _writing(out, "name another directory with --out", EXIT_USAGE):
        out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK | os.X_OK):
        raise Refusal(f"Nothing can be written to {out}; name another directory with --out.")


def directory_of(out: Path, name: str) -> Path:
    """Where the files of a run, a campaign or a comparison are copied to; always below `out`.

    An execution that somebody else started may have any name, such as `..`.
    """
    if not is_id(name):
        raise Refusal(
            f'"{name}" is no name for a directory here; read its files in the bucket, or start it'
            f" again under a name of {ID_WORDS}."
        )
    return out / name


@dataclass(frozen=True)
class RawOutputs:
    """Number of raw outputs copied, missing in the bucket, and left there."""

    copied: int
    missing: int
    left: int

    def __str__(self) -> str:
        """`36 copied`, with the missing and the left ones if there are any."""
        text = f"{self.copied} copied"
        if self.missing:
            text += f", {self.missing} not in the bucket any more"
        if self.left:
            text += f", {self.left} left there"
        return text


def download(
    stack: Stack, run_id: str, out: Path, names: Sequence[str] = NAMES, *, latest: bool = True
) -> list[Path]:
    """Copy the run's files to `out`/`run_id`. Returns the copies, which may be none.

    `latest` lets the link out/latest point to the run if it has results. Raises Refusal when
    writing fails.
    """
    directory = directory_of(out, run_id)
    copies: list[Path] = []
    with _writing(out, _copy_again(stack, run_id)):
        for name in names:
            content = stack.file(run_id, name)
            if content is not None:
                copies.append(write(directory / name, content))
        if latest and directory / "results.json" in copies:
            link = out / f".latest.{os.getpid()}"
            link.unlink(missing_ok=True)
            link.symlink_to(run_id, target_is_directory=True)
            try:
                link.replace(out / "latest")
            except OSError:
                link.unlink()
                raise
    return copies


def download_raw(stack: Stack, run_id: str, out: Path, most: int | None = None) -> RawOutputs:
    """Copy the tools' raw outputs to `out`/`run_id`/raw, where the run's page links to them.

    Raw outputs never change, so this keeps copies that exist. It copies at most `most` outputs.
    Raises Refusal when writing fails.
    """
    keys = list(dict.fromkeys(stack.raw_keys(run_id)))
    selected = keys[:most]
    directory = directory_of(out, run_id) / "raw"

    def copy(key: str) -> bool:
        path = directory / key.rpartition("/")[2]
        if path.exists():
            return True
        content = stack.content(key)
        if content is not None:
            write(path, content)
        return content is not None

    with _writing(out, _copy_again(stack, run_id)), ThreadPoolExecutor(_READERS) as pool:
        copied = sum(pool.map(copy, selected))
    return RawOutputs(copied, len(selected) - copied, len(keys) - len(selected))


def download_campaign(
    stack: Stack, campaign_id: str, out: Path, run_ids: Iterable[str]
) -> list[Path]:
    """Copy the campaign's files to `out`/`campaign_id`, and its runs' beside it.

    Its page then links to the copies of its runs' pages. Returns the campaign's copies, which may
    be none. Raises Refusal when writing fails.
    """
    prefix, directory = f"campaigns/{campaign_id}", directory_of(out, campaign_id)
    copies: list[Path] = []
    with _writing(out, f"the campaign's files are in s3://{stack.bucket}/{prefix}/"):
        for name in (PAGE, "campaign.json", "plan.json"):
            content = stack.content(f"{prefix}/{name}")
            if content is not None:
                copies.append(write(directory / name, beside_runs(content)))

    def copy(run_id: str) -> None:
        download(stack, run_id, out, WITH_A_CAMPAIGN, latest=False)

    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(copy, run_ids))
    return copies


def beside_runs(page: bytes) -> bytes:
    """A page whose links lead to the copies of runs here.

    In the bucket it links to ../../runs/<id>. Here the runs lie beside it.
    """
    return page.replace(b'"../../runs/', b'"../')


def write(path: Path, content: bytes) -> Path:
    """Write a file and make its directory. The write is atomic: no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def save(path: Path, content: bytes, option: str = "--out") -> None:
    """Like `write`; raises Refusal when that fails. `option` is what named the path."""
    with _writing(path, f"name another place with {option}"):
        write(path, content)


@contextmanager
def _writing(path: Path, remedy: str, exit_code: int = EXIT_FAILED) -> Iterator[None]:
    """Raise Refusal with a remedy if something inside cannot be written."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename or path} cannot be written ({error.strerror})"
        raise Refusal(f"{what}; {remedy}.", exit_code) from error


def _copy_again(stack: Stack, run_id: str) -> str:
    return (
        f"make room or choose another --out, then `rackrate report {run_id}` copies the run's"
        f" files from s3://{stack.bucket}/runs/{run_id}/"
    )
