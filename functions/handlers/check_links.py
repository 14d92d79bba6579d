"""Check links: find the pairs that the warm-up could not measure."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.run.check_links import check_links
from rackrate_contract.document import Document, Json


@entry_point("checked the links")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return check_links(event["run_id"], resources)
