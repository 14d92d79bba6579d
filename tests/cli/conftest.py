"""A deployed stack for the command to find: moto serves its outputs, table, bucket and machine.

The tests replace nothing in the command. Small state machines that moto executes, and the tests
themselves, write the run's item and its files in place of the stack's functions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
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
    ) as answer:
        assert answer.status == 201
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


def state(next_state: str | None, **fields: Any) -> dict[str, Any]:
    """A state that goes to `next_state`, or ends."""
    return {**fields, **({"Next": next_state} if next_state else {"End": True})}


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
        answer = client("stepfunctions").list_executions(stateMachineArn=machine_arn)
        return answer["executions"]

    def input_of(self, execution: Any) -> Any:
        """The input of an execution."""
        answer = client("stepfunctions").describe_execution(executionArn=execution["executionArn"])
        return json.loads(answer["input"])

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


type Rackrate = Callable[..., Result]


@pytest.fixture
def rackrate() -> Rackrate:
    """Run the command in this process."""

    def invoke(*arguments: str | Path) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def start_rackrate() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run the command in its own process, for signals and terminals."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str | Path, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "rackrate_cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


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
