"""Analyze: compute the verdicts from the stored trials."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import count_verdicts, logger, store
from rackrate.stages.concluding import analyze


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    found = analyze(event["run_id"], after_failure=event["after_failure"], store=store())
    logger.info("compared the arms", extra=found)
    if not event["after_failure"]:
        count_verdicts(store().verdicts(event["run_id"]))
    return found
