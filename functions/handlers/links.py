"""Links: name the pairs that could not talk to each other when they were warmed up."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, store
from rackrate.stages.linking import check_links


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    found = check_links(event["run_id"], store=store())
    logger.info("checked the links", extra=found)
    return found
