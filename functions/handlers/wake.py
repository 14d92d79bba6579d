"""Wake: ask for the nodes of a stack that idles without any, and say whether they are there."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, logger, settings, store
from rackrate.stages.idling import wake


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    nodes = wake(
        event["plan"],
        run_id=event["run_id"],
        execution_arn=event["execution_arn"],
        settings=settings(),
        connect=cluster,
        store=store(),
        eks=boto3.client("eks"),
    )
    logger.info("asked for nodes", extra=nodes)
    return nodes
