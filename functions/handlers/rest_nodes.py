"""Rest nodes: scale the node groups to zero after a run, unless another run needs the nodes."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.execution.rest_nodes import rest_nodes
from rackrate_contract.document import Document, Json


@entry_point("put nodes to rest")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return rest_nodes(event["run_id"], resources)
