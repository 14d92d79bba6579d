"""Deploy: create the run's owner and its servers."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, logger, settings, store
from rackrate.stages.serving import deploy


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    created = deploy(
        event["run_id"],
        event["execution_arn"],
        settings=settings(),
        cluster=cluster(),
        store=store(),
    )
    logger.info("created the owner and the servers", extra=created)
    return created
