"""The Kubernetes objects: restricted, owned, and asking for exactly the tests in order."""

from __future__ import annotations

import re

import pytest

from rackrate import manifests
from rackrate.tools import load_test
from tests.unit.samples import LABEL

ITEM = {"kind": "block", "block": 3, "blocks": 6, "round": 1, "rounds": 1}
PAIR = {"arm": "treatment", "client": "node-a", "server": "node-b"}
TESTS = [
    load_test({"name": "rtt", "tool": "ping", "count": 16, "interval_seconds": 0.2}),
    load_test({"name": "tcp-8", "tool": "iperf3", "streams": 8, "seconds": 3}),
    load_test({"name": "tcp-1", "tool": "iperf3", "seconds": 3}),
]


def client(tests=TESTS, run_id="run-1", attempt=1):
    return manifests.client(
        run_id=run_id,
        owner_uid="uid-1",
        item=ITEM,
        pair=PAIR,
        tests=tests,
        attempt=attempt,
        server_address="10.0.0.9",
        image="tools:1",
    )


def servers():
    return manifests.servers(
        run_id="run-1",
        owner_uid="uid-1",
        arm="treatment",
        node_selector={LABEL: "ng-1"},
        image="tools:1",
    )


def pod_specs():
    return [client()["spec"], servers()["spec"]["template"]["spec"]]


@pytest.mark.parametrize("spec", pod_specs(), ids=["client", "server"])
def test_pods_satisfy_the_restricted_pod_security_standard(spec):
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True and security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    safe = {"net.ipv4.ping_group_range"}  # of the standard's list of safe sysctls
    assert {sysctl["name"] for sysctl in security.get("sysctls", [])} <= safe
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all(set(volume) == {"name", "emptyDir"} for volume in spec["volumes"])
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert own["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("spec", pod_specs(), ids=["client", "server"])
def test_pods_know_nothing_of_the_cluster_and_end_at_once(spec):
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["terminationGracePeriodSeconds"] == 1


@pytest.mark.parametrize("spec", pod_specs(), ids=["client", "server"])
def test_nothing_throttles_the_processor(spec):
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        assert "cpu" not in container["resources"]["limits"]


def test_a_client_runs_its_tests_in_order_each_in_a_container_of_its_name():
    spec = client()["spec"]
    containers = [*spec["initContainers"], *spec["containers"]]
    assert [container["name"] for container in containers] == ["rtt", "tcp-8", "tcp-1"]
    assert len(spec["containers"]) == 1, "the last test is the main container"
    for container, test in zip(containers, TESTS, strict=True):
        assert container["command"] == test.argv("10.0.0.9")


def test_a_client_of_one_test_has_no_init_containers():
    assert client(TESTS[:1])["spec"]["initContainers"] == []


def test_only_pods_that_ping_ask_for_the_sysctl():
    assert client(TESTS[:1])["spec"]["securityContext"]["sysctls"]
    assert "sysctls" not in client(TESTS[1:])["spec"]["securityContext"]


def test_kubernetes_stops_a_client_after_its_tests_should_have_ended():
    spec = client()["spec"]
    assert 9 < spec["activeDeadlineSeconds"] < 90
    assert spec["restartPolicy"] == "Never"
    assert spec["nodeName"] == "node-a"


def test_a_probe_tells_that_the_server_listens_but_never_disturbs_a_measurement():
    (container,) = servers()["spec"]["template"]["spec"]["containers"]
    assert container["startupProbe"]["tcpSocket"] == {"port": 5201}
    assert not {"readinessProbe", "livenessProbe"} & set(container)


def test_servers_run_on_the_nodes_of_their_arm():
    assert servers()["spec"]["template"]["spec"]["nodeSelector"] == {LABEL: "ng-1"}
    labels = servers()["spec"]["selector"]["matchLabels"]
    assert labels == servers()["spec"]["template"]["metadata"]["labels"]
    assert labels[manifests.ARM] == "treatment"


def test_everything_belongs_to_the_owner():
    owner = manifests.owner("run-1", "arn:aws:states:::execution")
    for thing in (client(), servers()):
        (reference,) = thing["metadata"]["ownerReferences"]
        assert reference["name"] == owner["metadata"]["name"]
        assert (reference["kind"], reference["uid"]) == (owner["kind"], "uid-1")
        assert thing["metadata"]["labels"][manifests.RUN] == "run-1"


def test_names_of_pods_differ_between_attempts_and_runs():
    names = {
        client()["metadata"]["name"],
        client(attempt=2)["metadata"]["name"],
        client(run_id="run-2")["metadata"]["name"],
    }
    assert len(names) == 3


@pytest.mark.parametrize("run_id", ["r", "a" * 80, "with space", "-x-", "ünïcode", "2026.11_a"])
def test_any_execution_name_makes_valid_names_and_labels(run_id):
    pod = client(run_id=run_id)["metadata"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", pod["name"])
    for value in pod["labels"].values():
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


def test_the_bootstrap_grants_no_more_than_the_benchmark_does():
    things = {
        thing["kind"]: thing for thing in manifests.bootstrap("bench", "rackrate:bench", "stack")
    }
    labels = things["Namespace"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    (nodes,) = things["ClusterRole"]["rules"]
    assert (nodes["resources"], nodes["verbs"]) == (["nodes"], ["get", "list"])
    verbs = {v for rule in things["Role"]["rules"] for v in rule["verbs"]}
    resources = {r for rule in things["Role"]["rules"] for r in rule["resources"]}
    assert "*" not in verbs | resources
    assert "secrets" not in resources and "pods/exec" not in resources
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        assert things[kind]["subjects"][0]["name"] == "rackrate:bench"
        assert (
            things[kind]["roleRef"]["name"]
            == things[things[kind]["roleRef"]["kind"]]["metadata"]["name"]
        )
