"""These tests use the machine's own browser, or Debian's from the cache, and never a snap."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import LabError
from scripts import chromium

URIS = """\
'http://debian.test/pool/c/chromium-headless-shell_156-1_amd64.deb' chromium-headless-shell_1.deb 6
'http://debian.test/pool/c/chromium-common_156-1_amd64.deb' chromium-common_156-1_amd64.deb 3
'http://debian.test/pool/n/libnss3_2%3a3.87_amd64.deb' libnss3_2%3a3.87_amd64.deb 1330556 SHA256:0
'http://debian.test/pool/g/libc6_2.36_amd64.deb' libc6_2.36_amd64.deb 2759320 SHA256:0
'http://debian.test/pool/g/libgtk-3-0_3.24_amd64.deb' libgtk-3-0_3.24_amd64.deb 2846524 SHA256:0
'http://debian.test/pool/s/systemd_252_amd64.deb' systemd_252_amd64.deb 3043940 SHA256:0
'http://debian.test/pool/f/fonts-dejavu-core_2_all.deb' fonts-dejavu-core_2_all.deb 1067728 SHA256:0
"""


@pytest.fixture(autouse=True)
def a_driver_that_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the check of playwright's driver succeed, independent of PATH."""
    monkeypatch.setattr(chromium, "DRIVER", Path("/bin/true"))


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that makes a shell script the only program in PATH. The cache is empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def put(name: str, script: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return put


def test_the_machines_own_comes_first(program: Callable[[str, str], Path]) -> None:
    chrome = program("google-chrome", "exit 0")
    assert chromium.find() == chromium.Chromium(chrome)
    own = program("chromium", "exit 0")
    assert chromium.find() == chromium.Chromium(own)


def test_a_snap_is_passed_over(program: Callable[[str, str], Path]) -> None:
    program("chromium", "exec /snap/bin/chromium")
    assert chromium.installed() is None


def test_a_driver_that_lacks_a_library_gets_it_from_the_cache(
    program: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("chromium", "exit 0")
    unpacked = chromium.Chromium(Path("/cache/chromium"))
    monkeypatch.setattr(chromium, "DRIVER", Path("/bin/false"))
    monkeypatch.setattr(chromium, "unpacked", lambda: unpacked)
    assert chromium.find() == unpacked


def test_without_apt_the_remedy_is_reported(program: Callable[[str, str], Path]) -> None:
    with pytest.raises(LabError, match="no apt-get to fetch one with: install Chromium"):
        chromium.find()


def test_where_apt_has_none_its_index_is_renewed_and_the_remedy_reported(
    program: Callable[[str, str], Path], tmp_path: Path
) -> None:
    program("dpkg", "echo amd64")
    program(
        "apt-get",
        f"echo $1 >> {tmp_path}/asked\n[ $1 = update ] && exit 0\n"
        "echo \"E: Package 'chromium-headless-shell' has no installation candidate\" >&2; exit 100",
    )
    with pytest.raises(LabError, match=r"no installation candidate.*install Chromium or Google"):
        chromium.find()
    assert (tmp_path / "asked").read_text().split() == ["install", "update", "install"]
    assert list((tmp_path / "cache" / "rackrate" / "chromium").iterdir()) == []


def test_libraries_are_fetched_but_neither_the_c_library_nor_the_desktops(
    program: Callable[[str, str], Path],
) -> None:
    program("apt-get", f"/bin/cat <<'END'\n{URIS}END")
    assert chromium._with_libraries() == [
        *("chromium-common", "chromium-headless-shell", "fonts-dejavu-core", "libnss3"),
    ]


def test_programs_know_where_their_libraries_and_fonts_are(tmp_path: Path) -> None:
    for library in ("libnss3.so", "pulseaudio/libpulsecommon-16.1.so"):
        path = tmp_path / "usr/lib/x86_64-linux-gnu" / library
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "lib/x86_64-linux-gnu").mkdir(parents=True)
    (tmp_path / "lib/x86_64-linux-gnu/libexpat.so.1").touch()
    browser = chromium._chromium_in(tmp_path)
    assert browser.program == tmp_path / "usr/lib/chromium/chromium-headless-shell"
    assert browser.variables["LD_LIBRARY_PATH"].split(":") == [
        str(tmp_path / directory)
        for directory in (
            "lib/x86_64-linux-gnu",
            "usr/lib/x86_64-linux-gnu",
            "usr/lib/x86_64-linux-gnu/pulseaudio",
        )
    ]


def test_the_browser_keeps_nothing_in_the_home_of_who_runs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = chromium.find()
    monkeypatch.setenv("HOME", str(tmp_path))
    script = "\n".join(
        (
            "import sys; from pathlib import Path; from scripts import chromium",
            "found = chromium.Chromium(Path(sys.argv[1]))",
            "with chromium.launched(found) as browser: browser.new_page().goto('about:blank')",
        )
    )
    # In a process of its own, because two drivers in one process would interfere.
    subprocess.run(
        [sys.executable, "-c", script, str(program.program)],
        env={**os.environ, **program.variables},
        check=True,
    )
    assert list(tmp_path.iterdir()) == []
