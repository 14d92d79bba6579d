"""Compare: compute the verdicts between two finished runs."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.stages.run.compare import compare
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="comparison_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    answer = compare(
        event["input"],
        resources,
        comparison_id=event["comparison_id"],
        execution_arn=event["execution_arn"],
    ).to_json()
    logger.info("compared two runs", extra={"comparison_key": answer["comparison_key"]})
    return answer
