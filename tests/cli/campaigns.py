"""A campaign.json and a plan.json as the stack writes them."""

from __future__ import annotations

import json
from typing import Any

from rackrate_contract.campaign import CampaignResults

CAMPAIGN = "campaign-20261121-160000-1f2e"


def run_of(number: int) -> str:
    """The id of a step's run."""
    return f"{CAMPAIGN}-{number:02d}"


def answer(**fields: Any) -> dict[str, Any]:
    """One answer of campaign.json."""
    return {
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "arm": "treatment",
        "baseline": "baseline",
        "draws": [
            {
                "run_id": run_of(number),
                "ratio": ratio,
                "ci95": [0.99 * ratio, 1.01 * ratio],
                "arm_median": 4.95e9 * ratio,
                "baseline_median": 4.95e9,
            }
            for number, ratio in enumerate((1.94, 1.72, 1.99, 1.88), 1)
        ],
        "left_out": 0,
        "arm_median": 9.43e9,
        "baseline_median": 4.95e9,
        "ratio": 1.88,
        "ci95": [1.69, 2.02],
        "ci_simultaneous": [1.66, 2.06],
        "confidence_simultaneous": 0.975,
        "prediction95": [1.47, 2.32],
        "variability": 0.063,
        "verdict": "better",
        "reason": None,
        "scope": "the placement group",
        "claim": "about the placement group: it rests on 4 draws",
        "more_draws": None,
        "prospect": None,
        "threshold": 0.05,
        "changed": None,
        **fields,
    }


def latency(**fields: Any) -> dict[str, Any]:
    """An answer that is inconclusive."""
    return answer(
        **{
            "test": "rtt",
            "metric": "rtt",
            "unit": "s",
            "better": "lower",
            "ratio": 0.31,
            "ci95": [0.03, 2.8],
            "ci_simultaneous": [0.02, 3.9],
            "prediction95": [0.004, 24.0],
            "verdict": "inconclusive",
            "reason": "the draws differ too much",
            "more_draws": 3,
            **fields,
        }
    )


def step(number: int, **fields: Any) -> dict[str, Any]:
    """One step of campaign.json."""
    return {
        "number": number,
        "change": "new nodes",
        "value": None,
        "run_id": run_of(number),
        "status": "succeeded",
        "started_at": "2026-11-21T16:05:00Z",
        "change_seconds": 95.0,
        "run_seconds": 310.0,
        "dollars": 0.21,
        "nodes": {"treatment": ["a", "b"], "baseline": ["c", "d"]},
        "source": None,
        "reason": None,
        **fields,
    }


def cell(value: str | int, **fields: Any) -> dict[str, Any]:
    """One cell of a sweep."""
    return {
        "value": value,
        "arm": "treatment",
        "test": "tcp-32",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "runs": 2,
        "mean": 24.1e9,
        "share_of_nominal": 0.482,
        "ratio": 1.21,
        "ci95": [1.18, 1.24],
        "verdict": "better",
        "reason": None,
        "total": None,
        **fields,
    }


def campaign(facts: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A campaign.json; `facts` are fields of `campaign` in it."""
    document = {
        "schema": "rackrate.campaign.v1",
        "campaign": {
            "id": CAMPAIGN,
            "kind": "draws",
            "status": "succeeded",
            "started_at": "2026-11-21T16:00:00Z",
            "seconds": 1630.0,
            "execution_arn": "arn:aws:states:us-east-1:123456789012:execution:campaigns:c",
            "lab_scale": None,
            "budget_dollars": 5.0,
            "dollars": 0.84,
            "series": None,
            "continues": None,
            "error": None,
            "cause": None,
            **(facts or {}),
        },
        "conclusion": "The placement group makes tcp-1 88 % faster on average.",
        "method": "Geometric means of the draws' ratios.",
        "plan": {},
        "stopped": {"after": 4, "most": 12, "why": "settled", "text": "Stopped after 4 of 12."},
        "steps": [step(number) for number in range(1, 5)],
        "answers": [answer(), latency()],
        "sweep": [],
        "differences": [],
        "warnings": [],
        **fields,
    }
    text = json.dumps(document)
    # What the command reads is what the stack writes.
    CampaignResults.model_validate_json(text)
    return text.encode()


def filled(arm: str, title: str, number: int, of: int = 4, **fields: Any) -> dict[str, Any]:
    """How often an arm's nodes came."""
    return {
        "arm": arm,
        "arm_title": title,
        "placement": title.partition(" ")[0],
        "value": None,
        "launches": of,
        "filled": number,
        "share": number / of,
        "ci95": [0.19, 0.99] if number < of else [0.4, 1.0],
        "median_seconds": 48.0,
        "failed": 0,
        "reasons": [],
        **fields,
    }


def planned(**estimate: Any) -> bytes:
    """A campaign's plan.json."""
    needed = {2.0: (2, 3, 3), 1.3: (3, 3, 4), 1.1: (4, 11, 39), 1.0: (4, 14, None)}
    return json.dumps(
        {
            "campaign_id": CAMPAIGN,
            "warnings": [],
            "estimate": {
                "steps": {"least": 4, "most": 12},
                "seconds": {"least": 3120.0, "most": 10800.0},
                "usd": {"least": 0.84, "most": 2.52},
                "power": [
                    {"ratio": ratio, "variability": variability, "draws": draws}
                    for ratio, numbers in needed.items()
                    for variability, draws in zip((0.02, 0.05, 0.1), numbers, strict=True)
                ],
                "guards_that_would_trip": [],
                "assumptions": [],
                **estimate,
            },
        }
    ).encode()
