"""Wake nodes: scale up the node groups of a stack that idles at zero nodes, and check for Ready."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.document import Json
from rackrate.errors import translated
from rackrate.stages.wake_nodes import wake_nodes


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    answer = wake_nodes(
        event["plan"], resources, run_id=event["run_id"], execution_arn=event["execution_arn"]
    ).to_json()
    logger.info("asked for nodes", extra=answer)
    return answer
