"""Await servers: report whether every node has a listening server."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.run.await_servers import await_servers
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = await_servers(event["run_id"], resources).to_json()
    logger.info("looked at the servers", extra=response)
    return response
