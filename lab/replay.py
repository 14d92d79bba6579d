"""Tries in a lab what an acceptance tried, and compares what the two were answered."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from acceptance.archive import Archive
from acceptance.comparison import differences
from lab import daemon, stack
from lab.errors import LabError
from lab.up import bring_up


def replay(path: Path, say: Callable[[str], None]) -> list[str]:
    """Run the parts of the archive `path` in a fresh lab, and return each difference.

    Raises LabError for a file that is no archive, and for an acceptance that did not begin.
    """
    try:
        recorded = Archive.read(path)
    except (OSError, ValueError, KeyError) as error:
        raise LabError(f"{path} cannot be read: {error}") from None
    with tempfile.TemporaryDirectory() as directory:
        options = [f"--part={part}" for part in recorded.header["parts"]]
        archive, _ = accepted(options, recorded.header["parameters"], Path(directory), say)
        return differences(recorded, Archive.read(archive))


def accepted(
    options: Sequence[str],
    parameters: Mapping[str, str],
    directory: Path,
    say: Callable[[str], None],
) -> tuple[Path, str]:
    """Run an acceptance in a fresh lab: its archive, and what it printed.

    The nodes pull the lab's image of the tools, whatever `parameters` name. Raises LabError when
    the acceptance did not begin.
    """
    status = bring_up(say, tied=True, deploy=False)
    try:
        say("building the stack (sam build)")
        stack.build()
        values = {**parameters, "ToolImage": str(status["tools_image"])}
        say(f"trying {' '.join(options)}")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "acceptance", "--sam", "lab.sam"),
                *("--out", str(directory), *options),
                *(f"--set={name}={value}" for name, value in values.items()),
            ],
            env=stack.child_environment(status)
            | {"PYTHONPATH": os.pathsep.join(("functions", "."))},
            cwd=stack.REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        printed = done.stdout + done.stderr
        archive = directory / "acceptance.zip"
        if not archive.exists():
            raise LabError(f"The acceptance did not begin: {printed[-300:]}")
        return archive, printed
    finally:
        say("taking the lab down")
        daemon.stop()
