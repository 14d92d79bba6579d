"""Collect: wait for an item's client pods and store their trials, or write them down as failed."""

from __future__ import annotations

from aws_lambda_powertools.utilities.typing import LambdaContext

from handlers.context import logger, put_metrics, resources
from rackrate.errors import translated
from rackrate.plan.items import BlockItem, block_items, item_from_json
from rackrate.results.build import RunFailure
from rackrate.stages.run.collect import READ_SECONDS, collect, give_up
from rackrate_contract.document import Json

#: The part of the function's time that is reserved for reading and storing after the watch: for the
#: start of readings, for twice the longest of them, and for several times what it takes to store
#: the most trials of an item.
_RESERVE_SECONDS = READ_SECONDS + 120


@logger.inject_lambda_context(correlation_id_path="run_id")
@translated()
def handler(event: Json, context: LambdaContext) -> Json:
    """The Lambda entry point."""
    run_id = event["run_id"]
    if (failure := RunFailure.read(event.get("failure"))) is not None:
        collected = give_up(run_id, item_from_json(event["item"]), failure, resources)
    else:
        collected = collect(
            run_id,
            [BlockItem.from_json(each) for each in event["repeated"] or ()]
            or block_items([item_from_json(event["item"])]),
            resources,
            attempt=event["attempt"],
            deadline=event["deadline"],
            watch_seconds=max(
                0.0, context.get_remaining_time_in_millis() / 1000 - _RESERVE_SECONDS
            ),
        )
    response = collected.to_json()
    logger.info("collected trials", extra=response)
    if collected.finished and not collected.warm_up:
        put_metrics(TrialsMeasured=collected.measured, TrialsFailed=collected.failed)
    return response
