"""Judge: record a step's outcome, compute the answers so far, and name the next step or none."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate.errors import translated
from rackrate.results.build import RunFailure
from rackrate.stages.campaign.judge import judge
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="campaign_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    step = event["state"].get("step", {})
    failure = RunFailure.read(step.get("failure"))
    judged = judge(event["campaign_id"], resources, failure=failure, failed=step.get("number"))
    response = judged.to_json()
    logger.info("judged the steps so far", extra={n: response[n] for n in ("enough", "run_id")})
    return response
