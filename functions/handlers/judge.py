"""Judge: record a step's outcome, compute the answers so far, and name the next step or none."""

from __future__ import annotations

from handlers.context import entry_point, resources
from rackrate.results.build import RunFailure
from rackrate.stages.campaign.judge import judge
from rackrate_contract.document import Document, Json


@entry_point("judged the steps so far", "enough", "run_id", of="campaign_id")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    step = event["state"].get("step", {})
    failure = RunFailure.read(step.get("failure"))
    return judge(event["campaign_id"], resources, failure=failure, failed=step.get("number"))
