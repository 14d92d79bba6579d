"""Take lease: reserve the nodes of the plan's arms, or wait for the run that has them."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.execution.take_lease import take_campaign_lease, take_lease
from rackrate_contract.document import Document, Json


@entry_point("asked for the nodes")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    if "campaign_id" in event:
        return take_campaign_lease(event["campaign_id"], resources)
    return take_lease(event["run_id"], resources)
