"""`rackrate down` names what others left in the stack's VPC, and removes only what it may."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from lab.tests.aws.cluster_templates import CLUSTER, NETWORK
from lab.tests.aws.region import Lab
from tests.lab_aws.conftest import Rackrate
from tests.waiting import HUNG_SECONDS

pytestmark = pytest.mark.rest

INSTANCE = "i-0123456789abcdef0"


@dataclass
class Network:
    """A deployed stack with a VPC and a cluster, and what a test leaves in it."""

    lab: Lab
    name: str
    stack_id: str
    ids: dict[str, str]
    created: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def ec2(self) -> Any:
        return self.lab.client("ec2")

    @property
    def status(self) -> str:
        response = self.lab.client("cloudformation").describe_stacks(StackName=self.stack_id)
        return str(response["Stacks"][0]["StackStatus"])

    def guard_duty(self) -> tuple[str, str]:
        """An endpoint and its security group, as GuardDuty makes them."""
        tags = [{"Key": "GuardDutyManaged", "Value": "true"}]
        group = self.group(f"GuardDutyManagedSecurityGroup-{self.ids['Vpc']}", tags)
        endpoint = self.ec2.create_vpc_endpoint(
            VpcId=self.ids["Vpc"],
            VpcEndpointType="Interface",
            ServiceName="com.amazonaws.us-east-1.guardduty-data",
            SubnetIds=[self.ids["SubnetA"]],
            SecurityGroupIds=[group],
            TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": tags}],
        )["VpcEndpoint"]["VpcEndpointId"]
        return endpoint, group

    def group(self, name: str, tags: list[dict[str, str]]) -> str:
        group = self.ec2.create_security_group(
            VpcId=self.ids["Vpc"], GroupName=name, Description="A guest's."
        )["GroupId"]
        self.created.append(("delete_security_group", {"GroupId": group}))
        if tags:
            self.ec2.create_tags(Resources=[group], Tags=tags)
        return str(group)

    def interface(self, description: str = f"aws-K8S-{INSTANCE}", **tags: str) -> str:
        """An interface; by default as the VPC CNI makes one for the cluster."""
        usual = {"instance_id": INSTANCE, "name": self.ids["Cluster"], **tags}
        keys = {
            "instance_id": "node.k8s.amazonaws.com/instance_id",
            "name": "cluster.k8s.amazonaws.com/name",
        }
        tag_list = [{"Key": keys[key], "Value": value} for key, value in usual.items() if value]
        identity = self.ec2.create_network_interface(
            SubnetId=self.ids["SubnetA"],
            Description=description,
            TagSpecifications=[{"ResourceType": "network-interface", "Tags": tag_list}],
        )["NetworkInterface"]["NetworkInterfaceId"]
        self.created.append(("delete_network_interface", {"NetworkInterfaceId": identity}))
        return str(identity)

    def there(self) -> set[str]:
        """The ids of all interfaces, endpoints and groups of guests in the VPC."""
        within = [{"Name": "vpc-id", "Values": [self.ids["Vpc"]]}]
        interfaces = self.ec2.describe_network_interfaces(Filters=within)["NetworkInterfaces"]
        groups = self.ec2.describe_security_groups(Filters=within)["SecurityGroups"]
        endpoints = self.ec2.describe_vpc_endpoints(Filters=within)["VpcEndpoints"]
        return {
            *(each["NetworkInterfaceId"] for each in interfaces),
            *(each["GroupId"] for each in groups if each["GroupName"] != "default"),
            *(each["VpcEndpointId"] for each in endpoints if each["State"] != "deleted"),
        }


@pytest.fixture
def network(lab: Lab) -> Iterator[Network]:
    name = f"down-{uuid4().hex[:8]}"
    template = f"Metadata: {{rackrate.dev/template: stack}}\nResources:{NETWORK}{CLUSTER}"
    stack = lab.created(template, StackName=name)
    network = Network(lab, name, stack["StackId"], lab.resources(name))
    yield network
    if network.status != "DELETE_COMPLETE":
        for operation, request in network.created:
            if set(request.values()) <= network.there():
                getattr(network.ec2, operation)(**request)
        assert lab.delete(network.stack_id)["StackStatus"] == "DELETE_COMPLETE"


@pytest.fixture
def down(network: Network, rackrate: Rackrate) -> Rackrate:
    return lambda *options: rackrate("down", "--stack", network.name, *options)


def test_leftovers_are_named_with_why_they_are_there_and_go_only_with_the_option(
    network: Network, down: Rackrate
) -> None:
    endpoint, group = network.guard_duty()
    interface = network.interface()
    done = down("--yes", "--json")
    assert done.exit_code == 1
    assert network.status == "DELETE_FAILED"
    message = " ".join(done.stderr.split())
    guard_duty = "made by GuardDuty's Runtime Monitoring"
    assert f"the endpoint {endpoint} ({guard_duty})" in message
    assert f"the security group {group} ({guard_duty})" in message
    assert f"{interface} (left by the VPC CNI of the instance {INSTANCE})" in message
    assert f"`rackrate down --stack {network.name} --remove-leftovers` removes" in message
    assert "has dependencies and cannot be deleted" in message
    output = json.loads(done.stdout)
    assert "is DELETE_FAILED" in output["error"]
    named = {each["id"]: (each["kind"], each["removed"]) for each in output["leftovers"]}
    assert named == {
        endpoint: ("endpoint", False),
        group: ("security group", False),
        interface: ("network interface", False),
    }
    assert named.keys() <= network.there()
    done = down("--yes", "--remove-leftovers", "--json")
    assert done.exit_code == 0, done.stderr
    assert network.status == "DELETE_COMPLETE"
    leftovers = json.loads(done.stdout)["leftovers"]
    assert {each["id"]: each["removed"] for each in leftovers} == dict.fromkeys(named, True)


@pytest.mark.parametrize(
    ("guest", "why"),
    [
        (lambda network: network.group("mine", []), "mine, not made by the stack"),
        (lambda network: network.interface("mine"), "mine, available"),
        (lambda network: network.interface(name="another"), "aws-K8S-i-0123"),
        (lambda network: network.interface(name=""), "aws-K8S-i-0123"),
        (lambda network: network.interface(instance_id=""), "aws-K8S-i-0123"),
    ],
    ids=["group", "interface", "of another cluster", "without a cluster", "without an instance"],
)
def test_what_others_made_is_named_and_never_removed(
    network: Network, down: Rackrate, guest: Callable[[Network], str], why: str
) -> None:
    theirs = guest(network)
    done = down("--yes", "--remove-leftovers", "--json")
    assert (done.exit_code, network.status) == (1, "DELETE_FAILED")
    (named,) = json.loads(done.stdout)["leftovers"]
    assert (named["id"], named["is_removable"], named["removed"]) == (theirs, False, False)
    assert named["why"].startswith(why)
    assert theirs in network.there()


def test_an_interface_in_use_stays_though_the_vpc_cni_made_it(
    network: Network, down: Rackrate
) -> None:
    interface, left = network.interface(), network.interface()
    image = network.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    launched = network.ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, SubnetId=network.ids["SubnetB"]
    )["Instances"][0]["InstanceId"]
    attached = network.ec2.attach_network_interface(
        NetworkInterfaceId=interface, InstanceId=launched, DeviceIndex=1
    )
    try:
        done = down("--yes", "--remove-leftovers", "--json")
        assert (done.exit_code, network.status) == (1, "DELETE_FAILED")
        named = {each["id"]: each for each in json.loads(done.stdout)["leftovers"]}
        assert not named[interface]["removed"]
        assert named[interface]["why"] == f"aws-K8S-{INSTANCE}, in-use"
        assert named[left]["removed"]
        assert interface in network.there() and left not in network.there()
    finally:
        network.ec2.detach_network_interface(AttachmentId=attached["AttachmentId"])
        network.ec2.terminate_instances(InstanceIds=[launched])


def test_a_vpc_that_is_not_the_stacks_is_not_looked_at(network: Network, down: Rackrate) -> None:
    other = network.ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    tags = [{"Key": "GuardDutyManaged", "Value": "true"}]
    theirs = network.ec2.create_security_group(
        VpcId=other, GroupName="GuardDuty's", Description="x"
    )["GroupId"]
    network.ec2.create_tags(Resources=[theirs], Tags=tags)
    left = network.interface()
    done = down("--yes", "--remove-leftovers", "--json")
    assert done.exit_code == 0, done.stderr
    assert [each["id"] for each in json.loads(done.stdout)["leftovers"]] == [left]
    network.ec2.delete_security_group(GroupId=theirs)
    network.ec2.delete_vpc(VpcId=other)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_at_a_terminal_it_asks_before_it_removes_anything(
    network: Network, answer: str, code: int
) -> None:
    left = network.interface()
    terminal, side = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "rackrate_cli", "down", "--stack", network.name],
        env=network.lab.environment(),
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(side)
        os.write(terminal, f"y\n{answer}\n".encode())
        _, message = process.communicate(timeout=HUNG_SECONDS)
    os.close(terminal)
    assert (
        "Remove what GuardDuty and the VPC CNI left there, and delete the stack again?" in message
    )
    assert process.returncode == code, message
    assert left in network.there() if code else network.status == "DELETE_COMPLETE"
