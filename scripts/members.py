"""The members of a workload, each in a network namespace of its own, for scripts/capture.py.

A member has its own address and name, and directories in place of those that its pod has. All
namespaces and mounts end with the script.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

from rackrate.workloads.base import DATA, FILES, OWN_ADDRESS, WorkloadTest

_BRIDGE = "members"
#: Addresses and names of the members, by their index.
_ADDRESS, _OWN, _NAME = "10.0.1.{}", "10.0.1.254", "member-{}.members"


class Start(Protocol):
    """Starts a program with its output in a file, and further environment variables."""

    def __call__(
        self, argv: Sequence[str], output: int, environment: Mapping[str, str], /
    ) -> subprocess.Popen[bytes]: ...


class NotReadyError(Exception):
    """A member ended, or did not become ready in time. The message has its last lines."""


def prepare(test: WorkloadTest) -> None:
    """Make the network of the members, and names that resolve before any member is there."""
    count = test.member_count
    names = "".join(f"{_ADDRESS.format(i + 1)} {_NAME.format(i)}\n" for i in range(count))
    hosts = Path(tempfile.mkdtemp(), "hosts")
    hosts.write_text(f"127.0.0.1 localhost\n{names}")
    # Without a table, which mount would keep in the machine's /run.
    _run(f"mount --no-mtab --bind {hosts} /etc/hosts", "mount --no-mtab -t tmpfs tmpfs /run")
    _run(f"ip link add {_BRIDGE} type bridge", f"ip address add {_OWN}/24 dev {_BRIDGE}")
    _run(f"ip link set {_BRIDGE} up")
    for i in range(count):
        _run(
            f"ip netns add m{i}",
            f"ip link add veth{i} type veth peer name eth0 netns m{i}",
            f"ip link set veth{i} master {_BRIDGE} up",
            f"ip -n m{i} link set lo up",
            f"ip -n m{i} address add {_ADDRESS.format(i + 1)}/24 dev eth0",
            f"ip -n m{i} link set eth0 up",
            f"tc qdisc add dev veth{i} root tbf rate 1gbit burst 256kb latency 50ms",
        )


@contextmanager
def running(
    test: WorkloadTest, start: Start, kill: Callable[[subprocess.Popen[bytes]], None]
) -> Iterator[tuple[list[str], list[subprocess.Popen[bytes]]]]:
    """The addresses and the processes of new members. On entry they are ready and have their data.

    Raises:
        NotReadyError: a member is not ready in time, or the data cannot be loaded.
    """
    names = [_NAME.format(i) for i in range(test.member_count)]
    addresses = [_ADDRESS.format(i + 1) for i in range(test.member_count)]
    members: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as output:
        try:
            for i in range(test.member_count):
                data, files = Path(scratch, f"data-{i}"), Path(scratch, f"files-{i}")
                places = {DATA: str(data), FILES: str(files), OWN_ADDRESS: addresses[i]}
                data.mkdir()
                files.mkdir()
                for name, text in test.files(i, names).items():
                    (files / name).write_text(_placed(text, places))
                argv = [_placed(word, places) for word in test.member_argv(i, names)]
                inside = ["nsenter", f"--net=/run/netns/m{i}", *argv]
                members.append(start(inside, output.fileno(), test.environment))
            _await(test, addresses, members, output)
            if (load := test.load_argv(addresses)) is not None:
                loading = start(load, output.fileno(), test.environment)
                if loading.wait(1.5 * test.load_seconds + 45) != 0:
                    raise NotReadyError(f"the data cannot be loaded: {_printed(output)}")
            yield addresses, members
        finally:
            for member in members:
                kill(member)
                member.wait()


def _await(
    test: WorkloadTest,
    addresses: Sequence[str],
    members: Sequence[subprocess.Popen[bytes]],
    output: IO[bytes],
) -> None:
    deadline = time.monotonic() + test.ready_seconds
    while not all(_is_ready(test, address) for address in addresses):
        if any(member.poll() is not None for member in members):
            raise NotReadyError(f"a member ended: {_printed(output)}")
        if time.monotonic() > deadline:
            raise NotReadyError(f"not ready after {test.ready_seconds} s: {_printed(output)}")
        time.sleep(0.1)


def _is_ready(test: WorkloadTest, address: str) -> bool:
    port = test.ports[0].number
    if test.ready_path is None:
        command = ["bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        with urllib.request.urlopen(f"http://{address}:{port}{test.ready_path}", timeout=5) as got:
            return bool(got.status == 200)
    except OSError:
        return False


def _placed(text: str, places: Mapping[str, str]) -> str:
    for place, own in places.items():
        text = text.replace(place, own)
    return text


def _printed(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read()[-2000:].decode(errors="replace").strip() or "it printed nothing"


def _run(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True)
