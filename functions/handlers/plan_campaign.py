"""Plan campaign: check a campaign, estimate it, and record it."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.campaign.plan_campaign import plan_campaign
from rackrate_contract.document import Document, Json


@entry_point("planned the campaign", "kind", "dry_run", of="campaign_id")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return plan_campaign(
        event["input"],
        resources,
        campaign_id=event["campaign_id"],
        execution_arn=event["execution_arn"],
    )
