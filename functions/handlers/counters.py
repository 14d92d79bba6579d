"""Counters: read the nodes' network counters before and after the trials."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, logger, settings, store
from rackrate.stages.counting import count


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    read = count(
        event["run_id"], event["when"], settings=settings(), connect=cluster, store=store()
    )
    logger.info("read the nodes' counters", extra=read)
    return read
