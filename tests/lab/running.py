"""The lab that is up, as a user has it: the stack's outputs, aws, kubectl, rackrate."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from boto3.dynamodb.types import TypeDeserializer
from botocore.config import Config
from kubernetes import client as kubernetes
from kubernetes import config as kubeconfig
from kubernetes.utils.quantity import parse_quantity

from lab import daemon, stack
from tests.lab.waiting import BUSY, eventually
from tests.taskcat.deploying import Deployment

TOOLS = Path(sys.executable).parent
RUN_LABEL = "rackrate.dev/run"
#: Each block is launched alone, so that a test can meet one.
BLOCK_BY_BLOCK: Mapping[str, Any] = {"pause_seconds": 1}
# A plan whose tests are as short as the tools allow, once in each arm.
SHORT: Mapping[str, Any] = {
    "tests": [
        {"name": "tcp-1", "seconds": 1},
        {"name": "rtt", "count": 5, "interval_seconds": 0.2},
    ],
    "blocks": 1,
    "seed": 7,
    # The demo, the experiments and the run whose link is cut have one.
    "warm_up": False,
}

_plain = TypeDeserializer().deserialize


@functools.cache
def _core_api(written: str) -> kubernetes.CoreV1Api:
    """The API of the cluster of a kubeconfig in JSON. A test that polls keeps one connection."""
    return kubernetes.CoreV1Api(kubeconfig.new_client_from_config_dict(json.loads(written)))


@dataclass
class Lab:
    """The lab that is up, and what a user has: the stack's outputs, aws, kubectl, rackrate."""

    status: dict[str, Any]
    directory: Path
    # What the roles of its stacks were allowed, by logical id (tests/lab/permissions.py).
    policies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _clients: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def outputs(self) -> dict[str, str]:
        return stack.outputs(self.status)

    @functools.cached_property
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
        client = boto3.client(
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
            self._clients[service] = client
        return client

    @contextlib.contextmanager
    def allowed(self, name: str, policy: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        """The environment of somebody who has exactly the rights of a policy, in a role's name."""
        iam = self.aws("iam")
        trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
        whom = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=whom)["Role"]["Arn"]
        try:
            iam.put_role_policy(RoleName=name, PolicyName=name, PolicyDocument=json.dumps(policy))
            keys = self.aws("sts").assume_role(RoleArn=arn, RoleSessionName=name)["Credentials"]
            yield self.environment | {
                "AWS_ACCESS_KEY_ID": keys["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": keys["SecretAccessKey"],
                "AWS_SESSION_TOKEN": keys["SessionToken"],
            }
        finally:
            with contextlib.suppress(iam.exceptions.NoSuchEntityException):
                iam.delete_role_policy(RoleName=name, PolicyName=name)
            iam.delete_role(RoleName=name)

    def command(
        self,
        *argv: str,
        check: bool = True,
        seconds: float = 60,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a user's command in the environment of the lab, or in another one."""
        done = subprocess.run(
            argv,
            env=environment or self.environment,
            capture_output=True,
            text=True,
            timeout=BUSY * seconds,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    @property
    def has_stack(self) -> bool:
        """Is there the stack that most tests share?"""
        stacks = self.aws("cloudformation").describe_stacks()["Stacks"]
        return any(each["StackName"] == stack.STACK for each in stacks)

    # -- the cluster

    @property
    def core(self) -> kubernetes.CoreV1Api:
        """The API of the cluster that is up now."""
        return _core_api(Path(self.status["kubeconfig"]).read_text("utf-8"))

    @property
    def apps(self) -> kubernetes.AppsV1Api:
        """The API for daemon sets of the cluster that is up now."""
        return kubernetes.AppsV1Api(self.core.api_client)

    def nodes(self, *, placement_group: bool) -> list[str]:
        """The names of the nodes of an arm."""
        selector = f"placementGroup={str(placement_group).lower()}"
        return sorted(n.metadata.name for n in self.core.list_node(label_selector=selector).items)

    def pods(self, run_id: str, role: str | None = None) -> list[kubernetes.V1Pod]:
        """A run's pods."""
        selector = f"{RUN_LABEL}={run_id}" + (f",rackrate.dev/role={role}" if role else "")
        listed = self.core.list_pod_for_all_namespaces(label_selector=selector).items
        return list(listed)

    def left_in_cluster(self, run_id: str) -> list[str]:
        """What there is of a run in the cluster."""
        selector = f"{RUN_LABEL}={run_id}"
        return [
            *(f"pod {pod.metadata.name}" for pod in self.pods(run_id)),
            *(
                f"daemon set {item.metadata.name}"
                for item in self.apps.list_daemon_set_for_all_namespaces(
                    label_selector=selector
                ).items
            ),
            *(
                f"owner {item.metadata.name}"
                for item in self.core.list_config_map_for_all_namespaces(
                    label_selector=selector
                ).items
            ),
        ]

    def node_is_ready(self, name: str) -> bool:
        """Does the cluster believe that a node is Ready?"""
        conditions = self.core.read_node(name).status.conditions
        return any(c.type == "Ready" and c.status == "True" for c in conditions)

    @contextlib.contextmanager
    def halted_kubelet(self, node: str) -> Iterator[None]:
        """A node that is NotReady because its kubelet is halted; it runs on afterwards."""
        pid = self.process(f"--hostname-override={node} ", name="kubelet")
        self.signal(pid, signal.SIGSTOP)
        try:
            # What the node controller would write after its grace period of most of a minute.
            unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
            self.core.patch_node_status(node, {"status": {"conditions": [unknown]}})
            yield
        finally:
            self.signal(pid, signal.SIGCONT)
            eventually(lambda: self.node_is_ready(node), seconds=30)

    @contextlib.contextmanager
    def full(self, node: str) -> Iterator[None]:
        """A node without room for another pod of a run, because a pod has asked for its CPUs."""
        name, namespace = f"all-of-{node.partition('.')[0]}", "default"
        cpus = self.core.read_node(node).status.allocatable["cpu"]
        pods = self.core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={node}").items
        requested = sum(
            parse_quantity((container.resources.requests or {}).get("cpu", "0"))
            for pod in pods
            for container in pod.spec.containers
        )
        container = {
            "name": "all",
            "image": self.status["tools_image"],
            "command": ["sleep", "infinity"],
            "resources": {"requests": {"cpu": str(parse_quantity(cpus) - requested)}},
        }
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        self.core.create_namespaced_pod(namespace, {"metadata": {"name": name}, "spec": spec})
        try:
            eventually(lambda: self._phase(namespace, name) == "Running", seconds=30)
            yield
        finally:
            self.core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)

    def _phase(self, namespace: str, name: str) -> str:
        return str(self.core.read_namespaced_pod(name, namespace).status.phase)

    # -- processes, by their ids inside the lab

    def process(self, words: str, *, name: str) -> int:
        """The program `name` whose arguments contain `words`. Fails when there is none."""
        processes = self.processes(words, name=name)
        assert processes, f"no {name} with {words}"
        return processes[0]

    def processes(self, words: str, *, name: str) -> list[int]:
        """The ids of the programs `name` whose arguments contain `words`."""
        listing = subprocess.run(
            [*daemon.enter("region"), "ps", "-ww", "-eo", "pid=,comm=,args="],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        rows = (line.split(maxsplit=2) for line in listing.splitlines())
        return [int(pid) for pid, comm, args in rows if comm == name and words in args]

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Signal a process."""
        kill = ["kill", "-s", number.name.removeprefix("SIG"), str(pid)]
        subprocess.run([*daemon.enter("region"), *kill], check=True)

    # -- runs

    def start(self, run_id: str, plan: Mapping[str, Any]) -> str:
        """Start an execution; returns its ARN."""
        started = self.aws("stepfunctions").start_execution(
            stateMachineArn=self.outputs["StateMachineArn"], name=run_id, input=json.dumps(plan)
        )
        return str(started["executionArn"])

    def execution(self, run_id: str) -> dict[str, Any]:
        """Step Functions' description of a run's execution."""
        described: dict[str, Any] = self.aws("stepfunctions").describe_execution(
            executionArn=self._execution_arn(self.outputs, run_id)
        )
        return described

    @staticmethod
    def _execution_arn(outputs: Mapping[str, str], run_id: str) -> str:
        prefix = outputs["StateMachineArn"].replace(":stateMachine:", ":execution:")
        return f"{prefix}:{run_id}"

    def ended(self, run_id: str, seconds: float = 90) -> dict[str, Any]:
        """The description of a run's execution, once it is over."""
        return eventually(
            lambda: run if (run := self.execution(run_id))["status"] != "RUNNING" else {},
            seconds=seconds,
            poll_seconds=0.5,
        )

    def start_in(self, deployed: Deployment, run_id: str, plan: Mapping[str, Any] = SHORT) -> None:
        """Start an execution of another stack than the one that all tests share."""
        self.aws("stepfunctions").start_execution(
            stateMachineArn=deployed.outputs["StateMachineArn"], name=run_id, input=json.dumps(plan)
        )

    def arn_in(self, deployed: Deployment, run_id: str) -> str:
        """The ARN of an execution of another stack."""
        return self._execution_arn(deployed.outputs, run_id)

    def ended_in(self, deployed: Deployment, run_id: str, seconds: float = 120) -> dict[str, Any]:
        """The description of an execution of another stack, once it is over."""
        arn, states = self.arn_in(deployed, run_id), self.aws("stepfunctions")

        def ended() -> dict[str, Any]:
            execution: dict[str, Any] = states.describe_execution(executionArn=arn)
            return execution if execution["status"] != "RUNNING" else {}

        return eventually(ended, seconds=seconds, poll_seconds=0.5)

    def holders(self) -> list[str]:
        """The ids of the runs and campaigns that hold the lease on nodes."""
        response = self.aws("dynamodb").get_item(
            TableName=self.outputs["TableName"],
            Key={"pk": {"S": "lease"}, "sk": {"S": "nodes"}},
            ConsistentRead=True,
        )
        return [
            each["M"]["run_id"]["S"] for each in response.get("Item", {}).values() if "M" in each
        ]

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

    def read(self, key: str, outputs: Mapping[str, str] | None = None) -> bytes:
        """An object of a stack's bucket; `outputs` are those of another than the shared stack."""
        bucket = (outputs or self.outputs)["BucketName"]
        content: bytes = self.aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def document(self, run_id: str, name: str, outputs: Mapping[str, str] | None = None) -> Any:
        """A JSON object of a run; see `read`."""
        return json.loads(self.read(f"runs/{run_id}/{name}", outputs))

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
