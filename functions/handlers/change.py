"""Change: make the change of a campaign's step, and wait until it is made."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.campaign.change import change
from rackrate_contract.document import Document, Json


@entry_point("made a change, or went on with it", of="campaign_id")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return change(event["campaign_id"], resources)
