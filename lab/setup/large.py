"""The programs of large workloads, which a lab has only if a plan asks for one of them.

`image/large.txt` names them, each with its Debian package or its crate, and with the tests that
need it. `image/jars.txt` has the jars of `image/pom.xml`, by checksum, and `image/crates.txt` the
version of each crate. The stack's own image is built from the same files.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.cache import artifact, cache_directory, key_of
from lab.errors import LabError
from lab.setup import building, tools

_IMAGE = Path(__file__).parents[2] / "image"
_CRATE = "crate:"
_JARS = _IMAGE / "jars.txt"
_CRATES = dict(line.split() for line in (_IMAGE / "crates.txt").read_text("utf-8").splitlines())
_LINES = [line.split() for line in (_IMAGE / "large.txt").read_text("utf-8").splitlines()]
#: Debian's packages, and the crates.
PACKAGES = tuple(sorted({source for _, source, _ in _LINES if not source.startswith(_CRATE)}))
CRATES = tuple(sorted({s.removeprefix(_CRATE) for _, s, _ in _LINES if s.startswith(_CRATE)}))
#: The tests that need them, by the names that a plan may give.
TESTS = frozenset(name for _, _, tests in _LINES for name in tests.split(","))
# Quicker to build than what the crates ask for themselves: optimized as a whole, latte takes twenty
# minutes on two cores. The stack's own image is built with the same.
_PROFILE = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}


class Large(NamedTuple):
    """Where the programs are.

    Attributes:
        root: the root directory of Debian's packages, those of all other tools included.
        crates: the programs of crates.
        jars: Java's archives.
    """

    root: Path
    crates: Path
    jars: Path


def asks(document: Mapping[str, Any]) -> bool:
    """Whether a plan, or the plan of a campaign, has a test that needs them."""
    plan = document.get("plan", document)
    tests = plan.get("tests") if isinstance(plan, Mapping) else None
    named = [
        word
        for test in (tests if isinstance(tests, list) else [])
        for word in ([test] if isinstance(test, str) else [test.get("name"), test.get("tool")])
    ]
    return not TESTS.isdisjoint(word for word in named if isinstance(word, str))


def programs() -> Large:
    """All of them, downloaded and built where they are not in the cache.

    Raises:
        LabError: something is missing on this machine, or cannot be downloaded or built.
    """
    return Large(tools.unpacked(PACKAGES), _crates(), _jars())


def _crates() -> Path:
    versions = [f"{name}@{_CRATES[name]}" for name in CRATES]

    def build(directory: Path) -> None:
        cargo = shutil.which("cargo") or shutil.which("cargo", path=Path.home() / ".cargo/bin")
        lacking = [
            package
            for program, package in (("cc", "gcc"), ("pkg-config", "pkg-config"))
            if shutil.which(program) is None
        ]
        if cargo is None:
            lacking.append("cargo")
        if not any(Path("/usr/include").rglob("openssl/ssl.h")):
            lacking.append("libssl-dev")
        if lacking or cargo is None:
            raise LabError(
                f"{' '.join(versions)} cannot be built: {', '.join(lacking)} is missing. Run "
                f"apt-get install {' '.join(lacking)}, or install Rust 1.82 or later by rustup, "
                "then run the command again."
            )
        # An interrupted build goes on from here.
        scratch = cache_directory() / "cargo"
        environment = os.environ | _PROFILE | {"CARGO_TARGET_DIR": str(scratch)}
        command = [cargo, "install", "--locked", "--root", str(directory / "root"), *versions]
        building.run(
            command,
            problem=f"{' '.join(versions)} cannot be built",
            remedy="check the network (Rust's registry), the version of Rust (1.82 or later) and "
            "the space on disk",
            environment=environment,
        )
        for program in (directory / "root" / "bin").iterdir():
            program.rename(directory / program.name)
        shutil.rmtree(directory / "root")
        shutil.rmtree(scratch, ignore_errors=True)

    return artifact("crates", key_of(platform.machine(), *versions, *_PROFILE.values()), build)


def _jars() -> Path:
    jars = {name: checksum for checksum, name in map(str.split, _JARS.read_text().splitlines())}

    def build(directory: Path) -> None:
        if shutil.which("mvn") is None:
            raise LabError(
                "Cassandra's jars cannot be downloaded: mvn is missing. Run apt-get install maven, "
                "then run the command again."
            )
        everything = directory / "all"
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(_IMAGE / "pom.xml")]
        building.run(
            [*command, "dependency:copy-dependencies", f"-DoutputDirectory={everything}"],
            problem="Cassandra's jars cannot be downloaded",
            remedy="check the network (Maven's repository)",
        )
        for name, checksum in jars.items():
            jar = everything / name
            if not jar.exists() or hashlib.sha256(jar.read_bytes()).hexdigest() != checksum:
                raise LabError(f"Maven's {name} is not the one that image/jars.txt names.")
            jar.rename(directory / name)
        shutil.rmtree(everything)

    sources = (_JARS, _IMAGE / "pom.xml")
    return artifact("jars", key_of(*(path.read_bytes() for path in sources)), build)
