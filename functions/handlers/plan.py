"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.document import Json
from rackrate.errors import translated
from rackrate.stages.plan import plan


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    answer = plan(
        event["plan"], resources, run_id=event["run_id"], execution_arn=event["execution_arn"]
    ).to_json()
    told = {name: answer[name] for name in ("blocks", "trials", "expected_seconds", "dry_run")}
    logger.info("planned the run", extra=told)
    return answer
