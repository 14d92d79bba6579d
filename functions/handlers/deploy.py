"""Deploy: create the run's owner and its servers."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.run.deploy import deploy
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = deploy(event["run_id"], event["execution_arn"], resources).to_json()
    logger.info("created the owner and the servers", extra=response)
    return response
