"""Restore: put back what a campaign changed, or what all campaigns changed that have ended."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_campaign_ends, resources
from rackrate.document import Json
from rackrate.stages.restore import restore, restore_stopped, sweep_campaigns

#: The part of the function's time that is reserved for recording how it went.
_RESERVE_SECONDS = 60


@logger.inject_lambda_context(correlation_id_path="campaign_id")
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    patience = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
    match event:
        case {"campaign_id": str(campaign_id)}:  # the state machine
            answer = restore(campaign_id, resources).to_json()
            logger.info("put back what was changed", extra=answer)
            return answer
        case {"source": "aws.states", "detail": dict(detail)}:
            done = restore_stopped(detail, resources, patience_seconds=patience)
        case {"detail-type": "Scheduled Event"}:
            done = sweep_campaigns(resources, patience_seconds=patience)
        case _:
            raise ValueError(
                f"neither a campaign, nor a stopped execution, nor a schedule: {sorted(event)}"
            )
    answer = done.to_json()
    logger.info("cleaned up after campaigns", extra=answer)
    put_campaign_ends(done.ended)
    return answer
