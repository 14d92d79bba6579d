"""Analyze: compute the verdicts from the stored trials."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_verdicts, resources
from rackrate.errors import translated
from rackrate.stages.run.analyze import analyze
from rackrate_contract.document import Json


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    run_id = event["run_id"]
    # An execution that an older rackrate started says `after_failure` instead.
    after_failure = event.get("failure") is not None or event.get("after_failure", False)
    response = analyze(run_id, resources, after_failure=after_failure).to_json()
    logger.info("compared the arms", extra=response)
    if not after_failure:
        put_verdicts(resources.store.trials.verdicts(run_id))
    return response
