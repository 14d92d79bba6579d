"""What a run of many nodes cost, in figures: its history, calls, requests and trials. Pure."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from benchmarks.in_lab import Json
from benchmarks.points import Point, positive
from rackrate.measure import manifests

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


def moment(text: str) -> float:
    """Seconds since the epoch of a time in ISO 8601."""
    return datetime.datetime.fromisoformat(text).timestamp()


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
    sizes = [
        len(details.get(name) or "")
        for event in history
        for key, details in event.items()
        if key in ("stateEnteredEventDetails", "stateExitedEventDetails")
        for name in ("input", "output")
    ]
    return max(sizes, default=0)


def functions_of(
    invocations: Iterable[Mapping[str, Any]], settings: Mapping[str, tuple[float, int]]
) -> dict[str, Json]:
    """What the calls of each function took, by the function's name without its stack's."""
    calls: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in invocations:
        calls[each["function"]].append(each)
    figures = {}
    for name, of in sorted(calls.items()):
        most_seconds, memory = settings[name]
        longest = max(seconds_on_lambda(each, memory) for each in of)
        figures[step_of(name)] = {
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
    return figures


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
    requests: Counter[str] = Counter()
    for each in audited:
        of = each.get("objectRef", {})
        resource = "/".join(filter(None, (of.get("resource", "other"), of.get("subresource"))))
        requests[f"{each['verb']} {resource}"] += 1
    return dict(sorted(requests.items()))


def deletion_of(audited: Iterable[Mapping[str, Any]]) -> float:
    """The longest request that deleted the client pods of a round, in seconds."""
    clients = manifests.selector({manifests.ROLE: "client"})
    return max(
        (
            moment(each["stageTimestamp"]) - moment(each["requestReceivedTimestamp"])
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
            rounds[key].append(moment(str(each["started_at"])))
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

    Kubernetes reports that end in whole seconds, so each figure is up to a second too large.
    """
    ended: dict[tuple[int, int], list[float]] = defaultdict(list)
    for each in trials:
        if each.get("finished_at"):
            key = int(each["block"]), int(each["round"])
            ended[key].append(moment(str(each["finished_at"])))
    rounds = sorted((max(of), len(of), key) for key, of in ended.items())
    calls = sorted(
        (each["ended_at"], seconds_on_lambda(each, settings[each["function"]][1]) - each["seconds"])
        for each in invocations
        if step_of(each["function"]) == "collect"
    )
    collections = []
    for (last, number, (block, round_)), (later, *_) in itertools.pairwise(
        [*rounds, (float("inf"), 0, (0, 0))]
    ):
        of = [call for call in calls if last <= call[0] < later]
        if of:
            end, slower = of[-1]
            collections.append(
                {
                    "block": block,
                    "round": round_,
                    "trials": number,
                    "seconds": end - last,
                    "on_lambda": end - last + slower,
                }
            )
    return collections


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


def judged(sizes: Sequence[Mapping[str, Any]]) -> Iterator[Point]:
    """What holds at these sizes, the smallest first. Pure.

    Raises:
        ImpossibleFigure: a figure that nothing can have.
    """
    for size in sizes:
        nodes = size["nodes"]
        yield Point(
            size["status"] == "succeeded" and not size["failed"],
            f"{nodes} nodes: {size['trials']} trials, {size['failed']} lost",
        )
        for name, limit, most in (
            ("state_bytes", MOST_STATE_BYTES, "a state's input or output"),
            ("event_bytes", MOST_EVENT_BYTES, "an event of a function"),
            ("item_bytes", MOST_ITEM_BYTES, "an item of the table"),
            ("most_events", MOST_EVENTS, "the events of an execution"),
        ):
            yield Point(size[name] <= limit / 2, f"{nodes} nodes: {most}: {size[name]} of {limit}")
        for kind in ("share_of_memory", "share_of_time"):
            step, share = max(
                ((step, of[kind]) for step, of in size["functions"].items()), key=lambda of: of[1]
            )
            what = kind.removeprefix("share_of_")
            text = f"{nodes} nodes: {step} used {share:.0%} of its {what}"
            yield Point(share <= MOST_SHARE, text)
    flat = [size for size in sizes if size["nodes"] >= FLAT_FROM]
    for size in flat:
        yield from _of_its_estimate(size)
    for size in flat[1:]:
        before, after = per_pair(flat[0]), per_pair(size)
        for name in before:
            yield Point(
                after[name] <= MOST_GROWTH * before[name],
                f"{name} per pair from {flat[0]['nodes']} to {size['nodes']} nodes:"
                f" {before[name]:.3g} to {after[name]:.3g}, at most 10 % more",
            )
    if len(flat) > 1:
        # Smaller sizes are within what Kubernetes' controllers may send at once.
        yield _of_its_stages(*flat[-2:])
    if sizes:
        yield from _of_the_largest(sizes[-1])


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


def _of_its_estimate(size: Mapping[str, Any]) -> Iterator[Point]:
    estimated = {"minutes": size["estimate"]["seconds"] / 60}
    counted = {"minutes": size["run_seconds"] / 60}
    estimated["dollars"], counted["dollars"] = costs_of(size)
    for name in counted:
        yield Point(
            abs(estimated[name] / counted[name] - 1) <= MOST_ESTIMATE_ERROR,
            f"{size['nodes']} nodes: {estimated[name]:.2f} {name} estimated,"
            f" {counted[name]:.2f} counted",
        )


def _of_the_largest(size: Mapping[str, Any]) -> Iterator[Point]:
    collect = max((each["on_lambda"] for each in size["collections"]), default=0.0)
    spread = whole_spread(size)
    text = f"{size['nodes']} nodes: the longest collection of a round takes {collect:.1f} s"
    yield Point(collect <= MOST_COLLECT_SECONDS, text)
    text = f"{size['nodes']} nodes: the tests of a round start within {spread:.0f} s"
    yield Point(spread <= MOST_SPREAD_SECONDS, text)


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
