"""Report: write the results and the page."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.results.build import RunFailure
from rackrate.stages.run.report import report
from rackrate_contract.document import Document, Json


@entry_point("wrote the report")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    failure = RunFailure.read(event.get("failure"))
    return report(event["run_id"], resources, failure=failure)
