"""One lab for all tests that use it, with the stack deployed as a user would find it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.dynamodb.types import TypeDeserializer
from botocore.config import Config
from kubernetes import client as kubernetes
from kubernetes import config as kubeconfig

from lab import daemon, stack
from lab.up import bring_up
from tests.lab.machine import Traces, lab_processes, what_is_left
from tests.lab.waiting import eventually

HERE = Path(__file__).parent
TOOLS = Path(sys.executable).parent
RUN_LABEL = "rackrate.dev/run"
# A plan whose tests are as short as the tools allow.
SHORT: Mapping[str, Any] = {
    "tests": [
        {"name": "tcp-1", "seconds": 1},
        {"name": "rtt", "count": 5, "interval_seconds": 0.2},
    ],
    "blocks": 2,
    "seed": 7,
}

_plain = TypeDeserializer().deserialize


@dataclass
class Lab:
    """The lab that is up, and what a user has: the stack's outputs, aws, kubectl, rackrate."""

    status: dict[str, Any]
    directory: Path
    _clients: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def outputs(self) -> dict[str, str]:
        return stack.outputs(self.status)

    @cached_property
    def environment(self) -> dict[str, str]:
        """What `lab env` prints, with the tools in PATH as `lab up` advises."""
        variables = stack.child_environment(self.status)
        return variables | {"PATH": f"{self.status['kubernetes']}:{variables['PATH']}"}

    @property
    def namespace(self) -> str:
        return self.outputs["Namespace"]

    def aws(self, service: str, **credentials: str) -> Any:
        """A client; of the lab's administrator unless other credentials are given."""
        if not credentials and service in self._clients:
            return self._clients[service]
        made = boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.status["endpoint_url"],
            region_name=self.status["region"],
            config=Config(s3={"addressing_style": "path"}),
            **(
                credentials
                or {
                    "aws_access_key_id": self.status["access_key_id"],
                    "aws_secret_access_key": self.status["secret_access_key"],
                }
            ),
        )
        if not credentials:
            self._clients[service] = made
        return made

    def command(
        self, *argv: str, check: bool = True, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a user's command in the environment of the lab."""
        done = subprocess.run(
            argv, env=self.environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    # -- the cluster

    @cached_property
    def core(self) -> kubernetes.CoreV1Api:
        return kubernetes.CoreV1Api(
            kubeconfig.new_client_from_config(config_file=self.status["kubeconfig"])
        )

    @cached_property
    def apps(self) -> kubernetes.AppsV1Api:
        return kubernetes.AppsV1Api(self.core.api_client)

    def nodes(self, *, placement_group: bool) -> list[str]:
        """The names of the nodes of an arm."""
        selector = f"placementGroup={str(placement_group).lower()}"
        return sorted(n.metadata.name for n in self.core.list_node(label_selector=selector).items)

    def pods(self, run_id: str, role: str | None = None) -> list[kubernetes.V1Pod]:
        """A run's pods."""
        selector = f"{RUN_LABEL}={run_id}" + (f",rackrate.dev/role={role}" if role else "")
        found = self.core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return list(found)

    def left_in_cluster(self, run_id: str) -> list[str]:
        """What there is of a run in the cluster."""
        selector = f"{RUN_LABEL}={run_id}"
        return [
            *(f"pod {pod.metadata.name}" for pod in self.pods(run_id)),
            *(
                f"daemon set {found.metadata.name}"
                for found in self.apps.list_namespaced_daemon_set(
                    self.namespace, label_selector=selector
                ).items
            ),
            *(
                f"owner {found.metadata.name}"
                for found in self.core.list_namespaced_config_map(
                    self.namespace, label_selector=selector
                ).items
            ),
        ]

    def node_is_ready(self, name: str) -> bool:
        """Does the cluster believe that a node is Ready?"""
        conditions = self.core.read_node(name).status.conditions
        return any(c.type == "Ready" and c.status == "True" for c in conditions)

    # -- runs

    def start(self, run_id: str, plan: Mapping[str, Any]) -> str:
        """Start an execution; returns its ARN."""
        started = self.aws("stepfunctions").start_execution(
            stateMachineArn=self.outputs["StateMachineArn"], name=run_id, input=json.dumps(plan)
        )
        return str(started["executionArn"])

    def execution(self, run_id: str) -> dict[str, Any]:
        """Step Functions' description of a run's execution."""
        prefix = self.outputs["StateMachineArn"].replace(":stateMachine:", ":execution:")
        described: dict[str, Any] = self.aws("stepfunctions").describe_execution(
            executionArn=f"{prefix}:{run_id}"
        )
        return described

    def ended(self, run_id: str, seconds: float = 90) -> dict[str, Any]:
        """The description of a run's execution, once it is over."""
        return eventually(
            lambda: found if (found := self.execution(run_id))["status"] != "RUNNING" else {},
            seconds=seconds,
        )

    def items(self, run_id: str, prefix: str) -> list[dict[str, Any]]:
        """A run's items in the table whose sort key begins so."""
        pages = (
            self.aws("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=self.outputs["TableName"],
                KeyConditionExpression="pk = :pk AND begins_with(sk, :sk)",
                ExpressionAttributeValues={":pk": {"S": f"run#{run_id}"}, ":sk": {"S": prefix}},
                ConsistentRead=True,
            )
        )
        return [
            {name: _plain(value) for name, value in item.items()}
            for page in pages
            for item in page["Items"]
        ]

    def record(self, run_id: str) -> dict[str, Any]:
        """The run's own item, empty before there is one."""
        return next(iter(self.items(run_id, "run")), {})

    def objects(self, run_id: str) -> set[str]:
        """The names of a run's objects in the bucket."""
        prefix = f"runs/{run_id}/"
        pages = (
            self.aws("s3")
            .get_paginator("list_objects_v2")
            .paginate(Bucket=self.outputs["BucketName"], Prefix=prefix)
        )
        return {
            item["Key"].removeprefix(prefix) for page in pages for item in page.get("Contents", [])
        }

    def document(self, run_id: str, name: str) -> Any:
        """A JSON object of a run."""
        found = self.aws("s3").get_object(
            Bucket=self.outputs["BucketName"], Key=f"runs/{run_id}/{name}"
        )
        return json.loads(found["Body"].read())

    def rackrate(
        self, plan: Mapping[str, Any] | Path, run_id: str, seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """`rackrate run` to its end; the results are in `self.directory / run_id`."""
        return self.command(*self.run_command(plan, run_id), check=False, seconds=seconds)

    def run_command(self, plan: Mapping[str, Any] | Path, run_id: str) -> list[str]:
        """The command line of `rackrate run`."""
        if not isinstance(plan, Path):
            path = self.directory / f"{run_id}.json"
            path.write_text(json.dumps(plan), encoding="utf-8")
            plan = path
        return [
            *(str(TOOLS / "rackrate"), "run", "--plan", str(plan)),
            *("--name", run_id, "--out", str(self.directory)),
        ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need root; those that need the machine to themselves come first."""
    own = [item for item in items if item.path.is_relative_to(HERE)]
    for item in own:
        item.add_marker(pytest.mark.lab)
    shared = [item for item in own if "lab" in getattr(item, "fixturenames", ())]
    alone = [item for item in own if item not in shared]
    items[:] = [item for item in items if item not in own] + alone + shared


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab. When the tests are over it goes down, and nothing of it may be left."""
    before = Traces.now()
    status = bring_up(lambda step: print(step, file=sys.stderr), tied=True)
    processes = lab_processes()
    try:
        yield Lab(status, tmp_path_factory.mktemp("runs"))
        processes |= lab_processes()
    finally:
        keeper = daemon.keeper_pid()
        daemon.stop()
    if keeper is not None:
        os.waitpid(keeper, 0)
    assert what_is_left(before, processes) == {}


@pytest.fixture
def stopped_kubelet(lab: Lab) -> Iterator[Any]:
    """A function that makes a node NotReady by halting its kubelet; it runs on afterwards."""
    halted: list[tuple[str, str]] = []

    def halt(node: str) -> None:
        listing = subprocess.run(
            [*daemon.enter("region"), "ps", "-eo", "pid,args"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        pid = next(
            line.split()[0]
            for line in listing.splitlines()
            if "/kubelet --" in line and f"--hostname-override={node} " in line
        )
        _signal(pid, signal.SIGSTOP)
        halted.append((node, pid))
        # What the node controller would write after its grace period of most of a minute.
        condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        lab.core.patch_node_status(node, {"status": {"conditions": [condition]}})

    yield halt
    for node, pid in halted:
        _signal(pid, signal.SIGCONT)
        eventually(lambda node=node: lab.node_is_ready(node), seconds=30)  # type: ignore[misc]


def _signal(pid: str, number: signal.Signals) -> None:
    """Signal a process by its id inside the lab."""
    subprocess.run([*daemon.enter("region"), "kill", f"-{number.name[3:]}", pid], check=True)
