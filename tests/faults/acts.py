"""How each fault is made: a context that begins it, and takes it back where somebody would."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from lab import daemon, faults
from tests.faults.odd_items import sweep_now
from tests.faults.scene import PLAN, Scene
from tests.lab.running import RUN_LABEL
from tests.lab.waiting import eventually

Act = Callable[[Scene], AbstractContextManager[object]]
#: What a quota, a policy and a webhook of a test are called.
NAME = "fault-of-a-test"
#: What a policy and a webhook of a test judge.
_NEW_PODS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
}


def means(
    name: str,
    on: str | Callable[[Scene], str] | None = None,
    *,
    rate: float = 1.0,
    must_hit: bool = True,
    at_most: float | None = None,
    **options: str,
) -> Act:
    """A fault that the lab has by name; `on` may depend on the run.

    It lasts `at_most` so many seconds, if that is given.
    """

    @contextlib.contextmanager
    def act(scene: Scene) -> Iterator[None]:
        target = on(scene) if callable(on) else on
        with faults.inject(name, on=target, rate=rate, seconds=at_most, **options) as injected:
            yield
            assert injected.hits or not must_hit, f"{name} met nothing"

    return act


def once(do: Callable[[Scene], object]) -> Act:
    """Something that happens once and is not taken back."""

    @contextlib.contextmanager
    def act(scene: Scene) -> Iterator[None]:
        do(scene)
        yield

    return act


@contextlib.contextmanager
def nothing(scene: Scene) -> Iterator[None]:
    """No fault."""
    yield


def all_of(*acts: Act) -> Act:
    """Several faults at once."""

    @contextlib.contextmanager
    def act(scene: Scene) -> Iterator[None]:
        with contextlib.ExitStack() as active:
            for each in acts:
                active.enter_context(each(scene))
            yield

    return act


def several(name: str, *, times: int, rate: float = 1.0, on: str = "all", **options: str) -> Act:
    """A fault that strikes some of many invocations or calls, so often at least."""

    @contextlib.contextmanager
    def act(scene: Scene) -> Iterator[None]:
        with faults.inject(name, on=on, rate=rate, **options) as injected:

            def struck() -> bool:
                over = scene.command is not None and scene.command.poll() is not None
                return over or injected.hits >= times

            eventually(struck, seconds=60)
            assert injected.hits, f"{name} met nothing"
        yield

    return act


# -- the cluster


def delete_pod(role: str) -> Act:
    """Delete a pod of the run at once."""

    def do(scene: Scene) -> None:
        pod = scene.pod(role)
        scene.lab.core.delete_namespaced_pod(
            pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
        )

    return once(do)


def evict_pod(role: str) -> Act:
    """Evict a pod of the run, as a drain does."""

    return once(lambda scene: _evict(scene, scene.pod(role)))


def _evict(scene: Scene, pod: kubernetes.V1Pod) -> None:
    name, namespace = pod.metadata.name, pod.metadata.namespace
    metadata = kubernetes.V1ObjectMeta(name=name, namespace=namespace)
    scene.lab.core.create_namespaced_pod_eviction(
        name, namespace, kubernetes.V1Eviction(metadata=metadata)
    )


def signal_tool(role: str, number: signal.Signals) -> Act:
    """Send a signal to a program that a pod of the run runs."""
    return once(lambda scene: scene.lab.signal(scene.tool(role), number))


def stop_tool(role: str) -> Act:
    """Stop a program of a pod: a server accepts and never answers, a client never ends."""

    @contextlib.contextmanager
    def act(scene: Scene) -> Iterator[None]:
        process = scene.tool(role)
        scene.lab.signal(process, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                scene.lab.signal(process, signal.SIGCONT)

    return act


def print_as_tool(megabytes: float) -> Act:
    """Write random bytes to the standard output of a client's tool, as a broken tool does."""

    def do(scene: Scene) -> None:
        process = scene.tool("client")
        size = int(megabytes * 1e6)
        scene.inside(
            "sh", "-c", f"head -c {size} /dev/urandom | base64 > /proc/{process}/fd/1 || true"
        )

    return once(do)


@contextlib.contextmanager
def disk_pressure(scene: Scene) -> Iterator[None]:
    """A node has the condition of a full disk, the taint that follows, and no pods of the run.

    The kubelets of the lab cannot read their disk, so they would take the condition back.
    """
    node, over = scene.client_node, threading.Event()
    condition = {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"}

    def hold() -> None:
        while not over.wait(0.5):
            with contextlib.suppress(ApiException):
                scene.lab.core.patch_node_status(node, {"status": {"conditions": [condition]}})

    def is_tainted() -> bool:
        taints = scene.lab.core.read_node(node).spec.taints or []
        return any(taint.key == "node.kubernetes.io/disk-pressure" for taint in taints)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    try:
        eventually(is_tainted, seconds=30)
        _evict_all(scene, node)
        yield
    finally:
        over.set()
        holder.join()


@contextlib.contextmanager
def quota(scene: Scene) -> Iterator[None]:
    """The namespace may have no more pods than there are."""
    core, namespace = scene.lab.core, scene.lab.namespace
    core.create_namespaced_resource_quota(
        namespace, {"metadata": {"name": NAME}, "spec": {"hard": {"pods": "0"}}}
    )
    try:
        yield
    finally:
        core.delete_namespaced_resource_quota(NAME, namespace)


@contextlib.contextmanager
def refusing_policy(scene: Scene) -> Iterator[None]:
    """An admission policy refuses every new pod of the run."""
    api = kubernetes.AdmissionregistrationV1Api(scene.lab.core.api_client)
    api.create_validating_admission_policy(
        {
            "metadata": {"name": NAME},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [_NEW_PODS]},
                "validations": [
                    {"expression": "false", "message": "images come from registry.corp only"}
                ],
            },
        }
    )
    selector = {"matchLabels": {"kubernetes.io/metadata.name": scene.lab.namespace}}
    api.create_validating_admission_policy_binding(
        {
            "metadata": {"name": NAME},
            "spec": {
                "policyName": NAME,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": selector},
            },
        }
    )
    try:
        yield
    finally:
        api.delete_validating_admission_policy_binding(NAME)
        api.delete_validating_admission_policy(NAME)


@contextlib.contextmanager
def hanging_webhook(scene: Scene) -> Iterator[None]:
    """A webhook that must admit every new pod does not answer."""
    api = kubernetes.AdmissionregistrationV1Api(scene.lab.core.api_client)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": scene.lab.namespace}}
    api.create_validating_webhook_configuration(
        {
            "metadata": {"name": NAME},
            "webhooks": [
                {
                    "name": "never.answers.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                    "timeoutSeconds": 5,
                    "namespaceSelector": selector,
                    # An address of the block for documentation: nobody has it.
                    "clientConfig": {"url": "https://192.0.2.1/"},
                    "rules": [_NEW_PODS],
                }
            ],
        }
    )
    try:
        yield
    finally:
        api.delete_validating_webhook_configuration(NAME)


def delete_owner(scene: Scene) -> None:
    """Delete the object that owns everything of the run."""
    lab = scene.lab
    for owner in lab.core.list_namespaced_config_map(
        lab.namespace, label_selector=f"{RUN_LABEL}={scene.run_id}"
    ).items:
        lab.core.delete_namespaced_config_map(owner.metadata.name, lab.namespace)


def delete_servers(scene: Scene) -> None:
    """Delete the DaemonSets of the run's servers."""
    lab = scene.lab
    lab.apps.delete_collection_namespaced_daemon_set(
        lab.namespace, label_selector=f"{RUN_LABEL}={scene.run_id}"
    )


def delete_namespace(scene: Scene) -> None:
    """Delete the benchmark's namespace with everything in it."""
    scene.lab.core.delete_namespace(scene.lab.namespace)


def withdraw_rights(scene: Scene) -> None:
    """Delete the binding that lets the functions use the namespace."""
    api = kubernetes.RbacAuthorizationV1Api(scene.lab.core.api_client)
    for binding in api.list_namespaced_role_binding(scene.lab.namespace).items:
        api.delete_namespaced_role_binding(binding.metadata.name, scene.lab.namespace)


@contextlib.contextmanager
def cordoned(scene: Scene) -> Iterator[None]:
    """A node takes no new pods."""
    node = scene.client_node
    scene.lab.core.patch_node(node, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        scene.lab.core.patch_node(node, {"spec": {"unschedulable": None}})


@contextlib.contextmanager
def drained(scene: Scene) -> Iterator[None]:
    """A node is cordoned, and all pods of the run on it are evicted."""
    with cordoned(scene):
        _evict_all(scene, scene.notes["node"])
        yield


def _evict_all(scene: Scene, node: str) -> None:
    """Evict the pods of the run from a node."""
    for pod in scene.lab.pods(scene.run_id):
        if pod.spec.node_name == node:
            with contextlib.suppress(ApiException):
                _evict(scene, pod)


@contextlib.contextmanager
def tainted(scene: Scene) -> Iterator[None]:
    """A node gets a taint that evicts what does not tolerate it."""
    node = scene.client_node
    taint = {"key": "maintenance", "value": "yes", "effect": "NoExecute"}
    scene.lab.core.patch_node(node, {"spec": {"taints": [taint]}})
    try:
        yield
    finally:
        scene.lab.core.patch_node(node, {"spec": {"taints": None}})


def terminate(scene: Scene) -> None:
    """Terminate a node's instance; its Auto Scaling group launches another one."""
    provider = scene.lab.core.read_node(scene.client_node).spec.provider_id
    scene.lab.aws("ec2").terminate_instances(InstanceIds=[provider.rpartition("/")[2]])


def on_client(scene: Scene) -> str:
    """A node of the treatment."""
    return scene.client_node


def on_baseline(scene: Scene) -> str:
    """A node of the baseline."""
    return scene.baseline_node


#: A registry that has no image, as the kubelet of the node where it runs reaches it.
_EMPTY_REGISTRY = """
import http.server
class Empty(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        there = self.path == "/v2/"
        body = b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
        self.send_response(200 if there else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
    do_HEAD = do_GET
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 5000), Empty).serve_forever()
"""


@contextlib.contextmanager
def image_missing(scene: Scene) -> Iterator[None]:
    """The tools' image has a tag that its registry does not know."""
    client = scene.lab.aws("lambda")
    image = scene.notes["image"] = "localhost:5000/rackrate/tools:missing"
    functions = {
        each["FunctionName"]: each["Environment"]["Variables"]
        for page in client.get_paginator("list_functions").paginate()
        for each in page["Functions"]
        if "TOOL_IMAGE" in each.get("Environment", {}).get("Variables", {})
    }
    nodes = [node.metadata.name for node in scene.lab.core.list_node().items]
    registries = [
        subprocess.Popen([*daemon.enter(node), sys.executable, "-c", _EMPTY_REGISTRY])
        for node in nodes
    ]
    try:
        for name, variables in functions.items():
            client.update_function_configuration(
                FunctionName=name, Environment={"Variables": {**variables, "TOOL_IMAGE": image}}
            )
        yield
    finally:
        for name, variables in functions.items():
            client.update_function_configuration(
                FunctionName=name, Environment={"Variables": variables}
            )
        for registry in registries:
            registry.kill()
            registry.wait()


# -- AWS


def time_limit(seconds: int) -> Act:
    """Executions that start now may take so long."""

    @contextlib.contextmanager
    def act(scene: Scene) -> Iterator[None]:
        states, machine = scene.lab.aws("stepfunctions"), scene.lab.outputs["StateMachineArn"]
        before = states.describe_state_machine(stateMachineArn=machine)["definition"]
        limited = json.dumps({**json.loads(before), "TimeoutSeconds": seconds})
        states.update_state_machine(stateMachineArn=machine, definition=limited)
        try:
            yield
        finally:
            states.update_state_machine(stateMachineArn=machine, definition=before)

    return act


@contextlib.contextmanager
def event_lost(scene: Scene) -> Iterator[None]:
    """Stop the execution while EventBridge loses the event that starts the clean-up.

    The sweep that comes within the hour comes now.
    """
    states = scene.lab.aws("stepfunctions")

    def ended() -> bool:
        return bool(states.describe_execution(executionArn=_arn(scene))["status"] == "ABORTED")

    with faults.inject("event-lost") as lost:
        stop_execution(scene)
        eventually(lambda: ended() and lost.hits, seconds=30)
    assert scene.lab.record(scene.run_id)["status"] == "running", "nobody knows of its end"
    sweep_now(scene, "teardown")
    yield


@contextlib.contextmanager
def unknown_type(scene: Scene) -> Iterator[None]:
    """A node tells an instance type that EC2 does not know."""
    label = "node.kubernetes.io/instance-type"
    node = scene.lab.core.list_node().items[0].metadata
    scene.lab.core.patch_node(node.name, {"metadata": {"labels": {label: "c99.mega"}}})
    try:
        yield
    finally:
        before = {label: node.labels.get(label)}
        scene.lab.core.patch_node(node.name, {"metadata": {"labels": before}})


@contextlib.contextmanager
def bucket_closed(scene: Scene) -> Iterator[None]:
    """A policy of the bucket refuses what the functions write."""
    s3, bucket = scene.lab.aws("s3"), scene.lab.outputs["BucketName"]
    before = s3.get_bucket_policy(Bucket=bucket)["Policy"]
    policy = json.loads(before)
    policy["Statement"].append(
        {
            "Sid": "FaultOfATest",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{bucket}/*",
        }
    )
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    try:
        yield
    finally:
        s3.put_bucket_policy(Bucket=bucket, Policy=before)


def lose_map_child(scene: Scene) -> None:
    """Stop the execution of the item that is measured now."""
    states = scene.lab.aws("stepfunctions")
    execution = _arn(scene)

    def child() -> str:
        for run in states.list_map_runs(executionArn=execution)["mapRuns"]:
            listed = states.list_executions(mapRunArn=run["mapRunArn"], statusFilter="RUNNING")
            for each in listed["executions"]:
                return str(each["executionArn"])
        return ""

    states.stop_execution(executionArn=eventually(child, seconds=30), error="Stopped by a person")


def stop_execution(scene: Scene) -> None:
    """Stop the execution in the console."""
    scene.lab.aws("stepfunctions").stop_execution(executionArn=_arn(scene))


def stop_and_redrive(scene: Scene) -> None:
    """Stop the execution in the console, wait for its clean-up, and redrive it there."""
    stop_execution(scene)
    eventually(lambda: scene.lab.record(scene.run_id).get("status") == "aborted", seconds=60)
    scene.lab.aws("stepfunctions").redrive_execution(executionArn=_arn(scene))


def _arn(scene: Scene) -> str:
    machine = "StateMachineArn" if scene.run_id == scene.name else "CampaignStateMachineArn"
    prefix = scene.lab.outputs[machine].replace(":stateMachine:", ":execution:")
    return f"{prefix}:{scene.name}"


def update_stack(scene: Scene) -> None:
    """Update the stack to what it is, with a template that is deployed again."""
    cloudformation = scene.lab.aws("cloudformation")
    (stack,) = cloudformation.describe_stacks(StackName="rackrate")["Stacks"]
    parameters = [
        {"ParameterKey": each["ParameterKey"], "UsePreviousValue": True}
        if each["ParameterKey"] != "LogRetentionDays"
        else {
            "ParameterKey": "LogRetentionDays",
            "ParameterValue": "14" if each["ParameterValue"] != "14" else "30",
        }
        for each in stack["Parameters"]
    ]
    cloudformation.update_stack(
        StackName="rackrate",
        UsePreviousTemplate=True,
        Parameters=parameters,
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    cloudformation.get_waiter("stack_update_complete").wait(
        StackName="rackrate", WaiterConfig={"Delay": 1, "MaxAttempts": 180}
    )


# -- people


def interrupt(times: int, number: signal.Signals = signal.SIGINT) -> Act:
    """Send a signal to the user's command, so often."""

    def do(scene: Scene) -> None:
        assert scene.command is not None
        for _ in range(times):
            with contextlib.suppress(ProcessLookupError):
                scene.command.send_signal(number)

    return once(do)


def start_again(scene: Scene) -> None:
    """Start a run of the same name with another plan (with the same one it is the same run)."""
    done = scene.lab.command(
        *scene.cli("run", "--plan", scene.plan_path, "--seed", "8", "--name", scene.name),
        check=False,
    )
    assert done.returncode != 0, "a second run of the same name was started"
    scene.notes["refusal"] = done.stderr.strip()


def start_of_the_other_kind(scene: Scene) -> None:
    """Start a campaign with the run's name, or a run with the campaign's: here, and in the console.

    Both are refused, and what goes on keeps its nodes.
    """
    is_run = scene.run_id == scene.name
    command = ("campaign", "run", "--draws", "1") if is_run else ("run",)
    done = scene.lab.command(*scene.cli(*command, "--name", scene.name), check=False)
    assert done.returncode == 2 and "--name" in done.stderr, done.stderr
    machine = "CampaignStateMachineArn" if is_run else "StateMachineArn"
    refused = _ended(scene, machine, scene.name, {})
    assert refused.get("error") == ("InvalidCampaign" if is_run else "InvalidPlan"), refused


def start_as_schedule(scene: Scene) -> None:
    """Start a campaign as a schedule does, while the one before goes on. It is skipped."""
    plan = {"draws": 1, "skip_if_running": True}
    done = _ended(scene, "CampaignStateMachineArn", f"{scene.name}-next", plan)
    assert done["status"] == "SUCCEEDED", done
    output = json.loads(done["output"])
    assert output["skipped"] and scene.name in output["warnings"][0], output


def _ended(scene: Scene, machine: str, name: str, plan: Mapping[str, object]) -> dict[str, str]:
    """Start an execution of the machine that an output names, and wait for its end."""
    states = scene.lab.aws("stepfunctions")
    arn = states.start_execution(
        stateMachineArn=scene.lab.outputs[machine], name=name, input=json.dumps(plan)
    )["executionArn"]

    def description() -> dict[str, str]:
        execution: dict[str, str] = states.describe_execution(executionArn=arn)
        return {} if execution["status"] == "RUNNING" else execution

    return eventually(description, seconds=60)


def start_another(scene: Scene) -> None:
    """Start another run on the same nodes, which waits for them."""
    scene.lab.start(f"{scene.name}-other", PLAN)
    scene.others.append(f"{scene.name}-other")


@contextlib.contextmanager
def disk_full(scene: Scene) -> Iterator[None]:
    """The disk for the results has no room. Later they are copied to another one."""
    small = scene.lab.directory / scene.name
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)
    other = scene.lab.directory / f"{scene.name}-elsewhere"
    scene.lab.command(*scene.cli("report", scene.name, "--out", str(other)))
    assert (other / scene.name / "report.html").stat().st_size > 64 * 1024
    scene.lab.command(
        *scene.cli("export", scene.name, "--format", "csv", "--out", str(other / "trials.csv"))
    )


@contextlib.contextmanager
def results_edited(scene: Scene) -> Iterator[None]:
    """Somebody edits the results, in the bucket and here; both are refused in one sentence."""
    yield
    lab, key = scene.lab, f"runs/{scene.name}/results.json"
    place = {"Bucket": lab.outputs["BucketName"], "Key": key}
    before = lab.aws("s3").get_object(**place)["Body"].read()
    edited = json.loads(before)
    edited["verdicts"][0]["ratio"] = "twice"
    copy = lab.directory / f"{scene.name}.edited.json"
    copy.write_text(json.dumps(edited), encoding="utf-8")
    lab.aws("s3").put_object(**place, Body=json.dumps(edited).encode())
    try:
        for command in (
            ("show", scene.name),
            ("export", scene.name, "--format", "junit", "--out", "-"),
            ("pool", str(copy), str(copy), "--out", str(lab.directory)),
        ):
            done = lab.command(*scene.cli(*command), check=False)
            message = done.stderr.strip()
            assert done.returncode in (1, 2), f"{command[0]}: {done.returncode}: {message}"
            assert "results" in message, f"{command[0]}: {message}"
            assert "Traceback" not in message
    finally:
        lab.aws("s3").put_object(**place, Body=before)
    lab.command(*scene.cli("show", scene.name))
