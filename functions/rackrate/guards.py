"""Marks on trials that measured something else than the network between two nodes. Pure.

A mark drops nothing. It says what a person should know before trusting a trial, and its text says
with which figures it was found.
"""

from __future__ import annotations

import datetime
import itertools
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rackrate import tools
from rackrate.ceilings import InstanceNetwork, bit_rate, directions_of
from rackrate.schedule import TrialKey
from rackrate.tools import TestBase

Json = dict[str, Any]

#: A thread that computes nine tenths of its time has no time to wait for the network. It is counted
#: over the whole test, its slow start among it, so that a busy thread does not come to 100 %. What
#: the kernel does in interrupts is not in it: a CPU may be the limit without this mark.
BUSY = 0.90
#: iperf3 3.16 gave each stream a thread of its own; before, one thread had them all
#: (its release notes, https://github.com/esnet/iperf/releases/tag/3.16).
STREAMS_IN_THREADS_SINCE = (3, 16)
#: The kubelet tells whole seconds, and a container takes a moment to start and to end.
CLOCK_TOLERANCE_SECONDS = 2.0

# A burst is over when the rate falls to the instance's baseline and stays there. Payload is up to
# a tenth less than what EC2 counts, so the baseline is seen from 80 to 110 % of it; a rate from
# 125 % on is clearly above. One value in ten may be on the wrong side.
AT_BASELINE = (0.80, 1.10)
CLEARLY_ABOVE = 1.25
_BETWEEN = 1.17
STRAY = 0.10
#: Intervals of a series before the drop and after it. Three in a row are no hiccup.
LEAST_INTERVALS = 3
#: Blocks before the drop and after it.
LEAST_BLOCKS_BEFORE, LEAST_BLOCKS_AFTER = 1, 2

#: Packets queued or dropped because an allowance of the instance was exceeded: bw_in, bw_out, pps,
#: conntrack, linklocal. Bursts of microseconds raise them too, so they accompany a trial and do not
#: condemn it (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html).
ENA_ALLOWANCE_SUFFIX = "_allowance_exceeded"


@dataclass(frozen=True)
class Mark:
    """Something a person should know of a trial.

    Attributes:
        mark: `client_cpu`, `server_cpu`, `clock`, `burst_drop_in_trial`,
            `burst_drop_across_blocks`, `repeated` or `ena_allowance`.
        text: what was found, with its figures.
    """

    mark: str
    text: str


def mark_trials(
    stored_plan: Mapping[str, Any],
    trials: Mapping[TrialKey, Mapping[str, Any]],
    series: Mapping[str, Sequence[Mapping[str, Any]]],
    counters: Mapping[str, Any] | None,
) -> dict[TrialKey, list[Mark]]:
    """The marks of a run's trials; trials without any are left out.

    Args:
        stored_plan: the run's plan.json.
        trials: the trials, as the table has them.
        series: the intervals of trials, by trial id; a trial may have none.
        counters: counters.json, or None when nothing was counted.
    """
    arms = {arm["name"]: arm for arm in stored_plan["arms"]}
    tests = {test["name"]: tools.load_test(test) for test in stored_plan["plan"]["tests"]}
    cpus = {node["name"]: node.get("cpus") for arm in arms.values() for node in arm["nodes"]}
    ordered = sorted(trials.items())
    measured = {key: trial for key, trial in ordered if trial.get("status") == "measured"}
    marks: dict[TrialKey, list[Mark]] = defaultdict(list)
    for key, trial in measured.items():
        test = tests[key.test]
        marks[key] += cpu_marks(key, trial, test, cpus)
        marks[key] += own_clock_marks(trial)
        marks[key] += repeated_marks(trial)
        sustained = sustained_bits_per_second(arms[key.arm], test)
        marks[key] += drop_in_trial(trial, series.get(key.id, ()), sustained)
    drops = drops_across_blocks(measured, arms, tests)
    notes = ena_allowance_notes(counters)
    for key, mark in (*clocks_that_disagree(measured), *drops):
        marks[key].append(mark)
    for key, _ in ordered if notes else ():
        nodes = dict.fromkeys((key.client, key.server))
        marks[key] += [Mark("ena_allowance", notes[node]) for node in nodes if node in notes]
    return {key: found for key, found in sorted(marks.items()) if found}


# -- CPU


def threads(test: TestBase, version: str | None) -> int:
    """How many threads move a test's data at each end; with an unknown version, the most it may be.

    Args:
        test: the test.
        version: the tool's own words on its version, such as `iperf 3.12`.
    """
    streams = max(1, test.flows)
    number = re.search(r"(\d+)\.(\d+)", version or "")
    if test.tool != "iperf3" or number is None:
        return streams
    known = (int(number[1]), int(number[2]))
    return streams if known >= STREAMS_IN_THREADS_SINCE else 1


def cpu_marks(
    key: TrialKey, trial: Mapping[str, Any], test: TestBase, cpus: Mapping[str, int | None]
) -> list[Mark]:
    """Was either end's CPU the limit?

    Args:
        key: the trial's name.
        trial: the trial, whose tool tells its CPU time in percent of one CPU, or does not.
        test: its test.
        cpus: number of CPUs by node; None is unknown.
    """
    marks = []
    for end, node in (("client", key.client), ("server", key.server)):
        percent = trial.get("details", {}).get(f"{end}_cpu_percent")
        if not isinstance(percent, int | float):
            continue
        usable = threads(test, trial.get("tool_version"))
        available = cpus.get(node)
        if available is not None:
            usable = min(usable, available)
        if percent >= BUSY * 100 * usable:
            what = "one CPU, all it can use" if usable == 1 else f"{usable} CPUs, all it can use"
            text = f"the {end}, on {node}, computed {percent / usable:.0f}% of the time on {what}"
            marks.append(Mark(f"{end}_cpu", f"{text}: its CPU may have been the limit"))
    return marks


# -- pairing in time


def repeated_marks(trial: Mapping[str, Any]) -> list[Mark]:
    """Was the trial measured when its block was over, and so at another time than the other arm?"""
    attempt = int(trial.get("attempt", 1))
    if attempt < 2:
        return []
    text = f"attempt {attempt} measured it after the other blocks, not at the time of its own"
    return [Mark("repeated", text)]


# -- clocks


def own_clock_marks(trial: Mapping[str, Any]) -> list[Mark]:
    """Do the tool and the kubelet of the client's node agree on when it ran and for how long?"""
    started, finished = _moment(trial.get("started_at")), _moment(trial.get("finished_at"))
    details = trial.get("details", {})
    if started is None or finished is None:
        return []
    seconds = details.get("seconds")
    own = [
        details.get(name) for name in ("started_at_epoch_seconds", "first_reply_at_epoch_seconds")
    ]
    moments = [moment for moment in own if isinstance(moment, int | float)]
    ran = finished - started
    if isinstance(seconds, int | float) and ran < seconds - CLOCK_TOLERANCE_SECONDS:
        text = f"the container ran {ran:.0f} s, but its tool measured for {seconds:.1f} s"
        return [Mark("clock", f"{text}: the node's clock was set")]
    off = max((max(started - moment, moment - finished) for moment in moments), default=0.0)
    if off > CLOCK_TOLERANCE_SECONDS:
        text = f"by its tool's clock the test ran {off:.0f} s outside of its container's life"
        return [Mark("clock", f"{text}: the node's clock was set")]
    return []


def clocks_that_disagree(
    trials: Mapping[TrialKey, Mapping[str, Any]],
) -> list[tuple[TrialKey, Mark]]:
    """Trials by which the clocks of two nodes disagree.

    A block starts when the one before has been collected. So, in true time, nothing of a block
    starts before the last trial of the block before has finished; if it does by the nodes' clocks,
    they disagree. Repeated trials run at the end, out of order, and are passed over.
    """
    times: dict[int, list[tuple[TrialKey, float, float]]] = defaultdict(list)
    for key, trial in trials.items():
        started, finished = _moment(trial.get("started_at")), _moment(trial.get("finished_at"))
        if started is not None and finished is not None and int(trial.get("attempt", 1)) == 1:
            times[key.block].append((key, started, finished))
    found: dict[TrialKey, Mark] = {}
    blocks = sorted(times)
    for before, after in itertools.pairwise(blocks):
        last = max(times[before], key=lambda entry: entry[2])
        first = min(times[after], key=lambda entry: entry[1])
        off = last[2] - first[1]
        if off <= CLOCK_TOLERANCE_SECONDS:
            continue
        text = (
            f"by its node's clock, a trial of {first[0].client} in block {after} began {off:.0f} s"
            f" before the last of {last[0].client} in block {before} was over: the clocks disagree"
        )
        concerned = [k for k, _, end in times[before] if end > first[1] + CLOCK_TOLERANCE_SECONDS]
        concerned += [
            k for k, start, _ in times[after] if start < last[2] - CLOCK_TOLERANCE_SECONDS
        ]
        for key in concerned:
            found.setdefault(key, Mark("clock", text))
    return sorted(found.items(), key=lambda entry: entry[0])


def _moment(text: object) -> float | None:
    """Seconds since the epoch of an ISO 8601 time with its zone."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if time.tzinfo is None else time.timestamp()


# -- burst credits


def sustained_bits_per_second(arm: Mapping[str, Any], test: TestBase) -> float | None:
    """What an arm's instances sustain after their burst, all of a test's directions together.

    None when they have no burst, when EC2 does not say, and for a test that is not of throughput.
    """
    network = InstanceNetwork(**arm["network"])
    baseline = network.baseline_bits_per_second
    if not network.bursts or baseline is None or test.flows == 0:
        return None
    scale = arm["network_scale"]
    return baseline * (1.0 if scale is None else scale) * directions_of(test)


def drop_to(
    sustained: float, values: Sequence[float], *, least_before: int, least_after: int
) -> int | None:
    """From which value on a sequence has dropped to what an instance sustains, or None.

    The sequence is cut where the fewest values are on the wrong side of a rate between `sustained`
    and what is clearly above it. It has dropped when at most a tenth of the values are on the wrong
    side, the median before the cut is clearly above and the median after it is at the baseline. A
    sequence that is noise around one level, whichever, meets this only if it is higher at first by
    chance and lower at last, by more than an eighth of the baseline.

    Args:
        sustained: the instance's baseline, in the unit of the values.
        values: in order of time.
        least_before: values before the cut, at least.
        least_after: values from the cut on, at least.
    """
    above = [value > sustained * _BETWEEN for value in values]
    fewest = wrong = above.count(True)
    cut = 0
    for place, is_above in enumerate(above, start=1):
        wrong += -1 if is_above else 1
        if wrong < fewest:
            fewest, cut = wrong, place
    if not least_before <= cut <= len(values) - least_after:
        return None
    low, high = AT_BASELINE
    dropped = (
        fewest <= STRAY * len(values)
        and statistics.median(values[:cut]) >= CLEARLY_ABOVE * sustained
        and low * sustained <= statistics.median(values[cut:]) <= high * sustained
    )
    return cut if dropped else None


def drop_in_trial(
    trial: Mapping[str, Any], series: Sequence[Mapping[str, Any]], sustained: float | None
) -> list[Mark]:
    """Did the instance's burst end while the trial ran?"""
    if sustained is None or trial.get("unit") != "bit/s":
        return []
    rates = [float(interval["bits_per_second"]) for interval in series]
    cut = drop_to(sustained, rates, least_before=LEAST_INTERVALS, least_after=LEAST_INTERVALS)
    if cut is None:
        return []
    after = float(series[cut]["start_seconds"])
    text = (
        f"after {after:.0f} s the rate fell from {bit_rate(statistics.median(rates[:cut]))} to"
        f" {bit_rate(statistics.median(rates[cut:]))} and stayed there; the instance sustains"
        f" {bit_rate(sustained)}: its burst was over"
    )
    return [Mark("burst_drop_in_trial", text)]


def drops_across_blocks(
    trials: Mapping[TrialKey, Mapping[str, Any]],
    arms: Mapping[str, Mapping[str, Any]],
    tests: Mapping[str, TestBase],
) -> list[tuple[TrialKey, Mark]]:
    """Trials of pairs that fell to the instance's baseline from some block on, and stayed there."""
    pairs: dict[tuple[str, str, frozenset[str]], list[TrialKey]] = defaultdict(list)
    for key, trial in trials.items():
        if trial.get("unit") == "bit/s":
            pairs[key.arm, key.test, frozenset((key.client, key.server))].append(key)
    found = []
    for (arm, test, nodes), keys in pairs.items():
        sustained = sustained_bits_per_second(arms[arm], tests[test])
        if sustained is None:
            continue
        blocks: dict[int, list[float]] = defaultdict(list)
        for key in keys:
            blocks[key.block].append(float(trials[key]["value"]))
        order = sorted(blocks)
        rates = [statistics.median(blocks[block]) for block in order]
        cut = drop_to(
            sustained, rates, least_before=LEAST_BLOCKS_BEFORE, least_after=LEAST_BLOCKS_AFTER
        )
        if cut is None:
            continue
        text = (
            f"from block {order[cut]} on {' and '.join(sorted(nodes))} came to"
            f" {bit_rate(statistics.median(rates[cut:]))}, after"
            f" {bit_rate(statistics.median(rates[:cut]))} before; the instance sustains"
            f" {bit_rate(sustained)}: its burst was over"
        )
        mark = Mark("burst_drop_across_blocks", text)
        found += [(key, mark) for key in keys if key.block >= order[cut]]
    return found


# -- the network card's own counters


def ena_allowance_notes(counters: Mapping[str, Any] | None) -> dict[str, str]:
    """What the ENA driver counted while the run measured, by node, if it counted anything.

    Args:
        counters: `before` and `after`, each by node, interface and counter; an interface that
            came later counted from zero.
    """
    notes: dict[str, str] = {}
    if counters is None:
        return notes
    before, after = counters.get("before") or {}, counters.get("after") or {}
    for node in sorted(set(before) & set(after)):
        risen = _risen(before[node], after[node])
        if risen:
            told = ", ".join(f"{name} by {count}" for name, count in sorted(risen.items()))
            notes[node] = (
                f"on {node} the network card's allowances were exceeded during the run: {told}"
            )
    return notes


def _risen(
    before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """By how much each counter of allowances rose, all interfaces together."""
    risen: dict[str, int] = defaultdict(int)
    for interface, counts in after.items():
        for name, count in _allowances(counts):
            at_first = before.get(interface, {}).get(name, 0)
            # A counter that went back began anew, and has counted at least what it says.
            risen[name] += count - at_first if count >= at_first else count
    return {name: count for name, count in risen.items() if count > 0}


def _allowances(counts: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return ((name, n) for name, n in counts.items() if name.endswith(ENA_ALLOWANCE_SUFFIX))
