"""Report campaign: write campaign.json and the campaign's page."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_answers, put_capacity, resources
from rackrate.errors import translated
from rackrate.results.build import RunFailure
from rackrate.stages.campaign.report_campaign import report_campaign
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="campaign_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    failure = RunFailure.read(event.get("failure"))
    reported = report_campaign(event["campaign_id"], resources, failure=failure)
    logger.info("wrote the page", extra={"report_key": reported.report_key})
    put_answers(reported.results.answers)
    put_capacity(reported.results.capacity)
    return {"report_key": reported.report_key}
