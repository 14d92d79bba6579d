"""A run with everything in it that a report can show: several metrics, marks, a loss, a warm-up."""

from __future__ import annotations

from typing import Any

from rackrate import tools
from rackrate.nodes import node_facts

Json = dict[str, Any]

TESTS: list[Json] = [
    tools.load_test(test).model_dump()
    for test in (
        {"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 10},
        {"name": "rtt", "tool": "ping", "count": 30, "interval_seconds": 0.2},
    )
]
GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html"


def verdict(**changes: Any) -> Json:
    """A verdict of analysis.json: better, with every field."""
    return {
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "arm": "treatment",
        "baseline": "baseline",
        "arm_median": 9.52e9,
        "baseline_median": 4.95e9,
        "ratio": 1.923,
        "ci95": [1.911, 1.936],
        "ci_simultaneous": [1.902, 1.945],
        "confidence_simultaneous": 0.975,
        "verdict": "better",
        "reason": None,
        "blocks": 6,
        "pairs": {"arm": 1, "baseline": 1},
        "scope": "these nodes",
        "claim": "about these nodes, not about others placed alike: it rests on 1 pair of nodes in"
        " each arm and 6 blocks",
        "more_blocks": None,
        "more_pairs": None,
        "threshold": 0.05,
        "ceiling": {
            "name": "single-flow",
            "arm": 10e9,
            "baseline": 5e9,
            "source": GUIDE,
            "arm_share": 0.952,
            "baseline_share": 0.99,
            "explains": True,
            "text": "the treatment came to 95% of its single-flow limit of 10.0 Gb/s and the"
            " baseline came to 99% of its single-flow limit of 5.00 Gb/s: the limits explain the"
            " difference",
        },
        "marks": {"client_cpu": 2},
        "steadiness": {
            "arm": 0.004,
            "baseline": 0.011,
            "ratio": 0.364,
            "ci95": [0.21, 0.63],
            "verdict": "better",
            "reason": None,
        },
        **changes,
    }


def inconclusive(**changes: Any) -> Json:
    """A verdict of analysis.json on a round-trip time, which more blocks would settle."""
    return (
        verdict(
            test="rtt",
            metric="rtt",
            unit="s",
            better="lower",
            arm_median=155e-6,
            baseline_median=161e-6,
            ratio=0.963,
            ci95=[0.93, 0.998],
            ci_simultaneous=[0.921, 1.007],
            verdict="inconclusive",
            reason="the interval holds both differences that matter and ones that do not",
            more_blocks=7,
            ceiling=None,
            marks={},
            steadiness={
                "arm": 0.02,
                "baseline": 0.021,
                "ratio": 0.95,
                "ci95": [0.4, 2.2],
                "verdict": "inconclusive",
                "reason": "the interval holds both",
            },
        )
        | changes
    )


def regression(**changes: Any) -> Json:
    """A verdict against an earlier run."""
    return (
        verdict(
            baseline="run run-20261120-090000-ab12",
            baseline_median=9.9e9,
            ratio=0.962,
            ci95=[0.955, 0.969],
            ci_simultaneous=[0.951, 0.973],
            verdict="no meaningful difference",
            ceiling=None,
            marks={},
            steadiness=None,
        )
        | changes
    )


def mark(block: int, **changes: Any) -> Json:
    """A mark on the treatment's trial of a block."""
    return {
        "block": block,
        "arm": "treatment",
        "test": "tcp-1",
        "client": "treatment-1",
        "server": "treatment-2",
        "mark": "client_cpu",
        "text": "the client, on treatment-1, computed 97% of the time on one CPU, all it can use:"
        " its CPU may have been the limit",
        **changes,
    }


def summary(**changes: Any) -> Json:
    """What analysis.json says of an arm by itself."""
    return {
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "arm": "treatment",
        "median": 9.52e9,
        "trials": 6,
        "blocks": 6,
        "pairs": 1,
        "spread_between_blocks": 0.004,
        "spread_between_pairs": None,
        "percentiles": None,
        "loss_ratio": None,
        "retransmits": 17,
        **changes,
    }


def analysis(**changes: Any) -> Json:
    """analysis.json."""
    pooled = {"p50": 155e-6, "p90": 171e-6, "p99": 240e-6, "p99_9": 410e-6, "samples": 180}
    rtt = {"test": "rtt", "metric": "rtt", "unit": "s", "retransmits": None, "percentiles": pooled}
    return {
        "verdicts": [verdict(), inconclusive()],
        "summaries": [
            summary(),
            summary(arm="baseline", median=4.95e9, retransmits=0),
            summary(**rtt, median=155e-6, loss_ratio=0.0),
            summary(**rtt, arm="baseline", median=161e-6, loss_ratio=0.0056),
        ],
        "marks": [mark(2), mark(5)],
        "regressions": [regression()],
        "warnings": ["The pair treatment-2 to treatment-1 did not warm up: Connection refused."],
        "method": "For each block the log ratio of the arms' geometric means.",
        **changes,
    }


def trials() -> list[Json]:
    """The stored trials: six blocks, of which one trial was lost, and the warm-up."""
    found = []
    for block in range(7):
        for index, (arm, rate, rtt) in enumerate(
            (("treatment", 9.52e9, 155e-6), ("baseline", 4.95e9, 161e-6))
        ):
            for test, metric, unit, value in (
                ("tcp-1", "throughput", "bit/s", rate * (1 + 0.003 * ((block * 7) % 5 - 2))),
                ("rtt", "rtt", "s", rtt * (1 + 0.02 * ((block * 3) % 4 - 1.5))),
            ):
                trial: Json = {
                    "block": block,
                    "round": 1,
                    "attempt": 1,
                    "arm": arm,
                    "placement": ("cluster", "none")[index],
                    "test": test,
                    "tool": {"tcp-1": "iperf3", "rtt": "ping"}[test],
                    "client": f"{arm}-1",
                    "server": f"{arm}-2",
                    "client_network": "pod",
                    "server_network": "pod",
                    "status": "measured",
                    "metric": metric,
                    "unit": unit,
                    "value": value,
                    "values": {metric: value},
                    "details": {"seconds": 10.0, "retransmits": 3}
                    if test == "tcp-1"
                    else {"seconds": 6.0, "loss_ratio": 0.0, "ttl": 64},
                    "samples": {} if test == "tcp-1" else {"rtt": 30},
                    "samples_key": f"runs/r/samples/{block}-1.1.0123abcd.json.gz",
                    "tool_version": {"tcp-1": "iperf 3.12", "rtt": "ping 20221126"}[test],
                    "started_at": "2026-11-21T08:00:00Z",
                    "finished_at": "2026-11-21T08:00:10Z",
                    "client_node": {"instance_type": "c5n.9xlarge"},
                }
                if block == 0:
                    trial["warm_up"] = True
                if (block, arm, test) == (6, "baseline", "rtt"):
                    for name in ("value", "values", "details", "samples", "samples_key"):
                        del trial[name]
                    trial |= {"status": "failed", "reason": "the server is busy"}
                found.append(trial)
    return found


def stored_plan(**changes: Any) -> Json:
    """plan.json."""
    return {
        "run_id": "run-1",
        "execution_arn": "arn:aws:states:us-east-1:123456789012:execution:rackrate:run-1",
        "plan": {
            "arms": ["treatment", "baseline"],
            "baseline": "baseline",
            "tests": TESTS,
            "blocks": 6,
            "pairing": "one",
            "direction": "alternate",
            "load": "isolated",
            "warm_up": True,
            "compare_with": None,
            "seed": 42,
            "threshold": 0.05,
            "tolerated_loss": 0.05,
            "dry_run": False,
        },
        "estimates": {
            "seconds": 300.0,
            "block_seconds": 40.0,
            "trials": 24,
            "bytes_per_node": {"treatment-1": {"sent": 12_000_000_000, "received": 0}},
            "state_transitions": 112,
            "cost": {
                "region": "us-east-1",
                "lines": [
                    {
                        "what": "Step Functions",
                        "quantity": 112,
                        "unit": "state transition",
                        "usd_per_unit": 0.000025,
                        "usd": 0.0028,
                        "source": "https://aws.amazon.com/step-functions/pricing/",
                        "paid_anyway": False,
                    }
                ],
                "usd": 0.0028,
                "usd_of_run": 0.0028,
                "unknown": [],
                "notes": [],
                "not_included": ["taxes"],
                "summary": ["about $0.003 for 5 minutes"],
            },
            "guards": [{"guard": "zones", "would_trip": False, "text": "one zone", "remedy": ""}],
        },
        "arms": [
            {
                "name": name,
                "stack_arm": name,
                "client_network": "pod",
                "server_network": "pod",
                "placement": placement,
                "node_group": f"ng-{name}",
                "ena_express": False,
                "nodes": [
                    {
                        **node_facts({"metadata": {"name": f"{name}-{n}"}}),
                        "instance_type": "c5n.9xlarge",
                        "instance_id": f"i-0{n}",
                        "zone": "us-east-1a",
                        "image": "ami-0123",
                        "kernel": "6.12.0",
                        "kubernetes": "v1.36.3",
                        "container_runtime": "containerd://2.1.0",
                        "cpus": 36,
                        "cni": "amazon-k8s-cni:v1.20.4",
                    }
                    for n in (1, 2)
                ],
                "network": {
                    "baseline_bits_per_second": 50e9,
                    "peak_bits_per_second": 50e9,
                },
                "network_scale": None,
            }
            for name, placement in (("treatment", "cluster"), ("baseline", "none"))
        ],
        "image": "example.test/tools:1",
        "kubernetes_version": "v1.36.3",
        **changes,
    }


def run(**changes: Any) -> Json:
    """The run's item."""
    return {
        "run_id": "run-1",
        "status": "degraded",
        "started_at": "2026-11-21T08:00:00Z",
        "lab_scale": None,
        "trials_planned": 24,
        "trials_measured": 23,
        "trials_failed": 1,
        "warnings": ["1 of 2 pairs did not warm up."],
        **changes,
    }


def counters() -> Json:
    """counters.json: one interface hit a limit, one node was replaced."""
    return {
        "before": {
            "treatment-1": {"eth0": {"bw_out_allowance_exceeded": 5, "pps_allowance_exceeded": 0}},
            "baseline-1": {"eth0": {"bw_out_allowance_exceeded": 0}},
        },
        "after": {
            "treatment-1": {"eth0": {"bw_out_allowance_exceeded": 905, "pps_allowance_exceeded": 0}}
        },
        "note": "1 node could not be read after the run.",
    }
