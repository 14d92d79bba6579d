"""Teardown: clean up after a run, after a stopped execution, or after all that were stopped."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, logger, settings, store
from rackrate.stages.cleaning import sweep, tear_down, tear_down_stopped


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    match event:
        case {"run_id": str(run_id)}:  # the state machine
            return {"gone": tear_down(run_id, settings=settings(), cluster=cluster())}
        case {"source": "aws.states", "detail": dict(detail)}:
            return tear_down_stopped(detail, settings=settings(), cluster=cluster(), store=store())
        case {"detail-type": "Scheduled Event"}:
            return sweep(
                settings=settings(),
                cluster=cluster(),
                store=store(),
                states=boto3.client("stepfunctions"),
            )
    raise ValueError(f"neither a run, nor a stopped execution, nor a schedule: {sorted(event)}")
