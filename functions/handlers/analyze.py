"""Analyze: compute the verdicts from the stored trials."""

from __future__ import annotations

from handlers.context import entry_point, put_verdicts, resources
from rackrate.stages.run.analyze import analyze
from rackrate_contract.document import Document, Json


@entry_point("compared the arms")
def handler(event: Json) -> Document:
    """The Lambda entry point."""
    # An execution that an older rackrate started says `after_failure` instead.
    after_failure = event.get("failure") is not None or event.get("after_failure", False)
    analyzed = analyze(event["run_id"], resources, after_failure=after_failure)
    if not after_failure:
        put_verdicts(resources.store.trials.verdicts(event["run_id"]))
    return analyzed
