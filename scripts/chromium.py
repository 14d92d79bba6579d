"""Chromium for tests and pictures: the machine's own, or Debian's, unpacked into the cache.

This installs nothing. It unpacks Debian's packages as the lab does (`lab.setup.debian`), with the
shared libraries and a font. Environment variables name their places to the programs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import playwright
from playwright.sync_api import Browser, Playwright, sync_playwright

from lab.cache import artifact, key_of
from lab.errors import LabError
from lab.setup.debian import on_an_empty_system, unpack

NAMES = ("chromium-headless-shell", "chromium", "google-chrome-stable", "google-chrome")
# The shell is Chromium without its windows, so it starts a page in fewer processes.
# playwright's driver needs libatomic1, which a minimal Debian lacks.
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core", "libatomic1")
DRIVER = Path(playwright.__file__).parent / "driver" / "node"
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
REMEDY = (
    "install Chromium or Google Chrome so that `chromium` or `google-chrome` is in PATH (not as a "
    "snap, which cannot read the pages), then run the command again."
)
# The C library and related libraries come from the host, because a second set would not load. The
# others are for windows and graphics cards. They are half of the download and are never loaded.
LEFT_OUT = re.compile(
    r"lib(c6|gcc-s1|stdc\+\+6|gtk-|gl1|glx|llvm|z3-|icu|perl|pam|systemd-shared|ssl|db5)"
)
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">usr/share/fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""


@dataclass(frozen=True)
class Chromium:
    """A program, and the variables that its environment needs in addition to this process's."""

    program: Path
    variables: Mapping[str, str] = field(default_factory=dict)


def find() -> Chromium:
    """Find the machine's own Chromium, or else the cached one, which is made if it is missing.

    Uses the cached one also when the driver lacks a library, because the cache has it too.

    Raises:
        LabError: there is no Chromium, and it cannot be downloaded.
    """
    own = installed()
    if (
        own is not None
        and subprocess.run([DRIVER, "--version"], capture_output=True).returncode == 0
    ):
        return own
    return unpacked()


def installed() -> Chromium | None:
    """The first Chromium in PATH. Skips snaps, which see only the directories of their sandbox."""
    for name in NAMES:
        path = shutil.which(name)
        if path is not None and not _is_a_snap(Path(path)):
            return Chromium(Path(path))
    return None


def _is_a_snap(program: Path) -> bool:
    if "snap" in program.parts or program.resolve().name == "snap":
        return True
    return program.stat().st_size < 10_000 and b"/snap/" in program.read_bytes()


def unpacked() -> Chromium:
    """Debian's Chromium in the cache. As for the lab's packages, the key is Debian's release.

    Raises:
        LabError: this is not a Debian, or its packages cannot be downloaded.
    """
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise LabError(f"There is no Chromium, and no {program} to fetch one with: {REMEDY}")
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    machine = _output("dpkg", "--print-architecture")
    key = key_of(release, machine, LEFT_OUT.pattern, FONTS, *PACKAGES)
    return _chromium_in(artifact("chromium", key, _make))


def _chromium_in(root: Path) -> Chromium:
    libraries = {
        str(path.parent)
        for pattern in ("lib/*-linux-*/**/lib*.so*", "usr/lib/*-linux-*/**/lib*.so*")
        for path in root.glob(pattern)
    }
    return Chromium(
        root / "usr/lib/chromium/chromium-headless-shell",
        {
            "LD_LIBRARY_PATH": os.pathsep.join(sorted(libraries)),
            "FONTCONFIG_FILE": str(root / "fonts.conf"),
        },
    )


def _make(directory: Path) -> None:
    try:
        names = _with_libraries()
    except LabError as error:
        raise LabError(f"{error} Or {REMEDY}") from error
    unpack(names, directory)
    (directory / "fonts.conf").write_text(FONTS, "utf-8")
    chromium = _chromium_in(directory)
    if not chromium.program.exists():
        raise LabError(f"apt's package `{PACKAGES[0]}` holds no browser: {REMEDY}")
    # Start it once, so that a missing library is reported now and the cache keeps nothing unusable.
    result = subprocess.run(
        [chromium.program, "--version"],
        env=os.environ | chromium.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise LabError(f"Debian's Chromium does not start ({reason}): {REMEDY}")


def _with_libraries() -> list[str]:
    """The packages and their libraries."""
    return [
        name
        for name in on_an_empty_system(PACKAGES)
        if name in {*PACKAGES, "chromium-common"}
        or (name.startswith("lib") and not LEFT_OUT.match(name))
    ]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def launched(chromium: Chromium | None = None) -> Iterator[Browser]:
    """Start a headless browser with a temporary home directory."""
    chromium = chromium or find()
    with (
        tempfile.TemporaryDirectory(prefix="rackrate-chromium-") as home,
        _driver(chromium.variables) as driver,
    ):
        own = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home}
        browser = driver.chromium.launch(
            executable_path=chromium.program,
            args=list(FLAGS),
            env={**os.environ, **chromium.variables, **own},
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _driver(variables: Mapping[str, str]) -> Iterator[Playwright]:
    """Start playwright's driver, which reads this process's environment when it starts."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        driver = sync_playwright().start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    try:
        yield driver
    finally:
        driver.stop()
