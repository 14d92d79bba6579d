"""Rest: scale the node groups to zero after a run, unless another run needs them."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, settings, store
from rackrate.stages.idling import rest_after


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    nodes = rest_after(event["run_id"], settings=settings(), store=store(), eks=boto3.client("eks"))
    logger.info("put nodes to rest", extra=nodes)
    return nodes
