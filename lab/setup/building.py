"""Other programs that build or download what a lab needs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.errors import LabError


def run(
    command: Sequence[str],
    *,
    problem: str,
    remedy: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[str], None] | None = None,
) -> str:
    """Run a command that builds or downloads, and return its output.

    `watch` gets each line of its error output as it comes; the output is not returned then.

    Raises:
        LabError: it failed; the message has `problem`, the command's own reason and `remedy`.
    """
    if watch is None:
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
    else:
        done = _watched(command, cwd, environment, watch)
    if done.returncode != 0:
        # Most print the reason last on the error output. Maven prints it first, on the output.
        errors, output = (text.strip().splitlines() for text in (done.stderr, done.stdout))
        reason = errors[-1] if errors else output[0] if output else "no reason given"
        raise LabError(f"{problem} ({reason}): {remedy}, then run the command again.")
    return done.stdout


def _watched(
    command: Sequence[str],
    cwd: Path | None,
    environment: Mapping[str, str] | None,
    watch: Callable[[str], None],
) -> subprocess.CompletedProcess[str]:
    lines = []
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr or ():
            lines.append(line)
            watch(line)
    return subprocess.CompletedProcess(command, process.returncode, "", "".join(lines))
