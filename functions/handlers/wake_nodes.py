"""Wake nodes: scale up the node groups of a stack that idles at zero nodes, and check for Ready."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.execution.wake_nodes import wake_nodes
from rackrate.stages.stack.run_on_create import patience_of
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    plan, run_id, execution_arn = event["plan"], event["run_id"], event["execution_arn"]
    response = (
        patience_of(run_id)
        .ask(lambda: wake_nodes(plan, resources, run_id=run_id, execution_arn=execution_arn))
        .to_json()
    )
    logger.info("asked for nodes", extra=response)
    return response
