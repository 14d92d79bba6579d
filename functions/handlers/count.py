"""Count: read the nodes' network counters before and after the trials."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.run.count import count
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = count(event["run_id"], event["when"], resources).to_json()
    logger.info("read the nodes' counters", extra=response)
    return response
