"""Clusters and node groups change as EKS changes them, and it refuses what it does not do."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.tests.aws.eks.test_node_groups import Setup
from lab.tests.aws.region import Lab, allow
from rackrate.measure.releases import Images, releases


@pytest.fixture
def cluster(lab: Lab) -> Setup:
    """A cluster that also has the aws-auth config map."""
    setup = Setup(lab)
    mode = {"authenticationMode": "API_AND_CONFIG_MAP"}
    assert setup.create_cluster(version="1.35", accessConfig=mode)["status"] == "ACTIVE"
    return setup


def ended(cluster: Setup, begun: dict[str, Any], **of: str) -> str:
    """The status of an update when it is over."""
    return str(cluster.ended(begun["update"]["id"], **of)["status"])


def test_a_version_goes_up_by_one_and_nodes_follow_it(cluster: Setup) -> None:
    eks, invalid = cluster.eks, cluster.eks.exceptions.InvalidParameterException
    group = {"clusterName": cluster.name, "nodegroupName": cluster.node_group()["nodegroupName"]}
    with pytest.raises(invalid, match="newer"):
        eks.update_nodegroup_version(**group, version="1.36")
    for version in ("1.34", "1.37"):
        with pytest.raises(invalid, match=f"from 1.35 to {version}"):
            eks.update_cluster_version(name=cluster.name, version=version)
    begun = eks.update_cluster_version(name=cluster.name, version="1.36")
    assert ended(cluster, begun) == "Successful"
    assert eks.describe_cluster(name=cluster.name)["cluster"]["version"] == "1.36"
    assert cluster.recorded.version == "1.36"
    begun = eks.update_nodegroup_version(**group, version="1.36")
    assert ended(cluster, begun, nodegroupName=group["nodegroupName"]) == "Successful"
    assert eks.describe_nodegroup(**group)["nodegroup"]["version"] == "1.36"


def test_nodes_get_the_newest_release_and_go_to_another_and_back(cluster: Setup) -> None:
    eks, ec2 = cluster.eks, cluster.ec2
    created = cluster.node_group()
    group = {"clusterName": cluster.name, "nodegroupName": created["nodegroupName"]}
    images_of = Images(created["amiType"], created["version"])
    newest, before = releases(ec2, images_of)
    assert created["releaseVersion"] == newest
    with pytest.raises(eks.exceptions.InvalidParameterException, match="is invalid"):
        eks.update_nodegroup_version(**group, releaseVersion="1.35.9-20200101")
    images = set()
    for release in (before, newest):
        begun = eks.update_nodegroup_version(**group, releaseVersion=release)
        assert ended(cluster, begun, nodegroupName=group["nodegroupName"]) == "Successful"
        assert eks.describe_nodegroup(**group)["nodegroup"]["releaseVersion"] == release
        images |= {
            node.labels["eks.amazonaws.com/nodegroup-image"] for node in cluster.nodes(created)
        }
    assert len(images) == 2


def test_who_updates_a_node_group_needs_to_launch_by_its_template(cluster: Setup) -> None:
    created = cluster.node_group()
    group = {"clusterName": cluster.name, "nodegroupName": created["nodegroupName"]}
    may_update = allow("eks:UpdateNodegroupVersion", created["nodegroupArn"])
    by_other, by_own = (
        allow("ec2:RunInstances", "*", Condition={"ArnEquals": {"ec2:LaunchTemplate": [arn]}})
        for arn in map(template_arn, ("lt-0123456789abcdef0", created["launchTemplate"]["id"]))
    )
    when_launching = {"StringEquals": {"ec2:CreateAction": "RunInstances"}}
    may_tag = allow("ec2:CreateTags", "*", Condition=when_launching)
    for more in ([], [by_own], [may_tag], [by_other, may_tag]):
        role = cluster.lab.role("lambda.amazonaws.com", may_update, *more)
        with pytest.raises(ClientError, match="not authorized to launch instances") as caught:
            cluster.lab.as_role(role, "eks").update_nodegroup_version(**group)
        assert caught.value.response["Error"]["Code"] == "InvalidRequestException"
    role = cluster.lab.role("lambda.amazonaws.com", may_update, by_own, may_tag)
    begun = cluster.lab.as_role(role, "eks").update_nodegroup_version(**group)
    assert ended(cluster, begun, nodegroupName=created["nodegroupName"]) == "Successful"


def template_arn(template_id: str) -> str:
    return f"arn:aws:ec2:us-east-1:123456789012:launch-template/{template_id}"


def test_authentication_goes_only_towards_access_entries(cluster: Setup) -> None:
    change = cluster.eks.update_cluster_config
    begun = change(name=cluster.name, accessConfig={"authenticationMode": "API"})
    assert ended(cluster, begun) == "Successful"
    with pytest.raises(
        cluster.eks.exceptions.InvalidParameterException, match="from API to API_AND_CONFIG_MAP"
    ):
        change(name=cluster.name, accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"})


def test_one_kind_of_change_at_a_time_and_only_a_change(cluster: Setup) -> None:
    change = cluster.eks.update_cluster_config
    logs = {"clusterLogging": [{"types": ["audit"], "enabled": True}]}
    private = {"endpointPrivateAccess": True, "endpointPublicAccess": False}
    invalid = cluster.eks.exceptions.InvalidParameterException
    with pytest.raises(invalid, match="Only one type of update"):
        change(name=cluster.name, logging=logs, resourcesVpcConfig=private)
    assert ended(cluster, change(name=cluster.name, logging=logs)) == "Successful"
    with pytest.raises(invalid, match="No changes needed for the logging"):
        change(name=cluster.name, logging=logs)
    assert ended(cluster, change(name=cluster.name, resourcesVpcConfig=private)) == "Successful"
    with pytest.raises(invalid, match="already at the desired configuration"):
        change(name=cluster.name, resourcesVpcConfig=private)


@pytest.mark.parametrize(("strategy", "status"), [("MINIMAL", "Successful"), ("DEFAULT", "Failed")])
def test_nodes_of_a_full_spread_group_are_replaced_only_without_spare_nodes(
    cluster: Setup, strategy: str, status: str
) -> None:
    placement = {"GroupName": cluster.placement_group("spread")}
    group = cluster.node_group(desired=7, Placement=placement)
    assert group["status"] == "ACTIVE", group["health"]
    names = {"clusterName": cluster.name, "nodegroupName": group["nodegroupName"]}
    config = {"updateStrategy": strategy, "maxUnavailablePercentage": 100}
    begun = cluster.eks.update_nodegroup_config(**names, updateConfig=config)
    assert ended(cluster, begun, nodegroupName=group["nodegroupName"]) == "Successful"
    before = {node.instance_id for node in cluster.nodes(group)}
    template = group["launchTemplate"]["id"]
    version = cluster.ec2.create_launch_template_version(
        LaunchTemplateId=template,
        SourceVersion="1",
        LaunchTemplateData={"InstanceType": "c5.large", "Placement": placement},
    )["LaunchTemplateVersion"]["VersionNumber"]
    begun = cluster.eks.update_nodegroup_version(
        **names, launchTemplate={"id": template, "version": str(version)}
    )
    assert ended(cluster, begun, nodegroupName=group["nodegroupName"]) == status
    if status == "Successful":
        after = {node.instance_id for node in cluster.nodes(group)}
        assert len(after) == 7 and not after & before
