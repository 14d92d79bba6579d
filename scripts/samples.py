"""The sample pages of the site, made from results that a lab recorded; and their recording.

Usage, in a shell that points at a lab: PYTHONPATH=functions python -m scripts.samples RUN CAMPAIGN

This writes what the pages need of a run and of a campaign into tests/docs/data.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rackrate.measure.trials import RawValues, Trial
from rackrate.report.campaign_page import render_campaign
from rackrate.report.page import render_page
from rackrate_contract.campaign import CampaignResults
from rackrate_contract.document import Document
from rackrate_contract.results import Results

DATA = Path(__file__).resolve().parents[1] / "tests" / "docs" / "data"
RUN, CAMPAIGN = DATA / "sample.run.json", DATA / "sample.campaign.json"
#: A link to a file beside the page in the bucket, which the site does not have.
_LINK = re.compile(r'<a href="(?!#|https://)[^"]*"[^>]*>(.*?)</a>')


@cache
def pages() -> Mapping[str, str]:
    """The sample pages as HTML, by their files in the site."""
    run = json.loads(RUN.read_text("utf-8"))
    shown = render_page(
        Results.from_json(run["results"]),
        [Trial.from_json(trial) for trial in run["trials"]],
        {key: RawValues.from_json(values) for key, values in run["raw"].items()},
    )
    campaign = CampaignResults.from_json(CAMPAIGN.read_bytes())
    return {
        "samples/run.html": _LINK.sub(r"\1", shown),
        "samples/campaign.html": _LINK.sub(r"\1", render_campaign(campaign)),
    }


def record(run_id: str, campaign_id: str) -> None:
    """Write the data of the samples from the stack that the environment points at."""
    import boto3

    from rackrate.executions.store import Store

    (stack,) = (
        stack
        for stack in boto3.client("cloudformation").describe_stacks()["Stacks"]
        if any(output["OutputKey"] == "TableName" for output in stack.get("Outputs", ()))
        and "ParentId" not in stack
    )
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    store = Store(outputs["TableName"], outputs["BucketName"])
    trials = [trial for _, trial in sorted(store.trials.of(run_id).items())]
    _write(
        RUN,
        {
            "results": store.runs.read(run_id, "results.json", Results).to_json(),
            "trials": [_short(trial) for trial in trials],
            "raw": {
                key: _short(raw) for key, raw in sorted(store.trials.raw_values(trials).items())
            },
        },
    )
    campaign = store.campaigns.find_document(campaign_id, "campaign.json", CampaignResults)
    if campaign is None:
        raise LookupError(f"there is no campaign {campaign_id}")
    _write(CAMPAIGN, campaign.to_json())


def _short(document: Document) -> Any:
    """The document as JSON, without the fields that have their defaults."""
    return document.model_dump(mode="json", exclude_defaults=True)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n", "utf-8")
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    record(*sys.argv[1:])
