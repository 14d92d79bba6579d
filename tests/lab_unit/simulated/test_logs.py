"""What simulated nodes print: what the true parsers read, at the container's time, and varied."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.scale import PLAN
from lab.simulated.logs import NoRecording, log_of, printed
from rackrate import tools
from rackrate.measure.starts import waiting

TESTS = [tools.load_test({**tools.catalogue()[each["name"]], **each}) for each in PLAN["tests"]]
STARTED = 1_795_275_000.0


def value(test, seed, *, in_group=False):
    text = printed(test.argv("10.0.0.9"), STARTED, seed, in_group=in_group)
    return tools.parse(test, text)


@pytest.mark.parametrize("test", [*TESTS, TESTS[0].warm_up()], ids=lambda test: test.name)
def test_every_test_of_the_benchmark_prints_what_its_parser_reads(test):
    found = value(test, "one")
    (metric,) = found.values.values()
    assert metric > 0
    assert found.values != value(test, "another").values
    assert found.values == value(test, "one").values


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_nodes_in_a_group_are_better(test):
    inside, outside = (
        sum(next(iter(value(test, str(seed), in_group=group).values.values())) for seed in range(9))
        for group in (True, False)
    )
    assert (inside > outside) == (test.primary.better == "higher")


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_tools_tell_the_time_at_which_their_container_ran(test):
    details = value(test, "one").details
    names = ("started_at_epoch_seconds", "first_reply_at_epoch_seconds")
    (own,) = (details[name] for name in names if name in details)
    assert own == pytest.approx(STARTED)


class OnePod:
    """The pods of the API, of which there is one, with one container that has ended."""

    def __init__(self, command):
        state = {"terminated": {"startedAt": datetime.fromtimestamp(STARTED - 5, UTC).isoformat()}}
        self.found = {
            "spec": {"nodeName": "n", "containers": [{"name": "t", "command": command}]},
            "status": {"containerStatuses": [{"name": "t", "state": state}]},
        }

    def pod(self, *_):
        return self.found

    def in_group(self, _):
        return False


def test_a_container_that_waited_printed_what_its_tool_prints_at_the_agreed_time():
    argv = TESTS[0].argv("10.0.0.9")
    waited = log_of(OnePod(waiting(argv, int(STARTED))), "rackrate", "pod", "t")
    assert waited == printed(argv, STARTED, "pod/t", in_group=False)


@pytest.mark.parametrize(
    "argv", [["sockperf", "ping-pong"], ["iperf3", "--client", "x"], ["ping", "-c", "7", "x"]]
)
def test_a_command_that_nobody_recorded_has_no_log(argv):
    with pytest.raises(NoRecording):
        printed(argv, STARTED, "one", in_group=False)
