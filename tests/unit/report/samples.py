"""A run with all that a report can show: several metrics, marks, a lost trial, a warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rackrate import registry
from rackrate.measure.counters import Counters
from rackrate.measure.trials import Trial
from rackrate.plan.ceilings import GUIDE
from rackrate.plan.planned_run import PlannedRun
from rackrate.results.build import RunFailure, RunTimes, build_results
from rackrate.verdict.enough import stop
from rackrate.verdict.model import Analysis
from rackrate_contract.arms import Arm, InstanceNetwork, Node
from rackrate_contract.capacity import Launch
from rackrate_contract.estimates import Cost, CostLine, Guard, Traffic
from rackrate_contract.results import Results, Stopped
from rackrate_contract.trials import Mark, TrialKey
from rackrate_contract.verdicts import (
    Baseline,
    Ceiling,
    Percentiles,
    Steadiness,
    Summary,
    Verdict,
)
from tests.unit import builders

TESTS = tuple(
    registry.load_test(test)
    for test in (
        {"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 10},
        {"name": "rtt", "tool": "ping", "count": 30, "interval_seconds": 0.2},
    )
)
TIMES = RunTimes(started_at="2026-11-21T08:00:00Z", written_at="2026-11-21T08:01:30Z")


def verdict(**changes: Any) -> Verdict:
    """A verdict of analysis.json: better, with every field."""
    fields = {
        "title": "one flow",
        "arm_title": "cluster group",
        "baseline_title": "no group",
        "arm_median": 9.52e9,
        "baseline_median": 4.95e9,
        "ratio": 1.923,
        "ci95": (1.911, 1.936),
        "ci_simultaneous": (1.902, 1.945),
        "confidence_simultaneous": 0.975,
        "claim": "about these nodes, not about others placed alike: it rests on 1 pair of nodes"
        " in each arm and 6 blocks",
        "ceiling": Ceiling(
            name="single-flow",
            arm=10e9,
            baseline=5e9,
            source=GUIDE,
            arm_share=0.952,
            baseline_share=0.99,
            explains=True,
            text="the treatment came to 95% of its single-flow limit of 10.0 Gb/s and the"
            " baseline came to 99% of its single-flow limit of 5.00 Gb/s: the limits explain"
            " the difference",
        ),
        "marks": {"client_cpu": 2},
        "steadiness": Steadiness(
            arm=0.004,
            baseline=0.011,
            ratio=0.364,
            ci95=(0.21, 0.63),
            ci_simultaneous=(0.19, 0.66),
            verdict="better",
            reason=None,
        ),
    }
    return builders.verdict(**{**fields, **changes})


def inconclusive(**changes: Any) -> Verdict:
    """An inconclusive verdict of analysis.json on a round-trip time that needs more blocks."""
    return verdict(
        **{
            "test": "rtt",
            "title": "pings, 5 a second",
            "metric": "rtt",
            "unit": "s",
            "better": "lower",
            "arm_median": 155e-6,
            "baseline_median": 161e-6,
            "ratio": 0.963,
            "ci95": (0.93, 0.998),
            "ci_simultaneous": (0.921, 1.007),
            "verdict": "inconclusive",
            "reason": "the interval holds both differences that matter and ones that do not",
            "more_blocks": 7,
            "ceiling": None,
            "marks": {},
            "steadiness": Steadiness(
                arm=0.02,
                baseline=0.021,
                ratio=0.95,
                ci95=(0.4, 2.2),
                verdict="inconclusive",
                reason="the interval holds both",
            ),
            **changes,
        }
    )


EARLIER = "run-20261120-090000-ab12"


def regression(**changes: Any) -> Verdict:
    """A verdict against an earlier run."""
    return verdict(
        **{
            "baseline": Baseline(EARLIER, (EARLIER,)),
            "baseline_title": "",
            "baseline_median": 9.9e9,
            "ratio": 0.962,
            "ci95": (0.955, 0.969),
            "ci_simultaneous": (0.951, 0.973),
            "verdict": "no meaningful difference",
            "ceiling": None,
            "marks": {},
            "steadiness": None,
            **changes,
        }
    )


def mark(block: int, **changes: Any) -> Mark:
    """A mark on the treatment's trial of a block."""
    return Mark(
        **{
            "block": block,
            "arm": "treatment",
            "test": "tcp-1",
            "client": "treatment-1",
            "server": "treatment-2",
            "mark": "client_cpu",
            "text": "the client, on treatment-1, computed 97% of the time on one CPU, all it can"
            " use: its CPU may have been the limit",
            **changes,
        }
    )


def summary(**changes: Any) -> Summary:
    """The summary of one arm in analysis.json."""
    return Summary(
        **{
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
    )


def analysis(**changes: Any) -> Analysis:
    """analysis.json."""
    pooled = Percentiles(p50=155e-6, p90=171e-6, p99=240e-6, p99_9=410e-6, samples=180)
    rtt = {"test": "rtt", "metric": "rtt", "unit": "s", "retransmits": None, "percentiles": pooled}
    return Analysis(
        **{
            "verdicts": (verdict(), inconclusive()),
            "summaries": (
                summary(),
                summary(arm="baseline", median=4.95e9, retransmits=0),
                summary(**rtt, median=155e-6, loss_ratio=0.0),
                summary(**rtt, arm="baseline", median=161e-6, loss_ratio=0.0056),
            ),
            "marks": (mark(2), mark(5)),
            "regressions": (regression(),),
            "regression_differences": None,
            "warnings": (
                "The pair treatment-2 to treatment-1 did not warm up: Connection refused.",
            ),
            "method": "For each block the log ratio of the arms' geometric means.",
            **changes,
        }
    )


def trials() -> list[Trial]:
    """The stored trials: six blocks with one lost trial, and the warm-up."""
    tcp, rtt = TESTS
    all_trials = []
    for block in range(7):
        for arm, rate, seconds in (("treatment", 9.52e9, 155e-6), ("baseline", 4.95e9, 161e-6)):
            for test, value, more in (
                (
                    tcp,
                    rate * (1 + 0.003 * ((block * 7) % 5 - 2)),
                    {
                        "details": {"seconds": 10.0, "retransmits": 3},
                        "tool_version": "iperf 3.12",
                    },
                ),
                (
                    rtt,
                    seconds * (1 + 0.02 * ((block * 3) % 4 - 1.5)),
                    {
                        "details": {"seconds": 6.0, "loss_ratio": 0.0, "ttl": 64},
                        "samples": {"rtt": 30},
                        "tool_version": "ping 20221126",
                    },
                ),
            ):
                key = TrialKey(block, arm, test.name, f"{arm}-1", f"{arm}-2")
                facts = {
                    "tool_version": more["tool_version"],
                    "started_at": "2026-11-21T08:00:00Z",
                    "finished_at": "2026-11-21T08:00:10Z",
                }
                if (block, arm, test.name) == (6, "baseline", "rtt"):
                    lost = builders.trial_of(key, test, None, reason="the server is busy", **facts)
                    all_trials.append(lost)
                    continue
                samples_key = f"runs/r/samples/{block}-1.1.0123abcd.json.gz"
                fields = {**facts, **more, "samples_key": samples_key}
                all_trials.append(builders.trial_of(key, test, value, **fields))
    return all_trials


TRIALS = tuple(trials())


def arms() -> tuple[Arm, ...]:
    """The arms with their nodes."""
    network = InstanceNetwork(baseline_bits_per_second=50e9, peak_bits_per_second=50e9)
    return tuple(
        builders.usual_arm(
            name,
            [
                Node(
                    name=f"{name}-{n}",
                    instance_type="c5n.9xlarge",
                    instance_id=f"i-0{n}",
                    zone="us-east-1a",
                    image="ami-0123",
                    kernel="6.12.0",
                    kubernetes="v1.36.3",
                    container_runtime="containerd://2.1.0",
                    cpus=36,
                    cni="amazon-k8s-cni:v1.20.4",
                )
                for n in (1, 2)
            ],
            network=network,
        )
        for name in ("treatment", "baseline")
    )


def planned_run(**changes: Any) -> PlannedRun:
    """plan.json."""
    planned = builders.planned_run(
        builders.plan(tests=TESTS, tolerated_loss=0.05),
        arms(),
        kubernetes_version="v1.36.3",
        estimates=builders.estimates(
            bytes_per_node={"treatment-1": Traffic(sent=12_000_000_000, received=0)},
            cost=Cost(
                region="us-east-1",
                lines=(
                    CostLine(
                        what="Step Functions",
                        quantity=112,
                        unit="state transition",
                        usd_per_unit=0.000025,
                        usd=0.0028,
                        source="https://aws.amazon.com/step-functions/pricing/",
                        paid_anyway=False,
                    ),
                ),
                usd=0.0028,
                usd_of_run=0.0028,
                unknown=(),
                notes=(),
                not_included=("taxes",),
                summary=("about $0.003 for 5 minutes",),
            ),
            guards=(Guard(guard="zones", would_trip=False, text="one zone", remedy=""),),
        ),
    )
    return planned.model_copy(update=changes)


def counters() -> Counters:
    """counters.json: one interface hit a limit, one node was replaced."""
    return Counters(
        before={
            "treatment-1": {"eth0": {"bw_out_allowance_exceeded": 5, "pps_allowance_exceeded": 0}},
            "baseline-1": {"eth0": {"bw_out_allowance_exceeded": 0}},
        },
        after={
            "treatment-1": {"eth0": {"bw_out_allowance_exceeded": 905, "pps_allowance_exceeded": 0}}
        },
        note="1 node could not be read after the run.",
    )


def stopped() -> Stopped:
    """The outcome of a look that found every verdict settled."""
    reason = stop([verdict()], blocks=6, most=12)
    assert reason is not None
    return reason


def results(
    *,
    trials: Sequence[Trial] = TRIALS,
    planned: PlannedRun | None = None,
    times: RunTimes = TIMES,
    lab_scale: float | None = None,
    failure: RunFailure | None = None,
    counters: Counters | None = None,
    stopped: Stopped | None = None,
    launches: Sequence[Launch] = (),
    **analysed: Any,
) -> Results:
    """results.json of the sample run, with these changes to its analysis."""
    return build_results(
        planned or planned_run(),
        trials,
        analysis(**analysed),
        trials_planned=(planned or planned_run()).estimates.trials,
        stopped=stopped,
        times=times,
        lab_scale=lab_scale,
        warnings=["1 of 2 pairs did not warm up."],
        failure=failure,
        counters=counters,
        launches=launches,
    )
