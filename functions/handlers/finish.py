"""Finish: write down how a run ended."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import count_ends, logger, store
from rackrate.stages.concluding import finish


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    ended = finish(
        event["run_id"],
        execution_arn=event["execution_arn"],
        failure=event["state"].get("failure"),
        store=store(),
    )
    logger.info("wrote down how the run ended", extra=ended)
    count_ends([ended])
    return ended
