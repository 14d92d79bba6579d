"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.run.plan import plan
from rackrate.stages.stack.run_on_create import patience_of
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    requested, run_id, execution_arn = event["plan"], event["run_id"], event["execution_arn"]
    response = (
        patience_of(run_id)
        .ask(lambda: plan(requested, resources, run_id=run_id, execution_arn=execution_arn))
        .to_json()
    )
    logged = {name: response[name] for name in ("blocks", "trials", "expected_seconds", "dry_run")}
    logger.info("planned the run", extra=logged)
    return response
