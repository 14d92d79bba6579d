"""Restore: put back what campaigns changed, or stop them before the stack is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_ends, resources
from rackrate.errors import translated
from rackrate.stack.custom_resource import Answer, serve
from rackrate.stages.campaign.restore import restore, restore_stopped, sweep_campaigns
from rackrate.stages.run.teardown import stop_all
from rackrate_contract.document import Json

#: The part of the function's time that is reserved for recording how it went.
_RESERVE_SECONDS = 60


def _serve_request(request: Mapping[str, Any]) -> Answer:
    """Stop what runs when the stack is deleted; do nothing when it is created or updated."""
    if request["RequestType"] == "Delete":
        put_ends(stop_all("campaign", resources))
    return Answer("campaigns")


@logger.inject_lambda_context(correlation_id_path="campaign_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    patience = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
    match event:
        case {"RequestType": str()}:  # CloudFormation
            serve(event, context, _serve_request)
            return {}
        case {"campaign_id": str(campaign_id)}:  # the state machine
            response = restore(campaign_id, resources).to_json()
            logger.info("put back what was changed", extra=response)
            return response
        case {"source": "aws.states", "detail": dict(detail)}:
            done = restore_stopped(detail, resources, patience_seconds=patience)
        case {"detail-type": "Scheduled Event"}:
            done = sweep_campaigns(resources, patience_seconds=patience)
        case _:
            raise ValueError(
                f"neither a campaign, nor a stopped execution, nor a schedule: {sorted(event)}"
            )
    response = done.to_json()
    logger.info("cleaned up after campaigns", extra=response)
    put_ends(done.ended)
    return response
