"""How true the benchmark is: pod to pod as reported, against bare iperf3 in the same lab.

Brings a lab up, runs a plan through the `rackrate` command, then measures the same pairs of nodes
with iperf3 in the bare node namespaces, both arms at the same time as in the run. Prints both
medians with their ratio, the share of the measuring phase during which test traffic flowed, and how
many state transitions and seconds of functions the run took.
Run as `make bench`, or `python -m benchmarks.fidelity [PLAN]...`. Exit codes: 0 it was measured,
1 a figure cannot be true, 2 the machine is not right or the run failed.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.in_lab import document, histories_of, iperf3, lab, lines, rackrate
from benchmarks.points import ImpossibleFigure, Point, judge, positive, share
from benchmarks.scale_figures import transitions_of
from lab import control_groups, stack
from lab.aws.awslambda.runtime import INVOCATIONS

REPETITIONS = 6
TEST = "tcp-1"


def traffic_share(
    history: Sequence[Mapping[str, Any]],
    trials: Sequence[Mapping[str, str]],
    printed: Mapping[str, str],
) -> float:
    """The share of the blocks' time, from the map's start to its end, with test traffic. Pure.

    The map runs once for each batch of blocks. The warm-up, which the same map measures first,
    counts on neither side, and neither do the looks between batches. The trials of one test in one
    round run at the same time, so the longest of them counts, by the tool's own times.

    Args:
        history: the events of the run's execution, in order.
        trials: the rows of `trials.csv`.
        printed: what each trial's tool printed, by `raw_key`.

    Raises:
        ImpossibleFigure: it is no share, or the history has no blocks that began and ended.
    """
    entered = [e["timestamp"] for e in history if e["type"] == "MapStateEntered"]
    exited = [e["timestamp"] for e in history if e["type"] == "MapStateExited"]
    if not entered or len(entered) != len(exited):
        raise ImpossibleFigure(
            f"the map began {len(entered)} times and ended {len(exited)} times:"
            " the length of the measuring phase cannot be told."
        )
    longest: dict[tuple[str, ...], float] = defaultdict(float)
    for trial in trials:
        if trial["warm_up"] == "false" and trial["status"] == "measured":
            together = tuple(trial[name] for name in ("block", "round", "attempt", "test"))
            longest[together] = max(longest[together], _seconds(printed[trial["raw_key"]]))
    warmed_up = any(trial["warm_up"] == "true" for trial in trials)
    passes = list(zip(entered, exited, strict=True))[warmed_up:]
    measuring = positive(
        sum((end - start).total_seconds() for start, end in passes),
        "the measuring phase's seconds",
    )
    flowed = positive(sum(longest.values()), "the seconds of test traffic")
    return share(flowed / measuring, "the share of the measuring phase with test traffic")


def _seconds(raw: str) -> float:
    """How long a test's traffic flowed, by the tool's own account: Fortio's, iperf3's or ping's."""
    if (of_fortio := re.search(r'"ActualDuration": (\d+)', raw)) is not None:
        return int(of_fortio[1]) / 1e9
    if raw.lstrip().startswith("{"):
        return float(json.loads(raw)["end"]["sum_received"]["seconds"])
    stamps = [float(stamp) for stamp in re.findall(r"^\[(\d+\.\d+)\]", raw, re.M)]
    if not stamps:
        raise ImpossibleFigure(f"no times are in what a test printed: {raw[:80]!r}")
    return stamps[-1] - stamps[0]


def of_run(status: dict[str, Any], results: Path) -> tuple[float, str]:
    """The share of a run's blocks with test traffic, and what AWS would bill for besides nodes."""
    run_id = document(results / "results.json")["run"]["id"]
    outputs = stack.outputs(status)
    execution = outputs["StateMachineArn"].replace(":stateMachine:", ":execution:")
    client = functools.partial(stack.client, status)
    histories = list(histories_of(client, f"{execution}:{run_id}"))
    with (results / "trials.csv").open(encoding="utf-8", newline="") as file:
        trials = list(csv.DictReader(file))
    s3 = client("s3")
    printed = {
        key: s3.get_object(Bucket=outputs["BucketName"], Key=key)["Body"].read().decode()
        for trial in trials
        if (key := trial["raw_key"])
    }
    began = histories[0][0]["timestamp"].timestamp()
    calls = [each for each in lines("aws/lambda/" + INVOCATIONS) if each["ended_at"] > began]
    used = (
        f"{sum(map(transitions_of, histories))} state transitions, {len(calls)} calls of functions"
        f" of {sum(each['seconds'] for each in calls):.1f} s together"
    )
    return traffic_share(histories[0], trials, printed), used


def bare_iperf3(arms: Mapping[str, Sequence[str]], seconds: int) -> dict[str, float]:
    """The median of bare iperf3 for each arm's two nodes, in bits per second at the receiver."""
    figures: dict[str, list[float]] = defaultdict(list)
    with ThreadPoolExecutor(len(arms)) as pool:
        for repetition in range(REPETITIONS):
            pairs = [nodes[::-1] if repetition % 2 else nodes for nodes in arms.values()]
            clients, servers = zip(*pairs, strict=True)
            results = pool.map(iperf3, clients, servers, itertools.repeat(seconds))
            for arm, bits_per_second in zip(arms, results, strict=True):
                figures[arm].append(bits_per_second)
    return {arm: statistics.median(values) for arm, values in figures.items()}


def report(status: dict[str, Any], plan: Path) -> None:
    """Run, measure again bare, print."""
    rackrate(status, "run", "--plan", str(plan))
    results = stack.REPOSITORY / "out" / "latest"
    result = document(results / "results.json")
    verdict = next(v for v in result["verdicts"] if v["test"] == TEST)
    reported = {
        verdict["arm"]: verdict["arm_median"],
        verdict["baseline"]: verdict["baseline_median"],
    }
    stored = document(results / "plan.json")
    test = next(t for t in stored["plan"]["tests"] if t["name"] == TEST)
    arms = {arm["name"]: arm["nodes"][:2] for arm in result["arms"]}
    bare = bare_iperf3(arms, int(test["seconds"]))
    print(
        f"\n{TEST} throughput at the receiver, median, network scaled by {status['network_scale']}"
    )
    print(f"{'arm':<12}{'pod to pod':>16}{'node to node':>16}{'ratio':>9}")
    for arm, value in reported.items():
        of_pods = positive(value, f"the throughput of {arm}, pod to pod,")
        of_nodes = positive(bare[arm], f"the throughput of {arm}, node to node,")
        mbits = f"{of_pods / 1e6:>9.1f} Mbit/s{of_nodes / 1e6:>9.1f} Mbit/s"
        print(f"{arm:<12}{mbits}{of_pods / of_nodes:>9.4f}")
    flowed, used = of_run(status, results)
    print(f"test traffic flowed during {flowed:.1%} of the measuring phase ({plan})")
    print(used)
    peak = control_groups.peak_memory_bytes()
    if peak is not None:
        print(f"the lab's peak memory, page cache included: {peak / 1024**3:.2f} GiB")


def main() -> Iterable[Point]:
    """Run the benchmark. It has no points: what must hold are its figures."""
    plans = [Path(name) for name in sys.argv[1:]] or [stack.REPOSITORY / "docs/plans/demo.json"]
    with lab() as status:
        for plan in plans:
            report(status, plan)
    return ()


if __name__ == "__main__":
    sys.exit(judge(main))
