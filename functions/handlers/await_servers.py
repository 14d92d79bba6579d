"""Await servers: report whether every node has a listening server."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.run.await_servers import await_servers
from rackrate_contract.document import Document, Json


@entry_point("looked at the servers")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return await_servers(event["run_id"], resources)
