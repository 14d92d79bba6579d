"""Ready: say whether every node has a server that listens."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, logger, settings, store
from rackrate.stages.serving import await_servers


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    servers = await_servers(
        event["run_id"],
        settings=settings(),
        cluster=cluster(),
        store=store(),
        eks=boto3.client("eks"),
    )
    logger.info("looked at the servers", extra=servers)
    return servers
