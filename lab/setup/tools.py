"""The programs that the measuring pods run, unpacked from Debian's packages into the cache.

They come from the Debian release of the stack's own image, so that pods in the lab and on AWS run
the same versions. The machine may run another release. So the tools have their own release's C
library and loader beside them, and the machine's own are not used.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.cache import artifact, key_of
from lab.errors import LabError
from lab.setup import debian

_IMAGE = Path(__file__).parents[2] / "image"
#: The packages' names, by program. The stack's own image has the same list, besides `cat`, which
#: prints the kernel's counters, `sleep`, for pods that only have to exist, and `sh`, `date` and
#: `flock`, with which tests wait for an agreed start. Those of Go modules, which have a slash
#: there, are not here: `lab.setup.golang` builds them.
PROGRAMS = {
    **dict.fromkeys(("cat", "date", "sleep"), "coreutils"),
    "flock": "util-linux",
    "sh": "dash",
}
for _line in (_IMAGE / "programs.txt").read_text(encoding="utf-8").splitlines():
    _program, _package = _line.split()
    if "/" not in _package:
        PROGRAMS[_program] = _package
PACKAGES = tuple(sorted(set(PROGRAMS.values())))
#: The code name of the Debian release that the stack's own image is based on.
(RELEASE,) = re.findall(r"^FROM \S+/debian:([a-z]+)", (_IMAGE / "Dockerfile").read_text(), re.M)
#: apt's preferences, as the stack's own image has them, and the later releases that they name.
_PREFERENCES = _IMAGE / "preferences"
_LATER = sorted(set(re.findall(r"^Pin: release n=([a-z]+)", _PREFERENCES.read_text(), re.M)))
#: The suites of a Debian release, without backports.
_SUITES = ("", "updates", "security")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def release() -> str:
    """The release whose tools this machine's lab has.

    A system that is derived from Debian has no mirror of Debian, so its lab has its own tools.
    """
    system = platform.freedesktop_os_release()
    return f"Debian {RELEASE}" if system["ID"] == "debian" else system["PRETTY_NAME"]


def unpacked(more: Sequence[str] = ()) -> Path:
    """The root directory of the packages' files (`usr/bin/iperf3`, ...).

    The key has no versions, since a tool that is updated during a comparison would be a confounder.

    Args:
        more: further packages, which make it another artifact.
    """
    packages = (*PACKAGES, *more)
    key = key_of(RELEASE, *debian.machine(), *packages, _PREFERENCES.read_bytes())
    name = "large-tools" if more else "tools"
    return artifact(name, key, lambda directory: _download(directory, packages))


def program(root: Path, name: str) -> Path:
    """A program below the root of the unpacked packages."""
    for directory in ("usr/bin", "bin", "usr/sbin", "sbin"):
        if (path := root / directory / name).exists():
            return path
    raise RuntimeError(f"{PROGRAMS[name]}, as image/programs.txt has it, holds no {name}")


def loader(root: Path) -> tuple[str, ...]:
    """The beginning of the command line of a program below the root, outside of pods."""
    loaders = sorted(path for lib in ("lib*", "usr/lib*") for path in root.glob(f"{lib}/ld-linux*"))
    return str(loaders[0]), "--library-path", debian.library_path(root)


def command(name: str) -> tuple[str, ...]:
    """The beginning of a tool's command line outside of pods."""
    root = unpacked()
    return (*loader(root), str(program(root, name)))


def _download(directory: Path, packages: Sequence[str]) -> None:
    index = directory / "index"
    options = _apt_options(index)
    debian.unpack(debian.on_an_empty_system(packages, options), directory, options)
    shutil.rmtree(index, ignore_errors=True)


def _apt_options(index: Path) -> list[str]:
    """The options with which apt has the releases of the tools; none on a system besides Debian.

    apt checks signatures with Debian's keyring. It keeps its index in the directory `index`, and
    nothing of the machine's own apt changes.

    Raises:
        LabError: the keyring is missing, apt has no mirror of Debian, or the mirror lacks the
            release.
    """
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian":
        return []
    if not _KEYRING.exists():
        raise LabError(f"{_KEYRING} is missing: apt-get install debian-archive-keyring.")
    for directory in ("lists/partial", "cache/archives/partial"):
        (index / directory).mkdir(parents=True)
    (index / "sources.list").write_text("".join(_sources()), encoding="utf-8")
    settings = {
        "Dir::Etc::sourcelist": index / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": _PREFERENCES,
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": index / "lists",
        "Dir::Cache": index / "cache",
        "APT::Default-Release": "",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    options += debian.NO_SANDBOX
    try:
        debian.update_index(options)
    except LabError as error:
        raise LabError(
            f"The pods' tools come from Debian {RELEASE}, by this machine's mirror. {error} A key "
            "that is missing comes with a newer package `debian-archive-keyring`."
        ) from error
    return options


def _sources() -> list[str]:
    """Lines of sources.list for the release, from the mirrors of the machine's own release."""
    sources = _of_release(_targets())
    if not sources:
        debian.update_index()
        sources = _of_release(_targets())
    if not sources:
        raise LabError(
            f"The pods' tools come from Debian {RELEASE}, and apt has no mirror of Debian: add one "
            "to its sources, then run the command again."
        )
    return sources


def _targets() -> list[str]:
    """Origin, address and code name of each index that apt has, one a line."""
    return subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(CODENAME)|$(REPO_URI)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()


def _of_release(targets: Iterable[str]) -> list[str]:
    """The lines for the releases, whatever else apt has: other archives, backports, a CD."""
    lines = set()
    for target in targets:
        origin, codename, address = target.split("|", 2)
        suite = codename.partition("-")[2]
        if origin == "Debian" and suite in _SUITES and not address.startswith("cdrom:"):
            name = RELEASE + f"-{suite}" * bool(suite)
            names = [name] if suite else [name, *_LATER]
            lines |= {f"deb [signed-by={_KEYRING}] {address} {each} main\n" for each in names}
    return sorted(lines)
