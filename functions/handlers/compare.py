"""Compare: what two runs measured, beside each other."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, store
from rackrate.stages.comparing import compare


@logger.inject_lambda_context(correlation_id_path="comparison_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    compared = compare(
        event["input"],
        comparison_id=event["comparison_id"],
        execution_arn=event["execution_arn"],
        store=store(),
    )
    logger.info("compared two runs", extra={"comparison_key": compared["comparison_key"]})
    return compared
