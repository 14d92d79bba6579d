"""Whether the pairs of a round loaded the network at the same time. Pure.

A plan with the load `together` starts all pairs of a round at once, but pods start one after
another. What a test then measures is the network under the load of those that were sending.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rackrate.measure.trials import Trial
from rackrate.plan.model import Plan
from rackrate.tools.base import TestBase
from rackrate_contract.results import RoundApart, Together
from rackrate_contract.trials import TrialKey
from rackrate_text.units import duration, percent
from rackrate_text.words import counted

#: All pairs of a round are to send for this share of a test.
LEAST_OVERLAP = 0.80
#: Kubelets and iperf3 report whole seconds. A round counts as apart only if it is so whatever the
#: fractions were.
RESOLUTION_SECONDS = 1.0


class Sending(NamedTuple):
    """When a trial sent, in seconds since 1970."""

    start: float
    end: float


def together(plan: Plan, trials: Mapping[TrialKey, Trial]) -> list[Together]:
    """What the start times of a run's trials say, by test that loads the network.

    Args:
        plan: the run's plan. Without the load `together` there is nothing to say.
        trials: the trials of its blocks. A repetition has a round of its own, so it is left out.
    """
    if plan.load != "together":
        return []
    tests = []
    for test in plan.tests:
        if test.throughput is None:
            continue
        rounds: dict[tuple[int, int], list[Sending]] = defaultdict(list)
        for key, trial in trials.items():
            if key.test == test.name and trial.is_measured and trial.attempt == 1:
                sending = _sending(trial, test)
                if sending is not None:
                    rounds[key.block, trial.round].append(sending)
        several = {at: of for at, of in sorted(rounds.items()) if len(of) > 1}
        if several:
            tests.append(_of_test(test.name, several))
    return tests


def _of_test(name: str, rounds: Mapping[tuple[int, int], Sequence[Sending]]) -> Together:
    spreads = {at: _spread(of) for at, of in rounds.items()}
    overlaps = {at: _overlap(of, 0.0) for at, of in rounds.items()}
    return Together(
        test=name,
        rounds=len(rounds),
        pairs=max(map(len, rounds.values())),
        start_spread_seconds=statistics.median(spreads.values()),
        most_start_spread_seconds=max(spreads.values()),
        overlap=statistics.median(overlaps.values()),
        least_overlap=min(overlaps.values()),
        apart=tuple(
            RoundApart(
                block=at[0], round=at[1], start_spread_seconds=spreads[at], overlap=overlaps[at]
            )
            for at, of in rounds.items()
            if _overlap(of, RESOLUTION_SECONDS) < LEAST_OVERLAP
        ),
    )


def _sending(trial: Trial, test: TestBase) -> Sending | None:
    """When a trial sent: by its tool's clock if known, or else by its container's life."""
    if trial.interval is None:
        return None
    started, finished = trial.interval
    own = trial.detail("started_at_epoch_seconds")
    start = started if own is None else own
    # A container lives longer than its test, for as long as its tool takes to start and to end.
    return Sending(start, min(start + test.expected_seconds, max(finished, start)))


def _spread(sending: Iterable[Sending]) -> float:
    starts = [each.start for each in sending]
    return max(starts) - min(starts)


def _overlap(sending: Sequence[Sending], tolerance: float) -> float:
    """The share of a test in which all were sending, if starts may be off by the tolerance."""
    length = statistics.median(each.end - each.start for each in sending)
    if length <= 0:
        return 0.0
    last_start = max(each.start for each in sending)
    first_end = min(each.end for each in sending)
    return min(1.0, max(0.0, first_end - last_start + tolerance) / length)


def warnings(tests: Iterable[Together]) -> list[str]:
    """A sentence for each test with rounds apart."""
    return [
        f"The pairs of {each.test} did not load the network at the same time in"
        f" {len(each.apart)} of {counted(each.rounds, 'round')}: their tests started within"
        f" {duration(each.most_start_spread_seconds)}, so in the worst round all were sending for"
        f" {percent(each.least_overlap)} of the test. What it measured may be the network under"
        " less load: let the test last longer, at least five times as long as its pairs take to"
        " start."
        for each in tests
        if each.apart
    ]
