"""What a run costs from 14 to 1002 nodes: real control plane and functions, simulated nodes.

Each size gets a lab of its own whose nodes kwok plays (`lab/simulated/`), the stack with its own
node groups, and one run of the same plan. The figures go to a file each; `--judge` reads those that
are there. They are of three kinds, and the table says which:

- what the functions do: their processor time, their requests to the API server by its audit log,
  their calls of AWS, the state transitions, the sizes of events, items and objects. These would be
  the same on AWS.
- what a person waits for here: seconds of stages and functions. The emulated AWS is one process of
  two cores, so these are above those on AWS wherever AWS is called often.
- when the tests of a round started, by Kubernetes' clock, which counts whole seconds.

Run as `make bench-scale`, or `python -m benchmarks.scale --nodes 60 --nodes 1002` (root); a stack
with one arm by `--one-arm --nodes 1200 --out out/one-arm`. Exit codes: 0 the points of `holds`
hold, 1 one does not, 2 the machine is not right or a run failed.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from boto3.dynamodb.types import TypeDeserializer

from benchmarks.in_lab import Client, Json, document, histories_of, lab, lines, pages, say
from benchmarks.points import Point, judge
from benchmarks.scale_figures import (
    FLAT_FROM,
    MOST_GROWTH,
    collections_of,
    counted_usage,
    deletion_of,
    functions_of,
    judged,
    largest_state,
    moment,
    per_pair,
    requests_of,
    stages_of,
    starts_of,
    transitions_of,
    whole_spread,
)
from lab import stack
from lab.aws.awslambda.runtime import INVOCATIONS
from lab.errors import LabError
from lab.setup import golang

SIZES = (14, 60, 150, 502, 1002)
OUT = Path(__file__).resolve().parents[1] / "out" / "scale"
#: Up to so many nodes, every node is measured with every other one of its arm; above, in a ring.
MOST_NODES_OF_A_MESH = 15
#: Recordings exist of these tests (`lab/simulated/logs.py`).
PLAN: Mapping[str, Any] = {
    "tests": [
        {"name": "tcp-1", "seconds": 2},
        {"name": "tcp-8", "seconds": 1},
        {"name": "rtt", "count": 10, "interval_seconds": 0.2},
    ],
    "pairing": "ring",
    "load": "together",
    "blocks": 2,
    "seed": 7,
}
RUN = "scale"
#: The states of a run that take time; Measure has the warm-up and the blocks.
STAGES = ("Plan", "Deploy", "Await servers", "Measure", "Analyze", "Report", "Teardown", "Finish")
DEPLOY_SECONDS, RUN_SECONDS = 900.0, 840.0

_plain = TypeDeserializer().deserialize


def measure(nodes: int, arms: Literal["both", "treatment"]) -> Json:
    """Deploy a stack with so many nodes in all arms, run the plan once, return the figures.

    Raises:
        LabError: the run did not succeed.
    """
    count = 1 if arms == "treatment" else 2
    each = nodes // count
    parameters = {
        "Arms": arms,
        "NodeCount": str(each),
        "HostNetwork": "false",
        "SecondaryCidr": "100.64.0.0/16",
    }
    with lab(deploy=False, kwok=golang.program("kwok", "kwok")) as status:
        stack.build()
        began = time.monotonic()
        stack.deploy(status, say, parameters=parameters, seconds=DEPLOY_SECONDS)
        deployed = time.monotonic() - began
        client = functools.cache(functools.partial(stack.client, status))
        outputs = stack.outputs(status)
        pairing = "mesh" if nodes <= MOST_NODES_OF_A_MESH else "ring"
        arn = _run(client, outputs["StateMachineArn"], {**PLAN, "pairing": pairing})
        say("reading the figures")
        figures = _figures(client, outputs, arn)
    return {"nodes": count * each, "pairing": pairing, "deploy_seconds": deployed, **figures}


def _run(client: Client, machine: str, plan: Mapping[str, Any]) -> str:
    states = client("stepfunctions")
    request = {"stateMachineArn": machine, "name": RUN, "input": json.dumps(plan)}
    arn = str(states.start_execution(**request)["executionArn"])
    say("running")
    deadline = time.monotonic() + RUN_SECONDS
    while (execution := states.describe_execution(executionArn=arn))["status"] == "RUNNING":
        if time.monotonic() > deadline:
            raise LabError(f"The run still goes on after {RUN_SECONDS:.0f} s: see the lab's logs.")
        time.sleep(1)
    if execution["status"] != "SUCCEEDED":
        why = f"{execution.get('error')}: {execution.get('cause')}"
        raise LabError(f"The run {execution['status']}: {why}")
    return arn


def _figures(client: Client, outputs: Mapping[str, str], arn: str) -> Json:
    histories = list(histories_of(client, arn))
    items = _items(client, outputs["TableName"])
    trials = [each for each in items if str(each["sk"]).startswith("trial#")]
    plan = _object(client, outputs["BucketName"], "plan.json")
    results = _object(client, outputs["BucketName"], "results.json")
    invocations = lines("aws/lambda/" + INVOCATIONS)
    run = next(each for each in items if each["sk"] == "run")
    since = histories[0][0]["timestamp"].timestamp()
    settings = _settings(client)
    of_run = [each for each in invocations if each["ended_at"] > since]
    functions = functions_of(of_run, settings)
    requests = [
        each
        for each in lines("logs/audit.jsonl")
        if moment(each["requestReceivedTimestamp"]) > since
    ]
    counted = [each for each in trials if int(each["block"]) > 0]
    return {
        # Blocks turn the direction of a pair.
        "pairs": len({(t["arm"], *sorted((t["client"], t["server"]))) for t in counted}),
        "trials": len(counted),
        "failed": sum(each["status"] != "measured" for each in trials),
        "status": run["status"],
        # The estimate is also for the wait for the servers.
        "run_seconds": float(run["seconds"]) + float(run["waited_seconds"]),
        "stages": stages_of(histories[0]),
        "functions": functions,
        "transitions": sum(map(transitions_of, histories)),
        "transitions_of_items": [transitions_of(each) for each in histories[1:]],
        "most_events": max(len(each) for each in histories),
        "requests": requests_of(requests),
        "throttled": sum(each["responseStatus"].get("code") == 429 for each in requests),
        "deletion_seconds": deletion_of(requests),
        "state_bytes": max(map(largest_state, histories)),
        "event_bytes": max(each["event_bytes"] for each in invocations),
        "item_bytes": max(len(json.dumps(each, default=str)) for each in items),
        "objects": _objects(client, outputs["BucketName"]),
        "starts": starts_of(trials),
        "collections": collections_of(trials, of_run, settings),
        "estimate": {
            "seconds": plan["estimates"]["seconds"],
            "lines": plan["estimates"]["cost"]["lines"],
        },
        "verdicts": [
            [each["arm"], each["test"], each["metric"], each["verdict"]]
            for each in results["verdicts"]
        ],
    }


def _items(client: Client, table: str) -> list[Json]:
    items = pages(
        client("dynamodb"),
        "query",
        "Items",
        TableName=table,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"run#{RUN}"}},
    )
    return [{name: _plain(value) for name, value in item.items()} for item in items]


def _object(client: Client, bucket: str, name: str) -> Json:
    key = f"runs/{RUN}/{name}"
    content: Json = json.loads(client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    return content


def _objects(client: Client, bucket: str) -> Json:
    """How many objects the run wrote, and the size of the largest of each kind."""
    prefix = f"runs/{RUN}/"
    sizes: dict[str, list[int]] = defaultdict(list)
    objects = pages(client("s3"), "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
    for each in objects:
        folder, slash, _ = each["Key"].removeprefix(prefix).partition("/")
        sizes[folder + slash].append(each["Size"])
    return {name: {"number": len(of), "largest": max(of)} for name, of in sorted(sizes.items())}


def _settings(client: Client) -> dict[str, tuple[float, int]]:
    """The time in seconds and the memory in bytes of each function."""
    return {
        each["FunctionName"]: (float(each["Timeout"]), int(each["MemorySize"]) * 2**20)
        for each in pages(client("lambda"), "list_functions", "Functions")
    }


def table(sizes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The figures of all sizes as a Markdown table, a column for each size."""
    steps = sorted({step for size in sizes for step in size["functions"]})
    kinds = sorted({kind for size in sizes for kind in size["requests"]})
    columns = [_column(size, steps, kinds) for size in sizes]
    return [
        f"| {' | '.join([title, *(str(column[title]) for column in columns)])} |"
        for title in columns[0]
    ]


def _column(
    size: Mapping[str, Any], steps: Sequence[str], kinds: Sequence[str]
) -> dict[str, object]:
    """The figures of a size by their titles. The first two are the table's header."""
    pairs, counted = size["pairs"], counted_usage(size)
    estimated = {line["unit"]: line["quantity"] for line in size["estimate"]["lines"]}
    spreads = [each["spread"] for each in size["starts"] if each["block"] > 0]

    def function(step: str, kind: str) -> float:
        return float(size["functions"].get(step, {}).get(kind, 0.0))

    return {
        "": f"{size['nodes']} nodes",
        "---": "---:",
        "pairing": size["pairing"],
        "pairs": pairs,
        "trials": size["trials"],
        "a run, s": f"{size['run_seconds']:.0f}",
        **{f"`{name}`, s": f"{size['stages'].get(name, 0.0):.1f}" for name in STAGES},
        **{
            f"{words} `{step}`, s": f"{function(step, kind):.1f}"
            for kind, words in (
                ("longest_seconds", "longest"),
                ("longest_on_lambda", "the same with Lambda's share of a CPU,"),
            )
            for step in ("launch", "collect")
        },
        "longest collection of a round after its last test, s": (
            f"{max(each['on_lambda'] for each in size['collections']):.1f}"
        ),
        "longest deletion of a round's client pods, s": f"{size['deletion_seconds']:.1f}",
        **{f"{name} per pair": f"{value:.3g}" for name, value in per_pair(size).items()},
        **{f"{kind}, per pair": f"{size['requests'].get(kind, 0) / pairs:.3g}" for kind in kinds},
        "largest state, bytes": size["state_bytes"],
        "largest event, bytes": size["event_bytes"],
        "largest item, bytes": size["item_bytes"],
        "longest history, events": size["most_events"],
        "largest object of the run, bytes": max(of["largest"] for of in size["objects"].values()),
        **{f"memory of `{step}`": f"{function(step, 'share_of_memory'):.0%}" for step in steps},
        **{
            f"{unit}, estimated / counted": f"{estimated[unit]:.4g} / {counted[unit]:.4g}"
            for unit in ("state transition", "request", "GB-second")
        },
        "first to last start of a test, s": f"{whole_spread(size):.0f}",
        "the same, median round": f"{statistics.median(spreads) if spreads else 0:.0f}",
    }


def picture(sizes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the cost per pair over the nodes, as a multiple of that at `FLAT_FROM` nodes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    shown = [size for size in sizes if size["nodes"] >= FLAT_FROM]
    nodes = [size["nodes"] for size in shown]
    figures = [per_pair(size) for size in shown]
    style: dict[Any, Any] = {
        "svg.hashsalt": "scale",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
    }
    with rc_context(style):
        figure = Figure(figsize=(7.5, 4), layout="constrained")
        FigureCanvasSVG(figure)
        ax = figure.subplots()
        ax.axhspan(0, MOST_GROWTH, color="#888888", alpha=0.15, linewidth=0)
        for name, marker in zip(figures[0], "osD^", strict=True):
            first = figures[0][name]
            ax.plot(
                nodes,
                [of[name] / first for of in figures],
                marker=marker,
                label=f"{name}, {first:.3g} at {nodes[0]} nodes",
            )
        ax.set_xscale("log")
        ax.set_xticks(nodes, [str(number) for number in nodes])
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        ax.set_xlabel("nodes of both arms")
        ax.set_ylabel(f"per pair, as a multiple of {nodes[0]} nodes")
        ax.legend(frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> Iterator[Point]:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="What a run costs, from 14 to 1002 nodes.")
    parser.add_argument("--nodes", type=int, action="append", help="of all arms; may be repeated")
    parser.add_argument("--one-arm", action="store_true", help="only the treatment arm")
    parser.add_argument("--judge", action="store_true", help="measure nothing: read the figures")
    parser.add_argument("--picture", type=Path, help="where to draw the cost per pair, as SVG")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures are kept")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for nodes in () if arguments.judge else arguments.nodes or SIZES:
        print(f"{nodes} nodes:", flush=True)
        figures = measure(nodes, "treatment" if arguments.one_arm else "both")
        path = arguments.out / f"{figures['nodes']:04d}.json"
        path.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    sizes = [document(path) for path in sorted(arguments.out.glob("*.json"))]
    if not sizes:
        raise LabError(f"{arguments.out} has no figures: run it without --judge first.")
    points = list(judged(sizes))
    if arguments.picture is not None:
        picture(sizes, arguments.picture)
    print(*table(sizes), "", sep="\n")
    yield from points


if __name__ == "__main__":
    sys.exit(judge(main))
