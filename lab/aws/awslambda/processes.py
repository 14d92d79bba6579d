"""How a worker's process starts: forked from a zygote that has the packages, or new."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from lab.aws.awslambda import zygote

LOG = logging.getLogger(__name__)

# A stack has two sets of packages: one for the functions that write pages, one for all others.
# While it is updated a third is in use, and a second stack may use the same cluster; older ones end
# once their workers have.
_MOST_ZYGOTES = 5
_ANSWER_SECONDS = 60.0
#: The variables that all functions of a stack have in common; the packages are imported with these.
SHARED_VARIABLES = (
    "PATH",
    "LANG",
    "TZ",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_INITIALIZATION_TYPE",
    "LAMBDA_TASK_ROOT",
    "LAMBDA_RUNTIME_DIR",
    "PYTHONPATH",
    "POWERTOOLS_SERVICE_NAME",
    "POWERTOOLS_LOG_LEVEL",
)


class RuntimeProcess(Protocol):
    """A process that runs the runtime client, the leader of a session of its own."""

    pid: int
    #: The end of a pipe with the process' standard output and error; whoever reads it closes it.
    output: int

    @property
    def returncode(self) -> int | None:
        """The exit status, or a signal's negative number; None as long as nobody saw it end."""

    def poll(self) -> int | None:
        """The same, looked up now."""

    def ended(self, seconds: float) -> bool:
        """Wait, at most so long, until the process has ended."""


class StartedProcess:
    """A new process, without a zygote."""

    def __init__(self, handler: str, code: Path, environment: Mapping[str, str]) -> None:
        output, into = os.pipe()
        try:
            self._process = subprocess.Popen(
                # -S, and only the runtime client on PYTHONPATH: as on AWS, a function's other
                # imports must be in its own archive.
                [sys.executable, "-S", "-s", "-m", "awslambdaric", handler],
                cwd=code,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=into,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except BaseException:
            os.close(output)
            raise
        finally:
            os.close(into)
        self.pid, self.output = self._process.pid, output
        # Waiting with a time-out would ask the kernel every 50 ms, for each of many workers.
        self._descriptor = os.pidfd_open(self.pid)
        weakref.finalize(self, os.close, self._descriptor)

    @property
    def returncode(self) -> int | None:
        """See RuntimeProcess."""
        return self._process.returncode

    def poll(self) -> int | None:
        """See RuntimeProcess."""
        return self._process.poll()

    def ended(self, seconds: float) -> bool:
        """See RuntimeProcess."""
        return readable(self._descriptor, seconds) and self._process.wait() is not None


class ForkedProcess:
    """A process that a zygote forked. The zygote is its parent, and reports how it ended."""

    def __init__(self, pid: int, output: int, status: socket.socket) -> None:
        self.pid, self.output = pid, output
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self._descriptor = status.detach()
        weakref.finalize(self, os.close, self._descriptor)

    def poll(self) -> int | None:
        """See RuntimeProcess."""
        self.ended(0)
        return self.returncode

    def ended(self, seconds: float) -> bool:
        """See RuntimeProcess."""
        if self.returncode is None and not readable(self._descriptor, seconds):
            return False
        with self._lock:
            if self.returncode is None:
                message = os.read(self._descriptor, zygote.MESSAGE_BYTES)
                if not message:
                    # The zygote was killed, and nobody will know how its workers end.
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(self.pid, signal.SIGKILL)
                self.returncode = int(message) if message else -signal.SIGKILL
        return True


class Processes:
    """Starts the workers' processes, and keeps the zygotes."""

    def __init__(self, runtime_client: Path) -> None:
        self._runtime_client = runtime_client
        # By their archive and the variables that they have.
        self._zygotes: dict[tuple[Path, str], _Zygote] = {}
        self._lock = threading.Lock()

    def start(
        self, handler: str, code: Path, layers: Sequence[Path], environment: Mapping[str, str]
    ) -> RuntimeProcess:
        """Start the runtime client with a handler of an unpacked archive, and its layers."""
        # Where Lambda's Python looks after the function's own directory. A later layer overrides.
        packages = [layer / "python" for layer in reversed(layers)]
        environment = {
            **environment,
            "PYTHONPATH": os.pathsep.join(map(str, (*packages, self._runtime_client))),
            "LAMBDA_TASK_ROOT": str(code),
        }
        if any(zygote.has(path, name) for path in (code, *packages) for name in zygote.PACKAGES):
            # One that was killed is started again.
            for _ in range(2):
                running = self._zygote(code, environment)
                try:
                    forked = running.fork(handler, environment)
                except OSError as error:
                    LOG.warning("zygote of %s: %s", code.name, error)
                    self._discard(running)
                    continue
                if forked is None:
                    break
                return forked
        return StartedProcess(handler, code, environment)

    def stop(self) -> None:
        """End the zygotes. Their workers must have been told to end."""
        with self._lock:
            zygotes = list(self._zygotes.values())
            self._zygotes.clear()
        for each in zygotes:
            each.stop()

    def _zygote(self, code: Path, environment: Mapping[str, str]) -> _Zygote:
        shared = {n: environment[n] for n in SHARED_VARIABLES if n in environment}
        key = code, json.dumps(shared)
        # Beside those of its workers, so that they go with the lab.
        shared["TMPDIR"] = str(Path(environment["TMPDIR"]).parent)
        with self._lock:
            process = self._zygotes.pop(key, None) or _Zygote(code, shared)
            # The one that was used last comes last.
            self._zygotes[key] = process
            for surplus in list(self._zygotes)[:-_MOST_ZYGOTES]:
                self._zygotes.pop(surplus).close()
            return process

    def _discard(self, unusable: _Zygote) -> None:
        with self._lock:
            for key in [key for key, process in self._zygotes.items() if process is unusable]:
                del self._zygotes[key]
        unusable.kill()


class _Zygote:
    """A running zygote (zygote.py)."""

    def __init__(self, code: Path, environment: Mapping[str, str]) -> None:
        # Keeps the bounds of messages, so that none has to be put together from parts.
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWER_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-s", zygote.__file__, str(theirs.fileno())],
                cwd=code,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, handler: str, environment: Mapping[str, str]) -> ForkedProcess | None:
        """Fork a worker. None for an environment in which the packages could be different.

        Raises OSError when the zygote does not answer.
        """
        request = json.dumps({"handler": handler, "environment": environment}).encode()
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output, into = os.pipe()
        try:
            try:
                socket.send_fds(self._control, [request], [into, theirs.fileno()])
            finally:
                os.close(into)
                theirs.close()
            status.settimeout(_ANSWER_SECONDS)
            reply = status.recv(zygote.MESSAGE_BYTES)
            if not reply:
                raise ConnectionResetError("it has ended")
        except BaseException:
            os.close(output)
            status.close()
            raise
        if reply == zygote.REFUSED:
            os.close(output)
            status.close()
            return None
        status.setblocking(True)
        return ForkedProcess(int(reply), output, status)

    def close(self) -> None:
        """Ask for no more workers: the zygote ends as soon as those that it has have ended."""
        self._control.close()
        threading.Thread(target=self._process.wait, name="lambda-zygote", daemon=True).start()

    def stop(self) -> None:
        """End the zygote, whose workers end too."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        self.kill()

    def kill(self) -> None:
        """End the zygote now."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def readable(descriptor: int, seconds: float | None = None) -> bool:
    """Wait, for ever or at most so long, until a descriptor has something to read or its end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else seconds * 1000))
