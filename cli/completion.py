"""Shell completion of runs and campaigns: those kept on this machine, without asking AWS."""

from __future__ import annotations

from pathlib import Path

from .reading.run_ids import LATEST


def complete_run(incomplete: str) -> list[str]:
    """`latest` and the runs in out/ that begin with `incomplete`, newest name first."""
    campaigns = _names("campaign.json")
    runs = [name for name in _names("plan.json") if name not in campaigns]
    return [name for name in dict.fromkeys([LATEST, *runs]) if name.startswith(incomplete)]


def complete_campaign(incomplete: str) -> list[str]:
    """`latest` and the campaigns in out/ that begin with `incomplete`, newest name first."""
    return [name for name in [LATEST, *_names("campaign.json")] if name.startswith(incomplete)]


def _names(file: str) -> list[str]:
    """The names of the directories in out/ that have a file, the last name first."""
    try:
        return sorted((path.parent.name for path in Path("out").glob(f"*/{file}")), reverse=True)
    except OSError:
        return []
