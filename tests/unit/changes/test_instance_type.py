"""A sweep over instance types: versions of launch templates come and go, and all is put back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from rackrate.changes.instance_type import InstanceType
from rackrate.errors import ChangeFailed
from tests.unit.changes.test_ami_release import NEW, Eks, until_done
from tests.unit.given import Given
from tests.unit.measure.fake_cluster import FakeCluster
from tests.unit.samples import SETTINGS, node

GROUPS = ("ng-1", "ng-2")
SMALL, MEDIUM = "c5.large", "c5.xlarge"
LARGE, ARM = "c6in.8xlarge", "c7g.large"


def described(name, vcpus, architecture="x86_64", **network):
    interfaces = {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10}
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": vcpus},
        "ProcessorInfo": {"SupportedArchitectures": [architecture]},
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "NetworkInfo": {**interfaces, **network},
    }


class Ec2:
    """A launch template for each node group, whose second version is the stack's."""

    def __init__(self):
        self.types = [
            described(SMALL, 2),
            described(MEDIUM, 4),
            described(LARGE, 32),
            described(ARM, 2, "arm64"),
        ]
        self.offered, self.refuses, self.next = {SMALL, MEDIUM, LARGE, ARM}, None, 3
        self.templates = {
            f"lt-{name}": {
                number: {"data": {"InstanceType": SMALL}, "about": ""} for number in (1, 2)
            }
            for name in GROUPS
        }

    def describe_launch_template_versions(self, *, LaunchTemplateId, Versions=None, **_):
        return {
            "LaunchTemplateVersions": [
                {
                    "VersionNumber": number,
                    "VersionDescription": each["about"],
                    "LaunchTemplateData": each["data"],
                }
                for number, each in self.templates[LaunchTemplateId].items()
                if Versions is None or str(number) in Versions
            ]
        }

    def create_launch_template_version(
        self, *, LaunchTemplateId, SourceVersion, VersionDescription, LaunchTemplateData
    ):
        if self.refuses:
            raise ClientError({"Error": self.refuses}, "CreateLaunchTemplateVersion")
        versions = self.templates[LaunchTemplateId]
        data = {**versions[int(SourceVersion)]["data"], **LaunchTemplateData}
        versions[self.next] = {"data": data, "about": VersionDescription}
        self.next += 1
        return {"LaunchTemplateVersion": {"VersionNumber": self.next - 1}}

    def delete_launch_template_versions(self, *, LaunchTemplateId, Versions):
        for number in Versions:
            del self.templates[LaunchTemplateId][int(number)]

    def describe_instance_types(self, *, Filters=(), InstanceTypes=()):
        names = [*InstanceTypes, *(name for each in Filters for name in each["Values"])]
        return {"InstanceTypes": [each for each in self.types if each["InstanceType"] in names]}

    def describe_instance_type_offerings(self, *, LocationType, Filters):
        assert Filters[0]["Values"] == ["us-east-1a"]
        offered = [{"InstanceType": name} for name in sorted(self.offered)]
        return {"InstanceTypeOfferings": offered}

    def describe_subnets(self, *, SubnetIds):
        subnet = {"AvailabilityZone": "us-east-1a", "AvailableIpAddressCount": 200}
        return {"Subnets": [subnet]}


class EksWithTemplates(Eks):
    """The node groups take versions of launch templates, and keep the release of their image."""

    def __init__(self, cluster):
        super().__init__(cluster)
        for name, group in self.groups.items():
            template = {"id": f"lt-{name}", "version": "2"}
            group.update(launchTemplate=template, instanceTypes=None, subnets=["subnet-1"])

    def update_nodegroup_version(
        self, *, clusterName, nodegroupName, releaseVersion, launchTemplate
    ):
        if self.refuses:
            raise ClientError({"Error": self.refuses}, "UpdateNodegroupVersion")
        assert releaseVersion == NEW
        group = self.groups[nodegroupName]
        self.calls.append((nodegroupName, int(launchTemplate["version"])))
        group["status"], group["launchTemplate"] = "UPDATING", launchTemplate
        return {"update": {"id": f"update-of-{nodegroupName}"}}


class Quotas:
    value = 100.0

    def get_service_quota(self, *, ServiceCode, QuotaCode):
        return {"Quota": {"Value": self.value}}


@pytest.fixture
def resources():
    cluster = FakeCluster()
    cluster.nodes = [node(f"{name}-{n}", name) for name in GROUPS for n in range(2)]
    eks, ec2 = EksWithTemplates(cluster), Ec2()
    return Given(settings=SETTINGS, eks=eks, ec2=ec2, cluster=cluster, quotas=Quotas())


def types(resources):
    """The instance type of each node group's version."""
    templates = [group["launchTemplate"] for group in resources.eks.groups.values()]
    return [
        resources.ec2.templates[each["id"]][int(each["version"])]["data"]["InstanceType"]
        for each in templates
    ]


def test_a_step_gives_the_groups_a_version_with_the_type_while_they_are_empty(resources):
    until_done(lambda progress: InstanceType().make(LARGE, progress, resources))
    assert resources.eks.calls == [
        *((name, 0) for name in GROUPS),
        ("ng-1", 3),
        ("ng-2", 4),
        *((name, 2) for name in GROUPS),
    ]
    assert types(resources) == [LARGE, LARGE]


def test_steps_use_the_stacks_version_and_those_of_earlier_steps_again(resources):
    for value in (LARGE, SMALL, LARGE):
        until_done(lambda progress, value=value: InstanceType().make(value, progress, resources))
        assert types(resources) == [value, value]
    assert [sorted(each) for each in resources.ec2.templates.values()] == [[1, 2, 3], [1, 2, 4]]


@pytest.mark.parametrize("interrupted_after", range(1, 9))
def test_wherever_it_is_interrupted_nothing_is_left_of_it(resources, interrupted_after):
    before, progress = InstanceType().before(resources), {}
    for _ in range(interrupted_after):
        progress = InstanceType().make(LARGE, progress, resources).progress
    until_done(lambda _: InstanceType().undo(before, resources))
    for group in resources.eks.groups.values():
        assert group["launchTemplate"]["version"] == "2"
        assert group["scalingConfig"] == {"minSize": 2, "desiredSize": 2, "maxSize": 2}
    assert [sorted(each) for each in resources.ec2.templates.values()] == [[1, 2], [1, 2]]


def test_a_version_that_an_update_of_the_stack_gave_meanwhile_stays(resources):
    before = InstanceType().before(resources)
    until_done(lambda progress: InstanceType().make(LARGE, progress, resources))
    resources.ec2.templates["lt-ng-1"][9] = {"data": {"InstanceType": SMALL}, "about": ""}
    resources.eks.groups["ng-1"]["launchTemplate"] = {"id": "lt-ng-1", "version": "9"}
    until_done(lambda _: InstanceType().undo(before, resources))
    versions = [group["launchTemplate"]["version"] for group in resources.eks.groups.values()]
    assert versions == ["9", "2"]
    assert sorted(resources.ec2.templates["lt-ng-1"]) == [1, 2, 9]


def test_what_ec2_or_eks_refuses_ends_the_step_with_its_words(resources):
    resources.ec2.refuses = {"Code": "InvalidParameterValue", "Message": "no such type"}
    with pytest.raises(ChangeFailed, match=f"gets no version with {LARGE}: no such type"):
        until_done(lambda progress: InstanceType().make(LARGE, progress, resources))
    resources.ec2.refuses = None
    resources.eks.refuses = {"Code": "InvalidRequestException", "Message": "not authorized"}
    with pytest.raises(ChangeFailed, match=r"ng-1 cannot take version 3 .*: not authorized"):
        until_done(lambda progress: InstanceType().make(LARGE, progress, resources))


def faults(resources, *values):
    return [f"{f.path}: {f.problem}" for f in InstanceType().faults(values, resources)]


def test_types_that_the_nodes_cannot_have_are_refused(resources):
    assert faults(resources, SMALL, LARGE) == [
        "sweep.instance_type[1]: 4 nodes of c6in.8xlarge"
        " need 128 vCPUs, and this account allows 100 (the quota L-1216C47A of EC2)"
    ]
    resources.quotas.value = 1000.0
    resources.ec2.offered = {SMALL, ARM}
    assert faults(resources, SMALL, "c5.huge", ARM, LARGE, 5) == [
        "sweep.instance_type[1]: EC2 has no instance type c5.huge in this Region",
        "sweep.instance_type[2]: the nodes' image AL2023_x86_64_STANDARD is for x86_64, and"
        " c7g.large is arm64",
        "sweep.instance_type[3]: us-east-1a does not offer c6in.8xlarge",
        "sweep.instance_type[4]: EC2 has no instance type 5 in this Region",
    ]


def test_types_that_do_not_go_with_the_stacks_settings_are_refused(resources):
    treatment, *others = SETTINGS.arms
    arms = (replace(treatment, ena_express=True, placement="cluster"), *others)
    changed = replace(SETTINGS, arms=arms, bandwidth_weighting="vpc-1")
    resources.ec2.types[0]["PlacementGroupInfo"]["SupportedStrategies"] = ["spread"]
    assert faults(resources.but(settings=changed), SMALL) == [
        "sweep.instance_type[0]: c5.large cannot be in a cluster placement group",
        "sweep.instance_type[0]: c5.large does not support ENA Express",
        "sweep.instance_type[0]: c5.large cannot have the bandwidth weighting vpc-1",
    ]


def test_a_precision_time_group_takes_types_from_the_seventh_generation_on(resources):
    treatment, *others = SETTINGS.arms
    placed = replace(SETTINGS, arms=(replace(treatment, placement="precision-time"), *others))
    resources.ec2.types.append(described("m7i.large", 2))
    resources.ec2.offered.add("m7i.large")
    assert faults(resources.but(settings=placed), SMALL, "m7i.large") == [
        "sweep.instance_type[0]: c5.large cannot be in a precision-time placement group"
    ]


def test_a_capacity_reservation_is_of_one_type(resources):
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}
    data = resources.ec2.templates["lt-ng-2"][2]["data"]
    data["CapacityReservationSpecification"] = target
    [fault] = InstanceType().faults([SMALL, LARGE], resources)
    assert fault.path == "sweep.instance_type" and "capacity reservation" in fault.problem
