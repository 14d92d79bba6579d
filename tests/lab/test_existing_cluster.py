"""A stack in a cluster that exists, and what the stack that all tests share leaves at its end."""

from __future__ import annotations

import json

from kubernetes import client as kubernetes

from lab import stack
from tests.lab.account import cluster_logs, holdings, instances
from tests.lab.running import Lab
from tests.lab.toggles import Toggles, nodes, run_of
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


def test_a_guest_measures_in_a_cluster_that_exists_and_leaves_it_as_it_was(
    lab: Lab, toggles: Toggles
) -> None:
    cluster = lab.aws("eks").describe_cluster(name=lab.outputs["ClusterName"])["cluster"]
    topic = lab.aws("sns").create_topic(Name="on-call")["TopicArn"]
    toggles.tell(
        cluster=cluster["name"],
        subnets=",".join(cluster["resourcesVpcConfig"]["subnetIds"]),
        treatment_label="placementGroup=true",
        baseline_label="placementGroup=false",
        alarm_topic=topic,
    )
    before = Guest(lab)
    with toggles.deployed("existing-cluster") as made:
        during = Guest(lab)
        made_for_it = {"rackrate-taskcat", "rackrate-taskcat-host"}
        assert during.namespaces - before.namespaces == made_for_it
        assert during.guards - before.guards == {"rackrate-taskcat-host.rackrate.dev"}
        added = during.entries - before.entries
        assert added and all(f":role/{made.name}" in entry for entry in added)
        assert (during.nodes, during.settings, during.rules) == (
            before.nodes,
            before.settings,
            before.rules,
        )
        results = run_of(lab, made)
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
        _refuse_wrong_labels(lab, made)
        alarms = lab.aws("cloudwatch").describe_alarms()["MetricAlarms"]
        assert any(alarm["AlarmActions"] == [topic] for alarm in alarms)
    after = Guest(lab)
    assert vars(after) == vars(before)
    lab.aws("sns").delete_topic(TopicArn=topic)


def _refuse_wrong_labels(lab: Lab, made: Deployment) -> None:
    """Swap the labels of two nodes: EC2 knows better, and a run says so and measures nothing."""
    inside, outside = (lab.nodes(placement_group=group)[0] for group in (True, False))

    def label(node: str, value: str) -> None:
        lab.core.patch_node(node, {"metadata": {"labels": {"placementGroup": value}}})

    label(inside, "false")
    label(outside, "true")
    try:
        lab.start_in(made, "wrongly-labelled")
        ended = lab.ended_in(made, "wrongly-labelled")
    finally:
        label(inside, "true")
        label(outside, "false")
    assert ended["status"] == "FAILED"
    assert ended["error"] == "InvalidPlan"
    said = ended["cause"]
    assert "the arm 'treatment' is to be in a cluster placement group" in said
    assert f"({outside}) is in none" in said
    assert "the arm 'baseline' is to be in no placement group" in said
    assert f"({inside}) is in the cluster placement group" in said


def test_a_namespace_of_somebody_else_is_neither_taken_nor_deleted(
    lab: Lab, toggles: Toggles
) -> None:
    lab.core.create_namespace({"metadata": {"name": "theirs"}})
    try:
        reason = toggles.refused(
            "existing-cluster", Namespace="theirs", RunOnCreate="", AlarmTopicArn=""
        )
        assert "theirs" in reason and "Namespace" in reason
        assert "theirs" in Guest(lab).namespaces
    finally:
        lab.core.delete_namespace("theirs")


def test_a_run_that_fails_fails_the_stack_with_its_own_message(lab: Lab, toggles: Toggles) -> None:
    plan = json.dumps({"tests": [{"name": "tcp-1", "seconds": 0}]})
    reason = toggles.refused("existing-cluster", RunOnCreate=plan, AlarmTopicArn="")
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
