"""Deploy: create the run's owner and its servers."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.run.deploy import deploy
from rackrate_contract.document import Document, Json


@entry_point("created the owner and the servers")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return deploy(event["run_id"], resources)
