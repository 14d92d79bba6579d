"""Long-running programs of the lab: starts each with a log, watches it, ends it by process id."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.waiting import until

LOG = logging.getLogger(__name__)
#: The environment of a Go program that collects garbage when its heap is five times what it keeps,
#: not twice. It takes memory and saves processor time, of which the lab's machine has less.
RARE_COLLECTION: Mapping[str, str] = {"GOGC": "400"}


class Process:
    """A child process whose output goes to a log file.

    One that ends stays ended until somebody supervises it.
    """

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
        self._argv = [*argv]
        if network_namespace is not None:
            # nsenter, because `ip netns exec` mounts a new /sys, which hides the cgroups.
            self._argv[:0] = ["nsenter", f"--net=/run/netns/{network_namespace}"]
        self._environment = os.environ | dict(environment or {})
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._let = threading.Event()
        self._let.set()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        #: In seconds since the epoch.
        self.started_at = time.time()
        with self.log.open("ab") as output:
            return subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def stopped(self) -> bool:
        """Whether it was asked to end for good."""
        return self._stopped.is_set()

    @property
    def pid(self) -> int:
        """The process id inside the lab."""
        return self._process.pid

    def last_lines(self, count: int = 3) -> str:
        """The end of the log, for a message."""
        lines = self.log.read_text("utf-8", errors="replace").strip().splitlines()
        return " | ".join(lines[-count:])

    def supervise(self, restart_seconds: float) -> None:
        """From now on, start it again so long after it ended, as systemd does, until `stop`."""
        threading.Thread(
            target=self._start_again,
            args=(restart_seconds,),
            name=f"supervisor of {self.name}",
            daemon=True,
        ).start()

    def _start_again(self, restart_seconds: float) -> None:
        while True:
            self._process.wait()
            if self._stopped.wait(restart_seconds):
                return
            self._let.wait()
            with self._lock:
                if self._stopped.is_set():
                    return
                if self._let.is_set():
                    LOG.warning("%s ended with %s: again", self.name, self._process.returncode)
                    self._process = self._started()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with self._lock:
            self._process.send_signal(number)

    def hold(self) -> None:
        """Kill it and keep its supervisor from starting it, until `let`."""
        self._let.clear()
        self.signal(signal.SIGKILL)
        self._process.wait()

    def let(self) -> None:
        """Let its supervisor start it again."""
        self._let.set()

    def stop(self, grace_seconds: float = 2.0) -> None:
        """Send SIGTERM, and SIGKILL after the grace time. Safe to call twice."""
        with self._lock:
            self._stopped.set()
            self._let.set()
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
    """Return when `condition()` holds, which it does not while it raises OSError.

    Raises TimeoutError with `describe()` and the last such error at the deadline, and
    ChildProcessError as soon as one of `processes` has ended.
    """
    last_error = ""

    def holds() -> bool:
        nonlocal last_error
        try:
            if condition():
                return True
            last_error = ""
        except OSError as error:  # what it asks is busy, or starts
            last_error = f" ({error})"
        for process in processes:
            if not process.running:
                raise ChildProcessError(f"{process.name} ended: {process.last_lines()}")
        return False

    if not until(holds, seconds=seconds, poll_seconds=poll_seconds):
        raise TimeoutError(describe() + last_error)
