"""The provisioner of volumes, built from its Go module as `lab/storage/go.mod` locks it.

Only plans with a storage class need it, so it is an artifact of its own.
"""

from __future__ import annotations

import platform
from pathlib import Path

from lab.cache import artifact, key_of
from lab.setup import golang

MODULE = Path(__file__).resolve().parents[1] / "storage"
NAME = "local-path-provisioner"


def program() -> Path:
    """The program of Rancher's local path provisioner. Raises LabError when it cannot be built."""
    sources = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]

    def build(making: Path) -> None:
        with golang.scratch():
            golang.install(MODULE, making, "tool", name=NAME)

    directory = artifact("storage", key_of(platform.machine(), *sources), build)
    return directory / NAME
