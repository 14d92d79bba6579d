"""Bootstrap: the custom resource that prepares the cluster."""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger
from rackrate.measure.cluster import Cluster
from rackrate.stack.custom_resource import serve
from rackrate.stages.bootstrap import serve_request

#: The part of the function's time that is reserved for the answer.
_RESERVE_SECONDS = 30


def _connect() -> Cluster | None:
    name = os.environ["CLUSTER_NAME"]
    try:
        boto3.client("eks").describe_cluster(name=name)
    except boto3.client("eks").exceptions.ResourceNotFoundException:
        return None
    return Cluster(name)


@logger.inject_lambda_context(correlation_id_path="RequestId")
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """The Lambda entry point."""
    seconds = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
    serve(event, context, lambda request: serve_request(request, _connect, seconds))
