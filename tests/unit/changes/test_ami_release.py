"""A sweep over releases of the node image: nodes are replaced, and all is put back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from rackrate.changes.ami_release import AmiRelease
from rackrate.errors import ChangeFailed
from rackrate.measure.releases import Images, releases
from tests.unit.given import Given
from tests.unit.measure.fake_cluster import FakeCluster
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.samples import SETTINGS, node

GROUPS = ("ng-1", "ng-2")
OLD, NEW = "1.36.2-20260601", "1.36.3-20260701"


class Ec2:
    """Answers as EC2 does for Amazon's images, in no order."""

    def describe_images(self, *, Owners, Filters):
        assert Owners == ["amazon"]
        self.names = Filters[0]["Values"]
        name = "amazon-eks-node-al2023-x86_64-standard-1.36-v"
        return {
            "Images": [
                {
                    "Name": f"{name}{date}",
                    "Description": f"EKS-optimized Kubernetes node (k8s: {k8s}, containerd: 2.1.*)",
                    "CreationDate": created,
                }
                for date, k8s, created in (
                    ("20260601", "1.36.2", "2026-06-02T00:00:00.000Z"),
                    ("20260701", "1.36.3", "2026-07-02T00:00:00.000Z"),
                )
            ]
            + [{"Name": f"{name}20260801"}]
        }


class Eks(FakeNodeGroups):
    """Its groups are busy for one look after each change, and their nodes follow."""

    def __init__(self, cluster):
        image = {"amiType": "AL2023_x86_64_STANDARD", "version": "1.36", "releaseVersion": NEW}
        super().__init__(*GROUPS, **image)
        self.cluster, self.refuses, self.fails = cluster, None, False
        self.calls = self.updates

    def describe_nodegroup(self, **names):
        group = super().describe_nodegroup(**names)["nodegroup"]
        description = {**group}
        group["status"] = "ACTIVE"
        return {"nodegroup": description}

    def update_nodegroup_config(self, *, nodegroupName, scalingConfig, **names):
        super().update_nodegroup_config(
            nodegroupName=nodegroupName, scalingConfig=scalingConfig, **names
        )
        self.groups[nodegroupName]["status"] = "UPDATING"
        others = [
            n for n in self.cluster.nodes if not n["metadata"]["name"].startswith(nodegroupName)
        ]
        numbers = range(scalingConfig["desiredSize"])
        self.cluster.nodes = others + [node(f"{nodegroupName}-{n}", nodegroupName) for n in numbers]

    def update_nodegroup_version(self, *, clusterName, nodegroupName, releaseVersion):
        if self.refuses:
            raise ClientError({"Error": self.refuses}, "UpdateNodegroupVersion")
        group = self.groups[nodegroupName]
        self.calls.append((nodegroupName, releaseVersion))
        group["status"] = "UPDATING"
        if not self.fails:
            group["releaseVersion"] = releaseVersion
        return {"update": {"id": f"update-of-{nodegroupName}"}}

    def describe_update(self, *, name, nodegroupName, updateId):
        assert updateId == f"update-of-{nodegroupName}"
        errors = [{"errorCode": "NodeCreationFailure", "errorMessage": "it never joined"}]
        return {
            "update": {
                "status": "Failed" if self.fails else "Successful",
                "errors": errors if self.fails else [],
            }
        }


@pytest.fixture
def resources():
    cluster = FakeCluster()
    cluster.nodes = [node(f"{name}-{n}", name) for name in GROUPS for n in range(2)]
    return Given(settings=SETTINGS, eks=Eks(cluster), ec2=Ec2(), cluster=cluster)


def until_done(step, looks=20):
    """Repeat a change or its undoing, as the state machine does."""
    progress = {}
    for _ in range(looks):
        result = step(progress)
        if result.done:
            return result
        progress = result.progress
    raise AssertionError(f"it is not done after {looks} looks: {result.phase}")


def test_what_ec2_does_not_have_is_refused_with_what_it_has(resources):
    assert AmiRelease().faults([NEW, OLD], resources) == []
    assert resources.ec2.names == ["amazon-eks-node-al2023-x86_64-standard-1.36-v*"]
    [date, number] = AmiRelease().faults([NEW, "20260601", 3], resources)
    assert (date.path, number.path) == ("sweep.ami_release[1]", "sweep.ami_release[2]")
    assert date.remedy.startswith(f"use one of {NEW} or {OLD}; a release is written like 1.36.2-")


@pytest.mark.parametrize(
    ("ami_type", "name", "description", "release"),
    [
        (
            "AL2023_ARM_64_STANDARD",
            "amazon-eks-node-al2023-arm64-standard-1.36-v20260701",
            "EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: 1.36.3, ...)",
            NEW,
        ),
        (
            "BOTTLEROCKET_ARM_64",
            "bottlerocket-aws-k8s-1.36-aarch64-v1.62.0-9b7e4d2a",
            "",
            "1.62.0-9b7e4d2a",
        ),
        (
            "BOTTLEROCKET_x86_64",
            "bottlerocket-aws-k8s-1.36-x86_64-v1.62.0-9b7e4d2a",
            "",
            "1.62.0-9b7e4d2a",
        ),
    ],
)
def test_each_kind_of_image_has_its_names_and_releases(ami_type, name, description, release):
    images = Images(ami_type, "1.36")
    assert name.startswith(images.names.removesuffix("*"))
    assert images.release_of(name, description) == release


def test_an_image_that_does_not_tell_its_release_is_left_out(resources):
    assert releases(resources.ec2, Images("AL2023_x86_64_STANDARD", "1.36")) == [NEW, OLD]


def test_a_step_empties_all_groups_gives_them_the_release_and_fills_them_again(resources):
    eks = resources.eks
    until_done(lambda progress: AmiRelease().make(OLD, progress, resources))
    assert eks.calls == [
        *((name, 0) for name in GROUPS),
        *((name, OLD) for name in GROUPS),
        *((name, 2) for name in GROUPS),
    ]
    assert {group["releaseVersion"] for group in eks.groups.values()} == {OLD}


def test_a_step_with_the_release_that_is_there_replaces_the_nodes_too(resources):
    """Otherwise two runs of a release would share a placement, and differ too little."""
    until_done(lambda progress: AmiRelease().make(NEW, progress, resources))
    assert [call for call in resources.eks.calls if call[1] in (0, 2)] == [
        *((name, 0) for name in GROUPS),
        *((name, 2) for name in GROUPS),
    ]


def test_an_answer_that_got_lost_begins_no_second_update(resources):
    eks = resources.eks
    until_done(lambda progress: AmiRelease().make(OLD, progress, resources))
    eks.calls.clear()
    result = AmiRelease().make(NEW, {"updating": {}}, resources)
    assert not result.done
    AmiRelease().make(NEW, {"updating": {}}, resources)
    assert eks.calls == [(name, NEW) for name in GROUPS]


@pytest.mark.parametrize("interrupted_after", range(1, 9))
def test_wherever_it_is_interrupted_release_and_sizes_are_put_back(resources, interrupted_after):
    before, progress = AmiRelease().before(resources), {}
    for _ in range(interrupted_after):
        progress = AmiRelease().make(OLD, progress, resources).progress
    until_done(lambda _: AmiRelease().undo(before, resources))
    for group in resources.eks.groups.values():
        assert group["releaseVersion"] == NEW
        assert group["scalingConfig"] == {"minSize": 2, "desiredSize": 2, "maxSize": 2}


def test_in_a_stack_that_idles_only_the_release_is_put_back(resources):
    idle = resources.but(settings=replace(SETTINGS, idle_scale_to_zero=True))
    before = AmiRelease().before(idle)
    until_done(lambda progress: AmiRelease().make(OLD, progress, idle))
    idle.eks.calls.clear()
    until_done(lambda _: AmiRelease().undo(before, idle))
    assert idle.eks.calls == [(name, NEW) for name in GROUPS]


def test_what_eks_refuses_or_fails_ends_the_step_with_its_words(resources):
    eks = resources.eks
    eks.refuses = {"Code": "InvalidParameterException", "Message": "cannot roll back"}
    with pytest.raises(ChangeFailed, match=f"ng-1 cannot be updated to {OLD}: cannot roll back"):
        until_done(lambda progress: AmiRelease().make(OLD, progress, resources))
    eks.refuses = {"Code": "ResourceInUseException"}
    with pytest.raises(AssertionError, match="0 of 2 node groups have the release"):
        until_done(lambda progress: AmiRelease().make(OLD, progress, resources))
    eks.refuses, eks.fails = None, True
    with pytest.raises(ChangeFailed, match="NodeCreationFailure: it never joined"):
        until_done(lambda progress: AmiRelease().make(OLD, progress, resources))
