"""Launch: start the client pods of one item of the schedule."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, logger, settings, store
from rackrate.stages.measuring import launch


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    launched = launch(
        event["run_id"], event["item"], settings=settings(), cluster=cluster(), store=store()
    )
    told = {name: launched[name] for name in ("pods", "attempt", "wait_seconds")}
    logger.info("launched client pods", extra=told)
    return launched
