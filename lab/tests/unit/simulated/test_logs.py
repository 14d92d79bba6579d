"""What simulated nodes print: what the true parsers read, at the container's time, and varied."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from benchmarks.scale import PLAN
from lab.simulated.logs import NoRecording, Pods, log_of, printed
from rackrate import registry
from rackrate.measure.starts import Start, waiting

TESTS = [
    registry.load_test({**registry.catalogue()[each["name"]], **each}) for each in PLAN["tests"]
]
STARTED = 1_795_275_000.0


def value(test, seed, *, in_group=False):
    text = printed(test.argv("10.0.0.9"), STARTED, seed, in_group=in_group)
    return registry.parse(test, text)


@pytest.mark.parametrize("test", [*TESTS, TESTS[0].warm_up()], ids=lambda test: test.name)
def test_every_test_of_the_benchmark_prints_what_its_parser_reads(test):
    parsed = value(test, "one")
    (metric,) = parsed.values.values()
    assert metric > 0
    assert parsed.values != value(test, "another").values
    assert parsed.values == value(test, "one").values


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
    waited = log_of(
        OnePod(waiting(argv, Start(round(STARTED * 1000), 10**15))), "rackrate", "pod", "t"
    )
    assert waited == printed(argv, STARTED, "pod/t", in_group=False)


@pytest.mark.parametrize(
    "argv", [["sockperf", "ping-pong"], ["iperf3", "--client", "x"], ["ping", "-c", "7", "x"]]
)
def test_a_command_that_nobody_recorded_has_no_log(argv):
    with pytest.raises(NoRecording):
        printed(argv, STARTED, "one", in_group=False)


@pytest.fixture
def api():
    """An API with three pods that have ended, one that runs, and two nodes; it notes requests."""
    phases = {"p0": "Succeeded", "p1": "Succeeded", "p2": "Succeeded", "p3": "Running"}
    pods = {
        name: {"metadata": {"name": name}, "spec": {"nodeName": "n"}, "status": {"phase": phase}}
        for name, phase in phases.items()
    }
    nodes = [
        {"metadata": {"name": "near", "labels": {"placementGroup": "true"}}},
        {"metadata": {"name": "far", "labels": {"placementGroup": "false"}}},
    ]
    paths = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = urlsplit(self.path)
            paths.append(url.path)
            match url.path.removeprefix("/api/v1/").split("/"):
                case ["nodes"]:
                    document = {"items": nodes}
                case ["namespaces", "rackrate", "pods"]:
                    (selector,) = parse_qs(url.query)["fieldSelector"]
                    phase = selector.removeprefix("status.phase=")
                    selected = [pod for pod in pods.values() if pod["status"]["phase"] == phase]
                    document = {"items": selected}
                case [*_, name] if name in pods:
                    document = pods[name]
                case _:
                    document = None
            self.send_response(404 if document is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


@pytest.fixture
def pods_of(api):
    """The pods of that API; it needs no certificates."""
    return Pods(api[0], "", "", "")


def test_pods_that_have_ended_are_read_with_one_request_and_one_that_runs_by_itself(api, pods_of):
    phases = [pods_of.pod("rackrate", f"p{number}")["status"]["phase"] for number in (0, 1, 2)]
    assert phases == ["Succeeded"] * 3
    assert api[1] == ["/api/v1/namespaces/rackrate/pods"]
    assert pods_of.pod("rackrate", "p3")["status"]["phase"] == "Running"
    assert api[1][-1] == "/api/v1/namespaces/rackrate/pods/p3"
    with pytest.raises(LookupError):
        pods_of.pod("rackrate", "p4")


def test_nodes_are_read_with_one_request_and_an_unknown_one_is_an_error(api, pods_of):
    assert (pods_of.in_group("near"), pods_of.in_group("far")) == (True, False)
    assert api[1] == ["/api/v1/nodes"]
    with pytest.raises(LookupError, match="elsewhere"):
        pods_of.in_group("elsewhere")
