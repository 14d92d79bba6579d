"""A stack in a cluster that exists, and what the stack that all tests share leaves at its end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kubernetes import client as kubernetes

from lab import stack
from tests.lab.account import cluster_logs, holdings, instances
from tests.lab.running import SHORT, Lab
from tests.lab.toggles import Toggles, nodes, run_of
from tests.lab.waiting import eventually
from tests.taskcat.deploying import Deployment


class Guest:
    """What a stack in somebody's cluster may touch."""

    def __init__(self, lab: Lab) -> None:
        cluster = lab.outputs["ClusterName"]
        api = lab.core.api_client
        rbac = kubernetes.RbacAuthorizationV1Api(api)
        admission = kubernetes.AdmissionregistrationV1Api(api)
        self.namespaces = {n.metadata.name for n in lab.core.list_namespace().items}
        self.rights = {r.metadata.name for r in rbac.list_cluster_role().items} | {
            r.metadata.name for r in rbac.list_cluster_role_binding().items
        }
        self.guards = {
            p.metadata.name for p in admission.list_validating_admission_policy().items
        } | {b.metadata.name for b in admission.list_validating_admission_policy_binding().items}
        self.entries = set(lab.aws("eks").list_access_entries(clusterName=cluster)["accessEntries"])
        self.nodes = {n.metadata.name: n.metadata.labels for n in nodes(lab)}
        described = lab.aws("eks").describe_cluster(name=cluster)["cluster"]
        self.settings = {key: described[key] for key in ("accessConfig", "resourcesVpcConfig")}
        group = described["resourcesVpcConfig"]["clusterSecurityGroupId"]
        self.rules = lab.aws("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"]


@pytest.fixture
def topic(lab: Lab, toggles: Toggles) -> Iterator[str]:
    """A topic for alarms, after taskcat was told of it and of what it may measure in."""
    cluster = lab.aws("eks").describe_cluster(name=lab.outputs["ClusterName"])["cluster"]
    topic = str(lab.aws("sns").create_topic(Name="on-call")["TopicArn"])
    toggles.tell(
        cluster=cluster["name"],
        subnets=",".join(cluster["resourcesVpcConfig"]["subnetIds"]),
        treatment_selector="placementGroup=true",
        baseline_selector="placementGroup=false",
        alarm_topic=topic,
    )
    yield topic
    lab.aws("sns").delete_topic(TopicArn=topic)


@pytest.mark.core
def test_a_guest_measures_in_a_cluster_that_exists_and_leaves_it_as_it_was(
    lab: Lab, toggles: Toggles, topic: str
) -> None:
    before = Guest(lab)
    with toggles.deployed("existing-cluster") as guest:
        during = Guest(lab)
        namespaces = {"rackrate-taskcat", "rackrate-taskcat-host"}
        assert during.namespaces - before.namespaces == namespaces
        assert during.guards - before.guards == {
            "rackrate-taskcat-host.rackrate.dev",
            *(f"{namespace}-services.rackrate.dev" for namespace in namespaces),
        }
        added = during.entries - before.entries
        assert added and all(f":role/{guest.name}" in entry for entry in added)
        assert (during.nodes, during.settings, during.rules) == (
            before.nodes,
            before.settings,
            before.rules,
        )
        results = run_of(lab, guest)
        assert results["run"]["status"] == "succeeded"
        # HostNetwork lets functions read what the nodes' interfaces have counted.
        assert results["counters"]["nodes"].keys() == during.nodes.keys()
        placements = {
            (arm["name"], facts["ec2_placement"]["strategy"], facts["ec2_placement"]["lifecycle"])
            for arm in results["arms"]
            for facts in arm["node_facts"]
        }
        assert placements == {
            ("treatment", "cluster", "on-demand"),
            ("baseline", None, "on-demand"),
        }
        _refuse_wrong_labels(lab, guest)
        alarms = lab.aws("cloudwatch").describe_alarms()["MetricAlarms"]
        assert any(alarm["AlarmActions"] == [topic] for alarm in alarms)
        _measure_until_deleted(lab, guest)
    after = Guest(lab)
    assert vars(after) == vars(before)


def _measure_until_deleted(lab: Lab, guest: Deployment) -> None:
    """Start a run that is still measuring when its stack is deleted.

    Its end is gone with the state machine; what counts is what it leaves in the cluster.
    """
    lab.start_in(guest, "deleted", {**SHORT, "blocks": 20})
    eventually(lambda: lab.pods("deleted", "client"), seconds=90)


def _refuse_wrong_labels(lab: Lab, guest: Deployment) -> None:
    """Swap the labels of two nodes: EC2 knows better, and a run says so and measures nothing."""
    inside, outside = (lab.nodes(placement_group=group)[0] for group in (True, False))

    def label(node: str, value: str) -> None:
        lab.core.patch_node(node, {"metadata": {"labels": {"placementGroup": value}}})

    label(inside, "false")
    label(outside, "true")
    try:
        lab.start_in(guest, "wrongly-labelled")
        ended = lab.ended_in(guest, "wrongly-labelled")
    finally:
        label(inside, "true")
        label(outside, "false")
    assert ended["status"] == "FAILED"
    assert ended["error"] == "InvalidPlan"
    cause = ended["cause"]
    assert "the arm 'treatment' is to be in a cluster placement group" in cause
    assert f"({outside}) is in none" in cause
    assert "the arm 'baseline' is to be in no placement group" in cause
    assert f"({inside}) is in the cluster placement group" in cause


@contextlib.contextmanager
def pools(lab: Lab) -> Iterator[str]:
    """Two Karpenter pools without nodes, `fast` in a placement group and tainted, and `plain`.

    Yields the group's id.
    """
    subprocess.run([sys.executable, "-m", "lab", "karpenter"], env=lab.environment, check=True)
    ec2, api = lab.aws("ec2"), kubernetes.CustomObjectsApi(lab.core.api_client)
    described = lab.aws("eks").describe_cluster(name=lab.outputs["ClusterName"])["cluster"]
    subnet = described["resourcesVpcConfig"]["subnetIds"][0]
    group = ec2.create_placement_group(GroupName="fast", Strategy="cluster")["PlacementGroup"]
    taint = {"key": "dedicated", "value": "bench", "effect": "NoSchedule"}
    created = []
    for name, placement, taints in (
        ("fast", {"placementGroupSelector": {"name": "fast"}}, [taint]),
        ("plain", {}, []),
    ):
        requirement = {
            "key": "node.kubernetes.io/instance-type",
            "operator": "In",
            "values": ["c5.large"],
        }
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
        node_class = {"subnetSelectorTerms": [{"id": subnet}], **placement}
        pool = {
            "template": {
                "spec": {
                    "nodeClassRef": reference,
                    "requirements": [requirement],
                    "taints": taints,
                }
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "3s",
            },
        }
        for kind, spec in (("EC2NodeClass", node_class), ("NodePool", pool)):
            owner = "karpenter.k8s.aws" if kind == "EC2NodeClass" else "karpenter.sh"
            manifest = {"apiVersion": f"{owner}/v1", "kind": kind, "metadata": {"name": name}}
            plural = f"{kind.lower()}es" if kind == "EC2NodeClass" else f"{kind.lower()}s"
            api.create_cluster_custom_object(owner, "v1", plural, {**manifest, "spec": spec})
            created.append((owner, "v1", plural, name))
    try:
        yield group["GroupId"]
    finally:
        for each in created:
            api.delete_cluster_custom_object(*each)
        ec2.delete_placement_group(GroupName="fast")


@pytest.mark.usefixtures("topic")
def test_a_guest_brings_the_nodes_of_tainted_pools_keeps_them_for_its_run_and_lets_them_go(
    lab: Lab, toggles: Toggles
) -> None:
    before = {node.metadata.name for node in nodes(lab)}
    pausing = {**SHORT, "blocks": 2, "pause_seconds": 8}
    with (
        pools(lab) as group,
        toggles.deployed(
            "existing-cluster",
            TreatmentSelector="karpenter.sh/nodepool in (fast)",
            BaselineSelector="karpenter.sh/nodepool,karpenter.sh/nodepool!=fast",
            Tolerations="dedicated=bench:NoSchedule",
            OnDemandNodeCount="2",
            RunOnCreate=json.dumps(pausing),
            AlarmRecipient="",
        ) as guest,
    ):
        results = run_of(lab, guest)
        assert results["run"]["status"] == "succeeded"
        facts = {arm["name"]: arm["node_facts"] for arm in results["arms"]}
        for arm, pool, of_group in (("treatment", "fast", group), ("baseline", "plain", None)):
            assert len(facts[arm]) == 2
            for fact in facts[arm]:
                assert fact["name"] not in before
                values = (fact["node_pool"], fact["capacity_type"], fact["labelled_group_id"])
                assert values == (pool, "on-demand", of_group)
        eventually(
            lambda: {node.metadata.name for node in nodes(lab)} == before,
            seconds=30,
        )


@pytest.mark.usefixtures("topic")
def test_a_namespace_of_somebody_else_is_neither_taken_nor_deleted(
    lab: Lab, toggles: Toggles
) -> None:
    lab.core.create_namespace({"metadata": {"name": "theirs"}})
    try:
        reason = toggles.refused(
            "existing-cluster", Namespace="theirs", RunOnCreate="", AlarmRecipient=""
        )
        assert "theirs" in reason and "Namespace" in reason
        assert "theirs" in Guest(lab).namespaces
    finally:
        lab.core.delete_namespace("theirs")


@pytest.mark.usefixtures("topic")
def test_a_run_that_fails_fails_the_stack_with_its_own_message(lab: Lab, toggles: Toggles) -> None:
    plan = json.dumps({"tests": [{"name": "tcp-1", "seconds": 0}]})
    reason = toggles.refused("existing-cluster", RunOnCreate=plan, AlarmRecipient="")
    assert "InvalidPlan" in reason
    assert "tests[0].seconds" in reason


def test_deleting_the_default_stack_keeps_its_results_and_its_clusters_logs_and_nothing_else(
    lab: Lab, toggles: Toggles
) -> None:
    bucket, table = lab.outputs["BucketName"], lab.outputs["TableName"]
    logs = cluster_logs(lab.outputs["ClusterName"])
    lab.aws("s3").put_object(Bucket=bucket, Key="runs/kept/report.html", Body=b"a result")
    stack.delete(lab.status, lambda step: None)
    left = {
        name
        for name in holdings(lab)
        if "rackrate" in name and name != f"bucket {stack.STACK}-artifacts"
    }
    assert left == {f"bucket {bucket}", f"table {table}", logs}
    lab.aws("s3").head_object(Bucket=bucket, Key="runs/kept/report.html")
    assert lab.aws("eks").list_clusters()["clusters"] == []
    assert instances(lab) == []
