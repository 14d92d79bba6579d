"""Access: a function may do what the bootstrap's roles allow, and nobody else anything."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes

from tests.lab.running import Lab
from tests.lab.waiting import eventually


@pytest.fixture
def outsider(lab: Lab) -> Iterator[str]:
    """A role without an access entry."""
    iam = lab.aws("iam")
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": "sts:AssumeRole",
                "Principal": {"Service": "lambda.amazonaws.com"},
            }
        ],
    }
    response = iam.create_role(RoleName="outsider", AssumeRolePolicyDocument=json.dumps(document))
    yield response["Role"]["Arn"]
    iam.delete_role(RoleName="outsider")


def role_of(lab: Lab, function: str) -> str:
    """The role of one of the stack's functions."""
    functions = lab.aws("lambda").list_functions()["Functions"]
    return str(next(f["Role"] for f in functions if f"-{function}-" in f["FunctionName"]))


def cluster_as(lab: Lab, role_arn: str) -> kubernetes.ApiClient:
    """The cluster's API with the token that `aws eks get-token` makes for a role."""
    session = lab.aws("sts").assume_role(RoleArn=role_arn, RoleSessionName="test")["Credentials"]
    environment = {
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
    }
    result = lab.command(
        *("env", *(f"{name}={value}" for name, value in environment.items())),
        *("aws", "eks", "get-token", "--cluster-name", lab.outputs["ClusterName"]),
    )
    return api(lab, json.loads(result.stdout)["status"]["token"])


def api(lab: Lab, token: str) -> kubernetes.ApiClient:
    """The cluster's API with a bearer token, reached as `DescribeCluster` says."""
    described = lab.aws("eks").describe_cluster(name=lab.outputs["ClusterName"])["cluster"]
    with tempfile.NamedTemporaryFile(delete=False, dir=lab.directory) as authority:
        authority.write(base64.b64decode(described["certificateAuthority"]["data"]))
    configuration = kubernetes.Configuration(host=described["endpoint"])
    configuration.ssl_ca_cert = str(Path(authority.name))
    configuration.api_key = {"authorization": f"Bearer {token}"}
    return kubernetes.ApiClient(configuration)


def refused(call: Any, *arguments: Any) -> int:
    """The status with which the API refuses a call."""
    with pytest.raises(kubernetes.ApiException) as refusal:
        call(*arguments)
    return int(refusal.value.status)


def pod(**security: Any) -> dict[str, Any]:
    """A pod that Pod Security's `restricted` lets in, but for what `security` changes."""
    context = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "one",
        "image": "rackrate.lab/tools:debian",
        "command": ["ping", "-c", "1", "127.0.0.1"],
        "securityContext": context | security,
    }
    return {
        "metadata": {"generateName": "probe-"},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }


def test_a_function_may_use_its_namespace_and_read_nodes_and_nothing_else(lab: Lab) -> None:
    client = cluster_as(lab, role_of(lab, "LaunchFunction"))
    core, apps = kubernetes.CoreV1Api(client), kubernetes.AppsV1Api(client)
    rbac = kubernetes.RbacAuthorizationV1Api(client)
    assert len(core.list_node().items) == 4
    core.list_namespaced_pod(lab.namespace)
    core.list_namespaced_config_map(lab.namespace)
    apps.list_namespaced_daemon_set(lab.namespace)
    # The CNI's version is read there, and how far a rollout has got.
    for name in ("aws-node", "kube-proxy"):
        assert apps.read_namespaced_daemon_set(name, "kube-system").metadata.name == name
    assert refused(apps.read_namespaced_daemon_set, "ebs-csi-node", "kube-system") == 403
    assert refused(apps.list_namespaced_daemon_set, "kube-system") == 403
    # Where the cluster's DNS answers is read there.
    assert core.read_namespaced_endpoints("kube-dns", "kube-system").subsets
    assert refused(core.list_namespaced_endpoints, "kube-system") == 403
    assert refused(core.list_secret_for_all_namespaces) == 403
    assert refused(core.list_namespaced_secret, lab.namespace) == 403
    assert refused(core.list_pod_for_all_namespaces) == 403
    assert refused(core.create_namespaced_pod, "default", pod()) == 403
    assert refused(core.create_namespaced_pod, "kube-system", pod()) == 403
    assert refused(core.delete_node, lab.nodes(placement_group=True)[0]) == 403
    assert refused(core.create_namespace, {"metadata": {"name": "mine"}}) == 403
    assert refused(rbac.list_cluster_role_binding) == 403
    name = core.create_namespaced_pod(lab.namespace, pod()).metadata.name
    core.delete_namespaced_pod(name, lab.namespace, grace_period_seconds=0)


def test_functions_that_do_not_need_the_cluster_are_not_let_in(lab: Lab) -> None:
    for function in ("AnalyzeFunction", "ReportFunction", "FinishFunction", "CompareFunction"):
        core = kubernetes.CoreV1Api(cluster_as(lab, role_of(lab, function)))
        assert refused(core.list_node) == 401, function


def test_a_role_without_an_access_entry_a_forged_token_and_no_token_are_refused(
    lab: Lab, outsider: str
) -> None:
    assert refused(kubernetes.CoreV1Api(cluster_as(lab, outsider)).list_node) == 401
    good = cluster_as(lab, role_of(lab, "LaunchFunction"))
    token = good.configuration.api_key["authorization"].removeprefix("Bearer ")
    assert len(kubernetes.CoreV1Api(api(lab, token)).list_node().items) == 4
    url = base64.urlsafe_b64decode(token.removeprefix("k8s-aws-v1.") + "==").decode()
    head, _, signature = url.rpartition("=")
    other = f"{head}={'0' * len(signature)}"
    forged = "k8s-aws-v1." + base64.urlsafe_b64encode(other.encode()).decode().rstrip("=")
    for wrong in (forged, "k8s-aws-v1.", "anything", ""):
        assert refused(kubernetes.CoreV1Api(api(lab, wrong)).list_node) == 401


def test_pod_security_is_restricted_in_the_namespace_even_for_an_administrator(lab: Lab) -> None:
    for security in (
        {"privileged": True, "allowPrivilegeEscalation": True},
        {"runAsNonRoot": False},
        {"capabilities": {"add": ["NET_RAW"]}},
        {"seccompProfile": {"type": "Unconfined"}},
    ):
        with pytest.raises(kubernetes.ApiException) as refusal:
            lab.core.create_namespaced_pod(lab.namespace, pod(**security))
        assert refusal.value.status == 403, refusal.value.body
        assert 'violates PodSecurity "restricted' in json.loads(refusal.value.body)["message"]
        # It is the namespace that refuses, not the cluster: elsewhere the pod would be let in.
        lab.core.create_namespaced_pod("default", pod(**security), dry_run="All")


def test_nobody_creates_what_the_benchmark_never_makes_in_its_namespaces(lab: Lab) -> None:
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    job = {"metadata": {"name": "job"}, "spec": {"template": template}}
    for namespace in (lab.namespace, f"{lab.namespace}-host"):
        with pytest.raises(kubernetes.ApiException) as refusal:
            kubernetes.BatchV1Api(lab.core.api_client).create_namespaced_job(namespace, job)
        assert refusal.value.status == 403
        assert "exceeded quota: objects" in json.loads(refusal.value.body)["message"]


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "LoadBalancer"},
        {"type": "NodePort"},
        {"type": "ExternalName", "externalName": "example.com"},
        {"externalIPs": ["192.0.2.1"]},
    ],
    ids=str,
)
def test_nobody_makes_a_service_that_costs_money_or_takes_addresses(
    lab: Lab, spec: dict[str, Any]
) -> None:
    allowed = {"metadata": {"name": "way-in"}, "spec": {"ports": [{"port": 80}]}}
    for namespace in (lab.namespace, f"{lab.namespace}-host"):
        lab.core.create_namespaced_service(namespace, allowed, dry_run="All")
        service = {**allowed, "spec": {**allowed["spec"], **spec}}
        with pytest.raises(kubernetes.ApiException) as refusal:
            lab.core.create_namespaced_service(namespace, service)
        assert "takes only plain Services" in json.loads(refusal.value.body)["message"]


# -- the function that prepares the cluster


def bootstrap(lab: Lab, event: dict[str, Any]) -> Any:
    """The answer of the bootstrap function to a call."""
    functions = lab.aws("lambda").list_functions()["Functions"]
    name = next(f["FunctionName"] for f in functions if "-BootstrapFunction-" in f["FunctionName"])
    response = lab.aws("lambda").invoke(FunctionName=name, Payload=json.dumps(event))
    assert "FunctionError" not in response, response["Payload"].read()
    return json.load(response["Payload"])


def assert_nobody_administers(lab: Lab) -> None:
    """The bootstrap's role has an access entry, and no right in the cluster."""
    role = role_of(lab, "BootstrapFunction")
    response = lab.aws("eks").list_associated_access_policies(
        clusterName=lab.outputs["ClusterName"], principalArn=role
    )
    assert response["associatedAccessPolicies"] == []
    assert refused(kubernetes.CoreV1Api(cluster_as(lab, role)).list_namespace) == 403


def test_the_bootstrap_function_is_an_administrator_only_while_it_works(lab: Lab) -> None:
    assert_nobody_administers(lab)
    rbac = kubernetes.RbacAuthorizationV1Api(lab.core.api_client)
    level = "pod-security.kubernetes.io/enforce"
    rbac.delete_namespaced_role_binding("runners", lab.namespace)
    lab.core.patch_namespace(lab.namespace, {"metadata": {"labels": {level: "privileged"}}})
    healed = bootstrap(lab, {"RequestType": "Heal"})
    assert healed["Namespace"] == lab.namespace
    assert rbac.read_namespaced_role_binding("runners", lab.namespace)
    assert lab.core.read_namespace(lab.namespace).metadata.labels[level] == "restricted"
    assert_nobody_administers(lab)


def test_the_schedule_takes_away_what_a_bootstrap_left_and_nothing_of_one_at_work(lab: Lab) -> None:
    cluster, role = lab.outputs["ClusterName"], role_of(lab, "BootstrapFunction")
    lab.aws("eks").associate_access_policy(
        clusterName=cluster,
        principalArn=role,
        policyArn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        accessScope={"type": "cluster"},
    )
    bootstrap(lab, {"detail-type": "Scheduled Event"})
    listed = lab.aws("eks").list_associated_access_policies(clusterName=cluster, principalArn=role)
    assert listed["associatedAccessPolicies"], "it is as new as that of a function at work"
    bootstrap(lab, {"RequestType": "Heal"})
    assert_nobody_administers(lab)


def test_who_may_invoke_the_bootstrap_function_cannot_make_it_work_for_others(lab: Lab) -> None:
    lab.core.create_namespace({"metadata": {"name": "theirs"}})
    try:
        forged = {"Namespace": "theirs", "Group": "system:authenticated", "Owner": "their-stack"}
        event = {"RequestType": "Heal", "ResourceProperties": forged, **forged}
        assert bootstrap(lab, event)["Group"] == f"rackrate:{lab.namespace}"
        rbac = kubernetes.RbacAuthorizationV1Api(lab.core.api_client)
        assert rbac.list_namespaced_role_binding("theirs").items == []
        assert lab.core.read_namespace("theirs").status.phase == "Active"
    finally:
        lab.core.delete_namespace("theirs")


# -- the namespace of the nodes' own network


def host_pod(**changes: Any) -> dict[str, Any]:
    """A pod that the guard of the host namespace lets in, but for what `changes` change in it.

    What they say of `container` changes the container's security context, of `pod` the pod's, and
    all else the pod's specification.
    """
    body = pod(**{"readOnlyRootFilesystem": True} | changes.pop("container", {}))
    body["spec"] |= {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        | changes.pop("pod", {}),
    } | changes
    return body


def each(security: dict[str, Any]) -> list[dict[str, Any]]:
    """Changes that give a second container, and an init container, another security context."""
    (ours,) = host_pod()["spec"]["containers"]
    other = {**host_pod(container=security)["spec"]["containers"][0], "name": "other"}
    return [{"containers": [ours, other]}, {"initContainers": [other]}]


def probing(what: str, probe: dict[str, Any]) -> list[dict[str, Any]]:
    """Changes that give a container, and an init container that goes on, a probe or hooks."""
    (ours,) = host_pod()["spec"]["containers"]
    other = {**ours, "name": "other", "restartPolicy": "Always", what: probe}
    return [{"containers": [{**ours, what: probe}]}, {"initContainers": [other]}]


#: The instance's metadata, and how the kubelet could be made to ask for it.
ELSEWHERE = {"host": "169.254.169.254", "port": 80}

#: What nobody may have there: the pod that asks for it, by the rule of the guard that refuses it.
FORBIDDEN: dict[str, list[dict[str, Any]]] = {
    "no hostPID and no hostIPC": [{"hostPID": True}, {"hostIPC": True}],
    "no volumes but emptyDir": [
        {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "secret", "secret": {"secretName": "some"}}]},
    ],
    "automountServiceAccountToken must be false": [{"automountServiceAccountToken": True}],
    "runAsNonRoot must be true, and no user 0": [
        {"pod": {"runAsUser": 0}},
        {"pod": {"runAsNonRoot": False}},
        *each({"runAsNonRoot": False}),
        *each({"runAsUser": 0}),
    ],
    "seccompProfile must be RuntimeDefault": [
        {"pod": {"seccompProfile": {"type": "Unconfined"}}},
        *each({"seccompProfile": {"type": "Unconfined"}}),
    ],
    "no host in a probe or hook": [
        *probing("livenessProbe", {"httpGet": ELSEWHERE}),
        *probing("readinessProbe", {"tcpSocket": ELSEWHERE}),
        *probing("startupProbe", {"httpGet": ELSEWHERE}),
        *probing("lifecycle", {"postStart": {"httpGet": ELSEWHERE}}),
        *probing("lifecycle", {"preStop": {"httpGet": ELSEWHERE}}),
    ],
    "no sysctls": [{"pod": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}}],
    "no seLinuxOptions, no windowsOptions and no unconfined AppArmor profile": [
        {"pod": {"seLinuxOptions": {"type": "spc_t"}}},
        {"pod": {"appArmorProfile": {"type": "Unconfined"}}},
        *each({"seLinuxOptions": {"type": "spc_t"}}),
        *each({"appArmorProfile": {"type": "Unconfined"}}),
    ],
    "no privileged container, no privilege escalation and no procMount": [
        *each({"privileged": True, "allowPrivilegeEscalation": True}),
        *each({"allowPrivilegeEscalation": True}),
    ],
    "readOnlyRootFilesystem must be true": each({"readOnlyRootFilesystem": False}),
    "all capabilities must be dropped and none added": [
        *each({"capabilities": {"drop": ["ALL"], "add": ["NET_RAW"]}}),
        *each({"capabilities": {"drop": ["NET_RAW"]}}),
    ],
}


@pytest.fixture(scope="module")
def runner(lab: Lab) -> kubernetes.CoreV1Api:
    """The cluster as the function sees it that starts pods."""
    return kubernetes.CoreV1Api(cluster_as(lab, role_of(lab, "LaunchFunction")))


@pytest.fixture
def host_namespace(lab: Lab) -> str:
    return f"{lab.namespace}-host"


def test_a_function_may_start_pods_in_the_nodes_own_network_where_the_stack_allows_it(
    lab: Lab, runner: kubernetes.CoreV1Api, host_namespace: str
) -> None:
    node = lab.nodes(placement_group=True)[0]
    started = runner.create_namespaced_pod(host_namespace, host_pod(nodeName=node)).metadata.name
    try:
        # It pings without a capability and without a sysctl of its own, as on Amazon Linux.
        ended = eventually(
            lambda: (
                current
                if (current := runner.read_namespaced_pod(started, host_namespace)).status.phase
                in ("Succeeded", "Failed")
                else None
            ),
            seconds=30,
        )
        assert ended is not None
        assert ended.status.phase == "Succeeded", ended.status
        assert ended.status.pod_ip == ended.status.host_ip
    finally:
        runner.delete_namespaced_pod(started, host_namespace, grace_period_seconds=0)
    with pytest.raises(kubernetes.ApiException) as refusal:
        runner.create_namespaced_pod(lab.namespace, host_pod())
    assert 'violates PodSecurity "restricted' in json.loads(refusal.value.body)["message"]


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_the_guard_of_the_host_namespace_lets_nothing_in_but_pods_like_ours(
    lab: Lab, runner: kubernetes.CoreV1Api, host_namespace: str, rule: str
) -> None:
    administrator = lab.core
    for changes in FORBIDDEN[rule]:
        body = host_pod(**changes)
        for core in (runner, administrator):
            with pytest.raises(kubernetes.ApiException) as refusal:
                core.create_namespaced_pod(host_namespace, body)
            assert refusal.value.status == 422
            message = json.loads(refusal.value.body)["message"]
            assert message.endswith(f"{host_namespace} takes only rackrate's pods: {rule}"), changes
        # It is the guard that refuses, not the cluster: elsewhere the pod would be let in.
        administrator.create_namespaced_pod("default", body, dry_run="All")


def test_a_pod_of_the_host_namespace_takes_no_container_later_that_is_not_like_ours(
    lab: Lab, host_namespace: str
) -> None:
    started = lab.core.create_namespaced_pod(host_namespace, host_pod()).metadata.name
    entering = {"name": "enter", "image": "rackrate.lab/tools:debian", "command": ["ping"]}
    try:
        with pytest.raises(kubernetes.ApiException) as refusal:
            lab.core.patch_namespaced_pod_ephemeralcontainers(
                started, host_namespace, {"spec": {"ephemeralContainers": [entering]}}
            )
        assert "takes only rackrate's pods" in json.loads(refusal.value.body)["message"]
    finally:
        lab.core.delete_namespaced_pod(started, host_namespace, grace_period_seconds=0)
