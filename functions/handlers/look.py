"""Look: decide after a batch of blocks whether the run has measured enough."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.run.look import look
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = look(event["run_id"], resources, batch=event["batch"]).to_json()
    logger.info("looked at the verdicts", extra=response)
    return response
