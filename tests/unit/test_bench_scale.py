"""`make bench-scale` judges what it counted: growth, loss and waste fail, and flat figures pass."""

from __future__ import annotations

import datetime
from copy import deepcopy
from typing import Any

import pytest

from benchmarks import scale, scale_figures
from benchmarks.points import ImpossibleFigure

PRICES = {
    "node-hour": 0.1,
    "cluster-hour": 0.1,
    "state transition": 0.001,
    "request": 1e-6,
    "GB-second": 1e-5,
}


def size(nodes: int) -> Any:
    """The figures of a run in which everything grows with its pairs."""
    pairs = nodes // 2
    seconds = 60.0
    hours = seconds / 3600
    quantities = {
        "node-hour": nodes * hours,
        "cluster-hour": hours,
        "state transition": 2 * pairs,
        "request": pairs,
        "GB-second": 0.05 * pairs,
    }
    return {
        "nodes": nodes,
        "pairs": pairs,
        "trials": 6 * pairs,
        "failed": 0,
        "pairing": "ring",
        "status": "succeeded",
        "run_seconds": seconds,
        "stages": {"Plan": 1.0},
        "functions": {
            "collect": {
                "calls": pairs,
                "failed": 0,
                "seconds": 0.1 * pairs,
                "processor_seconds": 0.05 * pairs,
                "longest_seconds": 3.0,
                "longest_on_lambda": 5.0,
                "gigabyte_seconds": 0.05 * pairs,
                "share_of_time": 0.2,
                "share_of_memory": 0.3,
            }
        },
        "transitions": 2 * pairs,
        "most_events": 100,
        "requests": {"create pods": pairs, "get pods/log": 3 * pairs},
        "deletion_seconds": 1.0,
        "state_bytes": 1000,
        "event_bytes": 1000,
        "item_bytes": 1000,
        "objects": {"plan.json": {"number": 1, "largest": 10}},
        "starts": [{"block": 1, "round": 1, "test": "tcp-1", "pairs": pairs, "spread": 2.0}],
        "collections": [{"block": 1, "round": 1, "trials": 3, "seconds": 3.0, "on_lambda": 5.0}],
        "estimate": {
            "seconds": seconds,
            "lines": [
                {"unit": unit, "quantity": quantities[unit], "usd_per_unit": price}
                for unit, price in PRICES.items()
            ],
        },
    }


def failures(*sizes: Any) -> list[str]:
    return [point.what for point in scale_figures.judged(sizes) if not point.holds]


def test_what_grows_with_the_pairs_is_flat() -> None:
    sizes = [size(14), size(60), size(1002)]
    assert failures(*sizes) == []
    assert len({line.count("|") for line in scale.table(sizes)}) == 1


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("transitions",), 20_000, "transitions per pair"),
        (("requests", "list nodes"), 1000, "API requests per pair"),
        (("functions", "collect", "processor_seconds"), 1e3, "processor seconds per pair"),
        (("functions", "collect", "seconds"), 1e3, "Lambda seconds per pair"),
        (("functions", "collect", "share_of_memory"), 0.51, "of its memory"),
        (("functions", "collect", "share_of_time"), 0.51, "of its time"),
        (("collections", 0, "on_lambda"), 21.0, "longest collection of a round"),
        (("starts", 0, "spread"), 3.0, "start within"),
        (("stages", "Plan"), 300.0, "Plan grows most"),
        (("event_bytes",), 4_000_000, "an event of a function"),
        (("state_bytes",), 200_000, "a state's input or output"),
        (("item_bytes",), 300_000, "an item of the table"),
        (("failed",), 1, "1 lost"),
        (("status",), "degraded", "0 lost"),
        (("estimate", "seconds"), 90.0, "minutes estimated"),
        (("run_seconds",), 50.0, "minutes estimated"),
    ],
)
def test_each_point_fails_by_itself(path: tuple[str | int, ...], value: Any, problem: str) -> None:
    largest = deepcopy(size(1002))
    at = largest
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    problems = failures(size(60), largest)
    assert any(problem in each for each in problems), problems


def test_less_for_each_pair_of_a_larger_run_passes() -> None:
    largest = size(1002)
    largest["functions"]["collect"]["processor_seconds"] /= 10
    largest["requests"]["get pods/log"] //= 10
    assert failures(size(60), largest) == []


def test_a_collection_lasts_from_the_end_of_its_last_test_to_the_end_of_its_last_call() -> None:
    def trial(round_: int, second: int) -> dict[str, Any]:
        return {"block": 1, "round": round_, "finished_at": f"2026-11-24T08:00:{second:02}Z"}

    def call(step: str, second: float) -> dict[str, Any]:
        ended_at = datetime.datetime(2026, 11, 24, 8, tzinfo=datetime.UTC).timestamp() + second
        return {"function": step, "ended_at": ended_at, "seconds": 5.0, "processor_seconds": 1.0}

    name = "rackrate-CollectFunction-1"
    collections = scale_figures.collections_of(
        [trial(1, 10), trial(1, 12), trial(2, 30)],
        [call(name, 8.0), call(name, 14.0), call(name, 17.0), call(name, 34.0)],
        {name: (300.0, 1769 * 2**20 // 2)},
    )
    assert [(each["round"], each["trials"], each["seconds"]) for each in collections] == [
        (1, 2, pytest.approx(5.0)),
        (2, 1, pytest.approx(4.0)),
    ]
    assert [each["on_lambda"] for each in collections] == pytest.approx([6.0, 5.0])


def test_a_size_without_pairs_is_impossible() -> None:
    with pytest.raises(ImpossibleFigure):
        list(scale_figures.judged([size(60), {**size(1002), "pairs": 0}]))


def test_a_call_takes_longer_on_a_share_of_a_processor() -> None:
    call = {"seconds": 10.0, "processor_seconds": 4.0}
    assert scale_figures.seconds_on_lambda(call, 1769 * 2**20) == pytest.approx(10.0)
    assert scale_figures.seconds_on_lambda(call, 1769 * 2**20 // 2) == pytest.approx(14.0)


def test_requests_are_counted_by_kind() -> None:
    def request(verb: str, **of: str) -> dict[str, Any]:
        return {"verb": verb, "objectRef": of}

    assert scale_figures.requests_of(
        [
            request("get", resource="pods", subresource="log"),
            request("get", resource="pods"),
            request("get", resource="pods", subresource="log"),
        ]
    ) == {"get pods": 1, "get pods/log": 2}


def test_only_the_deletions_of_client_pods_count_as_a_rounds() -> None:
    def request(verb: str, labels: str, second: int) -> Any:
        return {
            "verb": verb,
            "requestURI": f"/api/v1/namespaces/rackrate/pods?labelSelector={labels}",
            "requestReceivedTimestamp": "2026-11-26T00:00:00.000000Z",
            "stageTimestamp": f"2026-11-26T00:00:0{second}.500000Z",
        }

    run = "rackrate.dev%2Frun%3Dscale"
    clients = f"{run}%2Crackrate.dev%2Frole%3Dclient%2Crackrate.dev%2Fround%3D1"
    requests = [request("deletecollection", clients, seconds) for seconds in (1, 3, 2)]
    others = [request("deletecollection", run, 8), request("watch", clients, 9)]
    assert scale_figures.deletion_of([*requests, *others]) == pytest.approx(3.5)
    assert scale_figures.deletion_of(others) == 0


def test_the_seconds_of_a_state_that_is_entered_again_add_up() -> None:
    at = datetime.datetime(2026, 11, 24, tzinfo=datetime.UTC)

    def event(second: int, kind: str) -> dict[str, Any]:
        return {
            "type": f"TaskState{kind}",
            "timestamp": at + datetime.timedelta(seconds=second),
            f"state{kind}EventDetails": {"name": "Plan", "input": "{}"},
        }

    history = [event(0, "Entered"), event(2, "Exited"), event(5, "Entered"), event(6, "Exited")]
    assert scale_figures.stages_of(history) == {"Plan": 3.0}
    assert scale_figures.transitions_of(history) == 2
    assert scale_figures.largest_state(history) == 2


def test_a_function_is_named_by_its_step() -> None:
    assert (
        scale_figures.step_of("rackrate-Benchmark-AB12-AwaitServersFunction-CD34")
        == "await servers"
    )


def test_a_round_is_as_spread_as_its_first_and_last_start() -> None:
    def started(second: int, block: int) -> dict[str, Any]:
        at = datetime.datetime(2026, 11, 24, 8, 0, second, tzinfo=datetime.UTC).isoformat()
        return {"block": block, "round": 1, "test": "rtt", "started_at": at}

    starts = scale_figures.starts_of([started(1, 1), started(4, 1), started(9, 2)])
    assert [each["spread"] for each in starts] == [3.0, 0.0]
    assert scale_figures.whole_spread({"starts": starts}) == 3.0
