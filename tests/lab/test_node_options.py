"""Options of the placement and the nodes, and what they change.

taskcat deploys each stack once for all its tests, because a lab has one cluster at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.in_lab import iperf3
from lab.fabric.luck import BETWEEN_ZONES_SECONDS, NEAREST_SECONDS
from tests.lab.account import instances
from tests.lab.running import SHORT, Lab
from tests.lab.toggles import (
    Toggles,
    disks,
    functions_in_vpc,
    median,
    nodes,
    run_of,
)
from tests.lab.waiting import eventually
from tests.taskcat.deploying import CONFIGURATION, Deployment


@pytest.fixture(scope="module")
def lab(bare_lab: Lab) -> Lab:
    """The lab, in which nothing is deployed but what the test deploys."""
    return bare_lab


# -- partitions, and a baseline in two zones; arm64; pods, disks and add-ons; alarms by e-mail


class TestPartition:
    @pytest.fixture(scope="class")
    def stack(self, toggles: Toggles) -> Iterator[Deployment]:
        with toggles.deployed("partition") as stack:
            yield stack

    def test_a_partition_group_spreads_its_nodes_over_its_partitions(
        self, lab: Lab, stack: Deployment
    ) -> None:
        (group,) = lab.aws("ec2").describe_placement_groups()["PlacementGroups"]
        assert (group["Strategy"], group["PartitionCount"]) == ("partition", 3)
        grouped = [i for i in instances(lab) if i["Placement"].get("GroupName")]
        assert {i["Placement"]["PartitionNumber"] for i in grouped} == {1, 2, 3}
        assert_guarded_nodes(lab, stack, {"true": 3, "false": 3}, zones={"true": 1, "false": 2})

    def test_pairs_across_zones_are_an_arm_like_another(self, lab: Lab, stack: Deployment) -> None:
        plan = {
            **SHORT,
            "blocks": 2,
            "arms": [
                "treatment",
                {"name": "near", "nodes": "baseline", "pairs": "within-zone"},
                {"name": "far", "nodes": "baseline", "pairs": "across-zones"},
            ],
            "baseline": "near",
            "pairing": "mesh",
            "tests": [{"name": "rtt", "count": 10, "interval_seconds": 0.02}],
        }
        lab.start_in(stack, "two-zones", plan)
        assert lab.ended_in(stack, "two-zones")["status"] == "SUCCEEDED"
        results = lab.document("two-zones", "results.json", stack.outputs)
        treatment, far = sorted(results["verdicts"], key=lambda v: v["arm"], reverse=True)
        assert (far["pairs"], far["partitions"]) == ({"arm": 2, "baseline": 1}, None)
        # A busy machine makes every way longer, and none shorter.
        assert far["arm_median"] > 2 * (2 * NEAREST_SECONDS + BETWEEN_ZONES_SECONDS)
        assert "far: 2 of 2 pairs across zones" in far["claim"]
        kinds = {kind: of["pairs"] for kind, of in treatment["partitions"].items()}
        assert kinds == {"within": 0, "across": 3}
        guards = {guard["guard"]: guard for guard in results["estimates"]["guards"]}
        assert not guards["placements"]["would_trip"]
        assert guards["topology"]["text"] == "EC2 reports no topology for c6g.large"

    def test_the_outputs_lead_to_what_the_stack_made(self, lab: Lab, stack: Deployment) -> None:
        namespaces = {namespace.metadata.name for namespace in lab.core.list_namespace().items}
        assert {name for name in namespaces if name.startswith("rackrate")} == {"rackrate"}
        assert stack.outputs["StateMachineUrl"].endswith(stack.outputs["StateMachineArn"])
        assert stack.outputs["BucketName"] in stack.outputs["ResultsUrl"]
        (dashboard,) = lab.aws("cloudwatch").list_dashboards()["DashboardEntries"]
        assert stack.outputs["DashboardUrl"].endswith(dashboard["DashboardName"])
        # The way of the command among the outputs.
        lab.command(*stack.outputs["UpdateKubeconfigCommand"].split(), "--kubeconfig", "/dev/null")
        assert_tagged(lab, stack)

    def test_arm_nodes_get_images_of_their_architecture(self, lab: Lab, stack: Deployment) -> None:
        images = {i["ImageId"] for i in instances(lab)}
        described = lab.aws("ec2").describe_images(ImageIds=sorted(images))["Images"]
        assert all("al2023-arm64" in image["Name"] for image in described)
        assert {i["InstanceType"] for i in instances(lab)} == {"c6g.large"}

    def test_nodes_take_the_pods_and_the_disks_that_the_stack_was_given(
        self, lab: Lab, stack: Deployment
    ) -> None:
        assert {node.status.capacity["pods"] for node in nodes(lab)} == {"20"}
        for disk in disks(lab):
            assert disk["VolumeSize"] == 40
            assert disk["Encrypted"] is True

    def test_add_ons_take_the_settings_of_large_clusters(self, lab: Lab, stack: Deployment) -> None:
        eks = lab.aws("eks")

        def settings(name: str) -> Any:
            addon = eks.describe_addon(clusterName=stack.outputs["ClusterName"], addonName=name)
            return json.loads(addon["addon"]["configurationValues"])

        assert settings("vpc-cni")["env"]["ENABLE_PREFIX_DELEGATION"] == "true"
        assert settings("kube-proxy") == {"mode": "nftables"}
        assert settings("coredns")["autoScaling"]["enabled"] is True

    def test_a_run_that_is_stopped_sends_its_sentence_where_the_alarms_go(
        self, lab: Lab, stack: Deployment
    ) -> None:
        sns, sqs = lab.aws("sns"), lab.aws("sqs")
        (topic,) = sns.list_topics()["Topics"]
        queue = sqs.create_queue(QueueName="mailbox")["QueueUrl"]
        named = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        subscription = sns.subscribe(
            TopicArn=topic["TopicArn"], Protocol="sqs", Endpoint=named["Attributes"]["QueueArn"]
        )["SubscriptionArn"]
        key = {"pk": {"S": "run#stopped"}, "sk": {"S": "run"}}
        table = {"TableName": stack.outputs["TableName"], "Key": key}
        lab.start_in(stack, "stopped")
        eventually(
            lambda: "phase" in lab.aws("dynamodb").get_item(**table).get("Item", {}), seconds=90
        )
        lab.aws("stepfunctions").stop_execution(executionArn=lab.arn_in(stack, "stopped"))

        def received() -> list[Any]:
            return list(sqs.receive_message(QueueUrl=queue).get("Messages", []))

        (letter,) = eventually(received, seconds=90)
        sns.unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=queue)
        message = json.loads(letter["Body"])
        assert message["Subject"] == f"{stack.name}: run stopped was stopped"
        first, *_, last = message["Message"].splitlines()
        assert first.startswith("The run was stopped"), message["Message"]
        for word in ("{", "arn:", "Traceback", "RequestId"):
            assert word not in message["Message"]
        assert f"--stack {stack.name}`" in last
        # A pod that ends while its node is deleted with the stack keeps its namespace for a minute.
        eventually(lambda: lab.left_in_cluster("stopped") == [], seconds=60)

    def test_alarms_reach_the_address_that_was_given(self, lab: Lab, stack: Deployment) -> None:
        (topic,) = lab.aws("sns").list_topics()["Topics"]
        (target,) = lab.aws("sns").list_subscriptions()["Subscriptions"]
        assert (target["Protocol"], target["Endpoint"]) == ("email", "alarms@example.com")
        alarms = lab.aws("cloudwatch").describe_alarms()["MetricAlarms"]
        assert len(alarms) >= 3
        assert {tuple(alarm["AlarmActions"]) for alarm in alarms} == {(topic["TopicArn"],)}


def assert_guarded_nodes(
    lab: Lab, stack: Deployment, arms: Mapping[str, int], zones: Mapping[str, int] | None = None
) -> None:
    """Instances as a careful engineer wants them, and as many per arm as were asked for.

    All are in one zone, which would be a second difference between the arms, unless `zones` has the
    number of zones of each arm.
    """
    running = instances(lab)
    zones_of_arms: dict[str, set[str]] = {}
    for node in nodes(lab):
        zone = node.metadata.labels["topology.kubernetes.io/zone"]
        zones_of_arms.setdefault(node.metadata.labels["placementGroup"], set()).add(zone)
    assert {arm: len(of) for arm, of in zones_of_arms.items()} == (zones or dict.fromkeys(arms, 1))
    assert zones or len(set.union(*zones_of_arms.values())) == 1
    for instance in running:
        assert instance["MetadataOptions"]["HttpTokens"] == "required"
        assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        assert not instance.get("PublicIpAddress")
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["rackrate:stack"] == stack.name
        assert tags["rackrate:cost-center"] == "taskcat"
    labels = [node.metadata.labels["placementGroup"] for node in nodes(lab)]
    assert {arm: labels.count(arm) for arm in set(labels)} == dict(arms)


def assert_tagged(lab: Lab, stack: Deployment) -> None:
    """The cost-allocation tags are on what costs something."""
    cluster = lab.aws("eks").describe_cluster(name=stack.outputs["ClusterName"])["cluster"]
    table = lab.aws("dynamodb").describe_table(TableName=stack.outputs["TableName"])["Table"]
    (gateway,) = lab.aws("ec2").describe_nat_gateways()["NatGateways"][-1:]
    by_kind = {
        "cluster": cluster["tags"],
        "table": pairs(
            lab.aws("dynamodb").list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
        ),
        "bucket": pairs(
            lab.aws("s3").get_bucket_tagging(Bucket=stack.outputs["BucketName"])["TagSet"]
        ),
        "nat gateway": pairs(gateway["Tags"]),
        "state machine": {
            tag["key"]: tag["value"]
            for tag in lab.aws("stepfunctions").list_tags_for_resource(
                resourceArn=stack.outputs["StateMachineArn"]
            )["tags"]
        },
    }
    for kind, tags in by_kind.items():
        assert tags.get("rackrate:stack") == stack.name, kind
        assert tags.get("rackrate:cost-center") == "taskcat", kind


def pairs(tags: list[dict[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags}


# -- spread; load nodes; Bottlerocket; a second range of addresses; the control plane; boundaries


class TestSpread:
    @pytest.fixture(scope="class")
    def stack(self, toggles: Toggles) -> Iterator[Deployment]:
        # The lab builds one Kubernetes.
        with toggles.deployed("spread", KubernetesVersion="1.36") as stack:
            yield stack

    def test_a_spread_group_keeps_its_nodes_apart(self, lab: Lab, stack: Deployment) -> None:
        (group,) = lab.aws("ec2").describe_placement_groups()["PlacementGroups"]
        assert (group["Strategy"], group["SpreadLevel"]) == ("spread", "rack")
        assert len([i for i in instances(lab) if i["Placement"].get("GroupName")]) == 2

    def test_every_node_has_the_bandwidth_weighting(self, lab: Lab, stack: Deployment) -> None:
        options = [
            instance["NetworkPerformanceOptions"]
            for instance in instances(lab)
            if instance["InstanceType"] == "c8i.large"
        ]
        assert options == [{"BandwidthWeighting": "vpc-1"}] * 2

    def test_load_nodes_are_of_their_own_type_and_belong_to_no_arm(
        self, lab: Lab, stack: Deployment
    ) -> None:
        (load,) = (i for i in instances(lab) if i["InstanceType"] == "c5.large")
        assert not load["Placement"].get("GroupName")
        (labels,) = (
            node.metadata.labels
            for node in nodes(lab)
            if node.metadata.labels["node.kubernetes.io/instance-type"] == "c5.large"
        )
        assert labels["rackrate.dev/arm"] == "load"
        assert "placementGroup" not in labels, "a stack that adopts the cluster would measure it"

    def test_bottlerocket_nodes_hold_as_many_pods_as_their_settings_say(
        self, lab: Lab, stack: Deployment
    ) -> None:
        (image,) = {i["ImageId"] for i in instances(lab)}
        (described,) = lab.aws("ec2").describe_images(ImageIds=[image])["Images"]
        assert "bottlerocket" in described["Name"]
        assert {node.status.capacity["pods"] for node in nodes(lab)} == {"20"}

    def test_nodes_and_pods_live_in_the_secondary_range(self, lab: Lab, stack: Deployment) -> None:
        addresses = [
            address.address
            for node in nodes(lab)
            for address in node.status.addresses
            if address.type == "InternalIP"
        ]
        assert len(addresses) == 3
        assert all(address.startswith("100.64.") for address in addresses)

    def test_the_control_plane_is_as_the_parameters_say(self, lab: Lab, stack: Deployment) -> None:
        cluster = lab.aws("eks").describe_cluster(name=stack.outputs["ClusterName"])["cluster"]
        assert cluster["accessConfig"]["authenticationMode"] == "API"
        network = cluster["resourcesVpcConfig"]
        assert network["publicAccessCidrs"] == ["54.239.0.0/17"]
        enabled = [entry for entry in cluster["logging"]["clusterLogging"] if entry["enabled"]]
        assert {name for entry in enabled for name in entry["types"]} >= {"api", "audit"}
        # Nobody knows from where a function outside the VPC would come.
        assert functions_in_vpc(lab, stack) == {"private"}

    def test_every_role_of_the_stack_stays_within_the_boundary(
        self, lab: Lab, stack: Deployment
    ) -> None:
        iam = lab.aws("iam")
        roles = [
            iam.get_role(RoleName=role["RoleName"])["Role"]
            for page in iam.get_paginator("list_roles").paginate()
            for role in page["Roles"]
            if role["RoleName"].startswith(stack.name)
        ]
        assert len(roles) > 10
        for role in roles:
            boundary = role["PermissionsBoundary"]["PermissionsBoundaryArn"]
            assert boundary == "arn:aws:iam::aws:policy/PowerUserAccess"


# -- ENA Express and bandwidth weighting


def test_ena_express_lifts_the_limit_of_a_single_flow_and_a_weighting_that_of_the_instance(
    lab: Lab, toggles: Toggles
) -> None:
    weighted = {
        "BandwidthWeighting": "vpc-1",
        "InstanceType": "c8i.12xlarge",
        "AmiType": "AL2023_x86_64_STANDARD",
        "HostNetwork": "true",
    }
    with toggles.deployed("ena-express", **weighted) as stack:
        results = run_of(lab, stack)
        for arm in results["arms"]:
            assert arm["network"]["bandwidth_weighting"] == "vpc-1"
            # A quarter more than the 22.5 Gb/s of the type.
            assert arm["network"]["peak_bits_per_second"] == 28.125e9
            assert arm["ena_express_use"] is None, "a veth does not count what ENA Express carried"
            for node in arm["node_facts"]:
                # EC2 tells of one interface alone: the CNI adds none without ENA Express.
                express = node["ec2_placement"]["ena_express"]
                assert express is (True if arm["ena_express"] else None)
                (card,) = node["interfaces"].values()
                assert card["unknown"] is None
                assert (card["driver"], card["mtu"]) == ("veth", 9001)
        pods = {node.status.capacity["pods"] for node in nodes(lab)}
        assert pods == {"51"}, "49 have addresses of the interface, and two use the node's own"
        scale = float(lab.status["network_scale"])
        assert "ENA Express" in json.dumps(results["verdicts"])
        # 10 Gb/s without ENA Express, which the treatment alone has; the baseline's limit is 5.
        assert median(results, "tcp-1", "baseline") < 5.5e9 * scale
        # Other labs are at work, which may slow one measurement down, but not all.
        pair = lab.nodes(placement_group=True)
        eventually(lambda: iperf3(*pair, 2, omit=1) > 11e9 * scale, seconds=120)


def test_every_test_of_taskcat_is_deployed_but_the_default_which_other_tests_use() -> None:
    configured = yaml.safe_load(CONFIGURATION.read_text("utf-8"))["tests"]
    # make test leaves the workloads out.
    files = {*Path(__file__).parent.rglob("test_*.py")} - {
        Path(__file__).with_name("test_workloads.py")
    }
    text = "".join(path.read_text("utf-8") for path in files)
    assert [name for name in configured if f'deployed("{name}"' not in text] == ["default"]
