"""Report: write the results and the page."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.results.build import RunFailure
from rackrate.stages.run.report import report
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    failure = RunFailure.read(event.get("failure"))
    response = report(event["run_id"], resources, failure=failure).to_json()
    logger.info("wrote the report", extra=response)
    return response
