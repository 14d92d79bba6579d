"""A stack's clusters and node groups start on the machine as the template defines them."""

from __future__ import annotations

import base64
import ipaddress
from pathlib import Path

import pytest

from lab.tests.aws.cluster_templates import CLUSTER, NETWORK, node_group
from lab.tests.aws.region import Lab, eventually

CLUSTER_TEMPLATE = Path(__file__).parents[4] / "templates" / "cluster.yaml"
OUTPUTS = """
Outputs:
  Name: {Value: !Ref Cluster}
  Endpoint: {Value: !GetAtt Cluster.Endpoint}
  Authority: {Value: !GetAtt Cluster.CertificateAuthorityData}
  SecurityGroup: {Value: !GetAtt Cluster.ClusterSecurityGroupId}
  Issuer: {Value: !GetAtt Cluster.OpenIdConnectIssuerUrl}
  Treatment: {Value: !GetAtt Treatment.NodegroupName}
"""


def test_node_groups_become_nodes_with_their_placement(lab: Lab) -> None:
    values = lab.created(
        "Resources:"
        + NETWORK
        + CLUSTER
        + node_group("Treatment", placement="cluster", instance_type="c5.large")
        + node_group("Baseline", placement=None, instance_type="c5.large")
        + OUTPUTS
    )
    cluster = lab.backend.clusters[values["Name"]]
    request = next(r for r in lab.backend.requests if r["name"] == values["Name"])
    assert request["version"] == "1.36"
    assert request["vpc_cidrs"] == ("10.0.0.0/16",)
    assert request["service_cidr"] == "172.20.0.0/16"
    assert request["authentication_webhook_url"] == (
        f"{lab.region.endpoint_url}/_lab/eks/{values['Name']}/token-review"
    )
    assert values["Endpoint"] == cluster.endpoint
    assert base64.b64decode(values["Authority"]).decode() == cluster.certificate_authority
    assert values["SecurityGroup"].startswith("sg-")
    assert values["Issuer"].startswith("https://oidc.eks.")

    described = lab.client("eks").describe_cluster(name=values["Name"])["cluster"]
    assert described["status"] == "ACTIVE"
    versions = lab.client("eks").describe_cluster_versions(clusterVersions=["1.36"])
    assert [v["versionStatus"] for v in versions["clusterVersions"]] == ["STANDARD_SUPPORT"]
    groups = lab.client("eks").list_nodegroups(clusterName=values["Name"])["nodegroups"]
    assert len(groups) == 2
    nodes = list(cluster.nodes.values())
    assert len(nodes) == 4
    placed = [n for n in nodes if n.labels["eks.amazonaws.com/nodegroup"] == values["Treatment"]]
    others = [node for node in nodes if node not in placed]
    assert len(placed) == len(others) == 2
    for node in nodes:
        address = next(node.block.hosts())
        assert node.block.prefixlen == 26
        assert node.block.subnet_of(ipaddress.ip_network("10.0.0.0/20"))
        assert node.name == f"ip-{str(address).replace('.', '-')}.ec2.internal"
        assert node.labels["node.kubernetes.io/instance-type"] == "c5.large"
        assert node.labels["topology.kubernetes.io/zone"] == node.zone == "us-east-1a"
        assert node.instance_bits_per_second == 10e9
        assert node.labels["eks.amazonaws.com/nodegroup-image"] == node.image_id
    assert len({node.block for node in nodes}) == 4
    assert {node.placement_strategy for node in placed} == {"cluster"}
    assert {node.placement_group for node in others} == {None}
    assert {node.labels["placementGroup"] for node in placed} == {"true"}

    ec2 = lab.client("ec2")
    response = ec2.describe_instances(InstanceIds=[node.instance_id for node in placed])
    instances = [i for r in response["Reservations"] for i in r["Instances"]]
    group = ec2.describe_placement_groups(GroupNames=[placed[0].placement_group or ""])
    assert group["PlacementGroups"][0]["Strategy"] == "cluster"
    for instance in instances:
        assert instance["Placement"]["GroupName"] == placed[0].placement_group
        node = next(n for n in placed if n.instance_id == instance["InstanceId"])
        assert instance["PrivateIpAddress"] == str(next(node.block.hosts()))
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["placementGroup"] == "true"
        assert tags["eks:nodegroup-name"] == values["Treatment"]

    deleted = lab.delete(values["StackId"])
    assert deleted["StackStatus"] == "DELETE_COMPLETE", lab.reasons(values["StackId"])
    assert cluster.stopped
    assert not cluster.nodes
    assert sorted(cluster.terminated) == sorted(node.name for node in nodes)
    with pytest.raises(lab.client("eks").exceptions.ResourceNotFoundException):
        lab.client("eks").describe_cluster(name=values["Name"])


def test_a_cluster_leaves_extended_support_by_an_update_of_its_stack(lab: Lab) -> None:
    stack = lab.created("Resources:" + NETWORK + CLUSTER + "Outputs: {Name: {Value: !Ref Cluster}}")
    name, eks = stack["Name"], lab.client("eks")

    def policy() -> str:
        return str(eks.describe_cluster(name=name)["cluster"]["upgradePolicy"]["supportType"])

    assert policy() == "EXTENDED"
    standard = "      UpgradePolicy: {SupportType: STANDARD}\n"
    after = "Resources:" + NETWORK + CLUSTER + standard
    assert lab.update(stack["StackId"], after) == "UPDATE_COMPLETE"
    assert policy() == "STANDARD"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            {"placement": "cluster", "instance_type": "t3.medium"},
            "AsgInstanceLaunchFailures, Message=Could not launch On-Demand Instances."
            " InvalidParameterCombination - Cluster placement groups are not supported by the"
            " 't3.medium' instance type",
        ),
        (
            {
                "placement": None,
                "instance_type": "c5.large",
                "extra": "        IamInstanceProfile: {Name: own}\n",
            },
            "Launch template should not specify an instance profile",
        ),
    ],
)
def test_what_eks_refuses_fails_the_stack_with_its_reason(
    lab: Lab, arguments: dict, reason: str
) -> None:
    stack = lab.stack("Resources:" + NETWORK + CLUSTER + node_group("Nodes", **arguments))
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert reason in lab.reasons(stack["StackId"], "CREATE_FAILED")["Nodes"]
    name = next(
        event["PhysicalResourceId"]
        for event in lab.client("cloudformation").describe_stack_events(StackName=stack["StackId"])[
            "StackEvents"
        ]
        if event["LogicalResourceId"] == "Cluster" and event["ResourceStatus"] == "CREATE_COMPLETE"
    )
    assert lab.backend.clusters[name].stopped, "the roll-back must stop the cluster"


def test_nodes_that_do_not_come_up_fail_the_stack_with_the_machines_words(lab: Lab) -> None:
    lab.backend.fail_nodes_with = "kubelet of ip-10-0-1-1 ended: exit status 1"
    try:
        stack = lab.stack(
            "Resources:"
            + NETWORK
            + CLUSTER
            + node_group("Nodes", placement=None, instance_type="c5.large")
        )
    finally:
        lab.backend.fail_nodes_with = None
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    reason = lab.reasons(stack["StackId"], "CREATE_FAILED")["Nodes"]
    assert "NodeCreationFailure" in reason
    assert "kubelet of ip-10-0-1-1 ended: exit status 1" in reason


def network_of(lab: Lab) -> dict[str, str]:
    """The outputs of a stack with a network for clusters."""
    return lab.created(
        "Resources:"
        + NETWORK
        + "Outputs:\n  Vpc: {Value: !Ref Vpc}\n"
        + "  Subnets: {Value: !Join [',', [!Ref SubnetA, !Ref SubnetB]]}\n"
    )


def cluster_stack(
    lab: Lab,
    network: dict[str, str],
    cluster_name: str,
    ena_express: str = "none",
    access: str = "0.0.0.0/0",
) -> dict[str, str]:
    """The outputs of a stack of our own template of a cluster, in a network of another stack."""
    values = {
        "ClusterName": cluster_name,
        "KubernetesVersion": "1.36",
        "PublicAccessCidrs": access,
        "LogRetentionDays": "7",
        "EncryptSecrets": "false",
        "KeyArn": "",
        "VpcId": network["Vpc"],
        "SubnetIds": network["Subnets"],
        "PrefixDelegation": "false",
        "EnaExpress": ena_express,
        "KubeProxyMode": "iptables",
        "PermissionsBoundaryArn": "",
    }
    return lab.created(CLUSTER_TEMPLATE.read_text(), values)


@pytest.mark.parametrize(
    ("access", "is_public", "ranges"),
    [
        ("", False, ["0.0.0.0/0"]),
        ("54.239.0.0/17,52.94.0.0/22", True, ["54.239.0.0/17", "52.94.0.0/22"]),
    ],
)
def test_the_kubernetes_api_is_public_for_the_ranges_that_are_named_or_private(
    lab: Lab, access: str, is_public: bool, ranges: list[str]
) -> None:
    name = f"api-{is_public}".lower()
    cluster_stack(lab, network_of(lab), name, access=access)
    network = lab.client("eks").describe_cluster(name=name)["cluster"]["resourcesVpcConfig"]
    assert network["endpointPrivateAccess"] is True
    assert (network["endpointPublicAccess"], network["publicAccessCidrs"]) == (is_public, ranges)


def log_group(lab: Lab, cluster_name: str) -> dict:
    response = lab.client("logs").describe_log_groups(
        logGroupNamePrefix=f"/aws/eks/{cluster_name}/cluster"
    )
    return response["logGroups"][0]


def test_eks_recreates_the_log_group_of_a_deleted_cluster_and_keeps_it_forever(lab: Lab) -> None:
    template = (
        "Resources:"
        + NETWORK
        + "  Logs:\n    Type: AWS::Logs::LogGroup\n"
        + "    Properties: {LogGroupName: /aws/eks/late/cluster, RetentionInDays: 7}\n"
        + CLUSTER
        + "      Name: late\n"
        + "      Logging: {ClusterLogging: {EnabledTypes: [{Type: audit}]}}\n"
        + "      Tags: [{Key: logs, Value: !Ref Logs}]\n"
    )
    first = lab.created(template)
    assert log_group(lab, "late")["retentionInDays"] == 7
    assert lab.delete(first["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    assert "retentionInDays" not in log_group(lab, "late")
    second = lab.stack(template)
    assert second["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "already exists" in lab.reasons(second["StackId"], "CREATE_FAILED")["Logs"]


def test_what_a_cluster_logs_after_its_deletion_expires_as_its_other_logs_do(lab: Lab) -> None:
    network = network_of(lab)
    stack = cluster_stack(lab, network, "gone-1")
    assert lab.delete(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    assert log_group(lab, "gone-1")["retentionInDays"] == 7
    assert cluster_stack(lab, network, "gone-2")


@pytest.mark.parametrize(
    ("ena_express", "on_each"), [("treatment", [True]), ("none", [True, None])]
)
def test_pods_of_a_stack_with_ena_express_get_addresses_of_interfaces_that_have_it(
    lab: Lab, ena_express: str, on_each: list[bool | None]
) -> None:
    """Without MAX_ENI the VPC CNI adds an interface to the nodes, which has no ENA Express."""
    network, name = network_of(lab), f"express-{ena_express}"
    stack = cluster_stack(lab, network, name, ena_express)
    interface = {"DeviceIndex": 0, "EnaSrdSpecification": {"EnaSrdEnabled": True}}
    template = lab.client("ec2").create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"InstanceType": "c6in.8xlarge", "NetworkInterfaces": [interface]},
    )["LaunchTemplate"]
    lab.client("eks").create_nodegroup(
        clusterName=name,
        nodegroupName=name,
        nodeRole=stack["NodeRoleArn"],
        subnets=network["Subnets"].split(",")[:1],
        launchTemplate={"id": template["LaunchTemplateId"]},
        scalingConfig={"minSize": 1, "maxSize": 1, "desiredSize": 1},
    )
    nodes = eventually(lambda: lab.backend.clusters[name].nodes, bool)
    ids = [node.instance_id for node in nodes.values()]
    (reservation,) = lab.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
    express = [
        each["Attachment"].get("EnaSrdSpecification", {}).get("EnaSrdEnabled")
        for each in reservation["Instances"][0]["NetworkInterfaces"]
    ]
    assert express == on_each
