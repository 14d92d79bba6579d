"""The result of an analysis (analysis.json)."""

from __future__ import annotations

from rackrate_contract.document import Document
from rackrate_contract.ranking import Ranking
from rackrate_contract.results import Together
from rackrate_contract.trials import Mark
from rackrate_contract.verdicts import Difference, Summary, Verdict


class Analysis(Document):
    """analysis.json."""

    method: str
    """How the figures were computed."""
    verdicts: tuple[Verdict, ...]
    summaries: tuple[Summary, ...]
    marks: tuple[Mark, ...]
    regressions: tuple[Verdict, ...]
    """Each arm compared with itself in the runs that `compare_with` names."""
    regression_differences: tuple[Difference, ...] | None
    """The recorded differences from the earlier runs; null without an earlier run."""
    together: tuple[Together, ...] = ()
    """How far the pairs of a round sent at the same time, by test; empty unless the plan's load is
    `together`."""
    rankings: tuple[Ranking, ...] = ()
    """The nodes of each arm that its pairs cover, ranked."""
    warnings: tuple[str, ...]
