"""Count: read the nodes' network counters before and after the trials."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.run.count import count
from rackrate_contract.document import Document, Json


@entry_point("read the nodes' counters")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return count(event["run_id"], event["when"], resources)
