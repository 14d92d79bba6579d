"""Run on create: the custom resource that runs the benchmark while the stack is created."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger
from rackrate import aws
from rackrate.errors import translated
from rackrate.executions.store import Store
from rackrate.stack.custom_resource import serve
from rackrate.stages.stack.run_on_create import (
    Runner,
    answer_ended,
    answer_unreported,
    serve_request,
)


def _runner() -> Runner:
    return Runner(
        state_machine_arn=os.environ["STATE_MACHINE_ARN"],
        store=Store(os.environ["TABLE_NAME"], os.environ["BUCKET_NAME"]),
        states=aws.session().client("stepfunctions"),
    )


@logger.inject_lambda_context(correlation_id_path="RequestId")
@translated()
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any] | None:
    """The Lambda entry point: CloudFormation's request, the end of an execution, or a schedule."""
    if event.get("source") == "aws.states":
        return answer_ended(event["detail"], _runner())
    if event.get("detail-type") == "Scheduled Event":
        return answer_unreported(_runner())
    serve(event, context, lambda request: serve_request(request, _runner()))
    return None
