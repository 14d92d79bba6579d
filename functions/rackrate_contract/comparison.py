"""The model of comparison.json: a run compared with others."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from rackrate_contract.document import Document
from rackrate_contract.ranking import Ranking
from rackrate_contract.results import Findings, Replacement, RunFacts, WorkloadOfResults
from rackrate_contract.verdicts import Difference
from rackrate_text.words import several_runs

COMPARISON: Literal["rackrate.comparison.v1"] = "rackrate.comparison.v1"


class ComparedRun(RunFacts):
    """The comparison."""

    status: Literal["compared"]


class Compared(Document):
    """Which runs were compared, and what differed between them."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    run: str
    other: Annotated[str, Field(alias="with")]
    """The other run's id; for several runs the name of their baseline, or such as `4 runs`."""
    with_runs: tuple[str, ...]
    """The ids of the other runs."""
    baseline: str | None
    """The baseline's name, if it stood for the other runs."""
    differences: tuple[Difference, ...]

    @property
    def others(self) -> str:
        """The other run's id; several runs such as `the 4 runs of main`."""
        if len(self.with_runs) > 1:
            return several_runs(self.other, len(self.with_runs))
        return self.other

    @property
    def other_name(self) -> str:
        """The other runs; one with its baseline's name if it has one."""
        is_named = self.baseline is not None and len(self.with_runs) == 1
        return f"{self.other} (baseline {self.baseline})" if is_named else self.others


class Comparison(Findings):
    """Two runs compared: laid out like a run whose arms are those of both."""

    version: Annotated[Literal["rackrate.comparison.v1"], Field(alias="schema")] = COMPARISON
    run: ComparedRun
    comparison: Compared
    # Of the following a run may have something, and a comparison has nothing.
    stopped: ClassVar[None] = None
    replacements: ClassVar[tuple[Replacement, ...]] = ()
    rankings: ClassVar[tuple[Ranking, ...]] = ()
    workloads: ClassVar[tuple[WorkloadOfResults, ...]] = ()
    dns_nodes: ClassVar[tuple[str, ...] | None] = None
    how_nodes_came: ClassVar[str] = ""
