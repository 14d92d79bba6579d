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

Run as `make bench-scale`, or `python -m benchmarks.scale --nodes 60 --nodes 1002` (root). Exit
codes: 0 the points of `holds` hold, 1 one does not, 2 the machine is not right or a run failed.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import itertools
import json
import math
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from boto3.dynamodb.types import TypeDeserializer

from benchmarks.in_lab import Json, document, lab, say
from benchmarks.points import Point, judge, positive
from lab import daemon, stack
from lab.aws.awslambda.runtime import INVOCATIONS
from lab.errors import LabError
from lab.setup import kwok
from rackrate.measure import manifests
from rackrate_text.quotas import DEFAULT_NODES_PER_GROUP

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
#: Step Functions' limits (Step Functions developer guide, "Service quotas").
MOST_STATE_BYTES, MOST_EVENTS = 256 * 1024, 25_000
#: Lambda's largest request and response (Lambda developer guide, "Lambda quotas").
MOST_EVENT_BYTES = 6 * 10**6
#: DynamoDB's largest item (DynamoDB developer guide, "Service, account, and table quotas").
MOST_ITEM_BYTES = 400 * 1024
#: With this much memory a function has a whole vCPU, with less its share of one (Lambda developer
#: guide, "Configure Lambda function memory").
WHOLE_CPU_BYTES = 1769 * 2**20
#: Growth of a figure per pair from the smallest of these sizes to any larger one that holds. It may
#: shrink, because more pairs share what a run costs anyway.
FLAT_FROM, MOST_GROWTH = 60, 1.10
#: A stage that takes so long at the larger of two sizes may grow with this power of the nodes.
LONG_STAGE_SECONDS, MOST_POWER = 10.0, 1.3
#: The share of its memory and of its time that a function may use.
MOST_SHARE = 0.5
#: How long the collection of a round may take after the end of its last test, with Lambda's share
#: of a processor, and within how many seconds its tests may start.
MOST_COLLECT_SECONDS, MOST_SPREAD_SECONDS = 20.0, 2.0
#: How far the estimate may be from what was counted.
MOST_ESTIMATE_ERROR = 0.15
DEPLOY_SECONDS, RUN_SECONDS = 900.0, 840.0

#: Gives a client of the lab's region, by the service's name.
Client = Callable[[str], Any]
_plain = TypeDeserializer().deserialize


# -- measuring


def measure(nodes: int) -> Json:
    """Deploy a stack with so many nodes in both arms, run the plan once, return the figures.

    Raises:
        LabError: the run did not succeed.
    """
    each = nodes // 2
    parameters = {
        "NodeCount": str(each),
        "NodeGroupsPerArm": str(-(-each // DEFAULT_NODES_PER_GROUP)),
        "HostNetwork": "false",
        "SecondaryCidr": "100.64.0.0/16",
    }
    with lab(deploy=False, kwok=kwok.program()) as status:
        stack.build()
        began = time.monotonic()
        stack.deploy(status, say, parameters=parameters, seconds=DEPLOY_SECONDS)
        deployed = time.monotonic() - began
        client = functools.cache(functools.partial(stack.client, status))
        outputs = stack.outputs(status)
        pairing = "mesh" if nodes <= MOST_NODES_OF_A_MESH else "ring"
        arn = _run(client, outputs["StateMachineArn"], {**PLAN, "pairing": pairing})
        say("reading the figures")
        found = _figures(client, outputs, arn)
    return {"nodes": 2 * each, "pairing": pairing, "deploy_seconds": deployed, **found}


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


def _pages(client: Any, operation: str, key: str, **request: Any) -> list[Json]:
    """All entries of a paginated list."""
    pages = client.get_paginator(operation).paginate(**request)
    return [entry for page in pages for entry in page.get(key, [])]


def _figures(client: Client, outputs: Mapping[str, str], arn: str) -> Json:
    histories = list(_histories(client, arn))
    directory = daemon.state_directory()
    items = _items(client, outputs["TableName"])
    trials = [each for each in items if str(each["sk"]).startswith("trial#")]
    plan = _object(client, outputs["BucketName"], "plan.json")
    results = _object(client, outputs["BucketName"], "results.json")
    invocations = _lines(directory / "aws" / "lambda" / INVOCATIONS)
    run = next(each for each in items if each["sk"] == "run")
    since = histories[0][0]["timestamp"].timestamp()
    settings = _settings(client)
    of_run = [each for each in invocations if each["ended_at"] > since]
    functions = functions_of(of_run, settings)
    requests = [
        each
        for each in _lines(directory / "logs" / "audit.jsonl")
        if _moment(each["requestReceivedTimestamp"]) > since
    ]
    counted = [each for each in trials if int(each["block"]) > 0]
    return {
        # Blocks turn the direction of a pair.
        "pairs": len({(t["arm"], *sorted((t["client"], t["server"]))) for t in counted}),
        "trials": len(counted),
        "failed": sum(each["status"] != "measured" for each in trials),
        "status": run["status"],
        "run_seconds": float(run["seconds"]),
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


def _histories(client: Client, arn: str) -> Iterator[list[Json]]:
    """The history of an execution, then those of the items of its Map Runs."""
    states = client("stepfunctions")
    arns = [arn]
    for map_run in states.list_map_runs(executionArn=arn)["mapRuns"]:
        name = {"mapRunArn": map_run["mapRunArn"]}
        items = _pages(states, "list_executions", "executions", **name)
        arns += [item["executionArn"] for item in items]
    for each in arns:
        yield _pages(states, "get_execution_history", "events", executionArn=each)


def _items(client: Client, table: str) -> list[Json]:
    items = _pages(
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
    found: Json = json.loads(client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    return found


def _objects(client: Client, bucket: str) -> Json:
    """How many objects the run wrote, and the size of the largest of each kind."""
    prefix = f"runs/{RUN}/"
    sizes: dict[str, list[int]] = defaultdict(list)
    objects = _pages(client("s3"), "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
    for each in objects:
        folder, slash, _ = each["Key"].removeprefix(prefix).partition("/")
        sizes[folder + slash].append(each["Size"])
    return {name: {"number": len(of), "largest": max(of)} for name, of in sorted(sizes.items())}


def _settings(client: Client) -> dict[str, tuple[float, int]]:
    """The time in seconds and the memory in bytes of each function."""
    return {
        each["FunctionName"]: (float(each["Timeout"]), int(each["MemorySize"]) * 2**20)
        for each in _pages(client("lambda"), "list_functions", "Functions")
    }


def _lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _moment(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


# -- what was measured, in figures. Pure.


def stages_of(history: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The seconds in each state of an execution, those entered again added up."""
    entered: dict[str, datetime.datetime] = {}
    seconds: dict[str, float] = defaultdict(float)
    for event in history:
        if (into := event.get("stateEnteredEventDetails")) is not None:
            entered[into["name"]] = event["timestamp"]
        elif (left := event.get("stateExitedEventDetails")) is not None:
            begun = entered.pop(left["name"])
            seconds[left["name"]] += (event["timestamp"] - begun).total_seconds()
    return dict(seconds)


def transitions_of(history: Iterable[Mapping[str, Any]]) -> int:
    """The state transitions of an execution, as they are billed: one for each state entered."""
    return sum(str(event["type"]).endswith("StateEntered") for event in history)


def largest_state(history: Iterable[Mapping[str, Any]]) -> int:
    """The bytes of the largest input or output of a state."""
    found = [
        len(details.get(name) or "")
        for event in history
        for key, details in event.items()
        if key in ("stateEnteredEventDetails", "stateExitedEventDetails")
        for name in ("input", "output")
    ]
    return max(found, default=0)


def functions_of(
    invocations: Iterable[Mapping[str, Any]], settings: Mapping[str, tuple[float, int]]
) -> dict[str, Json]:
    """What the calls of each function took, by the function's name without its stack's."""
    calls: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in invocations:
        calls[each["function"]].append(each)
    found = {}
    for name, of in sorted(calls.items()):
        most_seconds, memory = settings[name]
        longest = max(seconds_on_lambda(each, memory) for each in of)
        found[step_of(name)] = {
            "calls": len(of),
            "failed": sum(each["failed"] for each in of),
            "seconds": sum(each["seconds"] for each in of),
            "processor_seconds": sum(each["processor_seconds"] for each in of),
            "longest_seconds": max(each["seconds"] for each in of),
            "gigabyte_seconds": sum(each["seconds"] for each in of) * memory / 2**30,
            "longest_on_lambda": longest,
            "share_of_time": longest / most_seconds,
            "share_of_memory": max(each["peak_bytes"] for each in of) / memory,
        }
    return found


def seconds_on_lambda(invocation: Mapping[str, Any], memory: int) -> float:
    """How long a call that took so long on a whole processor takes on Lambda's share of one."""
    share = min(1.0, memory / WHOLE_CPU_BYTES)
    return float(invocation["seconds"] + invocation["processor_seconds"] * (1 / share - 1))


def step_of(function: str) -> str:
    """The step in a function's name: `collect` of `rackrate-Benchmark-1-CollectFunction-2`."""
    words = re.sub(r"-[A-Za-z0-9]*$", "", function).rpartition("-")[2].removesuffix("Function")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words).lower()


def requests_of(audited: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The requests to the API server by kind, such as `create pods` and `get pods/log`."""
    found: Counter[str] = Counter()
    for each in audited:
        of = each.get("objectRef", {})
        resource = "/".join(filter(None, (of.get("resource", "other"), of.get("subresource"))))
        found[f"{each['verb']} {resource}"] += 1
    return dict(sorted(found.items()))


def deletion_of(audited: Iterable[Mapping[str, Any]]) -> float:
    """The longest request that deleted the client pods of a round, in seconds."""
    clients = manifests.selector({manifests.ROLE: "client"})
    return max(
        (
            _moment(each["stageTimestamp"]) - _moment(each["requestReceivedTimestamp"])
            for each in audited
            if each["verb"] == "deletecollection" and clients in unquote(each["requestURI"])
        ),
        default=0.0,
    )


def starts_of(trials: Iterable[Mapping[str, Any]]) -> list[Json]:
    """When the tests of each round started, in order; by Kubernetes' clock."""
    rounds: dict[tuple[int, int, str], list[float]] = defaultdict(list)
    for each in trials:
        if each.get("started_at"):
            key = int(each["block"]), int(each["round"]), str(each["test"])
            rounds[key].append(_moment(str(each["started_at"])))
    return [
        {
            "block": block,
            "round": round_,
            "test": test,
            "pairs": len(of),
            "spread": max(of) - min(of),
        }
        for (block, round_, test), of in sorted(rounds.items())
    ]


def collections_of(
    trials: Iterable[Mapping[str, Any]],
    invocations: Iterable[Mapping[str, Any]],
    settings: Mapping[str, tuple[float, int]],
) -> list[Json]:
    """How long each round's collection took after its last test had ended, in order.

    Kubernetes tells that end in whole seconds, so each figure is up to a second too large.
    """
    ended: dict[tuple[int, int], list[float]] = defaultdict(list)
    for each in trials:
        if each.get("finished_at"):
            key = int(each["block"]), int(each["round"])
            ended[key].append(_moment(str(each["finished_at"])))
    rounds = sorted((max(of), len(of), key) for key, of in ended.items())
    calls = sorted(
        (each["ended_at"], seconds_on_lambda(each, settings[each["function"]][1]) - each["seconds"])
        for each in invocations
        if step_of(each["function"]) == "collect"
    )
    found = []
    for (last, number, (block, round_)), (later, *_) in itertools.pairwise(
        [*rounds, (float("inf"), 0, (0, 0))]
    ):
        of = [call for call in calls if last <= call[0] < later]
        if of:
            end, slower = of[-1]
            found.append(
                {
                    "block": block,
                    "round": round_,
                    "trials": number,
                    "seconds": end - last,
                    "on_lambda": end - last + slower,
                }
            )
    return found


def per_pair(size: Mapping[str, Any]) -> dict[str, float]:
    """The figures that are to be flat: a run's, divided by its pairs."""
    pairs = positive(size["pairs"], "the number of pairs")
    of = size["functions"].values()
    return {
        "processor seconds": sum(each["processor_seconds"] for each in of) / pairs,
        "Lambda seconds": sum(each["seconds"] for each in of) / pairs,
        "transitions": size["transitions"] / pairs,
        "API requests": sum(size["requests"].values()) / pairs,
    }


def whole_spread(size: Mapping[str, Any]) -> float:
    """The most seconds between the first and the last start of a round's first test."""
    return max((each["spread"] for each in size["starts"] if each["block"] > 0), default=0.0)


def judged(sizes: Sequence[Mapping[str, Any]]) -> list[Point]:
    """What holds at these sizes, the smallest first. Pure.

    Raises:
        ImpossibleFigure: a figure that nothing can have.
    """
    points = []
    for size in sizes:
        nodes = size["nodes"]
        points.append(
            Point(
                size["status"] == "succeeded" and not size["failed"],
                f"{nodes} nodes: {size['trials']} trials, {size['failed']} lost",
            )
        )
        for name, limit, most in (
            ("state_bytes", MOST_STATE_BYTES, "a state's input or output"),
            ("event_bytes", MOST_EVENT_BYTES, "an event of a function"),
            ("item_bytes", MOST_ITEM_BYTES, "an item of the table"),
            ("most_events", MOST_EVENTS, "the events of an execution"),
        ):
            points.append(
                Point(size[name] <= limit / 2, f"{nodes} nodes: {most}: {size[name]} of {limit}")
            )
        for kind in ("share_of_memory", "share_of_time"):
            step, share = max(
                ((step, of[kind]) for step, of in size["functions"].items()), key=lambda of: of[1]
            )
            what = kind.removeprefix("share_of_")
            points.append(
                Point(share <= MOST_SHARE, f"{nodes} nodes: {step} used {share:.0%} of its {what}")
            )
    flat = [size for size in sizes if size["nodes"] >= FLAT_FROM]
    for size in flat:
        points += _of_its_estimate(size)
    for size in flat[1:]:
        before, after = per_pair(flat[0]), per_pair(size)
        points += [
            Point(
                after[name] <= MOST_GROWTH * before[name],
                f"{name} per pair from {flat[0]['nodes']} to {size['nodes']} nodes:"
                f" {before[name]:.3g} to {after[name]:.3g}, at most 10 % more",
            )
            for name in before
        ]
    if len(flat) > 1:
        # Smaller sizes are within what Kubernetes' controllers may send at once.
        points.append(_of_its_stages(*flat[-2:]))
    if sizes:
        points += _of_the_largest(sizes[-1])
    return points


def _of_its_stages(first: Mapping[str, Any], size: Mapping[str, Any]) -> Point:
    """Whether no long stage grows much faster than the nodes; a quadratic one has the power 2."""
    more = math.log(size["nodes"] / first["nodes"])
    powers = {
        name: math.log(seconds / max(first["stages"].get(name, 0.0), 1.0)) / more
        for name, seconds in size["stages"].items()
        if seconds >= LONG_STAGE_SECONDS
    }
    name, power = max(powers.items(), key=lambda of: of[1], default=("no stage", 0.0))
    return Point(
        power <= MOST_POWER,
        f"{size['nodes']} nodes: of the long stages {name} grows most, with the nodes to the power"
        f" of {power:.2f}",
    )


def _of_its_estimate(size: Mapping[str, Any]) -> list[Point]:
    estimated = {"minutes": size["estimate"]["seconds"] / 60}
    counted = {"minutes": size["run_seconds"] / 60}
    estimated["dollars"], counted["dollars"] = costs_of(size)
    return [
        Point(
            abs(estimated[name] / counted[name] - 1) <= MOST_ESTIMATE_ERROR,
            f"{size['nodes']} nodes: {estimated[name]:.2f} {name} estimated,"
            f" {counted[name]:.2f} counted",
        )
        for name in counted
    ]


def _of_the_largest(size: Mapping[str, Any]) -> list[Point]:
    collect = max((each["on_lambda"] for each in size["collections"]), default=0.0)
    spread = whole_spread(size)
    return [
        Point(
            collect <= MOST_COLLECT_SECONDS,
            f"{size['nodes']} nodes: the longest collection of a round takes {collect:.1f} s",
        ),
        Point(
            spread <= MOST_SPREAD_SECONDS,
            f"{size['nodes']} nodes: the tests of a round start within {spread:.0f} s",
        ),
    ]


def counted_usage(size: Mapping[str, Any]) -> dict[str, float]:
    """What a run used of what AWS bills, by the unit of the estimate's lines."""
    of = size["functions"].values()
    hours = size["run_seconds"] / 3600
    return {
        "node-hour": size["nodes"] * hours,
        "cluster-hour": hours,
        "state transition": size["transitions"],
        "request": sum(each["calls"] for each in of),
        "GB-second": sum(each["gigabyte_seconds"] for each in of),
    }


def costs_of(size: Mapping[str, Any]) -> tuple[float, float]:
    """The dollars of a run as estimated, and of what was counted at the same prices."""
    lines, counted = size["estimate"]["lines"], counted_usage(size)
    priced = [line for line in lines if line["usd_per_unit"] is not None]
    return (
        sum(line["quantity"] * line["usd_per_unit"] for line in priced),
        sum(counted[line["unit"]] * line["usd_per_unit"] for line in priced),
    )


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
    parser.add_argument("--nodes", type=int, action="append", help="of both arms; may be repeated")
    parser.add_argument("--judge", action="store_true", help="measure nothing: read the figures")
    parser.add_argument("--picture", type=Path, help="where to draw the cost per pair, as SVG")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures are kept")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for nodes in () if arguments.judge else arguments.nodes or SIZES:
        print(f"{nodes} nodes:", flush=True)
        found = measure(nodes)
        path = arguments.out / f"{found['nodes']:04d}.json"
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    sizes = [document(path) for path in sorted(arguments.out.glob("*.json"))]
    if not sizes:
        raise LabError(f"{arguments.out} has no figures: run it without --judge first.")
    points = judged(sizes)
    if arguments.picture is not None:
        picture(sizes, arguments.picture)
    print(*table(sizes), "", sep="\n")
    yield from points


if __name__ == "__main__":
    sys.exit(judge(main))
