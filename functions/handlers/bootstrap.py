"""Bootstrap: the custom resource that prepares the cluster; it always answers CloudFormation."""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger
from rackrate.cluster import Cluster
from rackrate.stages.bootstrapping import respond, serve_request

#: What is left of the function's time for the answer.
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
    data, error = None, None
    try:
        seconds = context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
        data = serve_request(event, _connect, seconds)
    except Exception as failure:
        # Without an answer CloudFormation would wait for an hour.
        logger.exception("the request could not be met")
        error = f"{type(failure).__name__}: {failure}"
    respond(event, data=data, error=error)
