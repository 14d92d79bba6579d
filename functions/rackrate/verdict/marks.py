"""Marks: warnings that something besides the network affected a trial. Pure.

Marked trials stay in the verdicts. A mark's text states the warning with the figures behind it.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rackrate.measure.counters import ALLOWANCES, Counters, risen
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.planned_run import PlannedRun
from rackrate.tools.base import Interval, TestBase
from rackrate.verdict.network_cards import few_connections_notes, unused_express_notes
from rackrate.workloads.base import WorkloadTest
from rackrate_contract.arms import Arm
from rackrate_contract.trials import Mark, TrialKey
from rackrate_text.units import duration, percent, quantity
from rackrate_text.words import listed

#: A thread that computes for 90 % of its time hardly waits for the network. The share is that of
#: the whole test, including its slow start, so a busy thread stays below 100 %. It leaves out the
#: kernel's work in interrupts, so a CPU may be the limit without this mark.
BUSY = 0.90
#: The kubelet reports whole seconds, and a container takes a moment to start and to end.
CLOCK_TOLERANCE_SECONDS = 2.0

# A burst is over when the rate falls to the instance's baseline and stays there. Payload is up to
# 10 % less than the bytes that EC2 counts, so rates of 80 to 110 % of the baseline count as at the
# baseline. Rates of 125 % or more count as above it. One value in ten may be on the wrong side.
AT_BASELINE = (0.80, 1.10)
CLEARLY_ABOVE = 1.25
_BETWEEN = 1.17
STRAY = 0.10
#: The least number of a series' intervals before the drop and after it. Three in a row are unlikely
#: to be a brief disturbance.
LEAST_INTERVALS = 3
#: The least number of blocks before the drop and after it.
LEAST_BLOCKS_BEFORE, LEAST_BLOCKS_AFTER = 1, 2

# ENA's counters also rise from bursts of microseconds, so this mark is information and no proof
# (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-network-performance-ena.html).


def mark_trials(
    planned: PlannedRun,
    trials: Mapping[TrialKey, Trial],
    raw: Mapping[str, RawValues],
    counters: Counters | None,
) -> list[Mark]:
    """The marks of a run's trials, in the order of the trials.

    Args:
        planned: the run's plan.
        trials: the stored trials.
        raw: the raw values of trials, by trial id; a trial may have none.
        counters: the nodes' counters, or None when they were not read.
    """
    arms = {arm.name: arm for arm in planned.arms}
    tests = {test.name: test for test in planned.plan.tests}
    cpus = {node.name: node.cpus for arm in planned.arms for node in arm.nodes}
    ordered = sorted(trials.items())
    measured = {key: trial for key, trial in ordered if trial.is_measured}
    marks: dict[TrialKey, list[Mark]] = defaultdict(list)
    for key, trial in measured.items():
        test = tests[key.test]
        sustained = sustained_bits_per_second(arms[key.arm], test)
        series = raw[key.id].series if key.id in raw else ()
        marks[key] += cpu_marks(trial, test, cpus)
        marks[key] += member_cpu_marks(trial, test, arms[key.arm])
        marks[key] += own_clock_marks(trial)
        marks[key] += repeated_marks(trial)
        marks[key] += drop_in_trial(trial, series, sustained)
    drops = drops_across_blocks(measured, arms, tests)
    for mark in (*clocks_that_disagree(measured), *drops):
        marks[mark.key].append(mark)
    for mark_name, notes in network_card_notes(planned.arms, counters).items():
        for key, trial in ordered if notes else ():
            nodes = dict.fromkeys((trial.client_name, trial.server_name))
            marks[key] += [Mark.of(key, mark_name, notes[n]) for n in nodes if n in notes]
    return [mark for _, of_trial in sorted(marks.items()) for mark in of_trial]


# -- CPU


def cpu_marks(trial: Trial, test: TestBase, cpus: Mapping[str, int | None]) -> list[Mark]:
    """Mark a trial if the CPU of either end may have been the limit.

    Args:
        trial: the trial. Some tools report the CPU time of the ends in percent of one CPU.
        test: its test.
        cpus: number of CPUs by place; None is unknown.
    """
    marks = []
    ends = ("client", trial.client, trial.client_name), ("server", trial.server, trial.server_name)
    for end, place, node in ends:
        cpu_percent = trial.detail(f"{end}_cpu_percent")
        if cpu_percent is None:
            continue
        usable = test.threads(trial.tool_version)
        # Another node takes a place only if it has the same type.
        available = cpus.get(place)
        if available is not None:
            usable = min(usable, available)
        if cpu_percent >= BUSY * 100 * usable:
            text = _busy(f"the {end}, on {node},", cpu_percent, usable)
            marks.append(Mark.of(trial.key, f"{end}_cpu", text))
    return marks


def _busy(who: str, cpu_percent: float, usable: int) -> str:
    what = "one CPU, all it can use" if usable == 1 else f"{usable} CPUs, all it can use"
    share = percent(cpu_percent / usable / 100)
    return f"{who} computed {share} of the time on {what}: its CPU may have been the limit"


def member_cpu_marks(trial: Trial, test: TestBase, arm: Arm) -> list[Mark]:
    """Mark a trial of a workload if the CPU of a member may have been the limit.

    A member can use all CPUs of its node, unless its threads are fewer. Other processes of the node
    do not count.
    """
    cpu_percent = trial.detail("busiest_member_cpu_percent")
    if cpu_percent is None or not isinstance(test, WorkloadTest):
        return []
    known = [node.cpus for node in arm.nodes if node.cpus is not None]
    limits = [*([max(known)] if known else []), *filter(None, [test.member_threads])]
    if not limits or cpu_percent < BUSY * 100 * min(limits):
        return []
    text = _busy("the busiest member", cpu_percent, min(limits))
    return [Mark.of(trial.key, "server_cpu", text)]


# -- pairing in time


def repeated_marks(trial: Trial) -> list[Mark]:
    """Mark a trial that was repeated after its block, with or without its partners.

    Trials that were repeated together are still paired in time. A trial that was repeated alone is
    compared with another time's, so a drift of the network looks like a difference between arms.
    """
    if trial.attempt < 2:
        return []
    text = f"attempt {trial.attempt} measured it after the blocks"
    if trial.repeated_together:
        return [Mark.of(trial.key, "repeated", f"{text}, together with those of the other arms")]
    text += ", but not those of the other arms, which keep their values from its block"
    return [Mark.of(trial.key, "repeated_alone", text)]


# -- clocks


def own_clock_marks(trial: Trial) -> list[Mark]:
    """Mark a trial if the tool and the client's kubelet disagree on its time or duration."""
    if trial.interval is None:
        return []
    started, finished = trial.interval
    seconds = trial.detail("seconds")
    own = map(trial.detail, ("started_at_epoch_seconds", "first_reply_at_epoch_seconds"))
    moments = [moment for moment in own if moment is not None]
    ran = finished - started
    if seconds is not None and ran < seconds - CLOCK_TOLERANCE_SECONDS:
        text = f"the container ran {duration(ran)}, but its tool measured for {duration(seconds)}"
        return [Mark.of(trial.key, "clock", f"{text}: the node's clock was set")]
    off = max((max(started - moment, moment - finished) for moment in moments), default=0.0)
    if off > CLOCK_TOLERANCE_SECONDS:
        text = f"by its tool's clock the test ran {duration(off)} outside of its container's life"
        return [Mark.of(trial.key, "clock", f"{text}: the node's clock was set")]
    return []


def clocks_that_disagree(trials: Mapping[TrialKey, Trial]) -> list[Mark]:
    """Mark trials whose times show that the clocks of two nodes disagree.

    A block starts after the previous block has been collected. So no trial of a block starts before
    the last trial of the previous block has finished. If timestamps show otherwise, the nodes'
    clocks disagree. Repeated trials run at the end, out of order, and are skipped.
    """
    times: dict[int, list[tuple[TrialKey, float, float]]] = defaultdict(list)
    for key, trial in trials.items():
        if trial.interval is not None and trial.attempt == 1:
            times[key.block].append((key, *trial.interval))
    marks: dict[TrialKey, Mark] = {}
    blocks = sorted(times)
    for before, after in itertools.pairwise(blocks):
        last = max(times[before], key=lambda entry: entry[2])
        first = min(times[after], key=lambda entry: entry[1])
        off = last[2] - first[1]
        if off <= CLOCK_TOLERANCE_SECONDS:
            continue
        text = (
            f"by its node's clock, a trial of {first[0].client} in block {after} began"
            f" {duration(off)} before the last of {last[0].client} in block {before} was over:"
            " the clocks disagree"
        )
        concerned = [k for k, _, end in times[before] if end > first[1] + CLOCK_TOLERANCE_SECONDS]
        concerned += [
            k for k, start, _ in times[after] if start < last[2] - CLOCK_TOLERANCE_SECONDS
        ]
        for key in concerned:
            marks.setdefault(key, Mark.of(key, "clock", text))
    return [marks[key] for key in sorted(marks)]


# -- burst credits


def sustained_bits_per_second(arm: Arm, test: TestBase) -> float | None:
    """The rate that an arm's instances sustain after a burst, summed over a test's directions.

    None when they have no burst, when EC2 does not report it, and for a test that does not measure
    throughput.
    """
    baseline = arm.network.baseline_bits_per_second
    if not arm.network.bursts or baseline is None or test.throughput is None:
        return None
    return baseline * arm.scale * test.throughput.directions


def drop_to(
    sustained: float, values: Sequence[float], *, least_before: int, least_after: int
) -> int | None:
    """The index at which a sequence dropped to the rate that an instance sustains, or None.

    The sequence is cut where the fewest values are on the wrong side of a rate between `sustained`
    and the range clearly above it. It has dropped if three conditions are met: at most a tenth of
    the values are on the wrong side, the median before the cut is clearly above the baseline, and
    the median after it is at the baseline. Noise around one level meets them only if by chance it
    starts higher and ends lower by more than an eighth of the baseline.

    Args:
        sustained: the instance's baseline, in the unit of the values.
        values: the values in order of time.
        least_before: the least number of values before the cut.
        least_after: the least number of values from the cut on.
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


def drop_in_trial(trial: Trial, series: Sequence[Interval], sustained: float | None) -> list[Mark]:
    """Mark a trial if the instance's burst ended while it ran."""
    if sustained is None or trial.unit != "bit/s":
        return []
    rates = [interval.bits_per_second for interval in series]
    cut = drop_to(sustained, rates, least_before=LEAST_INTERVALS, least_after=LEAST_INTERVALS)
    if cut is None:
        return []
    after = series[cut].start_seconds
    text = (
        f"after {duration(after)} the rate fell from {_median(rates[:cut])} to"
        f" {_median(rates[cut:])} and stayed there; the instance sustains"
        f" {quantity(sustained, 'bit/s')}: its burst was over"
    )
    return [Mark.of(trial.key, "burst_drop_in_trial", text)]


def _median(rates: Sequence[float]) -> str:
    return quantity(statistics.median(rates), "bit/s")


def drops_across_blocks(
    trials: Mapping[TrialKey, Trial], arms: Mapping[str, Arm], tests: Mapping[str, TestBase]
) -> list[Mark]:
    """Mark the trials of pairs whose rate fell to the instance's baseline and stayed there."""
    pairs: dict[tuple[str, str, frozenset[str]], list[TrialKey]] = defaultdict(list)
    for key, trial in trials.items():
        if trial.unit == "bit/s":
            pairs[key.arm, key.test, trial.nodes].append(key)
    marks = []
    for (arm, test, nodes), keys in pairs.items():
        sustained = sustained_bits_per_second(arms[arm], tests[test])
        if sustained is None:
            continue
        blocks: dict[int, list[float]] = defaultdict(list)
        for key in keys:
            value = trials[key].value
            if value is not None:
                blocks[key.block].append(value)
        order = sorted(blocks)
        rates = [statistics.median(blocks[block]) for block in order]
        cut = drop_to(
            sustained, rates, least_before=LEAST_BLOCKS_BEFORE, least_after=LEAST_BLOCKS_AFTER
        )
        if cut is None:
            continue
        text = (
            f"from block {order[cut]} on {listed(sorted(nodes))} came to"
            f" {_median(rates[cut:])}, after {_median(rates[:cut])} before; the instance"
            f" sustains {quantity(sustained, 'bit/s')}: its burst was over"
        )
        marks += [
            Mark.of(key, "burst_drop_across_blocks", text)
            for key in keys
            if key.block >= order[cut]
        ]
    return marks


# -- the network card's own counters


def ena_allowance_notes(counters: Counters | None) -> dict[str, str]:
    """Sentences on the packets that the ENA driver counted during the run, by node with any.

    An interface that was added during the run counts from zero.
    """
    notes: dict[str, str] = {}
    if counters is None:
        return notes
    for node in sorted(set(counters.before) & set(counters.after)):
        exceeded = risen(counters.before[node], counters.after[node], {*ALLOWANCES})
        if exceeded:
            counts = ", ".join(f"{name} by {count}" for name, count in sorted(exceeded.items()))
            notes[node] = (
                f"on {node} the network card's allowances were exceeded during the run: {counts}"
            )
    return notes


def network_card_notes(arms: Sequence[Arm], counters: Counters | None) -> dict[str, dict[str, str]]:
    """The sentences on the nodes' network cards: by mark, and by node."""
    return {
        "ena_allowance": ena_allowance_notes(counters),
        "ena_express_unused": unused_express_notes(arms, counters),
        "few_connections": few_connections_notes(counters),
    }
