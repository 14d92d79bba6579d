"""How long tests, series of items and runs are expected to take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rackrate.plan.items import BlockItem, Item, Pair, Phase, block_items
from rackrate.plan.series import in_series, slot_seconds
from rackrate.tools.base import TestBase
from rackrate.workloads.base import WorkloadTest

#: Overhead of an item without agreed starts besides its traffic: starting pods, and collecting.
OVERHEAD_SECONDS_PER_ITEM = 3.0


#: Overhead of a run besides its blocks: planning, servers, analysis, report, cleanup.
OVERHEAD_SECONDS_PER_RUN = 20.0


#: How many trials of a series, servers and trials of a run these overheads cover, and the seconds
#: that each further one adds: counted with 60 to 1002 simulated nodes (docs/scale.md).
_TRIALS_OF_A_SERIES, _SECONDS_PER_TRIAL = 100, 0.012


_SERVERS, _SECONDS_PER_SERVER = 60, 0.21


_TRIALS_OF_A_RUN, _SECONDS_PER_ANALYZED_TRIAL = 1000, 0.003


#: How long a pod takes to start at most usually, and what is spared besides: starts differ.
_START_SECONDS, _SPARED = 2.0, 1.2


#: How many pods Launch creates in a second, and how long a pod takes for a further container.
_PODS_PER_SECOND, _SECONDS_PER_CONTAINER = 100, 0.1


#: From the end of a series to the next item: Kubernetes notices it once a second.
_COLLECTING_SECONDS = 1.5


def traffic_seconds(tests: Iterable[TestBase], phase: Phase = "measure") -> float:
    """How long tests send traffic, one after the other.

    Args:
        tests: the tests.
        phase: what is done with workloads among them.
    """
    return sum(_seconds_of(test, phase) for test in tests)


def _seconds_of(test: TestBase, phase: Phase) -> float:
    if not isinstance(test, WorkloadTest):
        return test.expected_seconds
    if phase == "load":
        return test.load_seconds
    return test.expected_seconds + (test.clear_seconds if test.clears else 0.0)


def lead_seconds(pods: int, containers: int, started_after: float | None = None) -> float:
    """How long after Launch begins to create pods the first test starts.

    Args:
        pods: the pods.
        containers: how many containers a pod has at most.
        started_after: how long the pods took that were started last, for one container; None if
            none were.
    """
    usual = _START_SECONDS + pods / _PODS_PER_SECOND
    return _SPARED * max(usual, started_after or 0.0) + further_seconds(containers)


def further_seconds(containers: int) -> float:
    """How long a pod takes to start its containers after the first."""
    return _SECONDS_PER_CONTAINER * (containers - 1)


def unagreed_seconds(tests: Sequence[TestBase], pods: int, phase: Phase = "measure") -> float:
    """The expected duration of an item without agreed starts in seconds.

    Args:
        tests: the tests that each pod runs.
        pods: the pods that run at the same time.
        phase: what is done with workloads among the tests.
    """
    more = _trials_seconds(pods * len(tests))
    return traffic_seconds(tests, phase) + OVERHEAD_SECONDS_PER_ITEM + more


def _trials_seconds(trials: int) -> float:
    return _SECONDS_PER_TRIAL * max(0, trials - _TRIALS_OF_A_SERIES)


def series_seconds(items: Sequence[BlockItem]) -> float:
    """The expected duration of a series in seconds, without the pause before it."""
    first = items[0]
    if not first.has_agreed_starts:
        return unagreed_seconds(first.tests, len(first.pairs), first.phase)
    pods = len({pair for item in items for pair in item.pairs})
    trials = sum(len(item.pairs) * len(item.tests) for item in items)
    lead = lead_seconds(pods, sum(len(item.tests) for item in items))
    sending = sum(slot_seconds(item.tests) for item in items)
    return lead + sending + _COLLECTING_SECONDS + _trials_seconds(trials)


def servers(pairs: Iterable[Pair]) -> int:
    """On how many nodes the pairs need a server."""
    return len({node for pair in pairs for node in pair.nodes})


def servers_seconds(number: int) -> float:
    """How long so many servers take to start, beyond what a run's overhead covers.

    A DaemonSet's controller sends 20 requests a second by default, two for each pod.
    """
    return _SECONDS_PER_SERVER * max(0, number - _SERVERS)


def expected_block_seconds(items: Iterable[Item]) -> float:
    """The expected duration of one block in seconds on average, without the pauses between them."""
    blocks = block_items(items)
    seconds = sum(map(series_seconds, in_series(blocks)))
    return seconds / max(1, len({item.block for item in blocks}))


def expected_run_seconds(items: Iterable[Item], warm_ups: Iterable[Item] = ()) -> float:
    """The expected duration of the whole run in seconds, if no trial has to be repeated.

    Args:
        items: the items that it measures: the schedule, or the first batches of it.
        warm_ups: the warm-up's items, if there is one.
    """
    blocks = block_items(items)
    pairs = [pair for item in blocks for pair in item.pairs]
    trials = sum(len(item.pairs) * len(item.tests) for item in blocks)
    return (
        sum(map(series_seconds, in_series([*block_items(warm_ups), *blocks])))
        + sum(item.pause_seconds for item in blocks)
        + servers_seconds(servers(pairs))
        + _SECONDS_PER_ANALYZED_TRIAL * max(0, trials - _TRIALS_OF_A_RUN)
        + OVERHEAD_SECONDS_PER_RUN
    )
