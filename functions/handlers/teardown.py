"""Teardown: clean up after a run, after stopped executions, or before the stack is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_ends, put_metrics, resources
from rackrate.errors import translated
from rackrate.stack.custom_resource import Answer, serve
from rackrate.stages.run.teardown import stop_all, sweep, teardown_of_execution, teardown_stopped
from rackrate_contract.document import Json


def _serve_request(request: Mapping[str, Any]) -> Answer:
    """Stop what runs when the stack is deleted; do nothing when it is created or updated."""
    if request["RequestType"] == "Delete":
        put_ends(stop_all("run", resources))
    return Answer("runs")


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    match event:
        case {"RequestType": str()}:  # CloudFormation
            serve(event, context, _serve_request)
            return {}
        case {"run_id": str(run_id)}:  # the state machine
            done = teardown_of_execution(run_id, resources)
        case {"source": "aws.states", "detail": dict(detail)}:
            done = teardown_stopped(detail, resources)
        case {"detail-type": "Scheduled Event"}:
            done = sweep(resources)
            put_metrics(OverdueRuns=len(done.overdue))
        case _:
            raise ValueError(
                f"neither a run, nor a stopped execution, nor a schedule: {sorted(event)}"
            )
    response = done.to_json()
    logger.info("cleaned up", extra=response)
    put_ends(done.ended)
    return response
