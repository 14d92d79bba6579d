"""Run a command and freeze its processes again and again, to find tests that wait too short.

Run as `make test-frozen`, or as root `python -m scripts.freeze COMMAND...`. A busy machine stops
the processes of a test for seconds, but seldom. Here they run for a while and stand still for
longer, in turn, while the clock goes on. Exit codes: the command's, 2 if nothing can be frozen.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

#: How long the command runs and stands still: the mean and the most of each, in seconds.
RUNNING = 0.8, 3.0
FROZEN = 2.4, 12.0
#: Where control groups version 2 are, on a machine that has only them and on one that has both.
TREES = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")


def run(
    command: Sequence[str],
    running: tuple[float, float] = RUNNING,
    frozen: tuple[float, float] = FROZEN,
) -> int:
    """Run the command in a control group of its own. Returns its exit code.

    Raises:
        OSError: no control group can be made here.
    """
    tree = next((tree for tree in TREES if (tree / "cgroup.controllers").exists()), TREES[0])
    group = tree / f"rackrate-frozen-{os.getpid()}"
    group.mkdir()
    try:
        enter = (sys.executable, "-c", _ENTER, str(group / "cgroup.procs"))
        process = subprocess.Popen([*enter, *command])
        while process.poll() is None:
            _wait(process, *running)
            (group / "cgroup.freeze").write_text("1", encoding="ascii")
            time.sleep(_drawn(*frozen))
            (group / "cgroup.freeze").write_text("0", encoding="ascii")
        return process.returncode
    finally:
        (group / "cgroup.kill").write_text("1", encoding="ascii")
        while "populated 1" in (group / "cgroup.events").read_text(encoding="ascii"):
            time.sleep(0.01)
        group.rmdir()


# The command is in the group before its first instruction.
_ENTER = """
import os, sys
with open(sys.argv[1], "w") as group:
    group.write(str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def _wait(process: subprocess.Popen[bytes], mean: float, most: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_drawn(mean, most))


def _drawn(mean: float, most: float) -> float:
    return min(most, random.expovariate(1 / mean))


def main() -> int:
    """Entry."""
    if not sys.argv[1:]:
        print("usage: python -m scripts.freeze COMMAND [ARGUMENT...]", file=sys.stderr)
        return 2
    try:
        return run(sys.argv[1:])
    except OSError as error:
        print(
            f"freeze: {error}. Run it as root, on a machine with control groups version 2.",
            file=sys.stderr,
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
