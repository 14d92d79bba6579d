"""Agreed starts: the tests of a series begin at times that Launch has chosen. Pure.

Pods start one after another, and so do their containers. If a test began with its container, a test
of a few seconds would be over on one node before it began on another, and a pod that starts would
take processor time from a test that runs. Launch therefore starts the pods of a series at once, and
chooses a time for each test. Each container waits for its time by its node's clock. EKS's images
keep that clock within a millisecond (Amazon EC2 user guide, "Set the time reference on your EC2
instance").
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from rackrate.plan.items import BlockItem
from rackrate.plan.series import slot_seconds

#: An annotation of a client pod: the agreed starts of its tests in milliseconds since 1970, by
#: container.
STARTS = "rackrate.dev/starts"

#: Sleeps until its time, takes its pod's turn when the test before it has ended, and becomes the
#: tool, unless the tool would then still send when the next item begins. Its name is "AT,LAST". It
#: needs `date`, `sleep` and `flock`; where `date` or `sleep` knows whole seconds only, as busybox's
#: may, it is up to a second late. The last pause lets a server of one client listen again.
_WAIT = (
    "now() { n=$(date +%s%N); case $n in *[!0-9]*|??????????) n=$(date +%s)000000000;; esac;"
    " n=$((n / 1000000)); }; now; n=$((${0%,*} - n));"
    ' [ "$n" -gt 0 ] && { sleep "$(printf %d.%03d $((n / 1000)) $((n % 1000)))" 2>/dev/null ||'
    " sleep $((n / 1000 + 1)); }; exec 9>/tmp/turn;"
    " flock -n 9 || { flock 9 || exit 76; sleep 0.05 2>/dev/null; };"
    ' now; [ "$n" -le "${0#*,}" ] || exit 75; exec "$@"'
)
#: A shell's exit code when there is no such program.
NO_PROGRAM_CODE = 127
#: The exit code of a test that came too late, and did not run.
TOO_LATE_CODE = 75


class Start(NamedTuple):
    """When a test starts, and when it may start at the latest, in milliseconds since 1970."""

    at: int
    last: int


#: The latest start of a test after which no other item comes.
_ANY_TIME = 10**15


def agreed_starts(items: Sequence[BlockItem], running: Set[str], begin: float) -> dict[str, Start]:
    """When each test of a series starts, by container.

    A test that comes later starts at once, if it ends before the next item begins.

    Args:
        items: the items in their order.
        running: the containers that are to run.
        begin: the first start, in seconds since 1970.
    """
    starts: dict[str, Start] = {}
    items = [item for item in items if not running.isdisjoint(item.containers)]
    for number, item in enumerate(items, start=1):
        tests = {name: test for name, test in item.containers.items() if name in running}
        at, end = begin, begin + slot_seconds(tests.values())
        for name, test in tests.items():
            last = _ANY_TIME if number == len(items) else round((end - test.expected_seconds) * 1e3)
            starts[name] = Start(round(at * 1e3), last)
            at += test.expected_seconds + test.ending_seconds
        begin = end
    return starts


def waiting(argv: Sequence[str], start: Start | None) -> list[str]:
    """A command line that waits for an agreed start, if there is one, and then is another one."""
    return [*argv] if start is None else ["sh", "-c", _WAIT, f"{start.at},{start.last}", *argv]


def awaited(command: Sequence[str]) -> list[str]:
    """The command line that runs after the wait, if it waits."""
    return [*command[4:]] if [*command[:3]] == ["sh", "-c", _WAIT] else [*command]


def agreed(pod: Mapping[str, Any]) -> dict[str, int]:
    """The agreed starts of a pod, in milliseconds since 1970, by container."""
    notes = pod.get("metadata", {}).get("annotations") or {}
    starts: dict[str, int] = json.loads(notes.get(STARTS, "{}"))
    return starts
