"""A process that has imported the packages of an archive and its layers, and forks into workers.

Importing them each time took most of the processor time of a cold start. The zygote imports the
large packages when it starts. Before it forks a handler's first worker, it imports what the
handler's file imports from other packages. The handler's own package is left to the worker.

This program runs outside the lab's own packages, with the paths of a worker. It reads requests from
the socket whose descriptor is its argument, and ends when the other end of the socket is closed and
its workers have ended.

A worker differs from a new process in this:

- Workers of one archive share Python's hash seed, and what the imported modules made.
- They share the memory of the packages. The resident size counts it in each worker, as if it had
  imported them. A memory control group counts only what the worker has written to since.
- A submodule that the zygote imported is there, even if the function forgot to import it.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# What a zygote imports at first if the archive or a layer has it. numpy is not here: by default its
# linear algebra starts threads, and a process with threads cannot be forked safely.
PACKAGES = (
    "boto3",
    "pydantic",
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "aws_lambda_powertools.utilities.typing",
)
#: The answer to a request whose function needs a new process.
REFUSED = b"refused"
MESSAGE_BYTES = 65536
INIT_SECONDS = 10
# Read before or below Python's code, where this program cannot see it: by the interpreter, the
# loader, the C library, OpenSSL.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "OPENSSL_")
_EVERYTHING = "*"

Request = dict[str, Any]


class _Recorder(os._Environ[str]):
    """The environment, which notes the names that are read."""

    read: set[str]

    def __getitem__(self, key: str) -> str:
        self.read.add(key)
        return super().__getitem__(key)

    def __iter__(self) -> Any:
        self.read.add(_EVERYTHING)
        return super().__iter__()


def has(directory: Path, name: str) -> bool:
    """Has a directory the package of a module?"""
    return (directory / name.partition(".")[0]).is_dir()


def import_packages(names: Iterable[str] = PACKAGES) -> set[str]:
    """Import what archive and layers have. Returns the environment variables that this read."""
    runtime = os.environ.get("LAMBDA_RUNTIME_DIR")
    searched = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = [Path(), *(Path(place) for place in searched if place != runtime)]
    plain, recorder = type(os.environ), type("", (_Recorder,), {"read": set[str]()})
    # The object stays the same, because modules keep references to it.
    os.environ.__class__ = recorder
    for name in names:
        # A function that needs a broken package fails by itself, with the error of its own import.
        with contextlib.suppress(Exception):
            if any(has(place, name) for place in places):
                importlib.import_module(name)
    os.environ.__class__ = plain
    return recorder.read  # type: ignore[attr-defined,no-any-return]


@functools.cache
def import_for(handler: str) -> frozenset[str]:
    """Import what a handler's file imports from other packages, if that can be shared.

    A fork tries it first, because a process that has a thread or an open file cannot share it. What
    takes longer than Lambda gives an init phase is left to the workers.
    Returns the environment variables that this read.
    """
    names = [name for name in _imports_of(handler) if name not in sys.modules]
    attempt = os.fork()
    if attempt == 0:
        shareable = False
        signal.alarm(INIT_SECONDS)  # by default it ends the process
        try:
            before = _number_of("fd")
            import_packages(names)
            shareable = _number_of("task") == 1 and _number_of("fd") == before
        finally:
            os._exit(0 if shareable else 1)
    _, status = os.waitpid(attempt, 0)
    if status != 0:
        return frozenset()
    read = import_packages(names)
    freeze()
    return frozenset(read)


def _imports_of(handler: str) -> list[str]:
    """The modules that a handler's file imports at first, but for those of its own package."""
    own, *rest = handler.split(".")[:-1] or [""]
    try:
        statements = ast.parse(Path(own, *rest).with_suffix(".py").read_bytes()).body
    except (OSError, ValueError, SyntaxError):
        return []  # its worker fails, with an error that says why
    modules: list[str] = []
    for node in statements:
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            modules.append(node.module)
    return [name for name in modules if name.partition(".")[0] != own]


def _number_of(what: str) -> int:
    """How many threads (`task`) or open files (`fd`) this process has."""
    return sum(1 for _ in Path("/proc/self", what).iterdir())


def freeze() -> None:
    """Keep the collector from what is there: it would copy the shared memory in each worker."""
    gc.collect()
    gc.freeze()


def accepts(requested: Mapping[str, str], own: Mapping[str, str], read: set[str]) -> bool:
    """Would the packages have been the same with the `requested` environment?

    `own` is the environment in which they were imported, `read` the names that they read.
    """
    at_start = {name for name in {*requested, *own} if name.startswith(_READ_AT_START)}
    return _EVERYTHING not in read and all(
        requested.get(name) == own.get(name) for name in read | at_start
    )


def initial_environment() -> dict[str, str]:
    """The environment that this process was given; Python may have added LC_CTYPE (PEP 538)."""
    entries = Path("/proc/self/environ").read_bytes().rstrip(b"\0").split(b"\0")
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def serve(
    control: socket.socket, own: Mapping[str, str], read: set[str]
) -> tuple[Request, int, int] | None:
    """Fork a worker for each request and report how each ended; see `accepts` for `own` and `read`.

    Returns None in the zygote, when nobody can ask any more, and in each worker its request, the
    descriptor for its output, and the socket on which it sends its process id.
    """
    workers: dict[int, tuple[int, int]] = {}
    accepting = True
    events = select.poll()
    events.register(control, select.POLLIN)
    while accepting or workers:
        for descriptor, _ in events.poll():
            if descriptor != control.fileno():
                events.unregister(descriptor)
                os.close(descriptor)
                pid, status = workers.pop(descriptor)
                _, code = os.waitpid(pid, 0)
                _tell(status, str(os.waitstatus_to_exitcode(code)).encode())
                os.close(status)
                continue
            message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 2)
            if not message:
                events.unregister(control)
                accepting = False
                continue
            request: Request = json.loads(message)
            output, status = descriptors
            read |= import_for(request["handler"])
            if not accepts(request["environment"], own, read):
                _tell(status, REFUSED)
                os.close(status)
            elif pid := os.fork():
                process = os.pidfd_open(pid)
                workers[process] = pid, status
                events.register(process, select.POLLIN)
            else:
                control.detach()
                return request, output, status
            os.close(output)
    return None


def become(environment: Mapping[str, str], handler: str, output: int, status: int) -> None:
    """Turn the forked process into a worker, and run the runtime client."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for standard, descriptor in enumerate((nothing, output, output)):
        os.dup2(descriptor, standard)
    # Only now, so that whoever reads it can kill the session.
    _tell(status, str(os.getpid()).encode())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    # As `python -m awslambdaric handler`. Python has given `random` a new seed after the fork.
    sys.argv = ["awslambdaric", handler]
    runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)


def _tell(status: int, message: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(status, message)


def main() -> None:
    """Run the zygote, and in its forks the workers."""
    # As in a worker, where `-m` puts the working directory first; here it is this file's.
    sys.path[0] = str(Path.cwd())
    control = socket.socket(fileno=int(sys.argv[1]))
    own = initial_environment()
    added = {name: value for name, value in os.environ.items() if name not in own}
    read = import_packages()
    freeze()
    worker = serve(control, own, read)
    if worker is not None:
        request, output, status = worker
        become(added | request["environment"], request["handler"], output, status)


if __name__ == "__main__":
    main()
