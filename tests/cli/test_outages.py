"""Seconds in which AWS is busy or has a fault end no command; losing sight is no failed run."""

from __future__ import annotations

import socket
import threading
import xml.etree.ElementTree as ET

import pytest
from botocore.exceptions import ClientError
from rackrate_cli.errors import is_temporary
from rackrate_cli.following import watch

from .conftest import DeployedStack, Rackrate, Start, client, machine, results
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
    service: str, fault: str, stack: DeployedStack, as_command: None, rackrate: Rackrate
) -> None:
    stack.define(machine(("Done", stack.recording("succeeded", "done"))))
    stack.put(RUN, "results.json", results(RUN))
    with outage(f"{service}:*") as order:
        done = rackrate("run", "--name", RUN)
    assert order.hits == OUTAGE
    assert "987 Mbit/s" in done.stdout
    assert len(stack.executions()) == 1


@pytest.mark.parametrize("arguments", [("watch", RUN), ("export", RUN, "--format", "json")])
def test_three_seconds_of_throttling_end_no_command(
    arguments: tuple[str, ...], stack: DeployedStack, as_command: None, rackrate: Rackrate
) -> None:
    stack.measure(RUN)
    with outage("*", fault="api-throttled") as order:
        rackrate(*arguments)
    assert order.hits == OUTAGE


def test_a_run_that_is_lost_from_sight_has_its_own_exit_code_and_junit_says_so(
    stack: DeployedStack, as_command: None, rackrate: Rackrate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "OFFLINE_SECONDS", 0.5)
    stack.define_endless()
    with outage("states:DescribeExecution", most=ENDLESS):
        done = rackrate("run", "--name", RUN, "--junit", "verdicts.xml", code=3)
    assert "goes on" in done.stderr and f"rackrate show {RUN}" in done.stderr
    assert stack.executions()[0]["status"] == "RUNNING"
    suite = ET.parse("verdicts.xml").getroot()[0]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")


def test_a_run_is_stopped_as_soon_as_aws_answers_again(
    stack: DeployedStack, as_command: None, start: Start
) -> None:
    stack.define_endless()
    with outage("states:StopExecution") as order:
        process = start("run", "--name", RUN)
        process.until("block 1 of 6")
        process.send()
        threading.Thread(target=_end, args=(stack,), daemon=True).start()
        process.end(130)
    assert order.hits == OUTAGE
    assert stack.executions()[0]["status"] == "ABORTED"


def _end(stack: DeployedStack) -> None:
    """Write the run's end when its execution is stopped, as the stack does."""
    while stack.executions()[0]["status"] == "RUNNING":
        threading.Event().wait(0.1)
    stack.record(RUN, status="aborted")


def test_a_second_ctrl_c_ends_the_tries_to_stop_a_run(
    stack: DeployedStack, as_command: None, start: Start
) -> None:
    stack.define_endless()
    with outage("states:StopExecution", most=ENDLESS) as order:
        process = start("run", "--name", RUN)
        process.until("block 1 of 6")
        process.send()
        while not order.hits:
            threading.Event().wait(0.05)
        process.send()
        _, errors = process.end(130)
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
        rackrate("list", code=3)
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
def test_what_passes_is_distinguished_from_what_does_not(
    code: str, status: int, temporary: bool
) -> None:
    response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    assert is_temporary(ClientError(response, "Any")) is temporary  # type: ignore[arg-type]
