"""The CPU time that a workload's members use: how it is printed, and what it comes to. Pure.

A second container in each member's pod shares the pod's process namespace. It prints the CPU time
of the pod's other processes twice a second, and needs neither privileges nor a program beside a
shell and `sleep`. Its node adds the time to each line of its log.
"""

from __future__ import annotations

import bisect
import datetime
import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

#: The end of the container's name.
SUFFIX = "-cpu"
#: What it reserves, in CPUs and MiB, and the memory that it may use. A shell needs 1 MiB, and the
#: start of any container about 10.
CPUS, MEMORY_MIB, MOST_MEMORY_MIB = 0.01, 16, 32
#: How often it prints.
_PERIOD_SECONDS = 0.5
#: Prints the node's uptime in seconds, and the CPU time of all processes in ticks, but for its own
#: and for process 1, which is that of Kubernetes' pause container. In a line of `/proc/PID/stat`,
#: the fields after the name begin with the state; from the twelfth on they are utime, stime, and
#: both of children that have ended (proc_pid_stat(5)). The shell itself reads them, so that only
#: `sleep` costs a process.
_SCRIPT = (
    "while read -r up rest < /proc/uptime; do total=0;"
    ' for stat in /proc/[0-9]*/stat; do case "$stat" in /proc/1/*|"/proc/$$/stat") continue; esac;'
    ' { read -r line < "$stat"; } 2> /dev/null || continue; set -- ${line##*) };'
    " total=$((total + ${12} + ${13} + ${14} + ${15})); done;"
    f' echo "$up $total"; sleep {_PERIOD_SECONDS}; done'
)
ARGV = ("sh", "-c", _SCRIPT)
#: Ticks of a second. Linux reports so many on all processors that EKS has (USER_HZ).
_TICKS = 100
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
    r" (\d{1,10}\.\d\d) (\d{1,18})",
    re.ASCII,
)
#: The kubelet reports the times of containers in whole seconds.
_KUBELET_SECONDS = 1.0
#: More lines than this are not read, and so many more than the time needs.
_MOST_LINES, _SPARE_LINES = 10_000, 60
#: More percent than any machine has CPUs for.
_MOST_PERCENT = 1e6


class Reading(NamedTuple):
    """What was printed once.

    Attributes:
        at: the time, in seconds since 1970 by the node's clock.
        uptime: the node's uptime in seconds, which nobody sets.
        cpu_seconds: the CPU time that the member has used.
    """

    at: float
    uptime: float
    cpu_seconds: float


class Span(NamedTuple):
    """When a trial ran.

    Attributes:
        started, finished: the life of its container, in seconds since 1970, in whole seconds.
        seconds: how long its tool measured; None if that is not known.
    """

    started: float
    finished: float
    seconds: float | None


def covered_at(finished: float) -> float:
    """When a trial that finished then is surely covered, if its members' nodes are not too busy."""
    return finished + _KUBELET_SECONDS + 2 * _PERIOD_SECONDS


def lines_since(started: float, now: float) -> int:
    """How many lines from the end of the log to read, for a trial that started then."""
    return min(_MOST_LINES, max(0, math.ceil((now - started) / _PERIOD_SECONDS)) + _SPARE_LINES)


def readings(log: str) -> list[Reading]:
    """The readings in a log with its node's timestamps; lines of another form are left out."""
    entries = []
    for line in log.splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            continue
        try:
            at = datetime.datetime.fromisoformat(match[1]).timestamp()
        except (ValueError, OverflowError):
            continue
        entries.append(Reading(at, float(match[2]), int(match[3]) / _TICKS))
    return entries


def percent_used(samples: Sequence[Reading], span: Span) -> float | None:
    """The CPU time that a member used while a trial was measured; 100 % is one CPU.

    A trial's container also connects, warms up and ends, and the kubelet reports its life in whole
    seconds. The tool's own duration is more precise, and the member is busiest meanwhile. So this
    is the mean over the busiest stretch that surely fits between the readings in that duration. If
    the tool does not say how long it measured, it is the mean over the life of its container.

    Args:
        samples: the member's readings.
        span: when the trial ran.

    Returns:
        None where the readings do not cover the trial, or contradict each other.
    """
    begin = bisect.bisect_right([each.at for each in samples], span.started) - 1
    if begin < 0 or samples[-1].at < span.finished:
        return None
    over = span.finished + _KUBELET_SECONDS
    end = next((i for i, each in enumerate(samples) if each.at >= over), len(samples) - 1)
    during = samples[begin : end + 1]
    if not all(_follows(*pair) for pair in itertools.pairwise(during)) or len(during) < 2:
        return None
    percent = 100 * _cpus_used(during, span.seconds)
    return percent if percent <= _MOST_PERCENT else None


def _follows(first: Reading, second: Reading) -> bool:
    return (
        first.at <= second.at
        and first.uptime < second.uptime
        and first.cpu_seconds <= second.cpu_seconds
    )


def _cpus_used(during: Sequence[Reading], seconds: float | None) -> float:
    """The mean use of a load that lasted so long, in CPUs.

    A load of two periods or more fills a stretch that is a period shorter, wherever it began. A
    shorter one may fill none, so what was used around it beyond an idle member's use counts as its
    own. One that is shorter than a period counts as one of a period.
    """
    whole = during[-1].uptime - during[0].uptime
    if seconds is None or seconds >= 2 * _PERIOD_SECONDS:
        stretch = whole if seconds is None else min(whole, seconds - _PERIOD_SECONDS)
        return _busiest(during, stretch) / stretch
    load = min(whole, max(seconds, _PERIOD_SECONDS))
    around = min(whole, load + 2 * _PERIOD_SECONDS)
    idle = min(
        (second.cpu_seconds - first.cpu_seconds) / (second.uptime - first.uptime)
        for first, second in itertools.pairwise(during)
    )
    return (_busiest(during, around) - idle * (around - load)) / load


def _busiest(during: Sequence[Reading], seconds: float) -> float:
    """The most CPU seconds of a stretch of so many seconds. Between two readings use is constant.

    The busiest stretch begins or ends at a reading, since elsewhere moving it changes its use
    evenly in one of both directions.
    """
    times = [each.uptime for each in during]
    first, last = times[0], times[-1] - seconds
    starts = {max(first, min(start, last)) for t in times for start in (t, t - seconds)}
    return max(
        _cpu_seconds_at(during, times, start + seconds) - _cpu_seconds_at(during, times, start)
        for start in starts
    )


def _cpu_seconds_at(during: Sequence[Reading], times: Sequence[float], time: float) -> float:
    after = min(max(1, bisect.bisect_left(times, time)), len(times) - 1)
    a, b = during[after - 1], during[after]
    share = min(1.0, max(0.0, (time - a.uptime) / (b.uptime - a.uptime)))
    return a.cpu_seconds + share * (b.cpu_seconds - a.cpu_seconds)
