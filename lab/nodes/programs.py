"""Where the programs lie that a lab's control plane and nodes run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.setup.debian import library_path


@dataclass(frozen=True)
class Programs:
    """Where the programs lie: Kubernetes' own, and the root of the unpacked Debian packages."""

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
        """What programs of the packages need to find their libraries."""
        return {"LD_LIBRARY_PATH": library_path(self.debian)}
