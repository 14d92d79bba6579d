"""plan.json of a campaign: the planned campaign, stored before it changes anything."""

from __future__ import annotations

from rackrate.plan.campaign import Campaign
from rackrate.plan.fields import IfBusy
from rackrate_contract.document import Document, Json
from rackrate_contract.estimates import CampaignEstimate
from rackrate_contract.verdicts import OnMetric


class PlannedCampaign(Document):
    """plan.json: the campaign, stored before it changes anything."""

    campaign_id: str
    execution_arn: str
    campaign: Campaign
    input: Json
    """The input as it was given, with what it took over from the campaign that it continues."""
    metrics: tuple[OnMetric, ...]
    """What it compares."""
    threshold: float
    """Differences below this share do not matter."""
    if_busy: IfBusy
    stack_arms: tuple[str, ...]
    """The stack's arms whose nodes it holds; empty for a pool."""
    estimate: CampaignEstimate | None
    """Null for a pool, which takes no time and costs nothing."""
    warnings: tuple[str, ...]
