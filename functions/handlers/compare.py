"""Compare: compute the verdicts between two finished runs."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.stages.run.compare import compare
from rackrate_contract.document import Document, Json


@entry_point("compared two runs", "comparison_key", of="comparison_id")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    return compare(
        event["input"],
        resources,
        comparison_id=event["comparison_id"],
        execution_arn=event["execution_arn"],
    )
