"""Copies of a run's files on this machine: out/<run id>/, and out/latest pointing there."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import EXIT_FAILED, EXIT_USAGE, Refusal
from .stack import Stack

NAMES = ("results.json", "trials.csv", "report.html", "plan.json", "schedule.json")


def prepare(out: Path) -> None:
    """Make the directory, so that a run is not started whose results cannot be kept."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error, EXIT_USAGE) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise Refusal(f"Nothing can be written to {out}; name another directory with --out.")


def download(stack: Stack, run_id: str, out: Path) -> list[Path]:
    """Copy what the run wrote to `out`/`run_id`; returns the copies, maybe none.

    `latest` points to the run once it has results. Raises Refusal when writing fails.
    """
    directory = out / run_id
    copies: list[Path] = []
    try:
        for name in NAMES:
            content = stack.file(run_id, name)
            if content is None:
                continue
            directory.mkdir(parents=True, exist_ok=True)
            # Renamed when complete: a reader never meets half a file.
            partial = directory / f".{name}.partial"
            partial.write_bytes(content)
            partial.replace(directory / name)
            copies.append(directory / name)
        if directory / "results.json" in copies:
            link = out / f".latest.{os.getpid()}"
            link.unlink(missing_ok=True)
            link.symlink_to(run_id, target_is_directory=True)
            try:
                link.replace(out / "latest")
            except OSError:
                link.unlink()
                raise
    except OSError as error:
        raise _unwritable(out, error, EXIT_FAILED, stack, run_id) from error
    return copies


def _unwritable(
    out: Path, error: OSError, exit_code: int, stack: Stack | None = None, run_id: str = ""
) -> Refusal:
    path = error.filename or out
    kept = (
        f"the run's files are in s3://{stack.bucket}/runs/{run_id}/"
        if stack
        else "name another directory with --out"
    )
    return Refusal(f"{path} cannot be written ({error.strerror}); {kept}.", exit_code)
