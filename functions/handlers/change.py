"""Change: make the change of a campaign's step, and wait until it is made."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.campaign.change import change
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="campaign_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = change(event["campaign_id"], resources).to_json()
    logger.info("made a change, or went on with it", extra=response)
    return response
