"""A deployed stack for the command to find: moto serves its outputs, table, bucket and machine.

The tests replace nothing in the command. Small state machines that moto executes, and the tests
themselves, write the run's item and its files in place of the stack's functions.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from rackrate_cli.main import app
from typer.testing import CliRunner, Result
from werkzeug.serving import make_server

from tests.waiting import HUNG_SECONDS

from .outages import FAULTS

ROLE = "arn:aws:iam::123456789012:role/states"
# The item that ends a state of `until_let`, which deletes it.
_LET = {"pk": "test", "sk": "let"}
TEMPLATE: dict[str, Any] = {
    "Parameters": {
        "StateMachineArn": {"Type": "String"},
        "CampaignStateMachineArn": {"Type": "String"},
        "ComparisonStateMachineArn": {"Type": "String"},
    },
    "Resources": {
        "Bucket": {"Type": "AWS::S3::Bucket"},
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": "S"}
                    for name in ("pk", "sk", "gsi1pk", "gsi1sk")
                ],
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "GlobalSecondaryIndexes": [
                    {
                        "IndexName": "runs",
                        "KeySchema": [
                            {"AttributeName": "gsi1pk", "KeyType": "HASH"},
                            {"AttributeName": "gsi1sk", "KeyType": "RANGE"},
                        ],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                ],
            },
        },
    },
    "Outputs": {
        "StateMachineArn": {"Value": {"Ref": "StateMachineArn"}},
        "CampaignStateMachineArn": {"Value": {"Ref": "CampaignStateMachineArn"}},
        "ComparisonStateMachineArn": {"Value": {"Ref": "ComparisonStateMachineArn"}},
        "TableName": {"Value": {"Ref": "Table"}},
        "BucketName": {"Value": {"Ref": "Bucket"}},
    },
}


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of a moto server that executes state machines."""
    application = FAULTS.around(DomainDispatcherApplication(create_backend_app))
    server = make_server(
        "127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.port}"
    configuration = json.dumps({"stepfunctions": {"execute_state_machine": True}}).encode()
    with urllib.request.urlopen(
        urllib.request.Request(f"{url}/moto-api/config", configuration, method="POST")
    ) as response:
        assert response.status == 201
    yield url
    server.shutdown()


@cache
def client(service: str) -> Any:
    """A client of the server, to act as the stack or its owner."""
    return boto3.client(service)


@cache
def table(name: str) -> Any:
    """The table of one stack."""
    return boto3.resource("dynamodb").Table(name)


@pytest.fixture
def aws(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the environment of a user with credentials and a Region."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    # moto's state machines reach its other services at this port.
    monkeypatch.setenv("MOTO_PORT", endpoint.rsplit(":", 1)[1])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    return endpoint


@pytest.fixture
def no_files(aws: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither files in ~/.aws nor an instance's metadata."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


@pytest.fixture
def no_credentials(no_files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a user without credentials."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")


@pytest.fixture
def no_region(no_files: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a user without a Region."""
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")


def state(next_state: str | None, **fields: Any) -> dict[str, Any]:
    """A state that goes to `next_state`, or ends."""
    return {**fields, **({"Next": next_state} if next_state else {"End": True})}


def failing(error: str, message: str) -> dict[str, object]:
    """A state that ends with the error of a function."""
    cause = json.dumps({"errorMessage": message, "errorType": error})
    return {"Type": "Fail", "Error": error, "Cause": cause}


def await_abort(executions: Callable[[], list[Any]]) -> None:
    """Wait until the only execution of a machine is stopped."""
    deadline = time.monotonic() + HUNG_SECONDS
    while (status := executions()[0]["status"]) != "ABORTED":
        assert time.monotonic() < deadline, status
        time.sleep(0.05)


def going_on() -> dict[str, object]:
    """A state that does not end while a test goes on."""
    return {"Type": "Wait", "Seconds": int(HUNG_SECONDS)}


def machine(*states: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A state machine that runs the states in order. Fail states stay unchanged."""
    names = [name for name, _ in states] + [None]
    return {
        "StartAt": names[0],
        "States": {
            name: fields if fields["Type"] == "Fail" else state(following, **fields)
            for (name, fields), following in zip(states, names[1:], strict=True)
        },
    }


@dataclass(frozen=True)
class DeployedStack:
    """A stack, and helpers for the tests."""

    name: str
    table: str
    bucket: str
    state_machine: str
    campaign_machine: str
    comparison_machine: str

    def record(self, run_id: str, **fields: Any) -> None:
        """Write the run's item as the stack's functions do."""
        item = {
            "pk": f"run#{run_id}",
            "sk": "run",
            "gsi1pk": "runs",
            "gsi1sk": fields.get("started_at", "2026-11-21T07:05:12Z"),
            "run_id": run_id,
            "started_at": "2026-11-21T07:05:12Z",
            **fields,
        }
        table(self.table).put_item(Item=item)

    def measure(self, run_id: str, **fields: Any) -> None:
        """Record a run that is over, with its results."""
        self.record(run_id, **{"status": "succeeded", "trials_measured": 36, **fields})
        self.put(run_id, "results.json", results(run_id))

    def lose(self, run_id: str, block: int, reason: str) -> None:
        """Write a failed trial of the run as the stack's functions do."""
        table(self.table).put_item(
            Item={
                "pk": f"run#{run_id}",
                "sk": f"trial#{block:04}#treatment#tcp-1#node-a#node-b",
                "status": "failed",
                "reason": reason,
                "arm": "treatment",
                "client": "node-a",
                "server": "node-b",
            }
        )

    def put(self, run_id: str, name: str, content: bytes) -> None:
        """Write a file of the run."""
        client("s3").put_object(Bucket=self.bucket, Key=f"runs/{run_id}/{name}", Body=content)

    def executions(self) -> list[Any]:
        """All executions of runs so far."""
        return self._executions(self.state_machine)

    def campaigns(self) -> list[Any]:
        """All executions of campaigns so far."""
        return self._executions(self.campaign_machine)

    def comparisons(self) -> list[Any]:
        """All executions of comparisons so far."""
        return self._executions(self.comparison_machine)

    def _executions(self, machine_arn: str) -> list[Any]:
        return client("stepfunctions").list_executions(stateMachineArn=machine_arn)["executions"]

    def input_of(self, execution: Any) -> Any:
        """The input of an execution."""
        arn = execution["executionArn"]
        return json.loads(client("stepfunctions").describe_execution(executionArn=arn)["input"])

    def record_campaign(self, campaign_id: str, **fields: Any) -> None:
        """Write the campaign's item as the stack's functions do."""
        item = {
            "pk": f"campaign#{campaign_id}",
            "sk": "campaign",
            "gsi1pk": "campaigns",
            "gsi1sk": fields.get("started_at", "2026-11-21T16:00:00Z"),
            "campaign_id": campaign_id,
            "kind": "draws",
            "started_at": "2026-11-21T16:00:00Z",
            **fields,
        }
        table(self.table).put_item(Item=item)

    def put_campaign(self, campaign_id: str, name: str, content: bytes) -> None:
        """Write a file of the campaign."""
        key = f"campaigns/{campaign_id}/{name}"
        client("s3").put_object(Bucket=self.bucket, Key=key, Body=content)

    def recording(self, status: str, phase: str, **numbers: int | float) -> dict[str, Any]:
        """A state that writes its run's item."""
        fields = {name: {"N": str(value)} for name, value in numbers.items()}
        return self._recording("run", status, phase, fields)

    def recording_campaign(
        self, status: str, phase: str, *, run: str = "", **numbers: int | float
    ) -> dict[str, Any]:
        """A state that writes its campaign's item. `run` is the id of its step's run."""
        fields: dict[str, Any] = {name: {"N": str(value)} for name, value in numbers.items()}
        fields["kind"] = {"S": "draws"}
        if run:
            fields["step_run_id"] = {"S": run}
        return self._recording("campaign", status, phase, fields)

    def _recording(
        self, noun: str, status: str, phase: str, fields: dict[str, Any]
    ) -> dict[str, Any]:
        item: dict[str, Any] = {
            "pk": {"S.$": f"States.Format('{noun}#{{}}', $$.Execution.Name)"},
            "sk": {"S": noun},
            f"{noun}_id": {"S.$": "$$.Execution.Name"},
            "status": {"S": status},
            "phase": {"S": phase},
            "started_at": {"S": "2026-11-21T07:05:12Z"},
            "gsi1pk": {"S": f"{noun}s"},
            "gsi1sk": {"S": "2026-11-21T07:05:12Z"},
            **fields,
        }
        return {
            "Type": "Task",
            "Resource": "arn:aws:states:::dynamodb:putItem",
            "Parameters": {"TableName": self.table, "Item": item},
            "ResultPath": None,
        }

    def until_let(self) -> dict[str, Any]:
        """A state that lasts until `let` is called: what was before it is there to be seen."""
        return {
            "Type": "Task",
            "Resource": "arn:aws:states:::dynamodb:deleteItem",
            "Parameters": {
                "TableName": self.table,
                "Key": {name: {"S": value} for name, value in _LET.items()},
                "ConditionExpression": "attribute_exists(pk)",
            },
            "Retry": [
                {
                    "ErrorEquals": ["States.ALL"],
                    "IntervalSeconds": 1,
                    "BackoffRate": 1.0,
                    "MaxAttempts": int(HUNG_SECONDS),
                }
            ],
            "ResultPath": None,
        }

    def let(self) -> None:
        """End one such state."""
        table(self.table).put_item(Item=_LET)

    def define(self, definition: dict[str, Any]) -> None:
        """Replace the definition of the stack's state machine of runs."""
        self._define(self.state_machine, definition)

    def define_endless(self, phase: str = "block 1 of 6", **numbers: int) -> None:
        """Let runs stay in a phase until they are stopped."""
        going = self.recording("running", phase, **numbers)
        self.define(machine(("Measure", going), ("Wait", going_on())))

    def define_failure(self, error: str, message: str) -> None:
        """Let runs end with an error."""
        recording = self.recording("failed", "torn down")
        self.define(machine(("Record", recording), ("Fail", failing(error, message))))

    def define_campaign(self, definition: dict[str, Any]) -> None:
        """Replace the definition of the stack's state machine of campaigns."""
        self._define(self.campaign_machine, definition)

    def define_comparison(self, definition: dict[str, Any]) -> None:
        """Replace the definition of the stack's state machine of comparisons."""
        self._define(self.comparison_machine, definition)

    def _define(self, machine_arn: str, definition: dict[str, Any]) -> None:
        client("stepfunctions").update_state_machine(
            stateMachineArn=machine_arn, definition=json.dumps(definition)
        )


@pytest.fixture
def stack(aws: str) -> DeployedStack:
    """A new stack for each test. Its state machines do nothing until they are defined."""
    name = f"rackrate-{uuid4().hex[:8]}"
    arns = {
        parameter: client("stepfunctions").create_state_machine(
            name=f"{name}{suffix}",
            roleArn=ROLE,
            definition=json.dumps(machine(("Nothing", {"Type": "Pass"}))),
        )["stateMachineArn"]
        for parameter, suffix in (
            ("StateMachineArn", ""),
            ("CampaignStateMachineArn", "-campaign"),
            ("ComparisonStateMachineArn", "-comparison"),
        )
    }
    cloudformation = client("cloudformation")
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=json.dumps(TEMPLATE),
        Parameters=[
            {"ParameterKey": parameter, "ParameterValue": arn} for parameter, arn in arns.items()
        ],
    )
    outputs = {
        output["OutputKey"]: output["OutputValue"]
        for output in cloudformation.describe_stacks(StackName=name)["Stacks"][0]["Outputs"]
    }
    return DeployedStack(name, outputs["TableName"], outputs["BucketName"], *arns.values())


class Rackrate:
    """Runs the command in this process, on the test's stack unless `--stack` names another."""

    def __init__(self, stack: Sequence[str]) -> None:
        self._stack = stack

    def __call__(self, *arguments: str | Path, code: int = 0) -> Result:
        """Run it. It must end with this exit code."""
        options = () if "--stack" in arguments else self._stack
        result = CliRunner().invoke(app, [*map(str, arguments), *options])
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str | Path, code: int = 0) -> Any:
        """Run it with `--json`. Returns the document on standard output."""
        return json.loads(self(*arguments, "--json", code=code).stdout)

    def refused(self, *arguments: str | Path) -> str:
        """Run it. It must refuse, with exit code 2 and one line, which is returned."""
        result = self(*arguments, code=2)
        assert result.stderr.startswith("rackrate: ") and result.stderr.count("\n") == 1
        return result.stderr


@pytest.fixture
def stack_options(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """`--stack` for the test's stack; empty if it has none."""
    has_stack = "stack" in request.fixturenames
    return ("--stack", request.getfixturevalue("stack").name) if has_stack else ()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory to run the command in, which writes to out/."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def rackrate(stack_options: tuple[str, ...], here: None) -> Rackrate:
    """The command in this process."""
    return Rackrate(stack_options)


def read_terminal(terminal: int) -> Iterator[bytes]:
    """What is written to a terminal, as it comes, until its other end is closed."""
    with suppress(OSError):  # Linux reports the closed other end as an error.
        while chunk := os.read(terminal, 65536):
            yield chunk
    os.close(terminal)


class Started:
    """The command in a process of its own, for signals and terminals."""

    def __init__(self, arguments: Iterable[str | Path], stderr: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rackrate_cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def lines(self) -> Iterator[str]:
        """Its messages, as it writes them."""
        assert self._process.stderr is not None
        # `yield from` would close the stream with the generator.
        yield from map(str, self._process.stderr)

    def until(self, *texts: str) -> str:
        """Wait for a message with one of the texts, and return its line."""
        before = []
        for line in self.lines():
            if any(text in line for text in texts):
                return line
            before.append(line)
        raise AssertionError(f"it ended without {texts}: {''.join(before)}")

    def send(self, number: signal.Signals = signal.SIGINT) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, code: int | None = 0) -> tuple[str, str]:
        """Wait until it ends, with this exit code if it is not None.

        Returns its output, and its last messages.
        """
        output, errors = self._process.communicate(timeout=HUNG_SECONDS)
        assert code in (None, self._process.returncode), errors
        return output, errors

    def close(self) -> None:
        """Leave no process."""
        if self.is_running:
            self._process.kill()
        self._process.communicate()


type Start = Callable[..., Started]


@pytest.fixture
def start(stack_options: tuple[str, ...], here: None) -> Iterator[Start]:
    """Start the command in a process of its own."""
    processes: list[Started] = []

    def started(*arguments: str | Path, stderr: int = subprocess.PIPE) -> Started:
        processes.append(Started([*arguments, *stack_options], stderr))
        return processes[-1]

    yield started
    for process in processes:
        process.close()


def verdict(**fields: Any) -> dict[str, Any]:
    """One verdict of results.json."""
    return {
        "test": "tcp-1",
        "metric": "throughput",
        "unit": "bit/s",
        "better": "higher",
        "arm": "treatment",
        "baseline": "baseline",
        "arm_median": 987.4e6,
        "baseline_median": 493.2e6,
        "ratio": 2.002,
        "ci95": [1.998, 2.006],
        "ci_simultaneous": [1.994, 2.011],
        "verdict": "better",
        "blocks": 6,
        "pairs": {"arm": 1, "baseline": 1},
        "threshold": 0.05,
        "scope": "these nodes",
        "claim": "about these nodes, not about others placed alike: it rests on 1 pair of nodes",
        "more_blocks": None,
        "more_pairs": None,
        "reason": None,
        "ceiling": {
            "name": "single-flow",
            "arm": 1e9,
            "baseline": 5e8,
            "source": "EC2 user guide",
            "arm_share": 0.987,
            "baseline_share": 0.986,
            "explains": True,
            "text": "the limits explain the difference",
        },
        "steadiness": {
            "arm": 0.0042,
            "baseline": 0.0113,
            "ratio": 0.372,
            "ci95": [0.24, 0.58],
            "ci_simultaneous": [0.21, 0.63],
            "verdict": "better",
            "reason": None,
        },
        **fields,
    }


#: What the command reads in a run's plan.json to check requirements.
PLANNED_RUN: dict[str, Any] = {
    "plan": {
        "tests": [{"name": "tcp-1"}, {"name": "udp-1"}, {"name": "latency-loaded"}],
        "baseline": "baseline",
        "compare_with": None,
    },
    "metrics": [
        {"test": "tcp-1", "metric": "throughput"},
        {"test": "udp-1", "metric": "throughput"},
        {"test": "udp-1", "metric": "jitter"},
        {"test": "latency-loaded", "metric": "latency_p99"},
    ],
    "arms": [{"name": "treatment"}, {"name": "baseline"}],
}


def estimates() -> dict[str, Any]:
    """The estimates of a plan.json as the stack writes it."""
    api = "AWS Price List API, eu-central-1"
    table = "us-east-1 price of 2026-11-01, https://aws.amazon.com/step-functions/pricing/"

    def line(
        what: str, quantity: float, unit: str, price: float | None, source: str, anyway: bool
    ) -> dict[str, Any]:
        return {
            "what": what,
            "quantity": quantity,
            "unit": unit,
            "usd_per_unit": price,
            "usd": None if price is None else quantity * price,
            "source": source,
            "paid_anyway": anyway,
        }

    return {
        "seconds": 3725.0,
        "block_seconds": 600.0,
        "trials": 36,
        "state_transitions": 512,
        "at_least": {"blocks": 6, "seconds": 3725.0, "trials": 36, "usd": 20.13},
        "bytes_per_node": {
            f"ip-10-0-0-{n}.ec2.internal": {"sent": n * 123_000_000_000, "received": 5_000_000}
            for n in range(1, 11)
        },
        "cost": {
            "region": "eu-central-1",
            "lines": [
                line("EC2 c5n.9xlarge, 10 nodes", 10.35, "node-hour", 1.944, api, True),
                line("Step Functions", 512, "state transition", 0.000025, table, False),
                line("Lambda requests", 96, "request", 0.0000002, table, False),
                line("traffic between zones, billed to both sides", 1354.2, "GB", None, api, False),
            ],
            "usd": 20.13,
            "usd_of_run": 0.0129,
            "unknown": ["traffic between zones, billed to both sides"],
            "notes": ["not all prices are the Price List API's: AccessDeniedException"],
            "not_included": ["NAT gateways", "taxes"],
            "summary": [],
        },
        "guards": [
            {"guard": "cpu", "would_trip": False, "text": "there are enough CPUs", "remedy": ""},
            {
                "guard": "burst_credits",
                "would_trip": True,
                "text": "the plan sends 1.23 TB through nodes that sustain 0.75 Gbit/s.",
                "remedy": "run fewer blocks, or use a larger instance type",
            },
        ],
    }


def arm(name: str, placement: str, *nodes: str, **fields: Any) -> dict[str, Any]:
    """An arm of results.json."""
    return {
        "name": name,
        "placement": placement,
        "baseline": name == "baseline",
        "stack_arm": name,
        "client_network": "pod",
        "server_network": "pod",
        "ena_express": False,
        "nodes": list(nodes),
        "network": {},
        **fields,
    }


def results(run_id: str, **fields: Any) -> bytes:
    """A results.json, without much that the command does not print."""
    document = {
        "schema": "rackrate.result.v1",
        "run": {
            "id": run_id,
            "status": "succeeded",
            "started_at": "2026-11-21T07:05:12Z",
            "seconds": 84.2,
            "lab_scale": 0.1,
            "seed": 7,
            "execution_arn": f"arn:aws:states:us-east-1:123456789012:execution:runs:{run_id}",
        },
        "estimates": estimates(),
        "arms": [arm("treatment", "cluster", "a", "b"), arm("baseline", "none", "c", "d")],
        "trials": {"planned": 36, "measured": 35, "failed": 1, "failures": []},
        "warm_up": {"measured": 0, "failed": 0, "trials": []},
        "versions": {"image": "example.test/tools:1"},
        "regressions": [],
        "marks": [],
        "mark_notes": [],
        "warnings": [],
        "verdicts": [
            verdict(),
            verdict(
                test="rtt",
                metric="rtt",
                unit="s",
                arm_median=0.000155,
                baseline_median=0.0004567,
                ratio=0.3394,
                ci95=[0.335, 0.345],
                ci_simultaneous=[0.331, 0.352],
                ceiling=None,
                steadiness=None,
            ),
        ],
        "conclusion": "The cluster placement group doubles what one flow carries.",
        **fields,
    }
    return json.dumps(document).encode()


def stopped(text: str, **fields: Any) -> dict[str, Any]:
    """Why a run measured no more blocks."""
    numbers = {"after_blocks": 6, "most_blocks": 12, "settled": 2, "verdicts": 2}
    return {**numbers, "why": "settled", "text": text, **fields}
