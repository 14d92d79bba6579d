"""Take lease: reserve the nodes of the plan's arms, or wait for the run that has them."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.execution.take_lease import take_campaign_lease, take_lease
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    if "campaign_id" in event:
        leased = take_campaign_lease(event["campaign_id"], resources)
    else:
        leased = take_lease(event["run_id"], resources)
    response = leased.to_json()
    logger.info("asked for the nodes", extra=response)
    return response
