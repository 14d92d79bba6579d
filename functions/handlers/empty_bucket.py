"""Empty bucket: the custom resource that empties a bucket when the stack is deleted."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger
from rackrate import aws
from rackrate.stack.custom_resource import serve
from rackrate.stages.stack.empty_bucket import serve_request

#: The part of the function's time that is reserved for the last deletion and the answer.
_RESERVE_SECONDS = 40


@logger.inject_lambda_context(correlation_id_path="RequestId")
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """The Lambda entry point."""
    seconds = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
    serve(
        event,
        context,
        lambda request: serve_request(request, aws.session().client("s3"), seconds=seconds),
    )
