"""Rest nodes: scale the node groups to zero after a run, unless another run needs the nodes."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.execution.rest_nodes import rest_nodes
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = rest_nodes(event["run_id"], resources).to_json()
    logger.info("put nodes to rest", extra=response)
    return response
