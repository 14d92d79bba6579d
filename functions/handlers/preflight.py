"""Preflight: the custom resource that checks the parameters before the stack creates anything."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, resources
from rackrate import aws
from rackrate.stack.custom_resource import serve
from rackrate.stack.patience import Patience
from rackrate.stages.preflight import serve_request


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
            cloudformation=aws.session().client("cloudformation"),
            patience=Patience(),
        ),
    )
