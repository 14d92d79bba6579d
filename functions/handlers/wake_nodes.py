"""Wake nodes: scale up the node groups of a stack that idles at zero nodes, and check for Ready."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.execution.wake_nodes import wake_nodes
from rackrate.stages.stack.run_on_create import patience_of
from rackrate_contract.document import Document, Json


@entry_point("asked for nodes")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    plan, run_id, execution_arn = event["plan"], event["run_id"], event["execution_arn"]
    return patience_of(run_id).ask(
        lambda: wake_nodes(plan, resources, run_id=run_id, execution_arn=execution_arn)
    )
