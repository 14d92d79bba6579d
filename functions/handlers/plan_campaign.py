"""Plan campaign: check a campaign, estimate it, and record it."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.campaign.plan_campaign import plan_campaign
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="campaign_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = plan_campaign(
        event["input"],
        resources,
        campaign_id=event["campaign_id"],
        execution_arn=event["execution_arn"],
    ).to_json()
    logger.info("planned the campaign", extra={n: response[n] for n in ("kind", "dry_run")})
    return response
