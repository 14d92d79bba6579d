"""Chromium for tests and pictures: the machine's own, or Debian's, unpacked into the cache.

Nothing is installed: the packages are laid out like the lab's (`lab.setup.debian`), with the shared
libraries and a font, and the programs find them through their environment.
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
from lab.setup.debian import unpack, update_index

NAMES = ("chromium", "google-chrome-stable", "google-chrome")
# The last is what playwright's driver needs and a small Debian lacks.
PACKAGES = ("chromium", "fonts-dejavu-core", "libatomic1")
DRIVER = Path(playwright.__file__).parent / "driver" / "node"
FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
REMEDY = (
    "install Chromium or Google Chrome so that `chromium` or `google-chrome` is in PATH (not as a "
    "snap, which cannot read the pages), then run the command again."
)
# The C library and its kin are the host's own, for second ones beside it would not load. The others
# are for windows and graphics cards: half of what would be downloaded, and never loaded.
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
    """A program, and what its environment needs beside this process's own."""

    program: Path
    variables: Mapping[str, str] = field(default_factory=dict)


def find() -> Chromium:
    """The machine's own Chromium, else the cached one, which is made if need be.

    The cached one also where the driver lacks a library, which is in the cache too.

    Raises:
        LabError: there is none, and none can be had.
    """
    own = installed()
    if (
        own is not None
        and subprocess.run([DRIVER, "--version"], capture_output=True).returncode == 0
    ):
        return own
    return unpacked()


def installed() -> Chromium | None:
    """The first in PATH. A snap is none: it sees only the directories it is confined to."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None and not _is_a_snap(Path(found)):
            return Chromium(Path(found))
    return None


def _is_a_snap(program: Path) -> bool:
    if "snap" in program.parts or program.resolve().name == "snap":
        return True
    return program.stat().st_size < 10_000 and b"/snap/" in program.read_bytes()


def unpacked() -> Chromium:
    """Debian's, in the cache; keyed as the lab's packages are: its release, not its version.

    Raises:
        LabError: this is no Debian, or its packages cannot be had.
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
        str(found.parent)
        for pattern in ("lib/*-linux-*/**/lib*.so*", "usr/lib/*-linux-*/**/lib*.so*")
        for found in root.glob(pattern)
    }
    return Chromium(
        root / "usr/lib/chromium/chromium",
        {
            "LD_LIBRARY_PATH": os.pathsep.join(sorted(libraries)),
            "FONTCONFIG_FILE": str(root / "fonts.conf"),
        },
    )


def _make(directory: Path) -> None:
    try:
        names = _with_libraries()
    except subprocess.CalledProcessError:
        update_index()
        try:
            names = _with_libraries()
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise LabError(f"apt has no Chromium ({reason}): {REMEDY}") from error
    unpack(names, directory)
    (directory / "fonts.conf").write_text(FONTS, "utf-8")
    made = _chromium_in(directory)
    if not made.program.exists():
        raise LabError(f"apt's package `chromium` holds no browser: {REMEDY}")
    # So that a library that is missing is told now, and the half of it does not stay in the cache.
    told = subprocess.run(
        [made.program, "--version"],
        env=os.environ | made.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        reason = (told.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise LabError(f"Debian's Chromium does not start ({reason}): {REMEDY}")


def _with_libraries() -> list[str]:
    """The packages and their libraries: what apt would install where there is nothing yet."""
    nothing = ("-o", "Dir::State::status=/dev/null")
    listing = _output(
        *("apt-get", "install", "--print-uris", "--no-install-recommends", "-qq"),
        *(*nothing, *PACKAGES),
    )
    wanted = {name.partition("_")[0] for name in re.findall(r"^'\S+' (\S+)", listing, re.M)}
    return sorted(
        name
        for name in wanted
        if name in {*PACKAGES, "chromium-common"}
        or (name.startswith("lib") and not LEFT_OUT.match(name))
    )


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def launched(chromium: Chromium | None = None) -> Iterator[Browser]:
    """The browser, headless, with a home of its own that is removed afterwards."""
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
    """playwright's driver, which takes its environment from this process's own as it starts."""
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
