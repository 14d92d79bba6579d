"""Preflight: the custom resource that checks the parameters before the stack creates anything."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from handlers.context import logger, resources
from rackrate import aws
from rackrate.stack.custom_resource import serve
from rackrate.stack.patience import Patience
from rackrate.stages.stack.preflight import serve_request

# Without the plan the deployment goes on, so a missing route must not cost the function's minute.
_3_SECONDS = Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 1})


@logger.inject_lambda_context(correlation_id_path="RequestId")
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """The Lambda entry point."""
    serve(
        event,
        context,
        lambda request: serve_request(
            request,
            ec2=aws.session().client("ec2"),
            eks=aws.session().client("eks"),
            quotas=resources.quotas,
            free_tier=aws.session().client("freetier", config=_3_SECONDS),
            cloudformation=aws.session().client("cloudformation"),
            patience=Patience(),
        ),
    )
