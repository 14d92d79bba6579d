"""A run that a fault meets: its moments, its pods and processes, and what there is beside it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kubernetes import client as kubernetes

from lab import daemon
from rackrate.measure.starts import awaited
from tests.lab.running import TOOLS, Lab
from tests.lab.waiting import eventually

#: The plan of every run. The tests are as short as the tools allow, but can be met alive.
PLAN: Mapping[str, Any] = {
    "tests": [
        {"name": "tcp-1", "seconds": 1},
        {"name": "rtt", "count": 8, "interval_seconds": 0.1},
    ],
    "blocks": 6,
    "seed": 7,
    "warm_up": False,
    # So that each block is launched alone, and a fault can meet one.
    "pause_seconds": 1,
}
#: Two tests on a pair of each of two arms, in every block.
TRIALS = 2 * 2 * PLAN["blocks"]
#: Two draws.
CAMPAIGN_PLAN = {**PLAN, "blocks": 2}
CAMPAIGN_STEPS = 2
CAMPAIGN_TRIALS = CAMPAIGN_STEPS * 2 * 2 * CAMPAIGN_PLAN["blocks"]
#: How long a run may take to reach a moment, on an idle machine.
MOMENT_SECONDS = 90.0


@dataclass
class Scene:
    """A run or a campaign that is followed by the command of a user, and meets a fault.

    Attributes:
        lab: the lab, with the stack deployed.
        name: the id of the run or the campaign.
        run_id: the id of the run that is measured; in a campaign, of its first step.
        command: the user's command, while it runs.
        others: the ids of other runs that the fault started.
        notes: what the fault found, for the sentence's check, such as a node's name.
    """

    lab: Lab
    name: str
    run_id: str
    command: subprocess.Popen[bytes] | None = None
    others: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    # -- moments

    def begins_block(self, number: int) -> None:
        """Wait until the run measures its block of this number."""
        self._until(lambda: int(self.lab.record(self.run_id).get("block") or 0) >= number)

    def shows(self, phase: str) -> None:
        """Wait until the run shows a phase that begins so."""
        self._until(lambda: str(self.lab.record(self.run_id).get("phase") or "").startswith(phase))

    def _until(self, condition: Callable[[], bool]) -> None:
        def reached() -> bool:
            assert self.command is None or self.command.poll() is None, "it ended before its fault"
            return condition()

        eventually(reached, seconds=MOMENT_SECONDS)

    # -- the cluster

    @cached_property
    def nodes(self) -> list[str]:
        """The nodes of the pair of each arm: treatment first, client before server."""
        plan = self.lab.document(self.run_id, "plan.json")
        return [node["name"] for arm in plan["arms"] for node in arm["nodes"]]

    @property
    def client_node(self) -> str:
        """A node of the treatment."""
        self.notes["node"] = self.nodes[0]
        return self.nodes[0]

    @property
    def baseline_node(self) -> str:
        """A node of the baseline."""
        self.notes["node"] = self.nodes[-1]
        return self.nodes[-1]

    def pod(self, role: str) -> kubernetes.V1Pod:
        """A pod of the run in which a container runs."""
        return eventually(
            lambda: next(iter(self._alive(role)), None), seconds=60, poll_seconds=0.05
        )

    def _alive(self, role: str) -> list[kubernetes.V1Pod]:
        return [pod for pod in self.lab.pods(self.run_id, role) if runs(pod)]

    def tool(self, role: str) -> int:
        """The process id, inside the lab, of a program that a pod of the run runs now."""

        def process() -> int:
            for container in [each for pod in self._alive(role) for each in pod.spec.containers]:
                argv = awaited(container.command)
                try:
                    return self.lab.process(" ".join(argv[1:]), name=Path(argv[0]).name)
                except AssertionError:
                    # It waits, or has ended.
                    continue
            return 0

        return eventually(process, seconds=60, poll_seconds=0.05)

    def inside(self, *argv: str, seconds: float = 60) -> str:
        """The output of a command among the lab's processes."""
        done = subprocess.run(
            [*daemon.enter("region"), *argv],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds,
        )
        return done.stdout

    # -- the user

    def cli(self, *arguments: str) -> list[str]:
        """The command line of a user."""
        return [str(TOOLS / "rackrate"), *arguments]

    @property
    def plan_path(self) -> str:
        """Where the plan is."""
        return str(self.lab.directory / f"{self.name}.plan.json")

    def start(self, *arguments: str, plan: Mapping[str, Any]) -> None:
        """Start a user's command that follows the run or the campaign."""
        Path(self.plan_path).write_text(json.dumps(plan), encoding="utf-8")
        # Files, because nobody reads pipes while the fault is made.
        with self.output("out").open("wb") as out, self.output("err").open("wb") as errors:
            self.command = subprocess.Popen(
                self.cli(*arguments), env=self.lab.environment, stdout=out, stderr=errors
            )

    def output(self, stream: str) -> Path:
        """The file of what the command prints to `out` or `err`."""
        return self.lab.directory / f"{self.name}.{stream}"


def runs(pod: kubernetes.V1Pod) -> bool:
    """Whether a container of a pod runs."""
    return any(status.state.running for status in pod.status.container_statuses or [])


def present(lab: Lab) -> set[str]:
    """What runs and stacks keep in the cluster and in AWS, apart from results."""
    core = lab.core
    custom = kubernetes.RbacAuthorizationV1Api(core.api_client)
    policies = kubernetes.AdmissionregistrationV1Api(core.api_client)
    quiet = {"kube-system", "kube-public", "kube-node-lease", "default"}
    result = {f"namespace {each.metadata.name}" for each in core.list_namespace().items}
    for kind, items in (
        ("pod", core.list_pod_for_all_namespaces().items),
        ("daemon set", lab.apps.list_daemon_set_for_all_namespaces().items),
        ("config map", core.list_config_map_for_all_namespaces().items),
        ("role", custom.list_role_for_all_namespaces().items),
        ("role binding", custom.list_role_binding_for_all_namespaces().items),
        ("quota", core.list_resource_quota_for_all_namespaces().items),
        ("admission policy", policies.list_validating_admission_policy().items),
        ("webhook", policies.list_validating_webhook_configuration().items),
    ):
        result |= {
            f"{kind} {each.metadata.name}" for each in items if each.metadata.namespace not in quiet
        }
    for node in core.list_node().items:
        for taint in node.spec.taints or []:
            result.add(f"taint {taint.key} of {node.metadata.name}")
    result |= {f"lease of {holder}" for holder in lab.holders()}
    eks, cluster = lab.aws("eks"), lab.outputs["ClusterName"]
    for group in eks.list_nodegroups(clusterName=cluster)["nodegroups"]:
        described = eks.describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]
        result.add(f"{group} with {described['scalingConfig']['desiredSize']} nodes")
    for addon in eks.list_addons(clusterName=cluster)["addons"]:
        version = eks.describe_addon(clusterName=cluster, addonName=addon)["addon"]["addonVersion"]
        result.add(f"add-on {addon} {version}")
    states = lab.aws("stepfunctions")
    for machine in ("StateMachineArn", "CampaignStateMachineArn"):
        listed = states.list_executions(
            stateMachineArn=lab.outputs[machine], statusFilter="RUNNING"
        )["executions"]
        result |= {f"execution {each['name']}" for each in listed}
    return result
