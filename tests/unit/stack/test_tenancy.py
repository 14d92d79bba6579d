"""A stack's objects in a cluster: no more rights than it uses, and a guard where it needs one."""

from __future__ import annotations

import pytest

from rackrate.measure.manifests import STACK
from rackrate.stack import tenancy
from rackrate.workloads.base import MAX_VOLUMES, MAX_VOLUMES_GIB

ORDINARY = tenancy.manifests("bench", "rackrate:bench", "stack")
HOST = tenancy.host_manifests("bench", "rackrate:bench", "stack")


def by_kind(things):
    return {thing["kind"]: thing for thing in things}


def test_the_functions_are_granted_no_more_than_they_use():
    things = by_kind(ORDINARY)
    nodes, cni, storage, dns = things["ClusterRole"]["rules"]
    assert (nodes["resources"], nodes["verbs"]) == (["nodes"], ["get", "list"])
    assert (cni["resources"], cni["verbs"]) == (["daemonsets"], ["get"])
    assert cni["resourceNames"] == ["aws-node", "kube-proxy"], "no DaemonSet of anybody else"
    assert (storage["resources"], storage["verbs"]) == (["storageclasses"], ["list"])
    assert (dns["resources"], dns["verbs"]) == (["endpoints"], ["get"])
    assert dns["resourceNames"] == ["kube-dns"], "no Endpoints of anybody else"
    verbs = {v for rule in things["Role"]["rules"] for v in rule["verbs"]}
    resources = {r for rule in things["Role"]["rules"] for r in rule["resources"]}
    assert "*" not in verbs | resources
    assert "secrets" not in resources and "pods/exec" not in resources
    assert by_kind(HOST)["Role"]["rules"] == things["Role"]["rules"]


@pytest.mark.parametrize("things", [ORDINARY, HOST], ids=["ordinary", "host"])
def test_rights_go_to_the_functions_group_and_stay_within_the_namespaces(things):
    named = by_kind(things)
    for kind in {"RoleBinding", "ClusterRoleBinding"} & set(named):
        assert [subject["name"] for subject in named[kind]["subjects"]] == ["rackrate:bench"]
        role = named[named[kind]["roleRef"]["kind"]]
        assert named[kind]["roleRef"]["name"] == role["metadata"]["name"]
        assert named[kind]["metadata"].get("namespace") == role["metadata"].get("namespace")


def test_everything_carries_the_mark_of_its_stack():
    for thing in [*ORDINARY, *HOST]:
        assert thing["metadata"]["annotations"][STACK] == "stack"


def test_a_namespace_has_room_for_the_largest_plan_and_for_nothing_the_benchmark_does_not_make():
    for things in (ORDINARY, HOST):
        hard = by_kind(things)["ResourceQuota"]["spec"]["hard"]
        # Two arms of 1800 nodes, with a server and the client of two rounds on each.
        assert int(hard["count/pods"]) >= 2 * 1800 * 3
        none = {kind for kind, most in hard.items() if most == "0"}
        assert "count/jobs.batch" in none
        # Only workloads make these, which are in the network of pods.
        of_workloads = {"count/persistentvolumeclaims"}
        assert none & of_workloads == (of_workloads if things is HOST else set())
        assert things is HOST or int(hard["count/persistentvolumeclaims"]) == MAX_VOLUMES
        gibibytes = 0 if things is HOST else MAX_VOLUMES_GIB
        assert int(hard["requests.storage"]) == gibibytes * 2**30
        kinds = {r for rule in by_kind(things)["Role"]["rules"] for r in rule["resources"]}
        assert kinds & {kind.removeprefix("count/").split(".")[0] for kind in none} == set()


@pytest.mark.parametrize("things", [ORDINARY, HOST], ids=["ordinary", "host"])
def test_services_are_guarded_in_each_namespace_before_it_exists(things):
    """tests/lab/test_access.py tests the expression on a real API server."""
    (spec,) = (
        thing["spec"]
        for thing in things
        if thing["kind"] == "ValidatingAdmissionPolicy"
        and thing["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == ["services"]
    )
    selector = spec["matchConstraints"]["namespaceSelector"]["matchLabels"]
    namespace = by_kind(things)["Namespace"]["metadata"]["name"]
    assert selector == {"kubernetes.io/metadata.name": namespace}
    kinds = [thing["kind"] for thing in things]
    assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("Namespace")


def test_only_the_namespace_behind_the_guard_is_privileged():
    level = "pod-security.kubernetes.io/enforce"
    assert by_kind(ORDINARY)["Namespace"]["metadata"]["labels"][level] == "restricted"
    assert by_kind(HOST)["Namespace"]["metadata"]["labels"][level] == "privileged"
    kinds = [thing["kind"] for thing in HOST]
    assert kinds.index("ValidatingAdmissionPolicyBinding") < kinds.index("Namespace")


def test_the_guard_is_for_every_container_of_every_pod_of_its_namespace_and_of_no_other():
    """tests/lab/test_access.py tests its expressions on a real API server."""
    spec = by_kind(HOST)["ValidatingAdmissionPolicy"]["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["pods", "pods/ephemeralcontainers"]
    assert set(rule["operations"]) == {"CREATE", "UPDATE"}
    selector = spec["matchConstraints"]["namespaceSelector"]
    namespace = by_kind(HOST)["Namespace"]["metadata"]["name"]
    assert selector == {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    (containers,) = (v["expression"] for v in spec["variables"] if v["name"] == "containers")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        assert kind in containers


def test_the_longest_namespace_leaves_room_for_the_name_of_its_second():
    from tests.templates.cloudformation import ROOT, load

    pattern = load(ROOT / "existing-cluster.yaml")["Parameters"]["Namespace"]["AllowedPattern"]
    assert "{0,56}" in pattern, "58 letters"
    assert len(tenancy.host_namespace("n" * 58)) == 63
