"""Collect: wait for an item's client pods and store their trials, or give the item up."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import cluster, count, logger, settings, store
from rackrate.stages.measuring import collect, give_up

#: What is left of the function's time for reading and storing, once watching ends.
_RESERVE_SECONDS = 60


@logger.inject_lambda_context(correlation_id_path="run_id")
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """The Lambda entry point."""
    shared: dict[str, Any] = {"settings": settings(), "store": store()}
    if "failure" in event:
        found = give_up(event["run_id"], event["item"], event["failure"], connect=cluster, **shared)
    else:
        found = collect(
            event["run_id"],
            event["item"],
            attempt=event["attempt"],
            deadline=event["deadline"],
            watch_seconds=context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS,
            cluster=cluster(),
            **shared,
        )
    logger.info("collected trials", extra=found)
    if found["finished"] and not found["warm_up"]:
        count(TrialsMeasured=found["measured"], TrialsFailed=found["failed"])
    return found
