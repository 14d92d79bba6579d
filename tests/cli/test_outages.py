"""Seconds in which AWS is busy or has a fault end no command; losing sight is no failed run."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from rackrate_cli.errors import is_temporary
from rackrate_cli.following import watch

from tests.waiting import HUNG_SECONDS

from .conftest import DeployedStack, Rackrate, client, going_on, machine, results
from .outages import COMMAND_KEY, ENDLESS, OUTAGE, outage

RUN = "run-of-an-outage"
pytestmark = pytest.mark.filterwarnings("ignore:Exception.InjectedError.:UserWarning")


@pytest.fixture
def as_command(stack: DeployedStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command have a key of its own, so that outages strike it alone."""
    client("cloudformation"), client("stepfunctions"), client("dynamodb"), client("s3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", COMMAND_KEY)


@pytest.mark.parametrize("service", ["cloudformation", "states", "dynamodb", "s3"])
@pytest.mark.parametrize("fault", ["api-failing", "api-throttled"])
def test_three_seconds_of_503_or_throttling_do_not_end_a_run(
    service: str,
    fault: str,
    stack: DeployedStack,
    as_command: None,
    rackrate: Rackrate,
    tmp_path: Path,
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    stack.put(RUN, "results.json", results(RUN))
    with outage(f"{service}:*", fault=fault) as order:
        done = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
    assert order.hits == OUTAGE
    assert done.exit_code == 0, done.output
    assert "987 Mbit/s" in done.stdout
    assert len(stack.executions()) == 1


@pytest.mark.parametrize(
    "arguments", [("watch", RUN), ("list",), ("show", RUN), ("export", RUN, "--format", "json")]
)
def test_three_seconds_of_throttling_end_no_command(
    arguments: tuple[str, ...], stack: DeployedStack, as_command: None, rackrate: Rackrate,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    stack.record(RUN, status="succeeded", trials_measured=36)
    stack.put(RUN, "results.json", results(RUN))
    with outage("*", fault="api-throttled") as order:
        done = rackrate(*arguments, "--stack", stack.name)
    assert order.hits == OUTAGE
    assert done.exit_code == 0, done.output


def define_run_that_goes_on(stack: DeployedStack) -> None:
    """Let runs of the stack measure until they are stopped."""
    stack.define(
        machine(("Measure", stack.recording("running", "block 1 of 6")), ("Wait", going_on()))
    )


def test_a_run_that_is_lost_from_sight_has_its_own_exit_code_and_junit_says_so(
    stack: DeployedStack,
    as_command: None,
    rackrate: Rackrate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "OFFLINE_SECONDS", 0.5)
    define_run_that_goes_on(stack)
    junit = tmp_path / "verdicts.xml"
    with outage("states:DescribeExecution", strikes=ENDLESS):
        done = rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path,
                        "--junit", junit)  # fmt: skip
    assert done.exit_code == 3
    assert "goes on" in done.stderr and f"rackrate show {RUN}" in done.stderr
    assert stack.executions()[0]["status"] == "RUNNING"
    suite = ET.parse(junit).getroot()[0]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")


def test_a_run_is_stopped_as_soon_as_aws_answers_again(
    stack: DeployedStack, as_command: None, start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:  # fmt: skip
    define_run_that_goes_on(stack)
    with outage("states:StopExecution") as order:
        process = start_rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
        assert process.stderr is not None
        assert any("block 1 of 6" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        threading.Thread(target=_end, args=(stack,), daemon=True).start()
        process.communicate(timeout=HUNG_SECONDS)
    assert order.hits == OUTAGE
    assert process.returncode == 130
    assert stack.executions()[0]["status"] == "ABORTED"


def _end(stack: DeployedStack) -> None:
    """Write the run's end when its execution is stopped, as the stack does."""
    while stack.executions()[0]["status"] == "RUNNING":
        threading.Event().wait(0.1)
    stack.record(RUN, status="aborted")


def test_a_second_ctrl_c_ends_the_tries_to_stop_a_run(
    stack: DeployedStack, as_command: None, start_rackrate: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:  # fmt: skip
    define_run_that_goes_on(stack)
    with outage("states:StopExecution", strikes=ENDLESS) as order:
        process = start_rackrate("run", "--stack", stack.name, "--name", RUN, "--out", tmp_path)
        assert process.stderr is not None
        assert any("block 1 of 6" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        while not order.hits:
            threading.Event().wait(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HUNG_SECONDS)
    assert process.returncode == 130
    assert "stop-execution" in errors and "Traceback" not in errors


def test_an_endpoint_that_never_answers_is_not_waited_for(
    aws: str, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connections.append(connection)
                connection.close()

        threading.Thread(target=refuse, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert rackrate("list").exit_code == 3
    assert len(connections) == 3


@pytest.mark.parametrize(
    ("code", "status", "temporary"),
    [
        ("ThrottlingException", 400, True),
        ("Throttling", 400, True),
        ("TooManyRequestsException", 429, True),
        ("RequestLimitExceeded", 503, True),
        ("SlowDown", 503, True),
        ("ProvisionedThroughputExceededException", 400, True),
        ("ServiceUnavailable", 503, True),
        ("InternalFailure", 500, True),
        ("AccessDenied", 403, False),
        ("ValidationError", 400, False),
        # What CloudFormation calls the quota of stacks.
        ("LimitExceededException", 400, False),
    ],
)
def test_what_passes_is_told_from_what_does_not(code: str, status: int, temporary: bool) -> None:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert is_temporary(ClientError(answer, "Any")) is temporary  # type: ignore[arg-type]
