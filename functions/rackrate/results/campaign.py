"""The models of campaign.json: what a campaign did, and what its runs tell together.

`make docs` generates docs/campaign.schema.json from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from rackrate.document import Document
from rackrate.executions.model import CampaignKind, Step
from rackrate.executions.model import Status as CampaignStatus
from rackrate.results.schema import json_schema
from rackrate.verdict.answers import Answer, CampaignStopped, SweepCell
from rackrate.verdict.model import Difference

__all__ = [
    "CAMPAIGN",
    "CampaignFacts",
    "CampaignKind",
    "CampaignResults",
    "CampaignStatus",
    "CampaignStopped",
    "Step",
    "SweepCell",
]

CAMPAIGN: Literal["rackrate.campaign.v1"] = "rackrate.campaign.v1"


class CampaignFacts(Document):
    """The campaign."""

    id: str
    """Name of the execution."""
    kind: CampaignKind
    status: CampaignStatus
    started_at: str
    """ISO 8601, UTC."""
    seconds: float
    """How long it took: from the time it held its nodes until these results were written."""
    execution_arn: str
    lab_scale: float | None
    """Factor by which the lab scaled the nodes' network; null on AWS."""
    budget_dollars: float | None
    """Null for a pool, which costs nothing."""
    dollars: float | None
    """The estimate of what the steps cost; null if no price is known."""
    swept: str | None = None
    """The swept field of the input, such as `nodes` or `vpc_cni`; null for draws and pools."""
    series: str | None = None
    """The series to which its draws were added."""
    continues: str | None = None
    """The campaign whose finished steps it took over."""
    error: str | None
    """Name of the error that ended it; null if it did not fail."""
    cause: str | None
    """The error in words."""


class CampaignResults(Document):
    """The results of a rackrate campaign."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    version: Annotated[Literal["rackrate.campaign.v1"], Field(alias="schema")] = CAMPAIGN
    campaign: CampaignFacts
    conclusion: str
    """The answers in sentences, and what qualifies them."""
    method: str
    """How the figures were computed."""
    plan: dict[str, Any]
    """The plan of every run, as it was given."""
    stopped: CampaignStopped | None
    steps: tuple[Step, ...]
    placements: dict[str, str] = Field(default_factory=dict)
    """The placement strategy of each arm, `none` without a group; empty in older files."""
    answers: tuple[Answer, ...]
    """Empty for a sweep."""
    sweep: tuple[SweepCell, ...]
    """Empty except for a sweep."""
    differences: tuple[Difference, ...]
    """For a pool: what differed between its runs; `run` is the newest run's value."""
    pooling: str = ""
    """For a pool: which of its runs count as one draw, and why."""
    warnings: tuple[str, ...]


def schema() -> dict[str, Any]:
    """The JSON Schema of campaign.json."""
    return json_schema(CampaignResults, "Results of a rackrate campaign")
