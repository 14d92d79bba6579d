"""Tries in a lab what an acceptance tried, and compares what the two were answered."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from acceptance.archive import Archive
from acceptance.comparison import differences
from lab import daemon, stack
from lab.errors import LabError
from lab.up import bring_up


def replay(path: Path, say: Callable[[str], None]) -> list[str]:
    """Run the parts of the archive `path` in a fresh lab, and return each difference.

    The nodes pull the lab's image of the tools; the stack's other parameters are the archive's.
    Raises LabError for a file that is no archive, and for an acceptance that did not begin.
    """
    try:
        recorded = Archive.read(path)
    except (OSError, ValueError, KeyError) as error:
        raise LabError(f"{path} cannot be read: {error}") from None
    status = bring_up(say, tied=True, deploy=False)
    try:
        say("building the stack (sam build)")
        stack.build()
        parameters = {**recorded.header["parameters"], "ToolImage": str(status["tools_image"])}
        with tempfile.TemporaryDirectory() as directory:
            say(f"trying {', '.join(recorded.header['parts'])}")
            variables = stack.child_environment(status)
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "acceptance", "--out", directory),
                    *(f"--part={part}" for part in recorded.header["parts"]),
                    *(f"--set={name}={value}" for name, value in parameters.items()),
                ],
                env=variables | {"PYTHONPATH": os.pathsep.join(("functions", "."))},
                cwd=stack.REPOSITORY,
                capture_output=True,
                text=True,
                check=False,
            )
            archive = Path(directory) / "acceptance.zip"
            if not archive.exists():
                raise LabError(
                    f"The acceptance did not begin: {(done.stdout + done.stderr)[-300:]}"
                )
            return differences(recorded, Archive.read(archive))
    finally:
        say("taking the lab down")
        daemon.stop()
