"""A sweep: each value against the first, and whether growth is near-linear. Pure.

Runs are the replicates: each gives the logarithm of a median. All values of a sweep share one
variance within values, so that two runs of each are enough for an interval. Numbers of nodes do
not: few pairs vary more than many, so each number has a variance of its own (Welch, Satterthwaite).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rackrate.plan.pairing import Pairing
from rackrate.plan.planned_run import PlannedRun
from rackrate.tools.base import TestBase
from rackrate.verdict.estimate import (
    CONFIDENCE,
    ERROR,
    Estimate,
    Outlook,
    ratios,
    settle,
    why_inconclusive,
)
from rackrate_contract.arms import Arm
from rackrate_contract.campaign import SweepCell
from rackrate_contract.student import satterthwaite
from rackrate_contract.verdicts import Summary
from rackrate_text.grouping import grouped_by
from rackrate_text.units import change_with_interval, percent, quantity

Value = str | int

#: The method in words, for readers of the results.
METHOD = (
    "Each run gives one median of each metric, as a logarithm. A value's mean over its runs is"
    " compared with that of the first value. The interval is Student's, with the variance between"
    " runs of the same value, pooled over all values; each number of nodes has its own variance"
    " (Welch, Satterthwaite). Better and worse are decided by a test"
    " against the threshold, no meaningful difference by two one-sided tests, all values, arms and"
    " metrics together with an error of 5 % (Holm). The efficiency of nodes is a value's rate per"
    " pair of nodes, or per member of a workload, divided by that of the first. Growth is"
    " near-linear if no value is worse than the first and none is inconclusive."
)


class SweepRun(NamedTuple):
    """A run of a sweep.

    Attributes:
        value: the value of its step.
        planned: its plan.
        summaries: each arm's values of each metric, summarized.
    """

    value: Value
    planned: PlannedRun
    summaries: Sequence[Summary]


#: An arm, a test, a metric.
_Key = tuple[str, str, str]


def sweep_cells(
    runs: Sequence[SweepRun], *, threshold: float, grows: bool = False
) -> tuple[SweepCell, ...]:
    """The cells of a sweep: each arm's metrics at each value, against the first value.

    Args:
        runs: the runs, in the order of their steps. A run that failed is left out.
        threshold: a ratio between 1 / (1 + threshold) and 1 + threshold does not matter.
        grows: whether the values are numbers of nodes, so that throughputs add up.

    Returns:
        The cells by arm, test and metric, and then in the order of the values.
    """
    values = list(dict.fromkeys(run.value for run in runs))
    by_cell = {
        key: {value: _logs(runs, key, value) for value in values}
        for key in dict.fromkeys(
            (summary.arm, summary.test, summary.metric) for run in runs for summary in run.summaries
        )
    }
    keys = [(key, value) for key in by_cell for value in values]
    estimates = [against_first(by_cell[key], value, alike=not grows) for key, value in keys]
    compared = [
        None if value == values[0] else estimate
        for (_, value), estimate in zip(keys, estimates, strict=True)
    ]
    outlook = Outlook(threshold, 1 - ERROR / max(1, sum(each is not None for each in compared)))
    words = settle(compared, outlook.edge, ERROR)
    cells = []
    for (key, value), estimate, settled in zip(keys, estimates, words, strict=True):
        cell = _plain(runs, key, value, by_cell[key][value], grows=grows)
        if value != values[0]:
            cell = _against_first(cell, by_cell[key], estimate, outlook)
        if estimate is not None and settled is not None:
            word = estimate.word(settled, cell.better)
            shown = estimate.shown(outlook, settled)
            decided = {"verdict": word, "reason": None, "ci_simultaneous": shown}
            cell = cell.model_copy(update=decided)
        cells.append(cell)
    return tuple(cells)


def conclusion(
    cells: Sequence[SweepCell], *, title: Callable[[Value], str] = str, grows: bool = False
) -> str:
    """A sweep in sentences: each metric at each value against the first.

    Args:
        cells: the cells.
        title: how a value is called, such as `VPC CNI v1.15.4-eksbuild.1`.
        grows: whether the values are numbers of nodes.
    """
    if not cells:
        return "Nothing can be said: no step has a result."
    sentences = [_of_metric(alike, title) for alike in _by_metric(cells)]
    if grows:
        sentences += growths(cells)
    return " ".join(sentences)


def line(cell: SweepCell) -> str:
    """A cell in one line, such as `treatment at 60: tcp-1 9.50 Gbit/s, +3 % (95 % CI ...)`."""
    text = f"{cell.arm} at {cell.value}: {cell.name} {quantity(cell.mean, cell.unit)}"
    if figures := change_with_interval(cell.ratio, cell.shown_interval):
        text += f", {figures}"
    if cell.verdict is not None:
        text += f": {cell.verdict}"
    return f"{text}: {cell.reason}" if cell.reason else text


def growths(cells: Iterable[SweepCell]) -> list[str]:
    """A sentence for each rate of an arm that adds up: whether its growth is near-linear."""
    every = _by_metric(cells)
    return [growth(alike, _median_times(alike[0], every)) for alike in every if _adds_up(alike)]


def growth(cells: Sequence[SweepCell], times: Sequence[SweepCell] = ()) -> str:
    """Whether the growth of one metric with the number of nodes is near-linear.

    It is near-linear if each value's rate, per pair of nodes or per member of a workload, is not
    worse than that of the first, by the threshold and with the error of all of them.

    Args:
        cells: the metric's cells, in the order of the values.
        times: the cells of the median time of the same test, which are named beside it.
    """
    first, *others = cells
    of_what = f"the growth of {first.name} of {first.arm}"
    text = f"From {first.value} to {cells[-1].value} nodes {of_what} is"
    if not others or any(cell.verdict is None or cell.ratio is None for cell in others):
        return f"Whether {of_what} with the nodes is near-linear is not known."
    least = min(others, key=lambda cell: math.inf if cell.ratio is None else cell.ratio)
    efficiency = f"efficiency per node {percent(least.ratio)}"
    if (ends := least.shown_interval) is not None:
        efficiency += f" ({percent(ends[0])} to {percent(ends[1])})"
    efficiency += f" at {least.value} nodes, the lowest"
    known = [cell for cell in times if cell.mean is not None]
    if len(known) > 1:
        efficiency += f"; {known[0].metric} " + ", ".join(
            f"{quantity(cell.mean, cell.unit)} at {cell.value}" for cell in known
        )
    worse = [cell.value for cell in others if cell.verdict == "worse"]
    if worse:
        return f"{text} less than linear: {efficiency}."
    if any(cell.verdict == "inconclusive" for cell in others):
        return f"{text} not settled, near-linear or not: {efficiency}."
    return f"{text} near-linear: {efficiency}."


def _median_times(first: SweepCell, every: Iterable[Sequence[SweepCell]]) -> Sequence[SweepCell]:
    """The cells of the median time of the same test; empty if it has none."""
    alike = (cells for cells in every if (cells[0].arm, cells[0].test) == (first.arm, first.test))
    return next((cells for cells in alike if cells[0].unit == "s"), ())


# -- the cells


def _logs(runs: Iterable[SweepRun], key: _Key, value: Value) -> list[float]:
    """The logarithms of the medians of all runs with a value."""
    return [
        math.log(summary.median)
        for run in runs
        if run.value == value
        for summary in run.summaries
        if (summary.arm, summary.test, summary.metric) == key
        and summary.median is not None
        and summary.median > 0
    ]


def against_first(
    logs: Mapping[Value, Sequence[float]], value: Value, *, alike: bool
) -> Estimate | None:
    """The logarithm of a value's ratio to the first; None without an interval.

    Args:
        logs: the logarithms of the runs' medians by value, the first value first.
        value: the value.
        alike: whether all values share one variance; otherwise each has its own.
    """
    first, ours = next(iter(logs.values())), logs[value]
    if not first or not ours:
        return None
    level = float(np.mean(ours) - np.mean(first))
    if not alike:
        if min(len(first), len(ours)) < 2:
            return None
        variances = [float(np.var(each, ddof=1)) / len(each) for each in (first, ours)]
        freedom = satterthwaite(*zip(variances, (len(first) - 1.0, len(ours) - 1.0), strict=True))
        return Estimate(level, sum(variances), freedom)
    freedom = float(sum(max(0, len(each) - 1) for each in logs.values()))
    if freedom == 0:
        return None
    squares = sum(float(np.var(each)) * len(each) for each in logs.values() if each)
    return Estimate(level, squares / freedom * (1 / len(ours) + 1 / len(first)), freedom)


def _plain(
    runs: Sequence[SweepRun], key: _Key, value: Value, logs: Sequence[float], *, grows: bool
) -> SweepCell:
    """A cell without its comparison."""
    arm_name, test_name, metric = key
    planned = next(
        (run.planned for run in runs if run.value == value and _tells(run, key)),
        next(run.planned for run in runs if _tells(run, key)),
    )
    spec = next(each for each in planned.metrics if (each.test, each.metric) == (test_name, metric))
    arm = next(each for each in planned.arms if each.name == arm_name)
    test = next(each for each in planned.plan.tests if each.name == test_name)
    mean = math.exp(float(np.mean(logs))) if logs else None
    nominal = _nominal(arm, test) if spec.unit == "bit/s" else None
    adds_up = grows and spec.unit.endswith("/s") and not _is_of_one_size(runs, test_name)
    together = _together(planned, arm, test) if adds_up else None
    return SweepCell(
        value=value,
        arm=arm_name,
        test=test_name,
        metric=metric,
        unit=spec.unit,
        better=spec.better,
        runs=len(logs),
        mean=mean,
        share_of_nominal=None if mean is None or nominal is None else mean / nominal,
        ratio=None,
        ci95=None,
        verdict=None,
        reason=None,
        total=None if mean is None or together is None else mean * together,
    )


def _tells(run: SweepRun, key: _Key) -> bool:
    return any((each.arm, each.test, each.metric) == key for each in run.summaries)


def _nominal(arm: Arm, test: TestBase) -> float | None:
    """The documented peak of the instance type in all directions of a test, in bit/s, scaled."""
    peak, sent = arm.network.peak_bits_per_second, test.throughput
    return None if peak is None or sent is None else peak * arm.scale * sent.directions


def _is_of_one_size(runs: Iterable[SweepRun], test_name: str) -> bool:
    """Whether a test is a workload with as many members at each value, so that it never grows."""
    sizes = {
        (run.value, test.member_count)
        for run in runs
        for test in run.planned.plan.tests
        if test.name == test_name
    }
    values, numbers = ({each[place] for each in sizes} for place in (0, 1))
    return len(values) > 1 and len(numbers) == 1 and None not in numbers


def _together(planned: PlannedRun, arm: Arm, test: TestBase) -> int:
    """The members of a workload, or the most pairs of an arm that were measured together."""
    if test.member_count is not None:
        return test.member_count
    plan = planned.plan
    if plan.load == "isolated":
        return 1
    return max(map(len, Pairing.of(plan.pairing).edges(arm, plan.seed)))


def _against_first(
    cell: SweepCell,
    logs: Mapping[Value, Sequence[float]],
    estimate: Estimate | None,
    outlook: Outlook,
) -> SweepCell:
    first, ours = next(iter(logs.values())), logs[cell.value]
    if not first or not ours:
        where = "the first value" if not first else "this value"
        return cell.model_copy(
            update={"verdict": "inconclusive", "reason": f"no run with {where} has a result"}
        )
    level = float(np.mean(ours) - np.mean(first))
    update = {"ratio": ratios((level, level))[0], "verdict": "inconclusive"}
    if estimate is None:
        reason = "one run of a value; an interval needs two of each"
        return cell.model_copy(update={**update, "reason": reason})
    return cell.model_copy(
        update={
            **update,
            "ci95": estimate.interval(CONFIDENCE),
            "ci_simultaneous": estimate.shown(outlook, None),
            "reason": why_inconclusive(estimate, outlook),
        }
    )


# -- the sentences


def _by_metric(cells: Iterable[SweepCell]) -> list[list[SweepCell]]:
    """The cells of each metric of an arm, in the order of the values."""
    return [*grouped_by(cells, lambda cell: (cell.arm, cell.test, cell.metric)).values()]


def _adds_up(cells: Sequence[SweepCell]) -> bool:
    """Whether a metric is a rate that adds up over nodes."""
    is_rate = cells[0].unit.endswith("/s") and cells[0].better == "higher"
    return is_rate and any(cell.total is not None for cell in cells)


def _of_metric(cells: Sequence[SweepCell], title: Callable[[Value], str]) -> str:
    """One metric of an arm at all values."""
    first, *others = cells
    parts = [f"{quantity(first.mean, first.unit)}{_share(first)} with {title(first.value)}"]
    for cell in others:
        text = f"{quantity(cell.mean, cell.unit)}{_share(cell)} with {title(cell.value)}"
        if figures := change_with_interval(cell.ratio, cell.shown_interval):
            text += f", {figures}"
        parts.append(f"{text}, {cell.verdict}{f' ({cell.reason})' if cell.reason else ''}")
    return f"{first.name} of {first.arm}: {'; '.join(parts)}."


def _share(cell: SweepCell) -> str:
    if cell.share_of_nominal is None:
        return ""
    return f" ({percent(cell.share_of_nominal)} of nominal)"
