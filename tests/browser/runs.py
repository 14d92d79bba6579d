"""Runs to make pages of: planned, analysed and reported by the true code; only the tools are not.

What a trial might have measured is drawn with a seed, so that a page is the same every time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, cast

from benchmarks.deciding import InstanceTypes, Nodes, Records
from rackrate import tools
from rackrate.analysis import Evidence, analyze_run, compare_runs
from rackrate.comparison import Recorded, compare
from rackrate.report.page import render_page
from rackrate.report.results import build_results
from rackrate.schedule import PlannedTrial, TrialKey, planned_trials
from rackrate.settings import NODE_GROUP_LABEL, Arm, Settings
from rackrate.stages.planning import plan_run
from rackrate.store import Store
from rackrate.tools import Interval, Measurement, TestBase

Json = dict[str, Any]
Spoil = Callable[[Json], None]

SEED = 7
DEMO: Json = {"tests": ["tcp-1", "tcp-8", "rtt"], "blocks": 6, "seed": SEED}


@dataclass(frozen=True)
class Run:
    """A run that is over: what the page is made of. `item` is what the table has of it."""

    item: Json
    results: Json
    trials: list[Json]
    raw: Mapping[str, Json]
    evidence: Evidence

    def page(self) -> str:
        """report.html."""
        return render_page(self.results, self.trials, self.raw)


def measured_run(
    plan: Mapping[str, Any],
    *,
    run_id: str = "run-20261121-161258-8352",
    nodes: int = 4,
    tool_image: str = "example.test/tools:1",
    spoil: Spoil | None = None,
    failure: Json | None = None,
    counters: Json | None = None,
    warnings: tuple[str, ...] = (),
    earlier: Run | None = None,
) -> Run:
    """Plan a run, measure it, analyse it.

    Args:
        plan: the execution's input.
        run_id: the run.
        nodes: how many nodes both arms have together.
        tool_image: what its pods ran.
        spoil: changes a trial that was measured, in place: `fail` and the like.
        failure: how the execution failed, if it did.
        counters: counters.json.
        warnings: the run's own.
        earlier: the run it is compared with.
    """
    stored_plan, items, warm_ups = _planned(plan, run_id, nodes, tool_image)
    trials, raw = _trials(run_id, stored_plan, [*warm_ups, *items], spoil)
    planned = tuple(trial.key for trial in planned_trials(items))
    evidence = Evidence(stored_plan, planned, trials, raw, counters)
    analysis = analyze_run(evidence)
    if earlier is not None:
        name = earlier.results["run"]["id"]
        analysis["regressions"], more = compare_runs(evidence, earlier.evidence, name=name)
        analysis["warnings"] += more
    lost = len(planned) - len(evidence.measured)
    stored = [trial for _, trial in sorted(trials.items())]
    item = {
        "run_id": run_id,
        "status": "failed" if failure else "degraded" if lost else "succeeded",
        "started_at": "2026-11-21T16:12:58.352Z",
        "lab_scale": None,
        "trials_planned": len(planned),
        "trials_measured": len(evidence.measured),
        "trials_failed": lost,
        "warnings": list(warnings),
    }
    results = build_results(
        run=item,
        failure=failure,
        stored_plan=stored_plan,
        trials=stored,
        analysis=analysis,
        counters=counters,
        written_at="2026-11-21T16:22:31.004Z",
    )
    return Run(item, json.loads(json.dumps(results)), stored, raw, evidence)


def _planned(
    plan: Mapping[str, Any], run_id: str, nodes: int, tool_image: str
) -> tuple[Json, list[Json], Any]:
    records = Records()
    store = Store("table", "bucket", records)
    arms = tuple(
        Arm(name, placement, name == "baseline", name, {NODE_GROUP_LABEL: name})
        for name, placement in (("treatment", "cluster"), ("baseline", "none"))
    )
    plan_run(
        plan,
        run_id=run_id,
        execution_arn="arn:aws:states:us-east-1:123456789012:execution:rackrate:" + run_id,
        settings=Settings(
            *("table", "bucket", "cluster", "rackrate", tool_image),
            *(arms, nodes // 2, False, "rackrate-host"),
        ),
        cluster=cast(Any, Nodes(nodes)),
        store=store,
        eks=None,
        ec2=InstanceTypes(),
        pricing=None,
        region="us-east-1",
    )
    documents = ("plan.json", "schedule.json", "warm_up.json")
    found = [records.objects.get(store.key(run_id, name), b"[]") for name in documents]
    stored_plan, items, warm_ups = map(json.loads, found)
    return stored_plan, items, warm_ups


def _trials(
    run_id: str, stored_plan: Json, items: list[Json], spoil: Spoil | None
) -> tuple[dict[TrialKey, Json], dict[str, Json]]:
    chance = random.Random(stored_plan["plan"]["seed"])
    of_arm = {arm["name"]: arm for arm in stored_plan["arms"]}
    facts = {node["name"]: node for arm in stored_plan["arms"] for node in arm["nodes"]}
    luck: dict[tuple[str, str], float] = {}
    trials: dict[TrialKey, Json] = {}
    raw: dict[str, Json] = {}
    for item in items:
        if item["kind"] != "block":
            continue
        tests = {test["name"]: tools.load_test(test) for test in item["tests"]}
        for planned in planned_trials([item]):
            key, test = planned.key, tests[planned.key.test]
            pair = (key.client, key.server)
            noise = luck.setdefault(pair, chance.lognormvariate(0, 0.02))
            noise *= chance.lognormvariate(0, 0.006)
            placement = of_arm[key.arm]["placement"]
            found = _measurement(test, near=placement == "cluster", noise=noise, chance=chance)
            trial = _stored(run_id, planned, test, found, facts)
            trial["placement"] = placement
            if item["warm_up"]:
                trial["warm_up"] = True
            if spoil is not None:
                spoil(trial)
            trials[key] = trial
            if trial["status"] == "measured":
                raw[key.id] = {
                    "samples": {kind: list(values) for kind, values in found.samples.items()},
                    "series": [asdict(interval) for interval in found.series],
                }
    return trials, raw


def _measurement(test: TestBase, *, near: bool, noise: float, chance: random.Random) -> Measurement:
    """What a tool might have measured between two nodes that are near each other, or not."""
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
    limit = 9.9e9 if near or test.flows > 1 else 4.95e9
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


def _stored(
    run_id: str,
    planned: PlannedTrial,
    test: TestBase,
    found: Measurement,
    facts: Mapping[str, Json],
) -> Json:
    """A trial as the table has it."""
    key = planned.key
    return {
        **asdict(key),
        "run_id": run_id,
        "round": planned.round,
        "attempt": 1,
        "status": "measured",
        "tool": test.tool,
        "tool_version": found.version,
        "metric": test.primary.name,
        "unit": test.primary.unit,
        "value": found.values[test.primary.name],
        "values": dict(found.values),
        "samples": {kind: len(values) for kind, values in found.samples.items()},
        "samples_key": f"runs/{run_id}/samples/{key.block:04d}-{planned.round}.1.json.gz",
        "raw_key": f"runs/{run_id}/raw/{key.id}.1.txt",
        "details": dict(found.details),
        "started_at": f"2026-11-21T16:{13 + key.block:02d}:00Z",
        "finished_at": f"2026-11-21T16:{13 + key.block:02d}:10Z",
        "client_network": planned.client_network,
        "server_network": planned.server_network,
        "client_node": facts[key.client],
        "server_node": facts[key.server],
    }


def fail(trial: Json, reason: str) -> None:
    """Turn a trial into one that failed."""
    for name in ("value", "values", "details", "samples", "samples_key", "tool_version"):
        del trial[name]
    trial |= {"status": "failed", "reason": reason, "attempt": 2}


# -- the runs that are looked at


@cache
def demo() -> Run:
    """Two arms, one pair each, six blocks, three tests, in a lab."""
    run = measured_run(DEMO)
    return replace(run, results={**run.results, "run": {**run.results["run"], "lab_scale": 0.1}})


@cache
def since() -> Run:
    """A run with an earlier one to be compared with."""
    earlier = measured_run({**DEMO, "seed": 11}, run_id="run-20261120-090000-ab12")
    return measured_run(DEMO, earlier=earlier)


@cache
def compared() -> Run:
    """Two runs, compared when both were over: another tool image, and one flow was slower then."""

    def slow(trial: Json) -> None:
        if trial["test"] == "tcp-1":
            trial["value"] = trial["values"]["throughput"] = 0.8 * trial["value"]

    before = measured_run(
        {**DEMO, "seed": 11},
        run_id="run-20261120-090000-ab12",
        tool_image="example.test/tools:0",
        spoil=slow,
    )
    after = demo()
    recorded = [
        Recorded(run.item, run.evidence, run.trials, run.results["marks"])
        for run in (after, before)
    ]
    document, trials, raw = compare(
        *recorded,
        comparison_id="compare-20261121-170000-77aa",
        execution_arn="arn:aws:states:us-east-1:123456789012:execution:rackrate:compare-1",
        baseline="october",
        started_at="2026-11-21T17:00:00.000Z",
        written_at="2026-11-21T17:00:04.000Z",
        notes=[],
    )
    return Run(after.item, json.loads(json.dumps(document)), list(trials), raw, after.evidence)


@cache
def mesh() -> Run:
    """More than one pair in each arm: every node with every other."""
    tests = ["tcp-1", {"name": "latency", "tool": "sockperf"}]
    plan = {**DEMO, "tests": tests, "pairing": "mesh", "direction": "both", "load": "together"}
    return measured_run(plan, nodes=12)


@cache
def troubled() -> Run:
    """Trials that failed or are marked, a warm-up that failed, interfaces that hit a limit."""

    def spoil(trial: Json) -> None:
        place = (trial["block"], trial["arm"], trial["test"])
        if place in {(2, "treatment", "rtt"), (3, "baseline", "tcp-8")}:
            fail(trial, "iperf3: error - unable to connect to server: Connection refused")
        elif place == (4, "baseline", "tcp-1"):
            fail(trial, "did not finish before the deadline: DeadlineExceeded")
        elif place in {(2, "treatment", "tcp-1"), (5, "treatment", "tcp-1")}:
            trial["details"]["client_cpu_percent"] = 99.0
            trial["value"] = trial["values"]["throughput"] = trial["value"] * 0.7
        elif place[:2] == (0, "baseline"):
            fail(trial, "the server is busy running a test; it served another client")

    first, second = (f"ip-10-1-0-{n}.ec2.internal" for n in (0, 1))
    allowances = ("bw_out_allowance_exceeded", "pps_allowance_exceeded")
    return measured_run(
        DEMO,
        spoil=spoil,
        counters={
            "before": {first: {"eth0": dict.fromkeys(allowances, 0)}, second: {}},
            "after": {first: {"eth0": {allowances[0]: 812, allowances[1]: 0}}},
            "note": "1 node could not be read after the run.",
        },
        warnings=("1 of 2 pairs did not warm up.",),
    )


@cache
def nothing() -> Run:
    """Every trial was lost, and the run failed for it."""
    # As Step Functions has it of a function that raised.
    told = {
        "errorMessage": "36 of 36 trials were lost, which is more than the plan tolerates.",
        "errorType": "TrialsLost",
        "requestId": "fdb9a045-5237-47ea-8510-1273381dff0e",
        "stackTrace": ['  File "/var/task/handlers/analyze.py", line 20, in handler\n'],
    }
    return measured_run(
        DEMO,
        spoil=lambda trial: fail(trial, "Connection refused"),
        failure={"Error": "TrialsLost", "Cause": json.dumps(told)},
    )


@cache
def many_arms() -> Run:
    """As many arms as there are colours."""
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
    """The troubled run, with markup and right-to-left text wherever a name or a reason stands."""
    run = troubled()
    results, trials, raw = _with_nasty_words([run.results, run.trials, dict(run.raw)])
    return Run(run.item, results, trials, raw, run.evidence)


def _with_nasty_words(value: Any) -> Any:
    """A document with the words replaced in its values, and in the trials' ids among its keys."""
    if isinstance(value, dict):
        return {
            _with_nasty_words(name) if name[:4].isdecimal() else name: _with_nasty_words(entry)
            for name, entry in value.items()
        }
    if isinstance(value, list):
        return [_with_nasty_words(entry) for entry in value]
    if isinstance(value, str):
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
