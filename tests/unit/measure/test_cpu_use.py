"""The CPU time of members: the shell that prints it, and what its lines come to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.measure.cpu_use import (
    ARGV,
    Reading,
    Span,
    lines_since,
    percent_used,
    readings,
)

#: A member that idles at 1 %, and uses 150 % for three seconds from second 10.2 on.
LOAD = (10.2, 13.2)


def used_until(second: float) -> float:
    begin, end = LOAD
    return 0.01 * second + 1.49 * max(0.0, min(second, end) - begin)


def printed(*, first: float = 0.0, last: float = 30.0, period: float = 0.5) -> list[Reading]:
    seconds = [first + period * n for n in range(round((last - first) / period) + 1)]
    return [Reading(1000 + s, 77 + s, 5 + used_until(s)) for s in seconds]


def test_a_log_has_the_time_the_uptime_and_the_cpu_time():
    log = (
        "2026-11-25T12:00:01.123456789Z 31502.34 97970\n"
        "2026-11-25T13:00:01.6+01:00 31502.84 97995\n"
    )
    first, second = readings(log)
    assert second.at - first.at == pytest.approx(0.4765, abs=1e-3)
    assert (first.uptime, first.cpu_seconds) == (31502.34, 979.70)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "31502.34 97970",
        "2026-11-25T12:00:01Z sh: can't open /proc/uptime",
        "2026-11-25T12:00:01Z 31502.34 -5",
        "2026-11-25T12:00:01Z 31502.34 97970 1",
        "2026-11-25T12:00:01Z 31502.34 \u0661",
        "2026-13-25T12:00:01Z 31502.34 97970",
        "2026-11-25T25:00:01Z 31502.34 97970",
        "0001-01-01T00:00:00+23:59 31502.34 97970",
        f"2026-11-25T12:00:01Z {'9' * 400}.00 97970",
        f"2026-11-25T12:00:01Z 31502.34 {'9' * 5000}",
    ],
)
def test_lines_of_another_form_are_left_out(line):
    good = "2026-11-25T12:00:01Z 1.00 2"
    found = readings(f"{line}\n{good}\n")
    assert found[-1] == readings(good)[0]
    assert all(abs(each.at) < 1e12 for each in found)


def test_the_use_is_that_of_the_time_that_the_tool_measured_and_not_of_its_pod():
    # The pod lived from second 9 to 14. By the kubelet's whole seconds it may have been longer.
    span = Span(1009.0, 1014.0, 3.0)
    assert percent_used(printed(), span) == pytest.approx(150, rel=0.07)
    assert percent_used(printed(period=0.1), span) == pytest.approx(150, rel=0.02)
    # Without the tool's time, idle seconds of the pod count.
    assert percent_used(printed(), span._replace(seconds=None)) == pytest.approx(75.5, rel=0.01)


def test_a_short_trial_is_not_lost_in_the_seconds_around_it():
    found = [Reading(r.at, r.uptime, 5 + 0.9 * max(0, min(r.at - 1010, 1))) for r in printed()]
    assert percent_used(found, Span(1009.0, 1011.0, 1.0)) == pytest.approx(90)


@pytest.mark.parametrize(
    "span",
    [
        Span(995.0, 1014.0, 3.0),  # before the first reading
        Span(1009.0, 1031.0, 3.0),  # after the last one
        Span(2000.0, 2003.0, None),
    ],
)
def test_readings_that_do_not_cover_the_trial_give_nothing(span):
    assert percent_used(printed(), span) is None
    assert percent_used([], span) is None
    assert percent_used(printed()[:1], span) is None


def test_the_last_reading_may_come_before_the_second_is_over_in_which_the_trial_ended():
    assert percent_used(printed(last=14.0), Span(1009.0, 1014.0, 3.0)) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"cpu_seconds": 0.0},  # a process was lost with its time
        {"uptime": 1.0},
        {"at": 900.0},
        {"cpu_seconds": 1e15},
    ],
)
def test_readings_that_contradict_each_other_give_nothing(change):
    found = printed()
    found[22] = found[22]._replace(**change)
    assert percent_used(found, Span(1009.0, 1014.0, 3.0)) is None


def test_contradictions_outside_of_the_trial_do_not_matter():
    found = printed()
    found[50] = found[50]._replace(cpu_seconds=0.0)
    assert percent_used(found, Span(1009.0, 1014.0, 3.0)) is not None


steps = st.tuples(
    st.floats(0.01, 5, allow_nan=False),  # seconds
    st.floats(0, 64, allow_nan=False),  # CPUs
)


@given(
    st.lists(steps, min_size=2, max_size=40),
    st.floats(0, 60),
    st.floats(0, 60),
    st.none() | st.floats(0.1, 100),
)
def test_the_use_lies_between_the_least_and_the_most_and_is_no_less_than_the_mean(
    given_steps, started, lasted, seconds
):
    found = [Reading(0.0, 10.0, 0.0)]
    for length, cpus in given_steps:
        last = found[-1]
        found.append(
            Reading(last.at + length, last.uptime + length, last.cpu_seconds + cpus * length)
        )
    used = percent_used(found, Span(started, started + lasted, seconds))
    covered = found[-1].at >= started + lasted
    assert (used is not None) == covered
    if used is None:
        return
    rates = [cpus for _, cpus in given_steps]
    assert 100 * min(rates) - 1e-3 <= used <= 100 * max(rates) + 1e-3
    whole = percent_used(found, Span(started, started + lasted, None))
    assert used >= whole - 1e-3


@given(st.text(max_size=400), st.text("0123456789.:TZ+- \n", max_size=400))
def test_no_log_makes_it_raise(any_text, alike):
    for text in (any_text, alike, f"2026-11-25T12:00:01Z {alike}"):
        percent_used(readings(text), Span(0.0, 2e9, 1.0))


def test_no_more_lines_are_read_than_the_trial_needs():
    assert 20 <= lines_since(1000.0, 1010.0) <= 100
    assert lines_since(1000.0, 900.0) > 0
    assert lines_since(0.0, 1e9) == lines_since(0.0, 2e9)


@pytest.mark.skipif(sys.platform != "linux", reason="it reads Linux's /proc")
def test_the_shell_counts_what_other_processes_use_and_nearly_nothing_itself():
    # In a pod /proc shows the member's processes alone. Here it shows the machine's.
    shell = subprocess.Popen(ARGV, stdout=subprocess.PIPE, text=True, start_new_session=True)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(1.6)
    finally:
        busy.kill()
        os.killpg(shell.pid, signal.SIGKILL)
    lines = (shell.communicate()[0] or "").splitlines()
    busy.wait()
    assert len(lines) >= 2
    first, *_, last = readings("".join(f"2026-11-25T12:00:01Z {line}\n" for line in lines))
    assert last.uptime > first.uptime
    assert last.cpu_seconds > first.cpu_seconds
