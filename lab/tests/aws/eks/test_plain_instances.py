"""The instance of templates/endpoint.yaml boots in a cluster's network, and goes with the stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.tests.aws.cluster_templates import CLUSTER, NETWORK
from lab.tests.aws.region import Lab

TEMPLATE = Path(__file__).parents[4] / "templates" / "endpoint.yaml"
REPOSITORY = "ecr:us-east-1:123456789012:repository/tools"


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> dict[str, str]:
    """The outputs of a stack with a cluster and a placement group."""
    return lab.created(
        "Resources:"
        + NETWORK
        + CLUSTER
        + "  Group: {Type: AWS::EC2::PlacementGroup, Properties: {Strategy: cluster}}\n"
        + "Outputs:\n  Name: {Value: !Ref Cluster}\n  Group: {Value: !Ref Group}\n"
        + "  Subnet: {Value: !Ref SubnetA}\n"
        + "  SecurityGroup: {Value: !GetAtt Cluster.ClusterSecurityGroupId}\n"
    )


def parameters(cluster: dict[str, str], **changes: str) -> dict[str, str]:
    return {
        "StackName": "bench",
        "CostCenter": "tests",
        "SubnetId": cluster["Subnet"],
        "ClusterSecurityGroupId": cluster["SecurityGroup"],
        "PlacementGroup": "",
        "PlacementGroupIsId": "false",
        "InstanceType": "c5.large",
        "Architecture": "x86_64",
        "VolumeSize": "20",
        "KubernetesVersion": "1.36",
        "ToolImage": "docker.io/me/tools:1",
        "Repository": "",
        "KeyArn": "",
        "PermissionsBoundaryArn": "",
        **changes,
    }


def test_it_is_no_node_and_has_the_images_user_data_and_the_groups_rack(
    lab: Lab, cluster: dict[str, str]
) -> None:
    changes = {"PlacementGroup": cluster["Group"], "Repository": REPOSITORY}
    values = lab.created(TEMPLATE.read_text(), parameters(cluster, **changes))
    (spec,) = lab.backend.clusters[cluster["Name"]].nodes.values()
    assert (spec.placement_group, spec.placement_strategy) == (cluster["Group"], "cluster")
    assert values["Address"] == str(next(spec.block.hosts()))
    assert values["InstanceId"] == spec.instance_id
    assert "image='docker.io/me/tools:1'" in spec.user_data
    ec2 = lab.client("ec2")
    reservations = ec2.describe_instances(InstanceIds=[spec.instance_id])["Reservations"]
    (instance,) = reservations[0]["Instances"]
    assert instance["PrivateIpAddress"] == values["Address"]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    (interface,) = instance["NetworkInterfaces"]
    assert [g["GroupId"] for g in interface["Groups"]] == [cluster["SecurityGroup"]]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags["Name"] == "bench-endpoint"
    assert not [key for key in tags if key.startswith(("eks:", "kubernetes.io/"))]
    (image,) = ec2.describe_images(ImageIds=[instance["ImageId"]])["Images"]
    assert image["Name"].startswith("amazon-eks-node-al2023-x86_64-standard-1.36-")
    profile = instance["IamInstanceProfile"]["Arn"].rpartition("/")[2]
    described = lab.client("iam").get_instance_profile(InstanceProfileName=profile)
    (role,) = described["InstanceProfile"]["Roles"]
    assert lab.delete(values["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    assert lab.backend.clusters[cluster["Name"]].nodes == {}
    assert spec.block in lab.backend.released
    gone = ec2.describe_instances(InstanceIds=[spec.instance_id])["Reservations"]
    assert gone[0]["Instances"][0]["State"]["Name"] == "terminated"
    for ask, named in (
        (lab.client("iam").get_instance_profile, {"InstanceProfileName": profile}),
        (lab.client("iam").get_role, {"RoleName": role["RoleName"]}),
    ):
        with pytest.raises(lab.client("iam").exceptions.NoSuchEntityException):
            ask(**named)


def test_another_image_makes_another_instance_because_user_data_runs_once(
    lab: Lab, cluster: dict[str, str]
) -> None:
    values = lab.created(TEMPLATE.read_text(), parameters(cluster))
    other = parameters(cluster, ToolImage="docker.io/me/tools:2", Repository=REPOSITORY)
    assert lab.update(values["StackId"], parameters=other) == "UPDATE_COMPLETE"
    (spec,) = lab.backend.clusters[cluster["Name"]].nodes.values()
    assert spec.instance_id != values["InstanceId"]
    assert "tools:2" in spec.user_data
    lab.delete(values["StackId"])


def test_what_ec2_refuses_fails_the_stack_and_leaves_nothing(
    lab: Lab, cluster: dict[str, str]
) -> None:
    changes = {"PlacementGroup": cluster["Group"], "InstanceType": "t3.medium"}
    stack = lab.stack(TEMPLATE.read_text(), parameters(cluster, **changes))
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    reason = lab.reasons(stack["StackId"], "CREATE_FAILED")["Instance"]
    assert "Cluster placement groups are not supported by the 't3.medium' instance type" in reason
    assert lab.backend.clusters[cluster["Name"]].nodes == {}
