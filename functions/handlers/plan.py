"""Plan: check the input, find the nodes, write the schedule, record the run."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.run.plan import plan
from rackrate.stages.stack.run_on_create import patience_of
from rackrate_contract.document import Document, Json


@entry_point("planned the run", "blocks", "trials", "expected_seconds", "dry_run")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    requested, run_id, execution_arn = event["plan"], event["run_id"], event["execution_arn"]
    return patience_of(run_id).ask(
        lambda: plan(requested, resources, run_id=run_id, execution_arn=execution_arn)
    )
