"""Agreed starts: pairs that load the network together begin each test at the same moment. Pure.

Pods start one after another, and so do their containers, so without an agreement a test of a few
seconds is over on one node before it starts on another. Launch therefore chooses a time for each
test of a round, and each container waits for it by its node's clock. EKS's images keep that clock
within a millisecond (Amazon EC2 user guide, "Set the time reference on your EC2 instance").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rackrate.plan.durations import FIRST_START_SECONDS, NEXT_START_SECONDS, PODS_PER_SECOND
from rackrate.tools.base import TestBase

#: An annotation of a client pod: the agreed starts of its tests in seconds since 1970, by test.
STARTS = "rackrate.dev/starts"

#: Sleeps until a second before the time that is its name, then asks the clock 50 times a second,
#: and becomes the tool. The shell reads none of the tool's arguments. `date` of busybox tells whole
#: seconds, and every image with coreutils or busybox has a shell.
_WAIT = (
    'n=$(($0 - $(date +%s) - 1)); [ "$n" -gt 0 ] && sleep "$n";'
    ' while [ "$(date +%s)" -lt "$0" ]; do sleep 0.02; done; exec "$@"'
)
#: A shell's exit code when there is no such program.
NO_PROGRAM_CODE = 127


def agreed_starts(tests: Sequence[TestBase], pods: int, now: float) -> dict[str, int]:
    """When each test of a round starts, in whole seconds since 1970, by test.

    A test that comes later than agreed starts at once, and the next one is on time again.

    Args:
        tests: the tests in their order.
        pods: how many pods have to be created and started first.
        now: the time, in seconds since 1970.
    """
    starts = {}
    at = now + FIRST_START_SECONDS + pods / PODS_PER_SECOND
    for test in tests:
        starts[test.name] = math.ceil(at)
        at = starts[test.name] + test.expected_seconds + NEXT_START_SECONDS
    return starts


def waiting(argv: Sequence[str], at: int | None) -> list[str]:
    """A command line that waits for an agreed start, if there is one, and then is another one."""
    return [*argv] if at is None else ["sh", "-c", _WAIT, str(at), *argv]


def awaited(command: Sequence[str]) -> list[str]:
    """The command line that runs after the wait, if it waits."""
    return [*command[4:]] if [*command[:3]] == ["sh", "-c", _WAIT] else [*command]


def agreed_start(pod: Mapping[str, Any], test: str) -> int | None:
    """The agreed start of a pod's test in seconds since 1970; None where there is none."""
    notes = pod.get("metadata", {}).get("annotations") or {}
    start = json.loads(notes.get(STARTS, "{}")).get(test)
    return None if start is None else int(start)
