"""results.json (`rackrate.result.v1`, see docs/results.md). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rackrate import conclusion, tools
from rackrate.store import seconds_between

Json = dict[str, Any]
Trial = Mapping[str, Any]

SCHEMA = "rackrate.result.v1"

#: What names a trial, here and in the marks of the analysis.
KEY = ("block", "arm", "test", "client", "server")

_VERDICT_FIELDS = (
    *("test", "metric", "unit", "better", "arm", "baseline", "arm_median", "baseline_median"),
    *("ratio", "ci95", "ci_simultaneous", "confidence_simultaneous", "verdict", "reason"),
    *("blocks", "pairs", "scope", "claim", "more_blocks", "more_pairs", "threshold", "ceiling"),
    *("marks", "steadiness"),
)
_SUMMARY_FIELDS = (
    *("test", "metric", "unit", "arm", "median", "trials", "blocks", "pairs"),
    *("spread_between_blocks", "spread_between_pairs", "percentiles", "loss_ratio", "retransmits"),
)


def build_results(
    *,
    run: Mapping[str, Any],
    failure: Mapping[str, Any] | None,
    stored_plan: Mapping[str, Any],
    trials: Sequence[Trial],
    analysis: Mapping[str, Any],
    counters: Mapping[str, Any] | None = None,
    written_at: str,
) -> Json:
    """The whole of results.json.

    Args:
        run: the run's item, with the status it will end with.
        failure: Step Functions' `Error` and `Cause`, or None.
        stored_plan: plan.json.
        trials: the stored trials, warm-ups among them.
        analysis: analysis.json.
        counters: counters.json, or None when nothing was counted.
        written_at: ISO 8601.
    """
    arms = stored_plan["arms"]
    plan = stored_plan["plan"]
    verdicts = [_chosen(verdict, _VERDICT_FIELDS) for verdict in analysis["verdicts"]]
    regressions = [_chosen(verdict, _VERDICT_FIELDS) for verdict in analysis["regressions"]]
    # Analyses of older stacks did not look.
    differed = analysis.get("regression_differences")
    marks = [dict(mark) for mark in analysis["marks"]]
    measured = run["trials_measured"]
    warnings = [*(run.get("warnings") or []), *analysis["warnings"]]
    return {
        "schema": SCHEMA,
        "run": {
            "id": run["run_id"],
            "status": run["status"],
            "started_at": run["started_at"],
            "seconds": seconds_between(run["started_at"], written_at),
            "lab_scale": run.get("lab_scale"),
            "seed": plan["seed"],
            "execution_arn": stored_plan["execution_arn"],
            "error": (failure or {}).get("Error"),
            "cause": (failure or {}).get("Cause"),
        },
        "conclusion": conclusion.sentence(
            verdicts, regressions, marks=marks, measured=measured, differences=differed
        ),
        "method": analysis.get("method"),
        "plan": plan,
        "estimates": stored_plan["estimates"],
        "metrics": [metric for test in plan["tests"] for metric in _metrics(test)],
        "arms": [_arm(arm, baseline=plan["baseline"]) for arm in arms],
        "trials": {
            "planned": run["trials_planned"],
            "measured": measured,
            "failed": run["trials_failed"],
            "failures": [_failure(trial) for trial in trials if _has_failed(trial)],
        },
        "warm_up": _warm_up([trial for trial in trials if trial.get("warm_up")]),
        "verdicts": verdicts,
        "regressions": regressions,
        "regression_differences": differed,
        "summaries": [_chosen(summary, _SUMMARY_FIELDS) for summary in analysis["summaries"]],
        "marks": marks,
        "mark_notes": conclusion.mark_notes(marks, measured),
        "warnings": list(dict.fromkeys(str(warning) for warning in warnings)),
        "counters": None if counters is None else _differences(counters),
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


def _chosen(values: Mapping[str, Any], names: Sequence[str]) -> Json:
    return {name: values.get(name) for name in names}


def _metrics(test: Mapping[str, Any]) -> list[Json]:
    """What a test measures and how a trial's value comes about."""
    return [
        {
            "test": test["name"],
            "metric": metric.name,
            "unit": metric.unit,
            "better": metric.better,
            "statistic": metric.statistic,
        }
        for metric in tools.load_test(test).metrics
    ]


def _arm(arm: Mapping[str, Any], *, baseline: str) -> Json:
    return {
        "name": arm["name"],
        "placement": arm["placement"],
        "baseline": arm["name"] == baseline,
        # Plans that were stored before there was a choice had neither.
        "stack_arm": arm.get("stack_arm", arm["name"]),
        "client_network": arm.get("client_network", "pod"),
        "server_network": arm.get("server_network", "pod"),
        "node_group": arm["node_group"],
        "ena_express": arm.get("ena_express", False),
        "nodes": [node["name"] for node in arm["nodes"]],
        "node_facts": arm["nodes"],
        "network": {**arm["network"], "scale": arm["network_scale"]},
    }


def _has_failed(trial: Trial) -> bool:
    return trial["status"] == "failed" and not trial.get("warm_up")


def _failure(trial: Trial) -> Json:
    return {**_chosen(trial, KEY), "attempt": trial["attempt"], "reason": trial["reason"]}


def _warm_up(trials: Sequence[Trial]) -> Json:
    """The trials that no verdict uses."""
    return {
        "measured": sum(trial["status"] == "measured" for trial in trials),
        "failed": sum(trial["status"] == "failed" for trial in trials),
        "trials": [
            {
                **_chosen(trial, KEY[1:]),
                **_chosen(trial, ("status", "metric", "value", "unit", "reason")),
            }
            for trial in trials
        ],
    }


def _differences(counters: Mapping[str, Any]) -> Json:
    """What the network interfaces counted during the run.

    Returns:
        note: why nodes are missing, or None.
        nodes: node name to interface to counter to its increase; None where it was read only once
            or fell, which a restart of the node does.
    """
    before, after = counters.get("before") or {}, counters.get("after") or {}
    nodes: Json = {}
    for node in sorted({*before, *after}):
        first, last = before.get(node) or {}, after.get(node) or {}
        nodes[node] = {
            interface: _increase(first.get(interface) or {}, last.get(interface) or {})
            for interface in sorted({*first, *last})
        }
    return {"note": counters.get("note"), "nodes": nodes}


def _increase(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int | None]:
    return {
        name: after[name] - before[name]
        if name in before and name in after and after[name] >= before[name]
        else None
        for name in sorted({*before, *after})
    }


def _distinct(arms: Sequence[Mapping[str, Any]], fact: str) -> list[str]:
    return sorted({node[fact] for arm in arms for node in arm["nodes"] if node.get(fact)})
