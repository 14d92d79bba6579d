"""Run the property tests with fresh seeds until the time is up or one of them fails.

Run as `make fuzz SECONDS=600`, or `python -m scripts.fuzz SECONDS`. A round is all property tests
with one seed, and more examples of each than `make test` has. Exit codes: 0 nothing failed, 1 a
test failed, which is printed with its seed and how to run it again.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

#: Where property tests are. The other tests' folders would only be imported.
TESTS = ("tests/unit", "tests/lab_unit", "tests/cli")
BOTH_CORES = ("--numprocesses", "2", "--dist", "worksteal")
#: What a round that is stopped gets for ending its workers.
PATIENCE_SECONDS = 5


def again(seed: int, tests: Sequence[str] = TESTS) -> list[str]:
    """The arguments of pytest that run a round again."""
    return [*tests, "-m", "hypothesis", "--hypothesis-profile=fuzz", f"--hypothesis-seed={seed}"]


def run_round(seed: int, seconds: float, tests: Sequence[str]) -> int | None:
    """pytest's exit code; None when the time was up before it had ended."""
    pytest = (sys.executable, "-m", "pytest", "--exitfirst", "--quiet")
    process = subprocess.Popen([*pytest, *BOTH_CORES, *again(seed, tests)], start_new_session=True)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.returncode is None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a round and its workers, which are of its process group."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def fuzz(seconds: float, tests: Sequence[str]) -> int:
    """Run rounds for so many seconds; 1 when one failed."""
    until = time.monotonic() + seconds
    rounds = 0
    while (left := until - time.monotonic()) > 0:
        seed = secrets.randbelow(10**9)
        print(f"round {rounds + 1}: seed {seed}", flush=True)
        code = run_round(seed, left, tests)
        if code:
            command = shlex.join(["python", "-m", "pytest", *again(seed, tests)])
            print(f"seed {seed} failed. Run it again: .venv/bin/{command}")
            return 1
        rounds += code == 0
    print(f"rounds passed: {rounds}; the one that the deadline stopped does not count")
    return 0


def main() -> int:
    """Entry."""
    parser = argparse.ArgumentParser(description="The property tests with fresh seeds.")
    parser.add_argument("seconds", type=float, help="for how long")
    parser.add_argument("tests", nargs="*", default=TESTS, help="files or folders")
    asked = parser.parse_args()
    if not asked.seconds > 0:
        parser.error("SECONDS must be more than 0")
    return fuzz(asked.seconds, asked.tests)


if __name__ == "__main__":
    sys.exit(main())
