"""The keeper's ports."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lab import daemon
from lab.errors import LabError


class _Overtaken(socket.socket):
    """A socket whose port another lab binds too, and begins to listen on first."""

    other: socket.socket | None = None

    def bind(self, address: tuple[str, int]) -> None:
        super().bind(address)
        if _Overtaken.other is None:
            _Overtaken.other = other = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(address)
            other.listen(1)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def test_a_lab_takes_the_next_port_where_another_listens_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = _free_port()
    monkeypatch.setattr(_Overtaken, "other", None)
    monkeypatch.setattr(daemon.socket, "socket", _Overtaken)
    with daemon.listen(port) as listener:
        assert listener.getsockname()[1] > port
    assert _Overtaken.other is not None
    _Overtaken.other.close()


def test_a_lab_without_a_free_port_releases_its_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(daemon, "PORTS_TO_TRY", 0)
    with pytest.raises(LabError, match="No port"):
        daemon.start(
            programs=tmp_path,
            kubernetes=tmp_path,
            images=tmp_path,
            network_scale=1.0,
            lock=daemon.acquire_lock(),
            tied=False,
        )
    lock = daemon.acquire_lock()  # raises where the failed start still holds it
    os.close(lock)
