"""Report: write the results and the page."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, store
from rackrate.stages.reporting import report


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    written = report(event["run_id"], failure=event.get("failure"), store=store())
    logger.info("wrote the report", extra=written)
    if written["faults"]:
        logger.error("results.json is not what its schema says: this is a fault of rackrate")
    return written
