"""Campaigns with all that a page can show: draws of several answers, a sweep, and a pool."""

from __future__ import annotations

from typing import Any

from rackrate_contract.campaign import (
    Answer,
    CampaignFacts,
    CampaignResults,
    CampaignStopped,
    DrawRatio,
    Hunt,
    HuntedDraw,
    SinceEarlierHunt,
    Step,
    SweepCell,
)
from rackrate_contract.capacity import Capacity, Launch
from rackrate_contract.verdicts import Difference

CAMPAIGN_ID = "camp-20261121-160000-1f2e"
NODES = {"treatment": ("node-1", "node-2"), "baseline": ("node-3", "node-4")}


def run_id(number: int) -> str:
    """The id of a step's run."""
    return f"{CAMPAIGN_ID}-{number:02d}"


def started_at(number: int) -> str:
    """When a step's run started."""
    return f"2026-11-21T16:{5 * number:02d}:00Z"


def draw(number: int, ratio: float, **changes: Any) -> DrawRatio:
    """The ratio of a draw, with the narrow interval of its own run."""
    fields = {
        "run_id": run_id(number),
        "ratio": ratio,
        "ci95": (ratio * 0.99, ratio * 1.01),
        "arm_median": 4.95e9 * ratio,
        "baseline_median": 4.95e9,
        "started_at": started_at(number),
    }
    return DrawRatio(**{**fields, **changes})


RATIOS = (1.94, 1.72, 1.99, 1.88, 1.61, 1.97)


def answer(**changes: Any) -> Answer:
    """An answer: better, with every field known."""
    fields = {
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "arm": "treatment",
        "baseline": "baseline",
        "draws": tuple(draw(n, ratio) for n, ratio in enumerate(RATIOS, 1)),
        "left_out": 1,
        "arm_median": 9.43e9,
        "baseline_median": 4.95e9,
        "ratio": 1.846,
        "ci95": (1.69, 2.02),
        "ci_simultaneous": (1.66, 2.06),
        "confidence_simultaneous": 0.975,
        "prediction95": (1.47, 2.32),
        "variability": 0.083,
        "variability_at_most": 0.204,
        "verdict": "better",
        "reason": None,
        "scope": "the placement group",
        "claim": "about the placement group: it rests on 6 draws",
        "more_draws": None,
        "prospect": None,
        "threshold": 0.05,
        "changed": None,
    }
    return Answer(**{**fields, **changes})


def open_answer(**changes: Any) -> Answer:
    """An inconclusive answer on a round-trip time."""
    fields = {
        "test": "rtt",
        "metric": "rtt",
        "unit": "s",
        "better": "lower",
        "draws": tuple(draw(n, 1 / ratio**n) for n, ratio in enumerate(RATIOS[:3], 1)),
        "left_out": 0,
        "arm_median": 120e-6,
        "baseline_median": 310e-6,
        "ratio": 0.31,
        "ci95": (0.05, 1.9),
        "ci_simultaneous": (0.03, 2.8),
        "prediction95": (0.004, 24.0),
        "variability": 0.72,
        "variability_at_most": 4.49,
        "verdict": "inconclusive",
        "reason": "3 draws are too few",
        "scope": "these draws",
        "claim": "about these draws: it rests on 3 draws",
        "more_draws": 1,
        "prospect": 0.4,
        "changed": True,
    }
    return answer(**{**fields, **changes})


def step(number: int, **changes: Any) -> Step:
    """A step that made a draw."""
    fields = {
        "number": number,
        "change": "new nodes",
        "value": None,
        "run_id": run_id(number),
        "status": "succeeded",
        "started_at": started_at(number),
        "change_seconds": 95.0,
        "run_seconds": 310.0,
        "dollars": 0.21,
        "nodes": NODES,
    }
    return Step(**{**fields, **changes})


def launch(arm: str = "treatment", **changes: Any) -> Launch:
    """A launch of two nodes that was filled."""
    got = changes.get("got", 2)
    fields = {
        "arm": arm,
        "placement": {"treatment": "cluster"}.get(arm, "none"),
        "asked": 2,
        "got": 2,
        "began_at": started_at(1),
        "first_seconds": 31.0 if got else None,
        "last_seconds": 48.0 if changes.get("outcome", "filled") == "filled" else None,
        "outcome": "filled",
        "reasons": (),
        "instance_type": "c5.large",
        "zone": "us-east-1a",
    }
    return Launch(**{**fields, **changes})


def capacity(arm: str = "treatment", **changes: Any) -> Capacity:
    """An arm whose nodes came in six of seven draws."""
    filled = changes.get("filled", 6)
    fields = {
        "arm": arm,
        "arm_title": {"treatment": "cluster group"}.get(arm, "no group"),
        "placement": {"treatment": "cluster"}.get(arm, "none"),
        "value": None,
        "launches": 7,
        "filled": filled,
        "share": filled / 7,
        "ci95": (0.42, 0.996),
        "median_seconds": 48.0,
        "failed": 0,
        "reasons": ("node group ng-1: InsufficientInstanceCapacity: no c5.large in us-east-1a",),
    }
    return Capacity(**{**fields, **changes})


FACTS = {
    "id": CAMPAIGN_ID,
    "kind": "draws",
    "status": "degraded",
    "started_at": "2026-11-21T16:00:00Z",
    "seconds": 3290.0,
    "execution_arn": "arn:aws:states:us-east-1:123456789012:execution:campaign:" + CAMPAIGN_ID,
    "lab_scale": 0.1,
    "budget_dollars": 5.0,
    "dollars": 1.47,
    "series": "nightly",
    "continues": "camp-20261120-160000-aaaa",
    "error": None,
    "cause": None,
}
STOPPED = CampaignStopped(
    after=7, most=12, why="settled", text="Stopped after 7 of at most 12 draws: all is settled."
)
LOST: dict[str, Any] = {
    "status": "lost",
    "started_at": None,
    "run_seconds": None,
    "dollars": None,
    "nodes": {},
    "reason": "the node group has no capacity: InsufficientInstanceCapacity",
}


def facts(**changes: Any) -> CampaignFacts:
    """The facts of a campaign of draws in the lab."""
    return CampaignFacts(**{**FACTS, **changes})


def campaign(**changes: Any) -> CampaignResults:
    """A campaign of draws with two answers, one lost step, and a warning."""
    fields = {
        "campaign": facts(),
        "conclusion": "For the placement group, from 6 draws: tcp-1 throughput is better.",
        "method": "Each draw gives one logarithm of a ratio.",
        "plan": {"tests": ["tcp-1", "rtt"], "blocks": 6},
        "stopped": STOPPED,
        "steps": (*(step(n) for n in range(1, 7)), step(7, **LOST)),
        "placements": {"treatment": "cluster", "baseline": "none"},
        "answers": (answer(), open_answer()),
        "capacity": (capacity(), capacity("baseline", filled=7, ci95=(0.59, 1.0), reasons=())),
        "sweep": (),
        "differences": (),
        "warnings": ("1 step was lost.",),
    }
    return CampaignResults(**{**fields, **changes})


def hunted(number: int, microseconds: int, **changes: Any) -> HuntedDraw:
    """A placement that a hunt measured."""
    value = microseconds / 1e6
    fields = {
        "run_id": run_id(number),
        "nodes": {f"node-{number}a": "i-1", f"node-{number}b": None},
        "value": value,
        "ci95": (value * 0.98, value * 1.02),
    }
    return HuntedDraw(**{**fields, **changes})


def hunt(**changes: Any) -> CampaignResults:
    """A hunt with every field known, which goes on from an earlier one."""
    fields = {
        "test": "rtt",
        "metric": "rtt",
        "unit": "s",
        "better": "lower",
        "arm": "treatment",
        "arm_title": "cluster group",
        "endpoint": None,
        "target": 90e-6,
        "best_share": None,
        "dollars_per_percent": None,
        "draws": (hunted(1, 100), hunted(2, 120, ci95=None), hunted(3, 87)),
        "met": True,
        "rank": 1,
        "better_than": 0.79,
        "better_than_ci95": (0.29, 0.99),
        "chance": 0.2,
        "gain": 0.0,
        "dollars_per_draw": 0.12,
        "since": SinceEarlierHunt(campaign="camp-before", gone=(), ratio=1.01, ci95=(0.99, 1.03)),
    }
    found = Hunt(**{**fields, **changes})
    return campaign(
        campaign=facts(kind="hunt"),
        conclusion="In the cluster placement group, rtt is 87.0 µs. Kept, with the label: node-3a.",
        answers=(),
        stopped=CampaignStopped(after=3, most=5, why="found", text="Stopped after 3 of 5 steps."),
        steps=tuple(step(n) for n in range(1, 4)),
        hunt=found,
    )


def swept(value: str | int, arm: str, **changes: Any) -> SweepCell:
    """An arm's values at one step of a sweep over nodes."""
    fields = {
        "value": value,
        "arm": arm,
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "runs": 2,
        "mean": 9.4e9,
        "share_of_nominal": 0.94,
        "ratio": None,
        "ci95": None,
        "verdict": None,
        "reason": None,
        "total": 141e9,
    }
    return SweepCell(**{**fields, **changes})


def sweep(**changes: Any) -> CampaignResults:
    """A sweep over numbers of nodes, the last with too little for a verdict."""
    against = {"ratio": 0.98, "ci95": (0.95, 1.01), "verdict": "no meaningful difference"}
    unsure = {"ratio": 0.9, "verdict": "inconclusive", "reason": "there is one run per value"}
    cells = (
        *(swept(15, arm) for arm in NODES),
        *(swept(60, arm, **against, mean=9.21e9, total=552e9) for arm in NODES),
        *(swept(150, arm, **unsure, mean=8.46e9, total=None, runs=1) for arm in NODES),
    )
    steps = tuple(
        step(n, change=f"{value} nodes", value=value, run_id=run_id(n))
        for n, value in enumerate((15, 15, 60, 60, 150), 1)
    )
    fields = {
        "campaign": facts(
            kind="sweep", status="succeeded", swept="nodes", series=None, continues=None
        ),
        "answers": (),
        "sweep": cells,
        "steps": steps,
        "stopped": None,
        "warnings": (),
    }
    return campaign(**{**fields, **changes})


def pool(**changes: Any) -> CampaignResults:
    """Runs of two stacks that were made before."""
    fields = {
        "campaign": facts(
            kind="pool", status="succeeded", budget_dollars=None, dollars=None, series=None
        ),
        "steps": (*(step(n) for n in range(1, 5)), step(5, source="the stack other"), step(6)),
        "differences": (Difference(what="kernel", run="6.12.0", other="varying: 6.1.0, 6.2.0"),),
        "stopped": None,
    }
    return campaign(**{**fields, **changes})
