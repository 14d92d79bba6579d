"""Finish campaign: record how a campaign ended, and summarize it in the execution's output."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_ends, resources
from rackrate.errors import translated
from rackrate.stages.campaign.finish_campaign import finish_campaign
from rackrate.stages.run.finish import first_failure
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="campaign_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    state = event["state"]
    finished = finish_campaign(
        event["campaign_id"],
        resources,
        execution_arn=event["execution_arn"],
        failure=first_failure(state),
        report_key=state.get("reported", {}).get("report_key"),
    )
    logger.info("wrote down how the campaign ended", extra=finished.ended.to_json())
    put_ends([finished.ended])
    return finished.to_json()
