"""Launch: start the client pods of one item of the schedule."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.plan.items import item_from_json
from rackrate.stages.run.launch import launch
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = launch(event["run_id"], item_from_json(event["item"]), resources).to_json()
    logged = {
        name: response[name] for name in ("ready", "access_lost", "pods", "attempt", "wait_seconds")
    }
    logger.info("launched client pods", extra=logged)
    return response
