"""The lab of a benchmark, and the `rackrate` command in it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lab import daemon, stack
from lab.errors import LabError
from lab.up import bring_up

Json = dict[str, Any]


def say(step: str) -> None:
    """Print a step with its time."""
    print(f"  {time.strftime('%H:%M:%S')} {step}", flush=True)


@contextlib.contextmanager
def lab(**options: Any) -> Iterator[Json]:
    """A lab with these options of `bring_up`; its status. Raises LabError."""
    status = bring_up(say, tied=True, **options)
    try:
        yield status
    finally:
        daemon.stop()


def rackrate(status: Mapping[str, Any], *arguments: str, quiet: bool = False) -> None:
    """Run the command. Its output goes to this process's, unless it is to be quiet.

    Raises:
        LabError: it failed.
    """
    done = subprocess.run(
        [str(Path(sys.executable).parent / "rackrate"), *arguments],
        env=stack.child_environment(status),
        capture_output=quiet,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        why = done.stderr.strip()[-800:] if quiet else "see above"
        raise LabError(f"rackrate {arguments[0]} ended with exit code {done.returncode}: {why}")


def document(path: Path) -> Json:
    """An object that the command wrote as JSON."""
    found: Json = json.loads(path.read_text("utf-8"))
    return found
