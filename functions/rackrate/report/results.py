"""results.json (`rackrate.result.v1`, see docs/results.md) and trials.csv. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rackrate import conclusion
from rackrate.store import seconds_between

Json = dict[str, Any]

SCHEMA = "rackrate.result.v1"

_VERDICT_FIELDS = (
    *("test", "metric", "unit", "better", "arm", "baseline", "arm_median", "baseline_median"),
    *("ratio", "ci95", "verdict", "reason", "blocks", "threshold", "ceiling"),
)

_COLUMNS = (
    *("block", "round", "attempt", "status", "arm", "placement", "test", "tool", "metric"),
    *("value", "unit", "reason", "started_at", "finished_at", "client", "server"),
)
#: Details of trials that are worth a column; their names carry their units.
_DETAILS = (
    *("seconds", "sent_bits_per_second", "received_bytes", "retransmits"),
    *("transmitted", "received", "min_seconds", "mean_seconds", "max_seconds"),
)
_NODE_FACTS = ("instance_type", "instance_id", "zone", "kernel")


def build_results(
    *,
    run: Mapping[str, Any],
    failure: Mapping[str, Any] | None,
    stored_plan: Mapping[str, Any],
    trials: Sequence[Mapping[str, Any]],
    verdicts: Sequence[Mapping[str, Any]],
    written_at: str,
) -> Json:
    """The whole of results.json.

    Args:
        run: the run's item, with the status it will end with.
        failure: Step Functions' `Error` and `Cause`, or None.
        stored_plan: plan.json.
        trials: the stored trials.
        verdicts: the stored verdicts.
        written_at: ISO 8601.
    """
    arms = stored_plan["arms"]
    return {
        "schema": SCHEMA,
        "run": {
            "id": run["run_id"],
            "status": run["status"],
            "started_at": run["started_at"],
            "seconds": seconds_between(run["started_at"], written_at),
            "lab_scale": run.get("lab_scale"),
            "seed": stored_plan["plan"]["seed"],
            "execution_arn": stored_plan["execution_arn"],
            "error": (failure or {}).get("Error"),
            "cause": (failure or {}).get("Cause"),
        },
        "conclusion": conclusion.sentence(verdicts),
        "plan": stored_plan["plan"],
        "arms": [
            {
                "name": arm["name"],
                "placement": arm["placement"],
                "baseline": arm["name"] == stored_plan["plan"]["baseline"],
                "node_group": arm["node_group"],
                "ena_express": arm.get("ena_express", False),
                "nodes": [node["name"] for node in arm["nodes"]],
                "node_facts": arm["nodes"],
                "network": {**arm["network"], "scale": arm["network_scale"]},
            }
            for arm in arms
        ],
        "trials": {
            "planned": run["trials_planned"],
            "measured": run["trials_measured"],
            "failed": run["trials_failed"],
            "failures": [
                {
                    **{name: trial[name] for name in ("block", "test", "client", "server")},
                    "attempt": trial["attempt"],
                    "reason": trial["reason"],
                }
                for trial in trials
                if trial["status"] == "failed"
            ],
        },
        "verdicts": [{name: verdict.get(name) for name in _VERDICT_FIELDS} for verdict in verdicts],
        "versions": {
            "kubernetes": stored_plan["kubernetes_version"],
            "image": stored_plan["image"],
            "tools": sorted({t["tool_version"] for t in trials if t.get("tool_version")}),
            "kernels": _distinct(arms, "kernel"),
            "machine_images": _distinct(arms, "image"),
            "container_runtimes": _distinct(arms, "container_runtime"),
            "kubelets": _distinct(arms, "kubernetes"),
        },
    }


def _distinct(arms: Sequence[Mapping[str, Any]], fact: str) -> list[str]:
    return sorted({node[fact] for arm in arms for node in arm["nodes"] if node.get(fact)})


def trials_csv(trials: Sequence[Mapping[str, Any]]) -> str:
    """One line for each trial; `value` is in the unit of column `unit`, empty when it failed."""
    buffer = io.StringIO()
    nodes = [f"{side}_{fact}" for side in ("client", "server") for fact in _NODE_FACTS]
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*_COLUMNS, *_DETAILS, *nodes])
    for trial in trials:
        details = trial.get("details", {})
        facts = [
            trial.get(f"{side}_node", {}).get(fact, "")
            for side in ("client", "server")
            for fact in _NODE_FACTS
        ]
        writer.writerow(
            [
                *(trial.get(column, "") for column in _COLUMNS),
                *(details.get(detail, "") for detail in _DETAILS),
                *facts,
            ]
        )
    return buffer.getvalue()
