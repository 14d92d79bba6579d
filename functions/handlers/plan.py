"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

import os
from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, logger, settings, store
from rackrate import pricing
from rackrate.stages.planning import plan_run


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    region = os.environ["AWS_REGION"]
    planned = plan_run(
        event["plan"],
        run_id=event["run_id"],
        execution_arn=event["execution_arn"],
        settings=settings(),
        cluster=cluster(),
        store=store(),
        eks=boto3.client("eks"),
        ec2=boto3.client("ec2"),
        pricing=pricing.client(boto3, region),
        region=region,
    )
    told = {name: planned[name] for name in ("blocks", "trials", "expected_seconds", "dry_run")}
    logger.info("planned the run", extra=told)
    return planned
