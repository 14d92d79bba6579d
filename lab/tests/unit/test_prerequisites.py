"""A missing prerequisite: one sentence with the remedy, before the lab makes anything."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab import __main__ as lab_command
from lab import daemon, prerequisites, up
from lab.errors import LabError

MEMINFO = "MemTotal:       {total} kB\nMemAvailable:   {available} kB\n"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A machine with all prerequisites. Each test removes one."""
    has = SimpleNamespace(
        root=True, tun="", programs=set(prerequisites.PROGRAMS), gibibytes=16.0, disk=100.0
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0 if has.root else 1000)
    really_open, really_read = os.open, Path.read_text

    def opened(path: str, *arguments: int) -> int:
        if path != "/dev/net/tun":
            return really_open(path, *arguments)
        if has.tun:
            raise FileNotFoundError(2, has.tun)
        return really_open("/dev/null", os.O_RDWR)

    def read(path: Path, *arguments: str) -> str:
        if str(path) != "/proc/meminfo":
            return really_read(path, *arguments)
        return MEMINFO.format(total=32 * 1024**2, available=round(has.gibibytes * 1024**2))

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(prerequisites.fcntl, "ioctl", lambda *arguments: b"")
    monkeypatch.setattr(shutil, "which", lambda name: name if name in has.programs else None)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: SimpleNamespace(free=round(has.disk * 1024**3))
    )
    return has


def refusal(check: Callable[[], object] = prerequisites.check) -> str:
    """The sentence of a failed check."""
    with pytest.raises(LabError) as raised:
        check()
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_a_machine_that_has_everything_passes(machine: SimpleNamespace) -> None:
    prerequisites.check()


def test_root_is_asked_for(machine: SimpleNamespace) -> None:
    machine.root = False
    assert "needs root: run it again with sudo" in refusal()


def test_linux_is_asked_for(machine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "needs Linux" in refusal()


def test_a_missing_tun_device_is_named_with_both_remedies(machine: SimpleNamespace) -> None:
    machine.tun = "No such file or directory"
    message = refusal()
    assert "/dev/net/tun cannot be opened (No such file or directory)" in message
    assert "modprobe tun" in message
    assert "--device /dev/net/tun" in message


@pytest.mark.parametrize(("program", "package"), prerequisites.PROGRAMS.items())
def test_a_missing_program_is_named_with_its_package(
    machine: SimpleNamespace, program: str, package: str
) -> None:
    machine.programs.remove(program)
    assert refusal() == f"{program} is missing: apt-get install {package}."


def test_too_little_memory_is_reported_in_gibibytes(machine: SimpleNamespace) -> None:
    machine.gibibytes = 1.5
    assert "Too little memory: 1.5 GiB are free and the lab needs 3.0" in refusal()


def test_too_little_disk_counts_the_build_only_where_it_is_still_to_be_done(
    machine: SimpleNamespace, tmp_path: Path
) -> None:
    machine.disk = 4.0
    assert "4.0 GiB are free" in refusal()
    (tmp_path / "rackrate" / "kubernetes").mkdir(parents=True)
    prerequisites.check()
    machine.disk = 1.0
    assert "the lab needs 2.0" in refusal()


@pytest.mark.parametrize(("limit", "afterwards"), [("128\n", "1024"), ("4096\n", "4096\n")])
def test_nodes_may_watch_their_files_and_a_higher_limit_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, afterwards: str
) -> None:
    file = tmp_path / "max_user_instances"
    file.write_text(limit)
    monkeypatch.setattr(prerequisites, "INOTIFY_LIMIT", file)
    prerequisites.allow_watches()
    assert file.read_text() == afterwards


@pytest.mark.parametrize("text", ["0", "2", "-1", "much", "nan"])
def test_a_scale_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RACKRATE_LAB_SCALE", text)
    assert "give a number from 0.001 to 1" in refusal(up.network_scale)


def test_the_scale_is_a_tenth_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RACKRATE_LAB_SCALE", raising=False)
    assert up.network_scale() == 0.1
    monkeypatch.setenv("RACKRATE_LAB_SCALE", "0.25")
    assert up.network_scale() == 0.25


def test_a_lab_that_is_up_is_reported_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lock = daemon.acquire_lock()
    message = refusal(daemon.acquire_lock)
    assert "already up" in message
    assert "make lab-down" in message
    os.close(lock)
    os.close(daemon.acquire_lock())


def test_without_a_lab_nothing_can_be_entered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert daemon.keeper_pid() is None
    assert "make lab-up" in refusal(lambda: daemon.enter("region"))


def test_a_keepers_id_that_another_process_has_now_is_no_keeper(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    daemon.state_directory().mkdir(parents=True)
    written = daemon.state_directory() / "keeper.pid"
    written.write_text(f"{os.getpid()} {daemon.process_start_time(os.getpid())}")
    assert daemon.keeper_pid() == os.getpid()
    written.write_text(f"{os.getpid()} 12345")
    assert daemon.keeper_pid() is None
    for half_written in ("", str(os.getpid()), f"{os.getpid()} 1"):
        written.write_text(half_written)
        assert daemon.keeper_pid() is None


def test_when_every_port_is_taken_the_range_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "PORTS_TO_TRY", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"No port from {port} to {port} is free" in refusal(lambda: daemon.listen(port))


@pytest.mark.parametrize("arguments", [["nonsense"], ["up", "--nonsense"], ["status"]])
def test_a_command_that_cannot_be_done_ends_with_2_and_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["lab", *arguments])
    with pytest.raises(SystemExit) as end:
        lab_command.main()
    assert end.value.code == 2
    assert capsys.readouterr().err.strip()
