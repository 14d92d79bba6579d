"""Other programs that build or download what a lab needs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.errors import LabError


def run(
    command: Sequence[str],
    *,
    problem: str,
    remedy: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a command that builds or downloads, and return its output.

    Raises:
        LabError: it failed; the message has `problem`, the command's own reason and `remedy`.
    """
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        # Most print the reason last on the error output. Maven prints it first, on the output.
        errors, output = (text.strip().splitlines() for text in (done.stderr, done.stdout))
        reason = errors[-1] if errors else output[0] if output else "no reason given"
        raise LabError(f"{problem} ({reason}): {remedy}, then run the command again.")
    return done.stdout
