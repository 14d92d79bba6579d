"""kwok, built from its Go module at the version that `lab/kwok/go.mod` locks.

Only a lab whose nodes are simulated needs it, so it is an artifact of its own.
"""

from __future__ import annotations

import platform
from pathlib import Path

from lab.cache import artifact, key_of
from lab.setup import golang

MODULE = Path(__file__).resolve().parents[1] / "kwok"


def program() -> Path:
    """The program `kwok`. Raises LabError when it cannot be built."""
    sources = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]

    def build(making: Path) -> None:
        with golang.scratch():
            golang.install(MODULE, making, "tool", name="kwok")

    directory = artifact("kwok", key_of(platform.machine(), *sources), build)
    return directory / "kwok"
