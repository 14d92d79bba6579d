"""Tests start at agreed times, one after the other, whatever they are started by."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest

from rackrate import registry
from rackrate.measure.pods import outcome, started_after
from rackrate.measure.starts import (
    STARTS,
    TOO_LATE_CODE,
    Start,
    agreed_starts,
    awaited,
    waiting,
)
from rackrate.plan.durations import lead_seconds, series_seconds
from rackrate.plan.items import BlockItem, Pair
from tests.waiting import HUNG_SECONDS

TCP = registry.load_test({"name": "tcp-1", "tool": "iperf3", "seconds": 3})
RTT = registry.load_test({"name": "rtt", "tool": "ping"})
NOW = 1_795_275_000.25
ANY_TIME = 10**15
SHELLS = [found for name in ("dash", "bash", "busybox") if (found := shutil.which(name))]
STARTED = "import sys, time; print(time.time(), sys.argv[1:]); sys.exit(7)"


def in_ms(seconds):
    return round((time.time() + seconds) * 1000)


def run(command, shell="sh"):
    called = [shell, *(["sh"] if shell.endswith("busybox") else []), *command[1:]]
    return subprocess.run(called, capture_output=True, text=True, check=False, timeout=HUNG_SECONDS)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_starts_no_earlier_than_agreed_with_its_arguments_and_its_exit_code(shell):
    odd = ["two words", "$(date)", "`id`", "; exit 0", "*"]
    at = in_ms(1.2)
    done = run(waiting(["python3", "-c", STARTED, *odd], Start(at, ANY_TIME)), shell)
    started, _, output = done.stdout.partition(" ")
    assert at / 1000 <= float(started)
    assert (output.strip(), done.returncode) == (str(odd), 7)


def test_a_late_command_does_not_wait_if_it_still_ends_in_time():
    assert run(waiting(["true"], Start(in_ms(-5), in_ms(60)))).returncode == 0


def test_a_command_that_would_meet_the_next_item_does_not_run():
    done = run(waiting(["echo", "ran"], Start(in_ms(-5), in_ms(-1))))
    assert (done.stdout, done.returncode) == ("", TOO_LATE_CODE)


def test_a_command_begins_when_the_one_before_it_has_ended():
    now = in_ms(0)
    first = waiting(["sh", "-c", "sleep 1; date +%s%N"], Start(now, ANY_TIME))
    with subprocess.Popen(first, stdout=subprocess.PIPE, text=True) as before:
        time.sleep(0.5)
        second = run(waiting(["date", "+%s%N"], Start(now + 1, ANY_TIME)))
        ended, _ = before.communicate()
    assert int(second.stdout) >= int(ended)


def item(block, pairs=1):
    return BlockItem(
        progress=f"block {block} of 6",
        block=block,
        blocks=6,
        round=1,
        rounds=1,
        warm_up=False,
        tests=(TCP, RTT),
        pairs=tuple(
            Pair(arm="a", client=f"n-{n}", server="s", client_network="pod", server_network="pod")
            for n in range(pairs)
        ),
    )


def test_a_test_begins_after_the_one_before_it_and_never_meets_the_next_item():
    series = [item(1), item(2)]
    running = {name for each in series for name in each.containers}
    starts = agreed_starts(series, running, NOW)
    assert list(starts) == ["tcp-1-1-1", "rtt-1-1", "tcp-1-2-1", "rtt-2-1"]
    (tcp, rtt, next_tcp, next_rtt) = starts.values()
    assert tcp.at == round(NOW * 1000)
    assert tcp.at + TCP.expected_seconds * 1000 < rtt.at <= rtt.last
    assert rtt.last + RTT.expected_seconds * 1000 <= next_tcp.at
    assert tcp.last + TCP.expected_seconds * 1000 <= next_tcp.at
    assert next_tcp.last == next_rtt.last == ANY_TIME, "nothing comes after the last item"


def test_what_does_not_run_takes_no_time():
    series = [item(1), item(2), item(3)]
    starts = agreed_starts(series, {"rtt-2-1", "tcp-1-3-1"}, NOW)
    assert starts["rtt-2-1"].at == round(NOW * 1000)
    assert starts["tcp-1-3-1"].at - starts["rtt-2-1"].at < RTT.expected_seconds * 1000 + 500


def test_pods_have_time_to_start_and_each_test_time_to_end():
    series = [item(1, pairs=500)]
    lead = lead_seconds(500, 2)
    assert lead > 500 / 100
    starts = agreed_starts(series, series[0].containers.keys(), NOW + lead)
    ends = starts["rtt-1-1"].at / 1000 + RTT.expected_seconds
    assert ends - NOW <= series_seconds(series)


def test_pods_that_started_late_have_more_time_next_time():
    assert lead_seconds(2, 1, 10.0) > 10.0 > lead_seconds(2, 1, 0.5) == lead_seconds(2, 1)


def pod(started, finished, *, agreed, code=0, command=("iperf3", "-c", "x")):
    state = {"exitCode": code, "startedAt": started, "finishedAt": finished}
    command = waiting(command, Start(agreed * 1000, ANY_TIME))
    return {
        "metadata": {"annotations": {STARTS: json.dumps({"tcp-1": agreed * 1000})}},
        "spec": {"containers": [{"name": "tcp-1", "image": "tools:1", "command": command}]},
        "status": {"containerStatuses": [{"name": "tcp-1", "state": {"terminated": state}}]},
    }


@pytest.mark.parametrize(
    ("started", "finished", "expected"),
    [
        ("2026-11-21T15:29:55Z", "2026-11-21T15:30:12Z", "2026-11-21T15:30:00Z"),
        ("2026-11-21T15:30:02Z", "2026-11-21T15:30:12Z", "2026-11-21T15:30:02Z"),
        ("2026-11-21T15:29:55Z", "2026-11-21T15:29:58Z", "2026-11-21T15:29:55Z"),
    ],
    ids=["waited", "came late", "ended before"],
)
def test_a_test_that_waited_started_at_the_agreed_time(started, finished, expected):
    assert outcome(pod(started, finished, agreed=1_795_275_000), "tcp-1").started_at == expected


def test_the_time_that_pods_took_to_start_ends_with_the_last_container():
    first, second = (pod(f"2026-11-21T15:29:{at}Z", None, agreed=1_795_275_000) for at in (57, 59))
    for each, created in ((first, 56), (second, 55)):
        each["metadata"]["creationTimestamp"] = f"2026-11-21T15:29:{created}Z"
    waits = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    second["status"]["containerStatuses"].append(waits)
    assert started_after([first, second]) == 4.0
    assert started_after([]) == 0.0


def test_a_program_that_the_shell_does_not_find_is_named():
    missing = pod("2026-11-21T15:29:55Z", "2026-11-21T15:30:00Z", agreed=1_795_275_000, code=127)
    assert "there is no iperf3 in the image tools:1" in outcome(missing, "tcp-1").failure


def test_a_test_that_came_too_late_has_failed_and_says_so():
    late = pod("2026-11-21T15:29:55Z", "2026-11-21T15:30:00Z", agreed=1_795_275_000, code=75)
    told = outcome(late, "tcp-1")
    assert not told.started and told.failure.startswith("could not start in time")


def test_a_command_can_be_told_from_its_wait():
    assert awaited(waiting(["ping", "x"], Start(9, 9))) == ["ping", "x"]
    assert awaited(waiting(["ping", "x"], None)) == ["ping", "x"]
