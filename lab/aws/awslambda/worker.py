"""One execution environment: a process running AWS's own runtime client, and its Runtime API.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import logging
import os
import queue
import shutil
import signal
import termios
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.aws.awslambda.memory_limits import (
    MemoryLimiter,
    peak_resident_bytes,
    processor_seconds,
    resident_bytes,
)
from lab.aws.awslambda.processes import RuntimeProcess, readable

LOG = logging.getLogger(__name__)

# Lambda allows the init phase 10 s; a machine of two busy cores may need longer.
INIT_SECONDS = 60.0
_WATCH_SECONDS = 0.1
_PREFIX = "/2018-06-01/runtime"


@dataclass
class Invocation:
    """One event that a worker handles."""

    payload: bytes
    function_arn: str
    timeout_seconds: float
    client_context: str = ""
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    deadline_ms: int = 0
    result: bytes | None = None
    failed: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Outcome:
    """The result of an invocation, as Lambda's Invoke returns it, and what it took.

    `peak_bytes` is the most memory that the process ever had, `processor_seconds` what this
    invocation alone used of the processor.
    """

    request_id: str
    payload: bytes
    failed: bool
    log: str
    seconds: float = 0.0
    processor_seconds: float = 0.0
    peak_bytes: int = 0


def error_payload(error_type: str, message: str) -> bytes:
    """An error of the runtime itself, in Lambda's form."""
    return json.dumps({"errorType": error_type, "errorMessage": message}).encode()


class Worker:
    """A process that runs one invocation at a time, and is kept for the next."""

    def __init__(
        self,
        *,
        function_name: str,
        start: Callable[[Mapping[str, str]], RuntimeProcess],
        memory_mb: int,
        temporary: Path,
        limiter: MemoryLimiter,
        log_stream_prefix: str,
        write_log: Callable[[str, list[str]], None],
    ) -> None:
        self.function_name = function_name
        self.started_at = time.monotonic()
        self.idle_since = self.started_at
        self.log_stream = (
            time.strftime("%Y/%m/%d", time.gmtime())
            + f"/{log_stream_prefix}[$LATEST]{uuid.uuid4().hex}"
        )
        self._memory_mb = memory_mb
        self._limiter = limiter
        self._write_log = write_log
        self._events: queue.Queue[Invocation | None] = queue.Queue()
        self._current: Invocation | None = None
        self._init_error: bytes | None = None
        self._ready = threading.Event()
        self._log_lock = threading.Lock()
        self._reading = threading.Lock()
        self._tail: list[str] = []
        self._peak_bytes = 0
        self._processor_before = 0.0
        self._stopped = False
        self._temporary = temporary
        temporary.mkdir(parents=True, exist_ok=True)
        self._server = _RuntimeApi(self)
        threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="lambda-api",
            daemon=True,
        ).start()
        port = self._server.server_address[1]
        self._process = start(
            {
                "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}",
                "AWS_LAMBDA_LOG_STREAM_NAME": self.log_stream,
                "TMPDIR": str(temporary),
            }
        )
        self.pid = self._process.pid
        self._output = os.fdopen(self._process.output, "rb", buffering=0)
        self._group = limiter.limit(self.pid, memory_mb * 2**20)
        threading.Thread(target=self._read_output, name="lambda-log", daemon=True).start()
        threading.Thread(target=self._watch, name="lambda-watch", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def usable(self) -> bool:
        """Whether it takes another event; one that was killed may not have ended yet."""
        return self.alive and not self._stopped

    def run(self, invocation: Invocation) -> Outcome:
        """Run one event to its end; kills the process when it takes too long."""
        with self._log_lock:
            self._tail = []
        self._current = invocation
        if not self._ready.wait(INIT_SECONDS):
            self.stop()
            return self._finish(
                invocation,
                time.monotonic(),
                error_payload(
                    "Sandbox.Timedout",
                    f"RequestId: {invocation.request_id} Error: Init timed out after"
                    f" {INIT_SECONDS:.2f} seconds",
                ),
            )
        self._note(f"START RequestId: {invocation.request_id} Version: $LATEST")
        started = time.monotonic()
        self._processor_before = processor_seconds(self.pid)
        if not self.alive and not invocation.done.is_set():
            self._ended()
        self._events.put(invocation)
        if invocation.done.wait(invocation.timeout_seconds):
            return self._finish(invocation, started, invocation.result or b"null")
        self.stop()
        message = (
            f"RequestId: {invocation.request_id} Error: Task timed out after"
            f" {invocation.timeout_seconds:.2f} seconds"
        )
        self._note(
            f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {invocation.request_id}"
            f" Task timed out after {invocation.timeout_seconds:.2f} seconds"
        )
        return self._finish(invocation, started, error_payload("Sandbox.Timedout", message))

    def _finish(self, invocation: Invocation, started: float, payload: bytes) -> Outcome:
        failed = invocation.failed or not invocation.done.is_set()
        duration = time.monotonic() - started
        used = processor_seconds(self.pid) - self._processor_before
        self._drain()
        peak = max(self._peak_bytes, peak_resident_bytes(self.pid))
        self._note(
            f"END RequestId: {invocation.request_id}",
            f"REPORT RequestId: {invocation.request_id}\tDuration: {duration * 1e3:.2f} ms\t"
            f"Billed Duration: {-(-duration * 1e3 // 1):.0f} ms\t"
            f"Memory Size: {self._memory_mb} MB\tMax Memory Used: {peak // 2**20} MB",
        )
        self._current = None
        self.idle_since = time.monotonic()
        with self._log_lock:
            log = "\n".join(self._tail) + "\n"
        # A process that was killed reports nothing.
        return Outcome(invocation.request_id, payload, failed, log, duration, max(used, 0), peak)

    # -- the Runtime API's side

    def next_event(self) -> Invocation | None:
        """The runtime asks for work: init is over. None when the worker is to end."""
        self._ready.set()
        invocation = self._events.get()
        if invocation is not None:
            invocation.deadline_ms = int((time.time() + invocation.timeout_seconds) * 1000)
            invocation.started.set()
        return invocation

    def complete(self, request_id: str, body: bytes, *, failed: bool) -> bool:
        """The runtime delivers a result. False when it is for no current invocation."""
        invocation = self._current
        if invocation is None or invocation.request_id != request_id or invocation.done.is_set():
            return False
        invocation.result, invocation.failed = body, failed
        invocation.done.set()
        return True

    def init_failed(self, body: bytes) -> None:
        """The runtime could not load the handler."""
        self._init_error = body

    # -- the process's side

    def _watch(self) -> None:
        limit = self._memory_mb * 2**20
        # A group stops a process at its limit, but counts no memory that a zygote shares with it.
        seconds = _WATCH_SECONDS if self._group is None else 1.0
        while not self._process.ended(seconds):
            if self._current is None:
                continue  # it does nothing between invocations
            resident = resident_bytes(self.pid)
            self._peak_bytes = max(self._peak_bytes, resident)
            if resident > limit:
                self.signal(signal.SIGKILL)
        self._ended()
        self._limiter.remove(self._group)
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _ended(self) -> None:
        """Fail the current invocation, if any, because the process has ended."""
        invocation = self._current
        self._ready.set()
        self._events.put(None)
        if invocation is None or invocation.done.is_set():
            return
        code = self._process.returncode
        how = (
            f"exit status {code}"
            if code is None or code >= 0
            else f"signal: {signal.Signals(-code).name.removeprefix('SIG').lower()}"
        )
        if code == -signal.SIGKILL:
            how = "signal: killed"
        invocation.result = self._init_error or error_payload(
            "Runtime.ExitError",
            f"RequestId: {invocation.request_id} Error: Runtime exited with error: {how}",
        )
        invocation.failed = True
        invocation.done.set()

    def signal(self, number: signal.Signals) -> None:
        """Signal the process and what it started."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def take_memory(self) -> None:
        """Let it have no more memory than it has, so that the kernel ends it when it needs more."""
        if not self._limiter.close(self._group):
            # What the watchdog does on a machine without memory groups.
            self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """End the process and what it started."""
        self._stopped = True
        self.signal(signal.SIGKILL)

    def join(self, seconds: float) -> None:
        """Wait until the process has ended and what belonged to it is removed."""
        self._process.ended(seconds)
        self._limiter.remove(self._group)
        shutil.rmtree(self._temporary, ignore_errors=True)

    # -- the log

    def _note(self, *lines: str) -> None:
        with self._log_lock:
            self._tail += lines
        self._write_log(self.log_stream, list(lines))

    def _read_output(self) -> None:
        rest = b""
        chunk = b"\n"
        with self._output:
            while chunk and readable(self._output.fileno()):
                # What was read is noted before anybody else sees the pipe empty.
                with self._reading:
                    chunk = self._output.read(65536)
                    *lines, rest = (rest + chunk).split(b"\n")
                    if lines:
                        self._note(*(line.decode(errors="replace") for line in lines))
        if rest:
            self._note(rest.decode(errors="replace"))

    def _drain(self) -> None:
        """Wait a moment for output written before the result, so that END comes last."""
        pause = threading.Event()
        for _ in range(500):
            waiting = array.array("i", [0])
            try:
                with self._reading:
                    fcntl.ioctl(self._output.fileno(), termios.FIONREAD, waiting)
            except (OSError, ValueError):
                return
            if not waiting[0]:
                return
            pause.wait(0.002)


class _RuntimeApi(ThreadingHTTPServer):
    """The Runtime API of one worker, on the loopback."""

    daemon_threads = True

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        super().__init__(("127.0.0.1", 0), _RuntimeApiHandler)


class _RuntimeApiHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together, as in lab/aws/server.py
    server: _RuntimeApi

    def do_GET(self) -> None:
        if self.path != f"{_PREFIX}/invocation/next":
            self._answer(404, b"{}")
            return
        invocation = self.server.worker.next_event()
        if invocation is None:
            self.close_connection = True
            return
        self._answer(
            200,
            invocation.payload,
            {
                # The client crashes when one of these is absent, so all are sent, even if empty.
                "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
                "Lambda-Runtime-Trace-Id": _trace_id(),
                "Lambda-Runtime-Client-Context": invocation.client_context,
                "Lambda-Runtime-Cognito-Identity": "",
            },
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._read_chunks()
        worker = self.server.worker
        parts = self.path.removeprefix(f"{_PREFIX}/").split("/")
        if parts == ["init", "error"]:
            worker.init_failed(body)
            self._answer(202, b'{"status":"OK"}')
            return
        match parts:
            case ["invocation", request_id, "response" | "error" as kind]:
                accepted = worker.complete(request_id, body, failed=kind == "error")
                self._answer(202 if accepted else 400, b'{"status":"OK"}')
            case _:
                self._answer(404, b"{}")

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the function has a log of its own."""


def _trace_id() -> str:
    root = f"1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]}"
    return f"Root={root};Parent={uuid.uuid4().hex[:16]};Sampled=0"
