"""Tests that load the network together start at an agreed time, whatever they are started by."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest

from rackrate import registry
from rackrate.measure.pods import outcome
from rackrate.measure.starts import STARTS, agreed_starts, awaited, waiting
from rackrate.plan.durations import waiting_seconds
from tests.waiting import HUNG_SECONDS

TCP = registry.load_test({"name": "tcp-1", "tool": "iperf3", "seconds": 10})
RTT = registry.load_test({"name": "rtt", "tool": "ping"})
NOW = 1_795_275_000.25
SHELLS = [found for name in ("dash", "bash", "busybox") if (found := shutil.which(name))]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_command_starts_no_earlier_than_agreed_with_its_arguments_and_its_exit_code(shell):
    at = int(time.time()) + 2
    odd = ["two words", "$(date)", "`id`", "; exit 0", "*"]
    argv = ["python3", "-c", "import sys, time; print(time.time(), sys.argv[1:]); sys.exit(7)"]
    command = waiting([*argv, *odd], at)
    busy = [shell, *(["sh"] if shell.endswith("busybox") else [])]
    done = subprocess.run([*busy, *command[1:]], capture_output=True, text=True, check=False)
    started, _, output = done.stdout.partition(" ")
    assert at <= float(started)
    assert (output.strip(), done.returncode) == (str(odd), 7)


def test_a_late_command_does_not_wait():
    subprocess.run(waiting(["true"], int(time.time()) - 5), check=True, timeout=HUNG_SECONDS)


def test_pods_have_time_to_start_and_each_test_time_to_end():
    starts = agreed_starts([TCP, RTT], 500, NOW)
    assert starts["tcp-1"] > NOW + 500 / 100
    assert starts["rtt"] > starts["tcp-1"] + TCP.expected_seconds
    ends = starts["rtt"] + RTT.expected_seconds
    traffic = TCP.expected_seconds + RTT.expected_seconds
    assert ends - NOW <= traffic + waiting_seconds([TCP, RTT], 500), "the deadline allows for it"


def pod(started, finished, *, agreed, code=0, command=("iperf3", "-c", "x")):
    state = {"exitCode": code, "startedAt": started, "finishedAt": finished}
    return {
        "metadata": {"annotations": {STARTS: json.dumps({"tcp-1": agreed})}},
        "spec": {
            "containers": [{"name": "tcp-1", "image": "tools:1", "command": waiting(command, 9)}]
        },
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


def test_a_program_that_the_shell_does_not_find_is_named():
    missing = pod("2026-11-21T15:29:55Z", "2026-11-21T15:30:00Z", agreed=1_795_275_000, code=127)
    assert "there is no iperf3 in the image tools:1" in outcome(missing, "tcp-1").failure


def test_a_command_can_be_told_from_its_wait():
    assert awaited(waiting(["ping", "x"], 9)) == ["ping", "x"]
    assert awaited(waiting(["ping", "x"], None)) == ["ping", "x"]
