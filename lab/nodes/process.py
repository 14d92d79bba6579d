"""Long-running programs of the lab: starts each with a log, watches it, ends it by process id."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class Process:
    """A child process whose output goes to a log file."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        *,
        network_namespace: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        # nsenter, because `ip netns exec` mounts a new /sys, which hides the cgroups.
        enter = (
            []
            if network_namespace is None
            else ["nsenter", f"--net=/run/netns/{network_namespace}"]
        )
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*enter, *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(environment or {}),
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id inside the lab."""
        return self._process.pid

    def last_lines(self, count: int = 3) -> str:
        """The end of the log, for a message."""
        lines = self.log.read_text("utf-8", errors="replace").strip().splitlines()
        return " | ".join(lines[-count:])

    def stop(self, grace_seconds: float = 2.0) -> None:
        """Send SIGTERM, and SIGKILL after the grace time. Safe to call twice."""
        if not self.running:
            return
        self._process.terminate()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def wait_until(
    condition: Callable[[], bool],
    *,
    seconds: float,
    describe: Callable[[], str],
    processes: Sequence[Process] = (),
    poll_seconds: float = 0.1,
) -> None:
    """Return when `condition()` holds. Raises TimeoutError with `describe()` at the deadline, and
    ChildProcessError as soon as one of `processes` has ended."""
    deadline = time.monotonic() + seconds
    while not condition():
        for process in processes:
            if not process.running:
                raise ChildProcessError(f"{process.name} ended: {process.last_lines()}")
        if time.monotonic() > deadline:
            raise TimeoutError(describe())
        time.sleep(poll_seconds)
