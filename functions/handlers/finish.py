"""Finish: record how a run ended, and summarize it in the execution's output."""

from __future__ import annotations

import os

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_ends, resources
from rackrate.errors import translated
from rackrate.stages.run.finish import end_or_go_on, finish, first_failure
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    state, redrives = event["state"], event.get("redrives", 0)
    if "task_token" in event:  # the execution's last state
        goes_on = end_or_go_on(
            event["run_id"], resources, redrives=redrives, token=event["task_token"], state=state
        )
        logger.info("ended the execution", extra={"goes_on": goes_on})
        return {"goes_on": goes_on}
    finished = finish(
        event["run_id"],
        resources,
        execution_arn=event["execution_arn"],
        redrives=redrives,
        failure=first_failure(state),
        report_key=state.get("reported", {}).get("report_key"),
        dashboard_url=os.environ["DASHBOARD_URL"] or None,
    )
    logger.info("wrote down how the run ended", extra=finished.ended.to_json())
    put_ends([finished.ended])
    return finished.to_json()
