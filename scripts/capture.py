"""Capture what an installed tool prints when it succeeds and when it fails.

Client and server run on the loopback interface of a temporary network namespace, limited to
1 Gbit/s. Each member of a workload has a namespace of its own, with links of 1 Gbit/s. This needs
no root where users may create namespaces.

Usage: .venv/bin/python -m scripts.capture TOOL VERSION [SITUATION=OPTIONS ...]

Each SITUATION is a successful run of a test with these OPTIONS, in JSON. Without any, the script
runs the tool's default test. The first test is also run with each failure: refused, interrupted
and so on.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "functions"))

from rackrate import registry  # noqa: E402
from rackrate.tools.base import Port, TestBase  # noqa: E402
from rackrate.workloads.base import WorkloadTest  # noqa: E402
from scripts import members  # noqa: E402
from tests.unit.tools.captures import DATA, INDEX  # noqa: E402

HERE = "127.0.0.1"
#: Addresses reserved for documentation (RFC 5737). One is unreachable, the other has no route.
UNREACHABLE, NO_ROUTE = "192.0.2.1", "198.51.100.1"
#: Time beyond the test's own duration.
GRACE_SECONDS = 30.0
#: When a run is interrupted, at the latest.
MOST_SECONDS_BEFORE = 2.0
#: A program that cannot send may say so 100,000 times a second. No measurement has so many equal
#: lines.
MOST_REPEATS = 1000
_INSIDE = "RACKRATE_CAPTURE_INSIDE"
#: A capture with this text in captures.yaml fails its tests until somebody replaces the text.
UNREAD = "READ THE FILE AND WRITE IT HERE"
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


class CaptureError(Exception):
    """A capture failed. The message says why."""


@dataclass(frozen=True)
class Run:
    """One run of a test's client.

    Attributes:
        test: the test.
        address: the server's address for the client.
        serving: whether the test's server runs.
        sent: a signal to send to the client halfway.
        server_dies: whether to kill the server, or all members, halfway.
        more: further arguments.
    """

    test: TestBase
    address: str = HERE
    serving: bool = True
    sent: signal.Signals | None = None
    server_dies: bool = False
    more: tuple[str, ...] = ()


def failures(test: TestBase) -> dict[str, Run]:
    """The failures to capture for any tool, by situation."""
    runs = {
        "unreachable": Run(test, address=UNREACHABLE),
        "no-route": Run(test, address=NO_ROUTE),
        "interrupted": Run(test, sent=signal.SIGINT),
        "terminated": Run(test, sent=signal.SIGTERM),
        "killed": Run(test, sent=signal.SIGKILL),
        "wrong-option": Run(test, more=("--no-such-option",)),
    }
    if test.server is not None or isinstance(test, WorkloadTest):
        runs |= {"refused": Run(test, serving=False), "server-died": Run(test, server_dies=True)}
    return runs


def printed_by(run: Run) -> bytes:
    """Run a test's client. Returns its output and error output together.

    Raises:
        CaptureError: a program is missing, the server does not listen, or the client does not end.
    """
    test = run.test
    with _served(run) as (argv, servers), tempfile.TemporaryFile() as output:
        # A program may open /dev/stdout again, as if it were a container's pipe.
        fcntl.fcntl(output, fcntl.F_SETFL, os.O_APPEND)
        environment = test.environment if isinstance(test, WorkloadTest) else {}
        client = _start([*argv, *run.more], output.fileno(), environment)
        try:
            if run.sent is not None or run.server_dies:
                wait_until_halfway(test, output)
                if client.poll() is not None:
                    raise CaptureError("the run ended too early: give the first one more to do")
            if run.sent is not None:
                client.send_signal(run.sent)
            if run.server_dies:
                for server in servers:
                    _kill(server)
            client.wait(test.expected_seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            raise CaptureError(f"{client.args!r} does not end") from None
        finally:
            client.kill()
            client.wait()
        output.seek(0)
        return output.read()


def wait_until_halfway(test: TestBase, _output: IO[bytes], /) -> None:
    """Wait until a client is halfway. Most tools print nothing before their end: it takes time."""
    time.sleep(min(test.expected_seconds / 2, MOST_SECONDS_BEFORE))


@contextmanager
def _served(run: Run) -> Iterator[tuple[Sequence[str], Sequence[subprocess.Popen[bytes]]]]:
    """The client's command line, and the processes that serve it within the `with` block."""
    test = run.test
    if not isinstance(test, WorkloadTest):
        with _server(test if run.serving else None) as server:
            yield test.argv(run.address), [] if server is None else [server]
    elif run.address != HERE or not run.serving:
        yield test.measure_argv([run.address] * test.member_count), []
    else:
        try:
            with members.running(test, _start, _kill) as (addresses, processes):
                yield test.measure_argv(addresses), processes
        except members.NotReadyError as error:
            raise CaptureError(str(error)) from None


@contextmanager
def _server(test: TestBase | None) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run a test's server, if it has one, within the `with` block. It listens on entry."""
    if test is None or test.server is None:
        yield None
        return
    with tempfile.TemporaryFile() as output:
        server = _start(test.server.argv, output.fileno())
        try:
            deadline = time.monotonic() + GRACE_SECONDS
            while not _listens(test.server.ports[0]):
                if server.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    text = output.read().decode(errors="replace").strip()
                    raise CaptureError(f"the server does not listen, and says: {text}")
                time.sleep(0.05)
            yield server
        finally:
            _kill(server)
            server.wait()


def _start(
    argv: Sequence[str], output: int, environment: Mapping[str, str] = types.MappingProxyType({})
) -> subprocess.Popen[bytes]:
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        # A shell's background jobs ignore SIGINT, and the client would inherit that.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    try:
        return subprocess.Popen(
            argv,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=prepare,
            process_group=0,
        )
    except OSError as error:
        raise CaptureError(f"{argv[0]} cannot be started: {error.strerror}") from None


def _kill(server: subprocess.Popen[bytes]) -> None:
    """Kill a server and its children, which also end together in a container."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)


def _listens(port: Port) -> bool:
    """Whether a socket listens, from /proc/net. A test connection could count as a client's."""
    listening = "0A" if port.protocol == "TCP" else "07"
    return any(
        fields[1].endswith(f":{port.number:04X}") and fields[3] == listening
        for version in ("", "6")
        for line in Path(f"/proc/net/{port.protocol.lower()}{version}").read_text().splitlines()[1:]
        if (fields := line.split())
    )


def without_flood(printed: bytes) -> bytes:
    """An output with `MOST_REPEATS` lines in place of more equal lines, one after the other."""
    kept = (
        itertools.islice(equal, MOST_REPEATS)
        for _, equal in itertools.groupby(printed.splitlines(True))
    )
    return b"".join(itertools.chain.from_iterable(kept))


def keep(directory: Path, situation: str, test: TestBase, printed: bytes, *, good: bool) -> Path:
    """Write a capture, and its entry in captures.yaml if there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    ending = "json" if printed.lstrip().startswith(b"{") else "txt"
    path = directory / f"{situation}.{ending}"
    path.write_bytes(without_flood(printed))
    index = directory / INDEX
    text = index.read_text() if index.exists() else ""
    if situation not in (yaml.safe_load(text) or {}):
        options = test.model_dump(exclude={"name", "tool"}, exclude_defaults=True)
        outcomes = [f"    {metric.name}" for metric in test.metrics] if good else ["  refused"]
        written = ", ".join(f"{name}: {json.dumps(value)}" for name, value in options.items())
        text += f"{situation}:\n  test: {{{f' {written} ' if written else ''}}}\n"
        text += "  printed:\n" if good else ""
        text += "".join(f'{outcome}: "{UNREAD}"\n' for outcome in outcomes)
        index.write_text(text)
    return path


def _enter(arguments: Sequence[str]) -> None:
    """Run this script again in its own namespaces. All processes in them end with it."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = [*("unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child")]
    environment = {**os.environ, _INSIDE: "1"}
    os.chdir(ROOT)
    os.execvpe(
        command[0], [*command, sys.executable, "-m", "scripts.capture", *arguments], environment
    )


def _prepare(sysctls: Mapping[str, str]) -> None:
    for command in (
        "ip link set lo up",
        # getaddrinfo with AI_ADDRCONFIG finds no address where the loopback's own is the only one.
        "ip address add 10.0.0.1/32 dev lo",
        "tc qdisc add dev lo root tbf rate 1gbit burst 256kb latency 50ms",
        f"ip route add unreachable {UNREACHABLE}",
    ):
        subprocess.run(command.split(), check=True)
    for name, value in sysctls.items():
        Path("/proc/sys", *name.split(".")).write_text(value)


def main(arguments: Sequence[str]) -> int:
    """Make the captures and print their paths."""
    parser = argparse.ArgumentParser(prog="scripts.capture", description=__doc__)
    parser.add_argument("tool", choices=registry.names())
    parser.add_argument("version", help="the folder's name, such as 3.18")
    parser.add_argument("situations", nargs="*", metavar="SITUATION=OPTIONS")
    chosen = parser.parse_args(arguments)
    if _INSIDE not in os.environ:
        _enter(arguments)
    good = {
        name: registry.load_test(
            {"name": "captured", "tool": chosen.tool, **json.loads(options or "{}")}
        )
        for name, _, options in (each.partition("=") for each in chosen.situations or ["default"])
    }
    directory = DATA / chosen.tool / chosen.version
    first = next(iter(good.values()))
    _prepare(first.sysctls)
    if isinstance(first, WorkloadTest):
        members.prepare(first)
    failed = 0
    for name, run in ({name: Run(test) for name, test in good.items()} | failures(first)).items():
        try:
            printed = printed_by(run)
        except CaptureError as error:
            failed = 1
            print(f"{name}: {error}")
        else:
            path = keep(directory, name, run.test, printed, good=name in good)
            print(f"{path.relative_to(ROOT)}: {len(printed)} bytes")
    if directory.exists():
        print(f"Now read them, and complete {(directory / INDEX).relative_to(ROOT)}.")
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
