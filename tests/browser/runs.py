"""Runs for the tests of pages. The real code plans, analyzes and reports them.

The measurements are random numbers with a seed, so that a page is the same every time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.deciding import Records, planner
from rackrate.measure.counters import Counters
from rackrate.measure.outputs import Drafts
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.items import Item, block_items, planned_trials
from rackrate.plan.planned_run import PlannedRun
from rackrate.report.page import render_page
from rackrate.results.build import RunFailure, RunTimes, build_results, final_status
from rackrate.results.comparison import Recorded, build_comparison
from rackrate.stages.run.plan import plan as plan_run
from rackrate.tools.base import Interval, Measurement, TestBase
from rackrate.verdict.analysis import against_earlier_runs, analyze_run
from rackrate.verdict.evidence import Evidence
from rackrate.verdict.wording import name_of_runs
from rackrate_contract.document import Json
from rackrate_contract.executions import RunRecord
from rackrate_contract.results import Findings
from rackrate_contract.trials import TrialKey
from tests.unit.report.pages import changed

Spoil = Callable[[Trial], Trial]

SEED = 7
DEMO: Json = {"tests": ["tcp-1", "tcp-8", "rtt"], "blocks": 6, "seed": SEED}


@dataclass(frozen=True)
class Run:
    """The content of a page: a run that is over, or a comparison of two."""

    results: Findings
    trials: Sequence[Trial]
    raw: Mapping[str, RawValues]

    def page(self) -> str:
        """report.html."""
        return render_page(self.results, self.trials, self.raw)


@dataclass(frozen=True)
class MeasuredRun(Run):
    """A run that is over. `recorded` is its input to a comparison."""

    recorded: Recorded


def measured_run(
    plan: Mapping[str, Any],
    *,
    run_id: str = "run-20261121-161258-8352",
    nodes: int = 4,
    tool_image: str = "example.test/tools:1",
    lab_scale: float | None = None,
    luck: Mapping[str, float] | None = None,
    spoil: Spoil | None = None,
    failure: RunFailure | None = None,
    counters: Counters | None = None,
    warnings: tuple[str, ...] = (),
    earlier: Sequence[MeasuredRun] = (),
) -> MeasuredRun:
    """Plan a run, make up its measurements, and analyze it.

    Args:
        plan: the execution's input.
        run_id: the run's id.
        nodes: number of nodes of both arms together.
        tool_image: the image of its pods.
        lab_scale: the scale factor of its network.
        luck: the luck of each arm's placement, which multiplies its values.
        spoil: a function that changes a measured trial, such as `fail`.
        failure: the execution's failure, if it failed.
        counters: counters.json.
        warnings: the run's warnings.
        earlier: the runs that it is compared with.
    """
    planned, items, warm_ups = _planned(plan, run_id, nodes, tool_image)
    trials, raw = _trials(planned, [*warm_ups, *items], luck or {}, spoil)
    if counters is not None:
        planned = planned.model_copy(update={"arms": counters.describe(planned.arms)})
    evidence = Evidence(planned, tuple(planned_trials(items)), trials, raw, counters)
    before = {run.recorded.id: run.recorded.evidence for run in earlier}
    since = None
    if before:
        since = against_earlier_runs(evidence, before, name=name_of_runs([*before], "main"))
    analysis = analyze_run(evidence, since)
    stored = [trial for _, trial in sorted(trials.items())]
    times = RunTimes("2026-11-21T16:12:58.352Z", "2026-11-21T16:22:31.004Z")
    results = build_results(
        planned,
        stored,
        analysis,
        trials_planned=planned.estimates.trials,
        stopped=None,
        times=times,
        lab_scale=lab_scale,
        warnings=warnings,
        failure=failure,
        counters=counters,
    )
    record = RunRecord(
        id=run_id,
        status=final_status(failure, lost=results.trials.failed),
        started_at=times.started_at,
        lab_scale=lab_scale,
    )
    return MeasuredRun(results, stored, raw, Recorded(record, evidence, results.marks))


def _planned(
    plan: Mapping[str, Any], run_id: str, nodes: int, tool_image: str
) -> tuple[PlannedRun, list[Item], list[Item]]:
    resources = planner(
        Records(), nodes=nodes, tool_image=tool_image, host_namespace="rackrate-host"
    )
    plan_run(
        plan,
        resources,
        run_id=run_id,
        execution_arn="arn:aws:states:us-east-1:123456789012:execution:rackrate:" + run_id,
    )
    store = resources.store
    return (
        store.runs.plan(run_id),
        store.runs.items(run_id),
        store.runs.items(run_id, "warm_up.json"),
    )


def _trials(
    planned: PlannedRun,
    items: Sequence[Item],
    placement: Mapping[str, float],
    spoil: Spoil | None,
) -> tuple[dict[TrialKey, Trial], dict[str, RawValues]]:
    chance = random.Random(planned.plan.seed)
    luck: dict[tuple[str, str], float] = {}
    trials: dict[TrialKey, Trial] = {}
    raw: dict[str, RawValues] = {}
    for item in block_items(items):
        drafts = Drafts([item], planned, 1, {})
        for key in item.trials:
            test, draft = drafts.test_of(key), drafts.of(key)
            noise = luck.setdefault((key.client, key.server), chance.lognormvariate(0, 0.02))
            noise *= chance.lognormvariate(0, 0.006) * placement.get(key.arm, 1.0)
            near = draft.placement == "cluster"
            measurement = _measurement(test, near=near, noise=noise, chance=chance)
            trial = _stored(planned.run_id, draft.measured(test, measurement))
            trials[key] = trial if spoil is None else spoil(trial)
            if trials[key].is_measured:
                raw[key.id] = RawValues.of(measurement)
    return trials, raw


def _measurement(test: TestBase, *, near: bool, noise: float, chance: random.Random) -> Measurement:
    """Make up a tool's measurement between two nodes that are near each other, or not."""
    if test.primary.unit == "s":
        centre = (120e-6 if near else 310e-6) * noise
        times = tuple(
            centre * chance.lognormvariate(0, 0.08) * (3 if chance.random() < 0.02 else 1)
            for _ in range(30)
        )
        ordered = sorted(times)
        return Measurement(
            {metric.name: ordered[29 if "p99" in metric.name else 15] for metric in test.metrics},
            {metric.samples: times for metric in test.metrics if metric.samples},
            details={"transmitted": 30, "received": 30, "loss_ratio": 0.0},
            version="ping 20221126",
        )
    sent = test.throughput
    limit = 9.9e9 if near or (sent is not None and sent.flows > 1) else 4.95e9
    centre = min(0.985 * limit * noise, limit)
    series = tuple(
        Interval(
            *(second, second + 1, centre * min(1.0, chance.lognormvariate(0, 0.01))),
            *(chance.randrange(4), 500_000),
        )
        for second in range(int(test.expected_seconds))
    )
    return Measurement(
        {metric.name: centre for metric in test.metrics},
        series=series,
        details={
            "seconds": test.expected_seconds,
            "received_bytes": int(centre * test.expected_seconds / 8),
            "sent_bits_per_second": centre,
            "retransmits": sum(interval.retransmits or 0 for interval in series),
            "client_cpu_percent": 21.5,
            "server_cpu_percent": 34.0,
        },
        version="iperf 3.12",
    )


def _stored(run_id: str, trial: Trial) -> Trial:
    """A trial as stored in the table."""
    return trial.model_copy(
        update={
            "samples_key": f"runs/{run_id}/samples/{trial.block:04d}-{trial.round}.1.json.gz",
            "raw_key": f"runs/{run_id}/raw/{trial.key.id}.1.txt",
            "started_at": f"2026-11-21T16:{13 + trial.block:02d}:00Z",
            "finished_at": f"2026-11-21T16:{13 + trial.block:02d}:10Z",
        }
    )


def fail(trial: Trial, reason: str) -> Trial:
    """A failed copy of the trial."""
    nothing = {"values": {}, "samples": {}, "details": {}}
    unknown = dict.fromkeys(("value", "samples_key", "tool_version"))
    why = {"status": "failed", "reason": reason, "attempt": 2}
    return trial.model_copy(update={**nothing, **unknown, **why})


def slowed(trial: Trial, factor: float, **details: float) -> Trial:
    """A copy of the trial with its throughput times `factor`, and with these details."""
    value = factor * trial.values["throughput"]
    return trial.model_copy(
        update={
            "value": value,
            "values": {"throughput": value},
            "details": {**trial.details, **details},
        }
    )


# -- the runs


@cache
def demo() -> Run:
    """Two arms, one pair each, six blocks, three tests, in a lab."""
    return measured_run(DEMO, lab_scale=0.1)


@cache
def since() -> Run:
    """The demo, compared with the four runs of a baseline."""
    earlier = [
        measured_run({**DEMO, "seed": seed}, run_id=f"run-20261120-090000-ab{seed}", lab_scale=0.1)
        for seed in range(11, 15)
    ]
    return measured_run(DEMO, earlier=earlier, lab_scale=0.1)


@cache
def compared() -> Run:
    """A comparison of two runs: the other one had another image, and a slower single flow."""
    before = measured_run(
        {**DEMO, "seed": 11},
        run_id="run-20261120-090000-ab12",
        tool_image="example.test/tools:0",
        spoil=lambda trial: slowed(trial, 0.8) if trial.test == "tcp-1" else trial,
    )
    comparison = build_comparison(
        measured_run(DEMO).recorded,
        [before.recorded],
        comparison_id="compare-20261121-170000-77aa",
        execution_arn="arn:aws:states:us-east-1:123456789012:execution:rackrate:compare-1",
        baseline="october",
        times=RunTimes("2026-11-21T17:00:00.000Z", "2026-11-21T17:00:04.000Z"),
    )
    return Run(comparison.document, comparison.trials, comparison.raw)


@cache
def mesh() -> Run:
    """More than one pair in each arm: each node with all others."""
    tests = ["tcp-1", {"name": "latency", "tool": "sockperf"}]
    plan = {**DEMO, "tests": tests, "pairing": "mesh", "direction": "both", "load": "together"}
    return measured_run(plan, nodes=12)


@cache
def slow_node() -> Run:
    """A mesh of four nodes in each arm, of which `ip-10-1-0-2` is slow."""

    def slow(trial: Trial) -> Trial:
        if not any(name.startswith("ip-10-1-0-2.") for name in trial.nodes):
            return trial
        factor = 0.6 if trial.unit == "bit/s" else 1.7
        values = {name: factor * value for name, value in trial.values.items()}
        return trial.model_copy(update={"value": values[trial.metric], "values": values})

    plan = {**DEMO, "tests": ["tcp-1", "rtt"], "pairing": "mesh", "load": "together"}
    return measured_run(plan, nodes=8, spoil=slow)


@cache
def troubled() -> Run:
    """A run with failed and marked trials, a failed warm-up, and interfaces that hit a limit."""

    def spoil(trial: Trial) -> Trial:
        place = (trial.block, trial.arm, trial.test)
        if place in {(2, "treatment", "rtt"), (3, "baseline", "tcp-8")}:
            return fail(trial, "iperf3: error - unable to connect to server: Connection refused")
        if place == (4, "baseline", "tcp-1"):
            return fail(trial, "did not finish before the deadline: DeadlineExceeded")
        if place in {(2, "treatment", "tcp-1"), (5, "treatment", "tcp-1")}:
            return slowed(trial, 0.7, client_cpu_percent=99.0)
        if place[:2] == (0, "baseline"):
            return fail(trial, "the server is busy running a test; it served another client")
        return trial

    first, second = (f"ip-10-1-0-{n}.ec2.internal" for n in (0, 1))
    allowances = ("bw_out_allowance_exceeded", "pps_allowance_exceeded")
    return measured_run(
        DEMO,
        spoil=spoil,
        counters=Counters(
            before={first: {"eth0": dict.fromkeys(allowances, 0)}, second: {}},
            after={first: {"eth0": {allowances[0]: 812, allowances[1]: 0}}},
            note="1 node could not be read after the run.",
        ),
        warnings=("1 of 2 pairs did not warm up.",),
    )


@cache
def nothing() -> Run:
    """A run that failed because all trials were lost."""
    # The error of a function that raised, in the form of Step Functions.
    cause = {
        "errorMessage": "36 of 36 trials were lost, which is more than the plan tolerates.",
        "errorType": "TrialsLost",
        "requestId": "fdb9a045-5237-47ea-8510-1273381dff0e",
        "stackTrace": ['  File "/var/task/handlers/analyze.py", line 20, in handler\n'],
    }
    return measured_run(
        DEMO,
        spoil=lambda trial: fail(trial, "Connection refused"),
        failure=RunFailure("TrialsLost", json.dumps(cause)),
    )


@cache
def many_arms() -> Run:
    """A run with as many arms as there are colors."""
    networks = [("pod", "pod"), ("host", "pod"), ("host", "host")]
    arms = [
        {
            "name": f"{client}-to-{server}-{placement}",
            "nodes": nodes,
            "client_network": client,
            "server_network": server,
        }
        for nodes, placement in (("treatment", "near"), ("baseline", "far"))
        for client, server in networks
    ]
    plan = {**DEMO, "tests": ["tcp-1", "rtt"], "arms": arms, "baseline": arms[-1]["name"]}
    return measured_run(plan)


HOSTILE = {
    "treatment": "<script>document.title='owned'</script>\"'&--></svg></style>",
    "baseline": "\u202e\u0627\u0633\u0627\u0633\u2066 <img src=x onerror='document.title=1'>",
    "Connection refused": "]]></title></table><script>document.title=1</script>" + "x" * 300,
}


@cache
def hostile() -> Run:
    """The troubled run, with markup and right-to-left text in all names and reasons."""
    run = troubled()
    trials = [changed(trial, with_nasty_words) for trial in run.trials]
    raw = {
        hostile.key.id: run.raw[trial.key.id]
        for trial, hostile in zip(run.trials, trials, strict=True)
        if trial.key.id in run.raw
    }
    return Run(changed(run.results, with_nasty_words), trials, raw)


def with_nasty_words(value: str) -> str:
    """The text with markup in the names that it has."""
    for word, nasty in HOSTILE.items():
        value = value.replace(word, nasty)
    return value


RUNS: Mapping[str, Callable[[], Run]] = {
    "demo": demo,
    "since": since,
    "comparison": compared,
    "mesh": mesh,
    "troubled": troubled,
    "nothing": nothing,
    "many arms": many_arms,
    "hostile": hostile,
}
