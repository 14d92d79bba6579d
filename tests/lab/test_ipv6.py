"""A guest in a cluster whose pods and Services have IPv6 addresses only, as EKS's `ipv6` mode."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab import stack
from lab.errors import LabError
from tests.lab.conftest import Labs, say
from tests.lab.running import Lab
from tests.lab.waiting import eventually

NAME = "of-ipv6"
GUEST = {
    "ExistingClusterName": NAME,
    "TreatmentSelector": "placementGroup=true",
    "BaselineSelector": "placementGroup=false",
}
#: A test of each tool that is said to work, as short as it can be.
TOOLS: list[Any] = [
    {"name": "tcp-1", "seconds": 1},
    {"name": "udp-1", "seconds": 1, "bits_per_second": 50_000_000},
    {"name": "iperf2", "tool": "iperf", "streams": 1, "seconds": 2},
    {"name": "connect", "count": 5},
    {"name": "tcp-rr", "seconds": 1},
    {"name": "tcp-crr", "seconds": 1},
    {"name": "udp-rr", "seconds": 1},
    {"name": "tcp", "tool": "fortio", "seconds": 1, "requests_per_second": 300, "percentiles": []},
    {"name": "http", "seconds": 1, "requests_per_second": 300, "percentiles": []},
    {"name": "grpc", "seconds": 1, "requests_per_second": 300, "percentiles": []},
]
#: Those that no Service of the run leads to.
DIRECT: list[Any] = [
    {"name": "rtt", "count": 3},
    {"name": "dns", "seconds": 1},
]
ARMS: list[Any] = [
    "treatment",
    "baseline",
    {"name": "through-services", "nodes": "treatment", "via": "service"},
    {
        "name": "on-nodes",
        "nodes": "baseline",
        "client_network": "host",
        "server_network": "host",
    },
]


def create_cluster(lab: Lab) -> None:
    """A cluster of IPv6 with EKS's add-ons, and three nodes in a placement group and outside."""
    ec2, eks, iam = lab.aws("ec2"), lab.aws("eks"), lab.aws("iam")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", AmazonProvidedIpv6CidrBlock=True)["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/20", AvailabilityZone=f"us-east-1{z}")[
            "Subnet"
        ]["SubnetId"]
        for n, z in ((0, "a"), (16, "b"))
    ]
    trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}}
    policy = json.dumps(
        {"Version": "2012-10-17", "Statement": [trust | {"Action": "sts:AssumeRole"}]}
    )
    role = iam.create_role(RoleName=NAME, AssumeRolePolicyDocument=policy)["Role"]["Arn"]
    eks.create_cluster(
        name=NAME,
        roleArn=role,
        resourcesVpcConfig={"subnetIds": subnets},
        kubernetesNetworkConfig={"ipFamily": "ipv6"},
        accessConfig={"authenticationMode": "API"},
    )
    eks.get_waiter("cluster_active").wait(name=NAME, WaiterConfig={"Delay": 1})
    for addon in ("vpc-cni", "kube-proxy"):
        eks.create_addon(clusterName=NAME, addonName=addon)
    ec2.create_placement_group(GroupName=NAME, Strategy="cluster")
    for group, placement in (("true", {"Placement": {"GroupName": NAME}}), ("false", {})):
        template = ec2.create_launch_template(
            LaunchTemplateName=f"{NAME}-{group}",
            LaunchTemplateData={"InstanceType": "c5.large", **placement},
        )["LaunchTemplate"]
        eks.create_nodegroup(
            clusterName=NAME,
            nodegroupName=f"{NAME}-{group}",
            nodeRole=role,
            subnets=subnets[:1],
            amiType="AL2023_x86_64_STANDARD",
            labels={"placementGroup": group},
            launchTemplate={"id": template["LaunchTemplateId"]},
            scalingConfig={"minSize": 3, "maxSize": 3, "desiredSize": 3},
        )
    for group in ("true", "false"):
        eks.get_waiter("nodegroup_active").wait(
            clusterName=NAME, nodegroupName=f"{NAME}-{group}", WaiterConfig={"Delay": 1}
        )
    eks.create_addon(clusterName=NAME, addonName="coredns")
    eks.get_waiter("addon_active").wait(
        clusterName=NAME, addonName="coredns", WaiterConfig={"Delay": 1}
    )


@pytest.fixture(scope="module")
def empty(labs: Labs) -> Lab:
    """A lab with such a cluster and no stack."""
    lab = labs.start(deployed=False)
    if lab.has_stack:
        stack.delete(lab.status, say)  # a lab has one cluster at a time
    stack.build(stack.EXISTING_CLUSTER)
    create_cluster(lab)
    return lab


@pytest.fixture(scope="module")
def guest(empty: Lab) -> Iterator[Lab]:
    """The lab with the stack as a guest in the cluster."""
    stack.deploy(empty.status, say, parameters=GUEST)
    yield Lab(empty.status, empty.directory)


def test_preflight_names_the_tests_of_the_first_run_that_such_a_cluster_cannot_have(
    empty: Lab,
) -> None:
    plan = json.dumps({"tests": ["tcp-1", "latency"]})
    with pytest.raises(LabError) as refused:
        stack.deploy(empty.status, say, parameters=GUEST | {"RunOnCreate": plan})
    stack.delete(empty.status, say)
    assert "RunOnCreate tests[1]: the cluster's pods have IPv6 addresses" in str(refused.value)
    assert "sockperf" in str(refused.value)
    assert not [
        each for each in empty.core.list_namespace().items if each.metadata.name == "rackrate"
    ]


def test_a_guest_is_told_what_such_a_cluster_cannot_have(guest: Lab) -> None:
    assert "sockperf" in guest.outputs["PreflightWarnings"]
    guest.start("refused", {"tests": ["latency", "tcp-1", "cassandra"]})
    ended = guest.ended("refused")
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidPlan")
    assert "tests[0]" in ended["cause"] and "tests[2]" in ended["cause"]
    assert "tests[1]" not in ended["cause"]
    assert guest.left_in_cluster("refused") == []


@pytest.mark.parametrize(
    ("name", "tests", "arms"),
    [
        ("tools", DIRECT + TOOLS, [ARMS[0], ARMS[1], ARMS[3]]),
        ("services", TOOLS, [ARMS[0], ARMS[2]]),
    ],
)
def test_every_tool_that_is_said_to_work_measures_between_ipv6_addresses(
    guest: Lab, name: str, tests: list[Any], arms: list[Any]
) -> None:
    pods: set[str] = set()

    def ended() -> bool:
        pods.update(pod.status.pod_ip for pod in guest.pods(name) if pod.status.pod_ip)
        return bool(guest.execution(name)["status"] != "RUNNING")

    plan = {"tests": tests, "baseline": "treatment", "blocks": 1, "warm_up": False, "seed": 7}
    guest.start(name, {**plan, "arms": arms})
    eventually(ended, seconds=200, poll_seconds=1)
    trials = guest.items(name, "trial#")
    assert {
        (t["test"], t["arm"]): t.get("reason") for t in trials if t["status"] != "measured"
    } == {}
    assert guest.execution(name)["status"] == "SUCCEEDED", guest.execution(name).get("cause")
    measured = {(trial["test"], trial["arm"]) for trial in trials}
    of_arms = [arm if isinstance(arm, str) else arm["name"] for arm in arms]
    assert measured == {(test["name"], arm) for test in tests for arm in of_arms}
    assert pods and all(ipaddress.ip_address(pod).version == 6 for pod in pods)
