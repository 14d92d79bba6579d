"""The CPU time of members: the shell that prints it, and what its lines come to."""

from __future__ import annotations

import math
import os
import signal
import subprocess

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


def printed(phase: float = 0.0, seconds: float = 3.0, last: float = 30.0) -> list[Reading]:
    """A member that idles at 1 % of a CPU, and uses 150 % from second 10.2 on."""

    def cpu_seconds(second: float) -> float:
        return 5 + 0.01 * second + 1.49 * max(0.0, min(second - 10.2, seconds))

    times = [phase + 0.5 * n for n in range(round((last - phase) / 0.5) + 1)]
    return [Reading(1000 + t, 77 + t, cpu_seconds(t)) for t in times]


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
    samples = readings(f"{line}\n{good}\n")
    assert samples[-1] == readings(good)[0]
    assert all(abs(each.at) < 1e12 for each in samples)


@pytest.mark.parametrize("phase", [0.0, 0.1, 0.25, 0.4])
@pytest.mark.parametrize("seconds", [0.5, 0.7, 1.0, 1.4, 3.0, 8.0])
def test_the_use_is_that_of_the_time_that_the_tool_measured_and_not_of_its_pod(phase, seconds):
    samples = printed(phase, seconds)
    span = Span(1009.0, 1000.0 + math.floor(11 + seconds), seconds)
    assert percent_used(samples, span) == pytest.approx(150, rel=0.01)
    # Without the tool's time, idle seconds of the pod count.
    assert percent_used(samples, span._replace(seconds=None)) < 125


def test_a_load_of_less_than_a_period_counts_as_one_of_a_period():
    assert percent_used(printed(0.2, 0.1), Span(1009.0, 1011.0, 0.1)) == pytest.approx(31, rel=0.1)


def test_warming_up_in_the_pod_does_not_count():
    samples = [
        Reading(r.at, r.uptime, r.cpu_seconds + 0.5 * min(1.0, max(0.0, r.at - 1009)))
        for r in printed(seconds=3.0)
    ]
    assert percent_used(samples, Span(1009.0, 1014.0, 3.0)) == pytest.approx(150, rel=0.01)


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
    samples = printed()
    samples[22] = samples[22]._replace(**change)
    assert percent_used(samples, Span(1009.0, 1014.0, 3.0)) is None


def test_contradictions_outside_of_the_trial_do_not_matter():
    samples = printed()
    samples[50] = samples[50]._replace(cpu_seconds=0.0)
    assert percent_used(samples, Span(1009.0, 1014.0, 3.0)) is not None


steps = st.tuples(
    st.floats(0.01, 5, allow_nan=False),  # seconds
    st.floats(0, 64, allow_nan=False),  # CPUs
)


@given(
    st.lists(steps, min_size=2, max_size=40),
    st.floats(0, 60),
    st.floats(0, 60),
    st.none() | st.floats(1, 100),
)
def test_the_use_lies_between_the_least_and_the_most(given_steps, started, lasted, seconds):
    samples = [Reading(0.0, 10.0, 0.0)]
    for length, cpus in given_steps:
        last = samples[-1]
        samples.append(
            Reading(last.at + length, last.uptime + length, last.cpu_seconds + cpus * length)
        )
    used = percent_used(samples, Span(started, started + lasted, seconds))
    # A trial that begins with the last reading has no use between two.
    covered = samples[-1].at >= started + lasted and samples[-1].at > started
    assert (used is not None) == covered
    if used is None:
        return
    rates = [cpus for _, cpus in given_steps]
    assert 100 * min(rates) - 1e-3 <= used <= 100 * max(rates) + 1e-3


@given(st.lists(steps, min_size=2, max_size=40), st.floats(0, 60), st.floats(0.01, 1))
def test_the_use_of_a_short_trial_is_bounded_too(given_steps, started, seconds):
    samples = [Reading(0.0, 10.0, 0.0)]
    for length, cpus in given_steps:
        at, uptime, used = samples[-1]
        samples.append(Reading(at + length, uptime + length, used + cpus * length))
    percent = percent_used(samples, Span(started, started + 1, seconds))
    most = max(cpus for _, cpus in given_steps)
    assert percent is None or -1e-3 <= percent <= 3 * 100 * most + 1e-3


@given(st.text(max_size=400), st.text("0123456789.:TZ+- \n", max_size=400))
def test_no_log_makes_it_raise(any_text, alike):
    for text in (any_text, alike, f"2026-11-25T12:00:01Z {alike}"):
        percent_used(readings(text), Span(0.0, 2e9, 1.0))


def test_no_more_lines_are_read_than_the_trial_needs():
    assert 20 <= lines_since(1000.0, 1010.0) <= 100
    assert lines_since(1000.0, 900.0) > 0
    assert lines_since(0.0, 1e9) == lines_since(0.0, 2e9)


def test_the_shell_counts_the_processes_of_the_member_alone(tmp_path):
    program, _, script = ARGV
    (tmp_path / "uptime").write_text("31502.34 97970.11\n")
    after = "-1 4194560 1102 1080 0 0 {} 30 10 1 0 3205843 2744320 467 184467440737095516\n"
    stats = {
        "1": f"1 (pause) S 0 1 1 0 {after.format('900 900 900 900')}",
        "7": f"7 (etcd) S 0 7 7 0 {after.format('1000 200 30 4')}",
        # Any name that a process can give itself, and a number beyond 32 bits.
        "23": f"23 (a (b) 9 9) c) R 7 7 7 0 {after.format('50000000000 0 0 0')}",
        "24": "",  # it has ended since
        "self": "9",
    }
    for process, line in stats.items():
        (tmp_path / process).mkdir()
        (tmp_path / process / "stat").write_text(line)
    argv = [program, "-c", script.replace("/proc", str(tmp_path))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True) as shell:
        assert shell.stdout is not None
        lines = [shell.stdout.readline(), shell.stdout.readline()]
        os.killpg(shell.pid, signal.SIGKILL)
    assert lines == ["31502.34 50000001234\n"] * 2
    (first, *_) = readings(f"2026-11-25T12:00:01Z {lines[0]}")
    assert (first.uptime, first.cpu_seconds) == (31502.34, 500000012.34)
