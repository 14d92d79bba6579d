"""Named baselines: fixed names for runs that you compare other runs with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from .errors import Refusal

# The same pattern as a run's id, because an argument that takes a run also takes a baseline.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")


@dataclass(frozen=True)
class Baseline:
    """A name for a run. `set_at` is ISO 8601, UTC."""

    name: str
    run_id: str
    set_at: str

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Read the item `sk=baseline` as the table resource returns it."""
        return cls(str(item["name"]), str(item["run_id"]), str(item.get("set_at") or ""))

    def as_document(self) -> dict[str, str]:
        """The baseline for `--json`."""
        return asdict(self)


def checked_name(name: str) -> str:
    """Return the name unchanged. Raises Refusal when it is not a valid baseline name."""
    if not _NAME.fullmatch(name) or name == "latest":
        raise Refusal(
            f'"{name}" cannot be a baseline\'s name; use 1 to 80 letters, digits, hyphens and'
            ' underscores, and not "latest".'
        )
    return name
