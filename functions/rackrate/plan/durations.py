"""How long tests, rounds and runs are expected to take. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rackrate.plan.items import BlockItem, Item, Pair, Phase, block_items
from rackrate.tools.base import TestBase
from rackrate.workloads.base import WorkloadTest

#: Overhead of a round besides its traffic: starting pods and containers, and collecting.
OVERHEAD_SECONDS_PER_ROUND = 4.0


#: Overhead of a run besides its blocks: planning, servers, analysis, report, cleanup.
OVERHEAD_SECONDS_PER_RUN = 20.0


#: How many trials of a round, servers and trials of a run these overheads cover, and the seconds
#: that each further one adds: counted with 60 to 1002 simulated nodes (docs/scale.md).
_TRIALS_OF_A_ROUND, _SECONDS_PER_TRIAL = 100, 0.018


_SERVERS, _SECONDS_PER_SERVER = 60, 0.21


_TRIALS_OF_A_RUN, _SECONDS_PER_ANALYZED_TRIAL = 1000, 0.003


#: Pairs that load the network together start each test at an agreed time. The first one is so long
#: after Launch has begun, and later by a second for so many pods. The next one is so long after a
#: test's end, in which Kubernetes starts its container.
FIRST_START_SECONDS, PODS_PER_SECOND, NEXT_START_SECONDS = 3.0, 100, 2.0


#: How much of these waits a round takes without an agreement, too: its overhead has it.
_STARTS_IN_OVERHEAD = 2.0


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


def waiting_seconds(tests: Sequence[TestBase], pairs: int) -> float:
    """How long the pods of a round wait for agreed starts at most, from when Launch begins.

    Args:
        tests: the tests that each pair runs.
        pairs: the pairs that load the network together.
    """
    # An agreed start is a whole second.
    return _waits(tests, pairs) + len(tests)


def _waits(tests: Sequence[TestBase], pairs: int) -> float:
    return FIRST_START_SECONDS + pairs / PODS_PER_SECOND + NEXT_START_SECONDS * (len(tests) - 1)


def round_seconds(
    tests: Sequence[TestBase], pairs: int, phase: Phase = "measure", *, together: bool = False
) -> float:
    """The expected duration of a round of so many pairs in seconds.

    Args:
        tests: the tests that each pair runs.
        pairs: the pairs that are measured at the same time.
        phase: what is done with workloads among the tests.
        together: whether they start each test at an agreed time.
    """
    more = _SECONDS_PER_TRIAL * max(0, pairs * len(tests) - _TRIALS_OF_A_ROUND)
    if together:
        more += _waits(tests, pairs) - _STARTS_IN_OVERHEAD
    return traffic_seconds(tests, phase) + OVERHEAD_SECONDS_PER_ROUND + more


def servers(pairs: Iterable[Pair]) -> int:
    """On how many nodes the pairs need a server."""
    return len({node for pair in pairs for node in (pair.client, pair.server)})


def servers_seconds(number: int) -> float:
    """How long so many servers take to start, beyond what a run's overhead covers.

    A DaemonSet's controller sends 20 requests a second by default, two for each pod.
    """
    return _SECONDS_PER_SERVER * max(0, number - _SERVERS)


def _item_seconds(item: BlockItem) -> float:
    return round_seconds(item.tests, len(item.pairs), item.phase, together=item.is_together)


def expected_block_seconds(items: Iterable[Item]) -> float:
    """The expected duration of one block in seconds, without the pause before it.

    The rounds of pairs count as long as the longest of them.
    """
    blocks = block_items(items)
    of_pairs = [item for item in blocks if item.workload is None]
    rounds = max(Counter(item.block for item in of_pairs).values(), default=0)
    longest = max((_item_seconds(item) for item in of_pairs), default=0.0)
    others: dict[int, float] = defaultdict(float)
    for item in blocks:
        if item.workload is not None:
            others[item.block] += _item_seconds(item)
    return rounds * longest + max(others.values(), default=0.0)


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
        sum(map(_item_seconds, block_items(warm_ups)))
        + sum(_item_seconds(item) + item.pause_seconds for item in blocks)
        + servers_seconds(servers(pairs))
        + _SECONDS_PER_ANALYZED_TRIAL * max(0, trials - _TRIALS_OF_A_RUN)
        + OVERHEAD_SECONDS_PER_RUN
    )
