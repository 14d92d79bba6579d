"""scripts/capture.py produces each situation, with a made-up tool on the loopback interface."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, ClassVar

import pytest
import yaml

from rackrate.tools.base import Metric, Port, Server, TestBase
from scripts import capture
from scripts.capture import (
    MOST_REPEATS,
    NO_ROUTE,
    UNREACHABLE,
    CaptureError,
    Run,
    failures,
    keep,
    printed_by,
    without_flood,
)
from tests.unit.tools.captures import INDEX, Printed
from tests.waiting import HUNG_SECONDS

CLIENT = """
import socket, sys, time
print("starting", file=sys.stderr, flush=True)
if sys.argv[3:]:
    sys.exit("what is " + sys.argv[3])
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as server:
        print("server says", server.recv(5).decode() or "nothing", flush=True)
        print("server ends with", server.recv(10).decode() or "nothing", flush=True)
except KeyboardInterrupt:
    print("summary")
except OSError as error:
    print(error.strerror)
"""
SERVER = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
    client, _ = listening.accept()
    client.send(b"hello")
    time.sleep(float(sys.argv[2]))
    client.send(b"bye")
    time.sleep(600)
"""
with socket.create_server(("127.0.0.1", 0)) as chosen:
    PORT = chosen.getsockname()[1]

#: Run in namespaces of its own: a workload whose members tell their names, files and places.
WORKLOAD = """
import sys
from typing import ClassVar
from rackrate.tools.base import Metric, Port
from rackrate.workloads.base import DATA, FILES, OWN_ADDRESS, WorkloadTest
from scripts import capture, members
from scripts.capture import Run, _prepare, failures, printed_by
from tests.unit.tools.test_capturing import until_printed
from tests.waiting import HUNG_SECONDS

MEMBER = '''
import http.server, pathlib, socket, sys
address, data, files, peers = sys.argv[1:]
pathlib.Path(data, "kept").write_text("x")
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        known = [socket.gethostbyname(each) for each in peers.split(",")]
        said = [address, pathlib.Path(files, "greeting").read_text(), *known]
        self.wfile.write(" ".join(said).encode())
http.server.HTTPServer((address, 8000), Page).serve_forever()
'''
CLIENT = '''
import os, socket, sys, time, urllib.request
try:
    for each in sys.argv[1:3]:
        print(urllib.request.urlopen(f"http://{each}:8000/").read().decode(), flush=True)
    for _ in range(int(os.environ["LOOKS"])):
        if socket.socket().connect_ex((each, 8000)) != 0:
            break
        time.sleep(0.1)
    print("again", urllib.request.urlopen(f"http://{each}:8000/").status)
except OSError as error:
    print(error)
'''

class Pair(WorkloadTest):
    tool: str = "no-such-workload"
    members: int = 2
    ports: ClassVar = (Port(8000),)
    ready_path: ClassVar = "/"
    environment: ClassVar = {"LOOKS": "1"}
    expected_seconds: ClassVar = 2.0
    metrics: ClassVar = (Metric("greetings", "greetings/s", "higher", "a count", step=1.0),)
    def member_argv(self, index, names):
        return [sys.executable, "-c", MEMBER, OWN_ADDRESS, DATA, FILES, ",".join(names)]
    def files(self, index, names):
        return {"greeting": f"I am {index}"}
    def measure_argv(self, addresses):
        return [sys.executable, "-c", CLIENT, *addresses]
    def warm_up(self):
        return self

test = Pair(name="pair")
_prepare({})
capture.GRACE_SECONDS = HUNG_SECONDS
capture.wait_until_halfway = until_printed(b"I am 1 10.0.1.1 10.0.1.2\\n")
members.prepare(test)
for run in (Run(test), failures(test)["server-died"], failures(test)["unreachable"]):
    # Until the members are killed, however late.
    Pair.environment = {"LOOKS": "6000" if run.server_dies else "1"}
    print(printed_by(run).decode(), end="---\\n", flush=True)
"""


def until_printed(text: bytes) -> Callable[[TestBase, IO[bytes]], None]:
    """What waits until the client has printed a text: a busy machine starts it late."""

    def wait(_test: TestBase, output: IO[bytes]) -> None:
        deadline = time.monotonic() + HUNG_SECONDS
        while text not in os.pread(output.fileno(), 10_000, 0):
            assert time.monotonic() < deadline, f"the client never prints {text!r}"
            time.sleep(0.01)

    return wait


def greeter(pause_seconds: float) -> Server:
    """A server that greets at once and ends its greeting after a pause."""
    argv = (sys.executable, "-c", SERVER, str(PORT), str(pause_seconds))
    return Server("greeter", argv, (Port(PORT),))


class MadeUp(TestBase):
    """A tool with a name that no module can have."""

    __test__: ClassVar[bool] = False

    tool: str = "no-such-tool"
    seconds: float = 4.0
    expected_seconds: ClassVar[float] = 4.0
    metrics: ClassVar = (Metric("greetings", "greetings/s", "higher", "a count", step=1.0),)
    server: ClassVar = greeter(0)

    def argv(self, server: str) -> list[str]:
        return [sys.executable, "-c", CLIENT, server, str(PORT)]

    def warm_up(self) -> MadeUp:
        return self


class Endless(MadeUp):
    """The same with a server that does not end its greeting while a test goes on."""

    server: ClassVar = greeter(HUNG_SECONDS)


TEST = MadeUp(name="made")


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr(capture, "GRACE_SECONDS", HUNG_SECONDS)


def test_a_run_that_succeeds_is_captured_with_both_outputs_in_order():
    assert printed_by(Run(TEST)) == b"starting\nserver says hello\nserver ends with bye\n"


@pytest.mark.parametrize(
    ("situation", "printed"),
    [
        ("refused", b"starting\nConnection refused\n"),
        ("interrupted", b"starting\nserver says hello\nsummary\n"),
        ("terminated", b"starting\nserver says hello\n"),
        ("killed", b"starting\nserver says hello\n"),
        ("server-died", b"starting\nserver says hello\nserver ends with nothing\n"),
        ("wrong-option", b"starting\nwhat is --no-such-option\n"),
    ],
)
def test_each_failure_is_brought_about(monkeypatch, situation, printed):
    monkeypatch.setattr(capture, "wait_until_halfway", until_printed(b"server says hello\n"))
    assert printed_by(failures(Endless(name="made"))[situation]) == printed


def test_what_cannot_be_reached_has_addresses_of_its_own():
    messages = failures(TEST)
    assert messages["unreachable"].address == UNREACHABLE
    assert messages["no-route"].address == NO_ROUTE


def test_a_server_that_does_not_start_is_no_capture_of_a_refusal():
    class Broken(MadeUp):
        server: ClassVar = Server("x", (sys.executable, "-c", "exit('broken')"), (Port(PORT),))

    with pytest.raises(CaptureError, match="does not listen, and says: broken"):
        printed_by(Run(Broken(name="made")))


def test_the_members_of_a_workload_are_started_each_in_its_own_place_and_die_together():
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    inside = ["unshare", *user, *("--net", "--mount", "--pid", "--fork", "--kill-child")]
    ran = subprocess.run(
        [*inside, sys.executable, "-c", WORKLOAD],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    whole, died, unreachable, _ = ran.stdout.split("---\n")
    names = "10.0.1.1 10.0.1.2"
    greetings = f"10.0.1.1 I am 0 {names}\n10.0.1.2 I am 1 {names}\n"
    assert whole == f"{greetings}again 200\n"
    assert died.startswith(greetings)
    assert "refused" in died
    assert "I am" not in unreachable


def test_what_nobody_has_read_yet_fails_its_tests(tmp_path):
    for _ in range(2):
        keep(tmp_path, "fine", MadeUp(name="made", seconds=3), b"printed", good=True)
        keep(tmp_path, "refused", TEST, b"{}", good=False)
    assert {path.name for path in tmp_path.iterdir()} == {"fine.txt", "refused.json", INDEX}
    index = yaml.safe_load((tmp_path / INDEX).read_text())
    assert index["fine"]["test"] == {"seconds": 3}
    assert index["refused"].keys() == {"test", "refused"}
    with pytest.raises(ValueError, match="no printed figure"):
        Printed.read(index["fine"]["printed"]["greetings"])


def test_a_flood_of_equal_lines_is_cut_and_the_rest_is_kept():
    flood = b"begin\n" + b"no route\n" * 5000 + b"1.0\n" * MOST_REPEATS + b"end"
    rest = b"begin\n" + b"no route\n" * MOST_REPEATS + b"1.0\n" * MOST_REPEATS + b"end"
    assert without_flood(flood) == rest
