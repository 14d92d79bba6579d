"""Teardown: clean up after a run, after a stopped execution, or after all that were stopped."""

from __future__ import annotations

from typing import Any

import boto3
from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, count, count_ends, logger, settings, store
from rackrate.stages.cleaning import sweep, tear_down, tear_down_stopped


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    shared: dict[str, Any] = {"settings": settings(), "cluster": cluster()}
    match event:
        case {"run_id": str(run_id)}:  # the state machine
            done: dict[str, Any] = {"gone": tear_down(run_id, **shared)}
        case {"source": "aws.states", "detail": dict(detail)}:
            eks = boto3.client("eks")
            done = tear_down_stopped(detail, store=store(), eks=eks, **shared)
        case {"detail-type": "Scheduled Event"}:
            states, eks = boto3.client("stepfunctions"), boto3.client("eks")
            done = sweep(store=store(), states=states, eks=eks, **shared)
            count(OverdueRuns=len(done["overdue"]))
        case _:
            raise ValueError(
                f"neither a run, nor a stopped execution, nor a schedule: {sorted(event)}"
            )
    logger.info("cleaned up", extra=done)
    count_ends(done.get("ended", []))
    return done
