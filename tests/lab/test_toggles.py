"""Each choice that the stack offers, deployed by taskcat, and what it changes when it is made.

The tests of .taskcat.yml are deployed one after the other, because a lab has one cluster at a time.
The stack that the other tests use is the first to be a guest's host, and then the first to go.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError
from kubernetes import client as kubernetes

from lab import daemon, stack
from lab.aws.authorization.audit import (
    RECORD_FILE,
    audit,
    deployed_policies,
    read_calls,
    read_unobserved,
    rows,
)
from tests.lab.account import customer_keys, holdings, instances
from tests.lab.running import SHORT, Lab
from tests.lab.waiting import eventually
from tests.taskcat.deploying import CONFIGURATION, ROOT, Deployment, Taskcat, in_lab

STORE = "/rackrate/taskcat"
GUEST = "existing-cluster"
# Actions that a role needs and whose use cannot be seen, with the reason.
UNOBSERVED = Path(__file__).with_name("unused_actions.yaml")


@dataclass
class Toggles:
    """Deploys taskcat's tests in the lab, and remembers what its roles were allowed."""

    lab: Lab
    taskcat: Taskcat
    policies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @contextlib.contextmanager
    def deployed(self, test: str, **override: str) -> Iterator[Deployment]:
        """A stack that was created; when it is gone, nothing may be left of it."""
        if test != GUEST:
            self.make_room()
        before = holdings(self.lab)
        parameters = {"ToolImage": str(self.lab.status["tools_image"])} | override
        with self.taskcat.deployed(test, parameters_override=parameters) as made:
            assert made.created, f"{made.status}: {made.reasons}"
            self.remember()
            yield made
        assert holdings(self.lab) - before == set()

    def refused(self, test: str, **override: str) -> str:
        """Why a stack was not created; nothing of it may be left."""
        before = holdings(self.lab)
        with self.taskcat.deployed(test, parameters_override=override) as failed:
            assert not failed.created
        assert holdings(self.lab) - before == set()
        return "\n".join(failed.reasons)

    def make_room(self) -> None:
        """Delete the stack that the other tests used: a lab has one cluster at a time."""
        stacks = self.lab.aws("cloudformation").describe_stacks()["Stacks"]
        if any(found["StackName"] == stack.STACK for found in stacks):
            stack.delete(self.lab.status, lambda step: None)

    def remember(self) -> None:
        """Note the policies as they are deployed now."""
        found = deployed_policies(self.lab.aws("cloudformation"), self.lab.aws("iam"))
        for role, statements in found.items():
            self.policies.setdefault(role, []).extend(statements)

    def tell(self, **names: str) -> None:
        """Put what only an account's owner can name where taskcat looks for it."""
        for name, value in names.items():
            self.lab.aws("ssm").put_parameter(
                Name=f"{STORE}/{name.replace('_', '-')}",
                Value=value,
                Type="String",
                Overwrite=True,
            )


@pytest.fixture(scope="module")
def toggles(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Toggles:
    packaged = Path(lab.status["kubeconfig"]).with_name("packaged.yaml")
    made = Toggles(lab, in_lab(lab.status, packaged, tmp_path_factory.mktemp("taskcat")))
    made.remember()
    return made


def nodes(lab: Lab) -> list[kubernetes.V1Node]:
    return list(lab.core.list_node().items)


def run_of(lab: Lab, made: Deployment) -> dict[str, Any]:
    """The run that was made while the stack was created, as its results tell."""
    found = lab.aws("s3").get_object(
        Bucket=made.outputs["BucketName"],
        Key=f"runs/{made.outputs['RunOnCreateId']}/results.json",
    )
    results: dict[str, Any] = json.loads(found["Body"].read())
    return results


def median(results: Mapping[str, Any], test: str, arm: str) -> float:
    (verdict,) = (v for v in results["verdicts"] if v["test"] == test)
    return float(verdict["arm_median" if arm == "treatment" else "baseline_median"])


# -- in a cluster that exists


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
        alarms = lab.aws("cloudwatch").describe_alarms()["MetricAlarms"]
        assert any(alarm["AlarmActions"] == [topic] for alarm in alarms)
    after = Guest(lab)
    assert vars(after) == vars(before)
    lab.aws("sns").delete_topic(TopicArn=topic)


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
    assert "FirstRun" in reason or "BenchmarkRun" in reason


# -- the stack that the other tests used


def test_deleting_the_default_stack_keeps_its_results_and_nothing_else(
    lab: Lab, toggles: Toggles
) -> None:
    bucket, table = lab.outputs["BucketName"], lab.outputs["TableName"]
    lab.aws("s3").put_object(Bucket=bucket, Key="runs/kept/report.html", Body=b"a result")
    stack.delete(lab.status, lambda step: None)
    left = {
        name
        for name in holdings(lab)
        if "rackrate" in name and name != f"bucket {stack.STACK}-artifacts"
    }
    assert left == {f"bucket {bucket}", f"table {table}"}
    lab.aws("s3").head_object(Bucket=bucket, Key="runs/kept/report.html")
    assert lab.aws("eks").list_clusters()["clusters"] == []
    assert instances(lab) == []


# -- refused before anything is created


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            {"InstanceType": "t3.large"},
            "This instance type cannot be in a cluster placement group (T2, T3, T3a, T4g and flex"
            " types cannot). Choose another type, such as c5.large, or another strategy.",
        ),
        (
            {"TreatmentStrategy": "spread", "NodeCount": "8"},
            "A spread placement group holds at most seven running instances in a zone. Choose a"
            " NodeCount of 2 to 7, or another strategy.",
        ),
        ({"PartitionCount": "8"}, "PartitionCount"),
    ],
    ids=["burstable", "eight spread", "eight partitions"],
)
def test_what_the_parameters_alone_can_tell_is_refused_at_once(
    lab: Lab, override: Mapping[str, str], message: str, toggles: Toggles
) -> None:
    # As `sam deploy` does: the template is larger than a request may carry.
    bucket = {"Bucket": "refused-templates"}
    lab.aws("s3").create_bucket(**bucket)
    packaged = Path(lab.status["kubeconfig"]).with_name("packaged.yaml").read_bytes()
    lab.aws("s3").put_object(**bucket, Key="template", Body=packaged)
    with pytest.raises(ClientError) as refusal:
        lab.aws("cloudformation").create_stack(
            StackName="refused",
            TemplateURL=f"{lab.status['endpoint_url']}/{bucket['Bucket']}/template",
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
            Parameters=[
                {"ParameterKey": name, "ParameterValue": value} for name, value in override.items()
            ],
        )
    lab.aws("s3").delete_object(**bucket, Key="template")
    lab.aws("s3").delete_bucket(**bucket)
    assert message in str(refusal.value)


def test_what_only_ec2_can_tell_is_refused_before_anything_is_created_with_every_fault(
    lab: Lab, toggles: Toggles
) -> None:
    before = holdings(lab)
    reason = toggles.refused(
        "none",
        TreatmentStrategy="cluster",
        InstanceType="t1.micro",
        EnaExpress="both",
        SecondaryCidr="10.0.0.0/16",
    )
    assert "InstanceType t1.micro: it cannot be in a cluster placement group" in reason
    assert "EnaExpress both: t1.micro does not support ENA Express" in reason
    assert "SecondaryCidr" in reason
    assert holdings(lab) == before


def test_a_subnet_with_too_few_addresses_is_refused_with_the_arithmetic(toggles: Toggles) -> None:
    reason = toggles.refused("none", NodeCount="400", InstanceType="c5.4xlarge")
    assert "NodeCount 400" in reason
    assert "4059" in reason, "the addresses of a /20 but for those of AWS, EKS and the functions"
    assert "set SecondaryCidr to a /16" in reason


# -- placement


def test_the_default_stack_runs_while_it_is_created_and_reports_what_it_found(
    lab: Lab, toggles: Toggles
) -> None:
    with toggles.deployed("default") as made:
        namespaces = {found.metadata.name for found in lab.core.list_namespace().items}
        assert {name for name in namespaces if name.startswith("rackrate")} == {"rackrate"}
        results = run_of(lab, made)
        assert results["run"]["status"] == "succeeded"
        assert made.outputs["RunOnCreateConclusion"] in json.dumps(results)
        assert "tcp-1" in made.outputs["RunOnCreateConclusion"]
        (group,) = lab.aws("ec2").describe_placement_groups()["PlacementGroups"]
        assert group["Strategy"] == "cluster"
        assert_guarded_nodes(lab, made, {"true": 2, "false": 2})
        assert_tagged(lab, made)
        assert made.outputs["StateMachineUrl"].endswith(made.outputs["StateMachineArn"])
        assert made.outputs["BucketName"] in made.outputs["ResultsUrl"]
        (dashboard,) = lab.aws("cloudwatch").list_dashboards()["DashboardEntries"]
        assert made.outputs["DashboardUrl"].endswith(dashboard["DashboardName"])
        # The way of the command among the outputs.
        lab.command(*made.outputs["UpdateKubeconfigCommand"].split(), "--kubeconfig", "/dev/null")


def assert_guarded_nodes(lab: Lab, made: Deployment, arms: Mapping[str, int]) -> None:
    """Instances as a careful engineer wants them, and as many per arm as were asked for."""
    running = instances(lab)
    zones = {instance["Placement"]["AvailabilityZone"] for instance in running}
    assert len(zones) == 1, "the zone would be a second difference between the arms"
    for instance in running:
        assert instance["MetadataOptions"]["HttpTokens"] == "required"
        assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        assert not instance.get("PublicIpAddress")
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["rackrate:stack"] == made.name
        assert tags["rackrate:cost-center"] == "taskcat"
    labels = [node.metadata.labels["placementGroup"] for node in nodes(lab)]
    assert {arm: labels.count(arm) for arm in set(labels)} == dict(arms)


def assert_tagged(lab: Lab, made: Deployment) -> None:
    """The cost-allocation tags are on what costs something."""
    cluster = lab.aws("eks").describe_cluster(name=made.outputs["ClusterName"])["cluster"]
    table = lab.aws("dynamodb").describe_table(TableName=made.outputs["TableName"])["Table"]
    (gateway,) = lab.aws("ec2").describe_nat_gateways()["NatGateways"][-1:]
    found = {
        "cluster": cluster["tags"],
        "table": pairs(
            lab.aws("dynamodb").list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
        ),
        "bucket": pairs(
            lab.aws("s3").get_bucket_tagging(Bucket=made.outputs["BucketName"])["TagSet"]
        ),
        "nat gateway": pairs(gateway["Tags"]),
        "state machine": {
            tag["key"]: tag["value"]
            for tag in lab.aws("stepfunctions").list_tags_for_resource(
                resourceArn=made.outputs["StateMachineArn"]
            )["tags"]
        },
    }
    for kind, tags in found.items():
        assert tags.get("rackrate:stack") == made.name, kind
        assert tags.get("rackrate:cost-center") == "taskcat", kind


def pairs(tags: list[dict[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags}


def test_a_partition_group_spreads_its_nodes_over_its_partitions(
    lab: Lab, toggles: Toggles
) -> None:
    with toggles.deployed("partition"):
        (group,) = lab.aws("ec2").describe_placement_groups()["PlacementGroups"]
        assert (group["Strategy"], group["PartitionCount"]) == ("partition", 3)
        grouped = [i for i in instances(lab) if i["Placement"].get("GroupName")]
        assert {i["Placement"]["PartitionNumber"] for i in grouped} == {1, 2, 3}
        assert len(instances(lab)) == 6


def test_a_spread_group_keeps_its_nodes_apart(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("spread"):
        (group,) = lab.aws("ec2").describe_placement_groups()["PlacementGroups"]
        assert (group["Strategy"], group["SpreadLevel"]) == ("spread", "rack")
        assert len([i for i in instances(lab) if i["Placement"].get("GroupName")]) == 2


def test_without_a_strategy_both_arms_are_without_a_group(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("none") as made:
        assert lab.aws("ec2").describe_placement_groups()["PlacementGroups"] == []
        assert_guarded_nodes(lab, made, {"false": 4})


def test_ena_express_lifts_the_limit_of_a_single_flow(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("ena-express") as made:
        results = run_of(lab, made)
        scale = float(lab.status["network_scale"])
        # 10 Gb/s without ENA Express, which the treatment alone has; the baseline's limit is 5.
        assert median(results, "tcp-1", "treatment") > 11e9 * scale
        assert median(results, "tcp-1", "baseline") < 5.5e9 * scale
        assert "ENA Express" in json.dumps(results["verdicts"])


def test_reserved_capacity_is_used_and_given_back(lab: Lab, toggles: Toggles) -> None:
    ec2 = lab.aws("ec2")
    group = ec2.create_placement_group(GroupName="reserved", Strategy="cluster")["PlacementGroup"]
    wanted = {
        "InstanceType": "c5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1b",
        "InstanceMatchCriteria": "targeted",
    }
    inside = ec2.create_capacity_reservation(
        **wanted, InstanceCount=2, PlacementGroupArn=group["GroupArn"]
    )["CapacityReservation"]["CapacityReservationId"]
    outside = ec2.create_capacity_reservation(**wanted, InstanceCount=2)["CapacityReservation"][
        "CapacityReservationId"
    ]
    toggles.tell(
        treatment_capacity_reservation=inside,
        baseline_capacity_reservation=outside,
        placement_group="reserved",
        zone="us-east-1b",
        other_zone="us-east-1a",
    )

    def free() -> dict[str, int]:
        found = ec2.describe_capacity_reservations()["CapacityReservations"]
        return {r["CapacityReservationId"]: r["AvailableInstanceCount"] for r in found}

    try:
        with toggles.deployed("capacity-reservation") as made:
            assert free() == {inside: 0, outside: 0}
            assert {i["Placement"]["AvailabilityZone"] for i in instances(lab)} == {"us-east-1b"}
            assert made.outputs["Zone"] == "us-east-1b"
        assert free() == {inside: 2, outside: 2}
        reason = toggles.refused("capacity-reservation", NodeCount="3")
        assert f"TreatmentCapacityReservationId {inside}: 2 instances are free" in reason
        assert f"BaselineCapacityReservationId {outside}: 2 instances are free" in reason
    finally:
        for id_ in (inside, outside):
            ec2.cancel_capacity_reservation(CapacityReservationId=id_)
        ec2.delete_placement_group(GroupName="reserved")


# -- nodes


def test_arm_nodes_get_images_of_their_architecture(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("arm64"):
        images = {i["ImageId"] for i in instances(lab)}
        described = lab.aws("ec2").describe_images(ImageIds=sorted(images))["Images"]
        assert all("al2023-arm-64" in image["Name"] for image in described)
        assert {i["InstanceType"] for i in instances(lab)} == {"c6g.large"}


def test_bottlerocket_nodes_hold_as_many_pods_as_their_settings_say(
    lab: Lab, toggles: Toggles
) -> None:
    with toggles.deployed("bottlerocket"):
        (image,) = {i["ImageId"] for i in instances(lab)}
        (described,) = lab.aws("ec2").describe_images(ImageIds=[image])["Images"]
        assert "bottlerocket" in described["Name"]
        assert {node.status.capacity["pods"] for node in nodes(lab)} == {"20"}


def test_kubelets_take_the_configuration_that_the_stack_was_given(
    lab: Lab, toggles: Toggles
) -> None:
    with toggles.deployed("kubelet"):
        assert {node.status.capacity["pods"] for node in nodes(lab)} == {"20"}
        for node in nodes(lab):
            path = f"/api/v1/nodes/{node.metadata.name}/proxy/configz"
            told = json.loads(lab.command("kubectl", "get", "--raw", path).stdout)
            allowed = told["kubeletconfig"]["allowedUnsafeSysctls"]
            assert allowed == ["net.core.somaxconn"]
        for template in launch_templates(lab):
            (disk,) = template["BlockDeviceMappings"]
            assert disk["Ebs"]["VolumeSize"] == 40
            assert disk["Ebs"]["Encrypted"] is True


def launch_templates(lab: Lab) -> list[dict[str, Any]]:
    ec2 = lab.aws("ec2")
    return [
        ec2.describe_launch_template_versions(
            LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
        )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        for template in ec2.describe_launch_templates()["LaunchTemplates"]
    ]


# -- the cluster


def test_the_control_plane_is_as_the_parameters_say(lab: Lab, toggles: Toggles) -> None:
    # The lab builds one Kubernetes.
    with toggles.deployed("control-plane", KubernetesVersion="1.36") as made:
        cluster = lab.aws("eks").describe_cluster(name=made.outputs["ClusterName"])["cluster"]
        assert cluster["accessConfig"]["authenticationMode"] == "API_AND_CONFIG_MAP"
        network = cluster["resourcesVpcConfig"]
        assert network["publicAccessCidrs"] == ["54.239.0.0/17"]
        enabled = [entry for entry in cluster["logging"]["clusterLogging"] if entry["enabled"]]
        assert [entry["types"] for entry in enabled] == [["audit"]]
        # Nobody knows from where a function outside the VPC would come.
        assert functions_in_vpc(lab, made) == {"private"}


def functions_in_vpc(lab: Lab, made: Deployment) -> set[str]:
    """Where the functions that talk to the cluster run: `private`, `outside`."""
    functions = lab.aws("lambda").get_paginator("list_functions").paginate()
    places = set()
    for function in (f for page in functions for f in page["Functions"]):
        if f"{made.name}-Benchmark" in function["FunctionName"]:
            places.add("private" if function.get("VpcConfig", {}).get("SubnetIds") else "outside")
    return places


def test_secrets_and_results_are_encrypted_with_a_key_that_goes_with_the_stack(
    lab: Lab, toggles: Toggles
) -> None:
    with toggles.deployed("secrets-encryption") as made:
        (key,) = customer_keys(lab)
        cluster = lab.aws("eks").describe_cluster(name=made.outputs["ClusterName"])["cluster"]
        assert cluster["encryptionConfig"] == [
            {"resources": ["secrets"], "provider": {"keyArn": key["Arn"]}}
        ]
        table = lab.aws("dynamodb").describe_table(TableName=made.outputs["TableName"])["Table"]
        assert table["SSEDescription"]["KMSMasterKeyArn"] == key["Arn"]
        rules = lab.aws("s3").get_bucket_encryption(Bucket=made.outputs["BucketName"])
        (rule,) = rules["ServerSideEncryptionConfiguration"]["Rules"]
        assert rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"] == key["Arn"]
        for template in launch_templates(lab):
            (disk,) = template["BlockDeviceMappings"]
            assert disk["Ebs"]["KmsKeyId"] == key["Arn"]
        # The table and the bucket are behind the key, and every function has to use it.
        # One of them checks the links of a warm-up.
        lab.start_in(made, "encrypted", {**SHORT, "warm_up": True})
        ended = lab.ended_in(made, "encrypted")
        assert ended["status"] == "SUCCEEDED"
        # So is the page, which the link lets anybody read who has it.
        with urllib.request.urlopen(json.loads(ended["output"])["report"], timeout=10) as page:
            assert b"</html>" in page.read()


def test_add_ons_take_the_settings_of_large_clusters(lab: Lab, toggles: Toggles) -> None:
    # A node of the lab has a /26.
    with toggles.deployed("addons", MaxPods="50") as made:
        eks = lab.aws("eks")

        def settings(name: str) -> Any:
            addon = eks.describe_addon(clusterName=made.outputs["ClusterName"], addonName=name)
            return json.loads(addon["addon"]["configurationValues"])

        assert settings("vpc-cni")["env"]["ENABLE_PREFIX_DELEGATION"] == "true"
        assert settings("kube-proxy") == {"mode": "nftables"}
        assert settings("coredns")["autoScaling"]["enabled"] is True
        assert {node.status.capacity["pods"] for node in nodes(lab)} == {"50"}


# -- the network


def test_functions_reach_a_private_endpoint_from_inside_the_vpc(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("private-nat") as made:
        cluster = lab.aws("eks").describe_cluster(name=made.outputs["ClusterName"])["cluster"]
        assert cluster["resourcesVpcConfig"]["endpointPublicAccess"] is False
        assert functions_in_vpc(lab, made) == {"private"}
        assert run_of(lab, made)["run"]["status"] == "succeeded"


def test_a_vpc_without_internet_has_endpoints_and_runs_the_image_the_stack_built(
    lab: Lab, toggles: Toggles
) -> None:
    with toggles.deployed("private-endpoints", ToolImage="build") as made:
        ec2 = lab.aws("ec2")
        open_gateways = [
            g for g in ec2.describe_nat_gateways()["NatGateways"] if g["State"] != "deleted"
        ]
        assert open_gateways == []
        assert ec2.describe_internet_gateways()["InternetGateways"] == []
        services = {
            endpoint["ServiceName"].removeprefix("com.amazonaws.us-east-1.")
            for endpoint in ec2.describe_vpc_endpoints()["VpcEndpoints"]
            if endpoint["State"] != "deleted"
        }
        assert services == {
            *("ec2", "ecr.api", "ecr.dkr", "eks", "sts", "states", "s3", "dynamodb")
        }
        assert ".dkr.ecr." in made.outputs["ToolImage"]
        results = run_of(lab, made)
        assert results["run"]["status"] == "succeeded"
        plan = lab.aws("s3").get_object(
            Bucket=made.outputs["BucketName"], Key=f"runs/{made.outputs['RunOnCreateId']}/plan.json"
        )
        assert json.loads(plan["Body"].read())["image"] == made.outputs["ToolImage"]


def test_nodes_and_pods_live_in_the_secondary_range(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("secondary-cidr"):
        addresses = [
            address.address
            for node in nodes(lab)
            for address in node.status.addresses
            if address.type == "InternalIP"
        ]
        assert len(addresses) == 4
        assert all(address.startswith("100.64.") for address in addresses)


# -- operation


def test_idle_nodes_go_to_zero_and_come_back_for_a_run(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("idle") as made:
        assert run_of(lab, made)["run"]["status"] == "succeeded"
        eventually(lambda: not nodes(lab) and not instances(lab), seconds=60)
        # A run that is stopped does not keep its nodes either.
        lab.start_in(made, "stopped")
        eventually(lambda: lab.pods("stopped", "client"), seconds=90)
        swept = lab.aws("lambda").invoke(
            FunctionName=name_of_clean_up(lab, made),
            Payload=json.dumps({"detail-type": "Scheduled Event"}),
        )
        assert "FunctionError" not in swept
        assert len(nodes(lab)) == 4, "the hourly sweep leaves them to the run"
        lab.aws("stepfunctions").stop_execution(executionArn=lab.arn_in(made, "stopped"))
        eventually(lambda: not nodes(lab) and not instances(lab), seconds=90)
        # What cannot run wakes nobody.
        lab.start_in(made, "invalid", {"blocks": 0})
        ended = lab.ended_in(made, "invalid")
        assert (ended["status"], ended["error"]) == ("FAILED", "InvalidPlan")
        assert instances(lab) == []


def name_of_clean_up(lab: Lab, made: Deployment) -> str:
    functions = lab.aws("lambda").get_paginator("list_functions").paginate()
    (name,) = (
        function["FunctionName"]
        for page in functions
        for function in page["Functions"]
        if function["FunctionName"].startswith(made.name)
        and "-Teardown" in function["FunctionName"]
    )
    return str(name)


def test_a_bucket_with_results_goes_with_the_stack_when_it_is_not_to_be_kept(
    lab: Lab, toggles: Toggles
) -> None:
    with toggles.deployed("results-deleted") as made:
        bucket = made.outputs["BucketName"]
        assert lab.aws("s3").list_objects_v2(Bucket=bucket)["KeyCount"] > 5
        assert "DashboardUrl" not in made.outputs
        assert lab.aws("cloudwatch").describe_alarms()["MetricAlarms"] == []
    with pytest.raises(ClientError):
        lab.aws("s3").head_bucket(Bucket=bucket)


def test_alarms_reach_the_address_that_was_given(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("alarms"):
        (topic,) = lab.aws("sns").list_topics()["Topics"]
        (told,) = lab.aws("sns").list_subscriptions()["Subscriptions"]
        assert (told["Protocol"], told["Endpoint"]) == ("email", "alarms@example.com")
        alarms = lab.aws("cloudwatch").describe_alarms()["MetricAlarms"]
        assert len(alarms) >= 3
        assert {tuple(alarm["AlarmActions"]) for alarm in alarms} == {(topic["TopicArn"],)}


def test_every_role_of_the_stack_stays_within_the_boundary(lab: Lab, toggles: Toggles) -> None:
    with toggles.deployed("permissions-boundary") as made:
        iam = lab.aws("iam")
        roles = [
            iam.get_role(RoleName=role["RoleName"])["Role"]
            for page in iam.get_paginator("list_roles").paginate()
            for role in page["Roles"]
            if role["RoleName"].startswith(made.name)
        ]
        assert len(roles) > 10
        for role in roles:
            boundary = role["PermissionsBoundary"]["PermissionsBoundaryArn"]
            assert boundary == "arn:aws:iam::aws:policy/PowerUserAccess"


def test_every_taskcat_test_is_deployed_here() -> None:
    configured = yaml.safe_load(CONFIGURATION.read_text("utf-8"))["tests"]
    text = (ROOT / Path(__file__).relative_to(ROOT)).read_text("utf-8")
    assert [name for name in configured if f'deployed("{name}"' not in text] == []


# -- what the roles were allowed, against what they called in all the tests of the lab


def test_every_call_was_allowed_and_every_allowed_action_was_used(
    toggles: Toggles, request: pytest.FixtureRequest
) -> None:
    ran = {item.path.name for item in request.session.items}
    if not {path.name for path in Path(__file__).parent.glob("test_*.py")} <= ran:
        pytest.skip("only all tests of the lab together use every action")
    calls = read_calls(daemon.state_directory() / "aws" / RECORD_FILE)
    for row in rows(toggles.policies, calls):
        print(" | ".join(row))
    found = audit(toggles.policies, calls, read_unobserved(UNOBSERVED))
    assert [call for call in found.refused if call.logical_id in toggles.policies] == []
    assert found.unused == ()
    assert found.stale == ()
