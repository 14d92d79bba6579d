"""Shell completion of a run: the runs whose results are on this machine, without asking AWS."""

from __future__ import annotations

from pathlib import Path

from .run_ids import LATEST


def complete_run(incomplete: str) -> list[str]:
    """`latest` and the runs in out/ that begin with `incomplete`, newest name first."""
    try:
        runs = sorted((path.parent.name for path in Path("out").glob("*/plan.json")), reverse=True)
    except OSError:
        runs = []
    return [name for name in dict.fromkeys([LATEST, *runs]) if name.startswith(incomplete)]
