"""The doctor's findings in an account that moto emulates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.exceptions import AuthFailureError
from moto.core.responses import ActionResult
from rackrate_cli.diagnosis import cluster, parts, quotas, runs
from rackrate_cli.reading.stack import Stack, session_of_environment

from lab.aws import quotas as lab_quotas
from lab.aws.moto_patches import CAPACITY_RESERVATIONS, PLACEMENT_GROUPS, QUOTAS, apply
from lab.tests.aws.region import group_of_another_account
from rackrate_text.quotas import STANDARD

from .conftest import DeployedStack, client

ROLE = "arn:aws:iam::123456789012:role/eks"


@pytest.fixture
def account(stack: DeployedStack) -> Iterator[Stack]:
    """A stack whose outputs and parameters name an existing cluster with two node groups."""
    name = stack.name
    eks = client("eks")
    network = {"subnetIds": ["subnet-1"], "securityGroupIds": ["sg-1"]}
    eks.create_cluster(name=name, version="1.34", roleArn=ROLE, resourcesVpcConfig=network)
    for arm in ("treatment", "baseline"):
        eks.create_nodegroup(
            clusterName=name,
            nodegroupName=arm,
            nodeRole=ROLE,
            subnets=["subnet-1"],
            scalingConfig={"minSize": 2, "maxSize": 2, "desiredSize": 2},
        )
    outputs = {
        "StateMachineArn": stack.state_machine,
        "TableName": stack.table,
        "BucketName": stack.bucket,
        "ClusterName": name,
        "TreatmentNodeGroups": "treatment",
        "BaselineNodeGroups": "baseline",
        "ToolImage": "public.example/tools:1",
    }
    parameters = {"NodeCount": "2", "InstanceType": "c5.large", "TreatmentStrategy": "cluster"}
    session = session_of_environment()
    yield Stack(name, outputs, session, parameters=parameters, status="UPDATE_COMPLETE")
    for arm in eks.list_nodegroups(clusterName=name)["nodegroups"]:
        eks.delete_nodegroup(clusterName=name, nodegroupName=arm)
    eks.delete_cluster(name=name)


def changed(stack: Stack, *, outputs: dict[str, str] | None = None, **parameters: str) -> Stack:
    """The stack with other outputs or parameters."""
    return Stack(
        stack.name,
        {**stack.outputs, **(outputs or {})},
        stack.session,
        parameters={**stack.parameters, **parameters},
        status=stack.status,
    )


def test_a_cluster_and_its_node_groups_are_checked_and_missed(account: Stack) -> None:
    assert cluster.cluster(account).state == "ok"
    assert [check.state for check in cluster.node_groups(account)] == ["ok", "ok"]
    assert cluster.cluster(changed(account, outputs={"ClusterName": "elsewhere"})).state == "failed"
    missing = changed(account, outputs={"TreatmentNodeGroups": "missing"})
    states = {check.name: check.state for check in cluster.node_groups(missing)}
    assert states == {"treatment nodes": "failed", "baseline nodes": "ok"}
    grown = changed(account, NodeCount="3")
    assert {check.state for check in cluster.node_groups(grown)} == {"failed"}


def test_a_failed_launch_is_named_before_eks_reports_it(
    account: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "Could not launch On-Demand Instances. The type is not eligible for Free Tier."
    failed = {"StatusCode": "Failed", "StatusMessage": message, "StartTime": datetime.now(UTC)}
    names = {"clusterName": account.name, "nodegroupName": "treatment"}
    group = client("eks").describe_nodegroup(**names)["nodegroup"]
    of_treatment = group["resources"]["autoScalingGroups"][0]["name"]

    def describe(self: AutoScalingResponse) -> ActionResult:
        name = self._get_param("AutoScalingGroupName")
        return ActionResult({"Activities": [failed] if name == of_treatment else []})

    monkeypatch.setattr(AutoScalingResponse, "describe_scaling_activities", describe)
    lacking, healthy = cluster.node_groups(account)
    assert (lacking.state, healthy.state) == ("failed", "ok")
    assert "treatment, ACTIVE, 2 nodes; Could not launch On-Demand Instances." in lacking.finding
    assert "Auto Scaling tries again" in lacking.remedy


def test_without_permission_for_auto_scaling_the_rest_of_a_node_group_is_checked(
    account: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: AutoScalingResponse) -> ActionResult:
        raise AuthFailureError()

    monkeypatch.setattr(AutoScalingResponse, "describe_scaling_activities", refuse)
    fine, _ = cluster.node_groups(account)
    assert fine.state == "unknown"
    assert "ACTIVE, 2 nodes; the activities of its Auto Scaling group were not read" in fine.finding
    lacking, _ = cluster.node_groups(changed(account, NodeCount="3"))
    assert lacking.state == "failed"


def test_load_nodes_have_a_node_group_of_their_own(account: Stack) -> None:
    outputs = {"LoadNodeGroups": "baseline"}
    states = {
        number: {
            check.name: check.state
            for check in cluster.node_groups(
                changed(account, outputs=outputs, LoadNodeCount=number)
            )
        }.get("load nodes")
        for number in ("0", "2", "3")
    }
    assert states == {"0": None, "2": "ok", "3": "failed"}


def test_each_node_group_of_an_arm_is_compared_with_its_share_of_the_nodes(account: Stack) -> None:
    shared = {"TreatmentNodeGroups": "treatment,baseline,gone"}
    states = {
        nodes: {check.name: check.state for check in checks}
        for nodes in ("4", "8")
        if (checks := list(cluster.node_groups(changed(account, outputs=shared, NodeCount=nodes))))
    }
    first, second, third = (f"treatment nodes, group {number} of 3" for number in (1, 2, 3))
    # Two nodes are there of each: 2 + 1 + 1 nodes are enough, and 3 + 3 + 2 are not.
    assert states["4"] == {first: "ok", second: "ok", third: "failed", "baseline nodes": "failed"}
    assert (states["8"][first], states["8"][second]) == ("failed", "failed")
    [lacking] = [
        check
        for check in cluster.node_groups(changed(account, outputs=shared, NodeCount="8"))
        if check.name == second
    ]
    assert "2 of 3 nodes wanted" in lacking.finding
    assert "desired size to 3" in lacking.remedy


def test_a_cluster_that_exists_has_no_node_groups_of_ours(account: Stack) -> None:
    existing = changed(
        account,
        ExistingClusterName=account.name,
        TreatmentSelector="pool=fast",
        BaselineSelector="pool=plain",
    )
    [finding] = cluster.node_groups(existing)
    assert finding.state == "ok"
    assert "pool=fast and pool=plain" in finding.finding
    assert quotas.placement_group(existing).state == "ok"
    assert [check.state for check in quotas.vcpus(existing)] == ["ok"]


def test_the_vcpus_of_all_nodes_are_compared_with_the_quota_and_what_is_in_use(
    account: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply((*CAPACITY_RESERVATIONS, *QUOTAS))
    [check] = quotas.vcpus(account)
    assert check.state == "ok", check.finding
    assert "of 4096 vCPUs are in use; the stack has 4 nodes in all arms x 2 vCPUs" in check.finding
    never_raised = replace(lab_quotas.QUOTAS["ec2", STANDARD], applied=None)
    monkeypatch.setitem(lab_quotas.QUOTAS, ("ec2", STANDARD), never_raised)
    [check] = quotas.vcpus(account)
    assert check.state == "failed"
    assert "of 5 vCPUs are in use" in check.finding
    assert f"--quota-code {STANDARD} --desired-value 8" in check.remedy


def test_the_instance_outside_the_cluster_needs_vcpus_of_the_arms_type_or_its_own(
    account: Stack,
) -> None:
    [alike] = quotas.vcpus(changed(account, EndpointInstance="outside"))
    assert "1 instance outside the cluster x 2 vCPUs (c5.large), which need 10" in alike.finding
    own = {"EndpointInstance": "in-group", "EndpointInstanceType": "m5.xlarge"}
    [larger] = quotas.vcpus(changed(account, **own))
    assert "1 instance outside the cluster x 4 vCPUs (m5.xlarge), which need 12" in larger.finding


def test_a_placement_group_is_judged_by_its_state_and_the_room_in_it() -> None:
    group = {"GroupName": "g", "Strategy": "cluster", "State": "available"}
    spread = {**group, "Strategy": "spread"}
    for described, nodes, state in (
        (group, "450", "ok"),
        ({**group, "State": "deleting"}, "2", "failed"),
        (spread, "7", "ok"),
        (spread, "8", "failed"),
    ):
        assert quotas.group_check(described, {"NodeCount": nodes}).state == state
    assert "at most 7" in quotas.group_check(spread, {"NodeCount": "8"}).finding


def test_the_placement_group_is_looked_up_by_name_id_or_the_tag_of_the_stack(
    account: Stack,
) -> None:
    apply(PLACEMENT_GROUPS)
    ec2, theirs = client("ec2"), group_of_another_account()
    name = f"ours-{uuid4().hex}"
    ours = ec2.create_placement_group(GroupName=name, Strategy="cluster")["PlacementGroup"]
    for group in (name, ours["GroupId"], theirs.id):
        finding = quotas.placement_group(changed(account, ExistingPlacementGroup=group))
        assert finding.state == "ok", finding
    for group in (theirs.name, "pg-0123456789abcdef0", ""):
        finding = quotas.placement_group(changed(account, ExistingPlacementGroup=group))
        assert (finding.state, finding.finding) == (
            "failed",
            f"EC2 does not know {group or 'one of this stack'}",
        )
    ec2.delete_placement_group(GroupName=name)
    tags = [{"ResourceType": "placement-group", "Tags": [_tag("rackrate:stack", account.name)]}]
    ec2.create_placement_group(GroupName=name, Strategy="precision-time", TagSpecifications=tags)
    finding = quotas.placement_group(account)
    assert (finding.state, finding.finding) == ("ok", f"{name}, precision-time, available")


def _tag(key: str, value: str) -> dict[str, str]:
    return {"Key": key, "Value": value}


def test_a_treatment_without_a_placement_group_needs_none(account: Stack) -> None:
    assert quotas.placement_group(changed(account, TreatmentStrategy="none")).state == "ok"


def test_a_public_image_is_proved_by_a_run_and_a_built_one_by_the_registry(
    account: Stack, stack: DeployedStack
) -> None:
    assert parts.image(account).state == "unknown"
    stack.record("r1", status="succeeded", trials_measured=1)
    stack.put("r1", "plan.json", b'{"image": "public.example/tools:1"}')
    assert parts.image(account).state == "ok"
    assert parts.image(changed(account, outputs={"ToolImage": "other:2"})).state == "unknown"
    repository = f"tools-{uuid4().hex[:8]}"
    registry = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    built = changed(account, outputs={"ToolImage": f"{registry}/{repository}:abc"})
    assert parts.image(built).state == "failed"
    client("ecr").create_repository(repositoryName=repository)
    assert parts.image(built).state == "failed"
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"digest": "sha256:0", "size": 1, "mediaType": "application/json"},
            "layers": [],
        }
    )
    client("ecr").put_image(repositoryName=repository, imageManifest=manifest, imageTag="abc")
    assert parts.image(built).state == "ok"


def test_an_alarm_that_sounds_is_named(account: Stack) -> None:
    assert parts.alarms(account).state == "ok"
    name = f"{account.name}-Monitoring-1-RunsFailed"
    client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        AlarmDescription="A run failed.",
        Namespace="rackrate",
        MetricName="RunsFailed",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
    )
    client("cloudwatch").set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="test")
    finding = parts.alarms(account)
    assert finding.state == "warning"
    assert "A run failed" in finding.finding
    assert parts.alarms(changed(account, Observability="false")).state == "ok"


def test_what_an_earlier_stack_left_is_named_and_our_own_is_not(account: Stack) -> None:
    tags: list[Any] = [{"Key": "rackrate:stack", "Value": account.name}]
    dynamodb, own = client("dynamodb"), account.outputs["TableName"]
    arn = dynamodb.describe_table(TableName=own)["Table"]["TableArn"]
    dynamodb.tag_resource(ResourceArn=arn, Tags=tags)
    assert runs.leftovers(account).state == "ok"
    earlier = f"earlier-{uuid4().hex[:8]}"
    dynamodb.create_table(
        TableName=earlier,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        Tags=tags,
    )
    finding = runs.leftovers(account)
    assert finding.state == "warning"
    assert earlier in finding.finding
    assert own not in finding.finding


def test_an_instance_of_no_node_group_is_a_leftover(account: Stack) -> None:
    def launch(group: str) -> str:
        tags = {
            "rackrate:stack": account.name,
            "eks:cluster-name": account.name,
            "eks:nodegroup-name": group,
        }
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        launched = client("ec2").run_instances(
            ImageId="ami-12c6146b",
            InstanceType="c5.large",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": listed}],
        )
        return str(launched["Instances"][0]["InstanceId"])

    ours, stray, endpoint = (launch(g) for g in ("treatment", "a-missing-group", "no-group"))
    reservations = client("ec2").describe_instances(InstanceIds=[endpoint])["Reservations"]
    address = reservations[0]["Instances"][0]["PrivateIpAddress"]
    finding = runs.leftovers(changed(account, outputs={"EndpointAddress": address}))
    client("ec2").terminate_instances(InstanceIds=[ours, stray, endpoint])
    assert finding.state == "warning"
    assert stray in finding.finding
    assert ours not in finding.finding
    assert endpoint not in finding.finding, "the stack's instance outside the cluster is its own"


def test_a_run_of_the_image_check_may_have_no_plan(account: Stack, stack: DeployedStack) -> None:
    stack.record("r1", status="succeeded", trials_measured=1)
    assert parts.image(account).state == "unknown"


def test_a_stack_that_is_changing_or_was_rolled_back_is_a_warning(account: Stack) -> None:
    for status, state in (
        ("CREATE_COMPLETE", "ok"),
        ("UPDATE_IN_PROGRESS", "warning"),
        ("UPDATE_ROLLBACK_COMPLETE", "warning"),
        ("UPDATE_FAILED", "warning"),
    ):
        other = Stack(account.name, account.outputs, account.session, status=status)
        assert parts.stack_state(other).state == state


def test_a_log_group_that_eks_recreated_is_named_because_it_never_expires(account: Stack) -> None:
    logs = client("logs")
    own, recreated = (f"/aws/eks/{account.name}-{each}/cluster" for each in ("0a1b", "2c3d"))
    for group in (own, recreated, "/aws/eks/another-4e5f/cluster"):
        logs.create_log_group(logGroupName=group)
    logs.put_retention_policy(logGroupName=own, retentionInDays=30)
    finding = runs.log_groups(account)
    assert finding.state == "warning"
    assert recreated in finding.finding
    assert own not in finding.finding and "another" not in finding.finding
    logs.put_retention_policy(logGroupName=recreated, retentionInDays=30)
    assert runs.log_groups(account).state == "ok"
    for group in (own, recreated, "/aws/eks/another-4e5f/cluster"):
        logs.delete_log_group(logGroupName=group)
