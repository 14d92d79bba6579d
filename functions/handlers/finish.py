"""Finish: record how a run ended, and summarize it in the execution's output."""

from __future__ import annotations

import os

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_ends, resources
from rackrate.document import Json
from rackrate.results.build import RunFailure
from rackrate.stages.finish import finish


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    state = event["state"]
    finished = finish(
        event["run_id"],
        resources,
        execution_arn=event["execution_arn"],
        failure=RunFailure.read(state.get("failure")),
        report_key=state.get("reported", {}).get("report_key"),
        dashboard_url=os.environ["DASHBOARD_URL"] or None,
    )
    logger.info("wrote down how the run ended", extra=finished.ended.to_json())
    put_ends([finished.ended])
    return finished.to_json()
