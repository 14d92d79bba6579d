"""Finish: write down how a run ended, and say it in a few words."""

from __future__ import annotations

import os
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
        state=event["state"],
        dashboard_url=os.environ["DASHBOARD_URL"] or None,
        store=store(),
    )
    told = {name: ended[name] for name in ("status", "written", "seconds")}
    logger.info("wrote down how the run ended", extra=told)
    count_ends([ended])
    return ended
