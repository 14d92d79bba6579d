"""Look: decide after a batch of blocks whether the run has measured enough."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.run.look import look
from rackrate_contract.document import Document, Json


@entry_point("looked at the verdicts")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return look(event["run_id"], resources, batch=event["batch"])
