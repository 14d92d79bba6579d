"""Launch: start the client pods of one item of the schedule."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.plan.items import item_from_json
from rackrate.stages.run.launch import launch
from rackrate_contract.document import Document, Json


@entry_point("launched client pods", "ready", "access_lost", "pods", "attempt", "wait_seconds")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return launch(event["run_id"], item_from_json(event["item"]), resources)
