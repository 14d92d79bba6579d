"""Teardown: clean up after a run, after one stopped execution, or after all stopped executions."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_ends, put_metrics, resources
from rackrate.document import Json
from rackrate.stages.teardown import sweep, teardown, teardown_stopped


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    match event:
        case {"run_id": str(run_id)}:  # the state machine
            done = teardown(run_id, resources)
        case {"source": "aws.states", "detail": dict(detail)}:
            done = teardown_stopped(detail, resources)
        case {"detail-type": "Scheduled Event"}:
            done = sweep(resources)
            put_metrics(OverdueRuns=len(done.overdue))
        case _:
            raise ValueError(
                f"neither a run, nor a stopped execution, nor a schedule: {sorted(event)}"
            )
    answer = done.to_json()
    logger.info("cleaned up", extra=answer)
    put_ends(done.ended)
    return answer
