"""Where the programs of a lab's control plane and nodes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.setup.debian import library_path


@dataclass(frozen=True)
class Programs:
    """The directory of Kubernetes' programs, and the root of the unpacked Debian packages."""

    kubernetes: Path
    debian: Path

    def debian_program(self, *candidates: str) -> str:
        """The first of the candidate paths that exists under the packages' root."""
        for candidate in candidates:
            if (self.debian / candidate).exists():
                return str(self.debian / candidate)
        raise FileNotFoundError(f"none of {candidates} in the unpacked packages")

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which programs of the packages find their libraries."""
        return {"LD_LIBRARY_PATH": library_path(self.debian)}
