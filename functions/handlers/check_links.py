"""Check links: find the pairs that the warm-up could not measure."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.run.check_links import check_links
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    response = check_links(event["run_id"], resources).to_json()
    logger.info("checked the links", extra=response)
    return response
