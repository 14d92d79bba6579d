"""How EC2 and EKS apply a launch template: placement, network, capacity, kubelet."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.aws import account, quotas
from lab.aws.ec2 import capacity
from lab.aws.eks import node_groups
from lab.faults import active_faults
from lab.nodes import cni
from lab.tests.aws.region import (
    Lab,
    RecordedCluster,
    eventually,
    group_of_another_account,
)
from rackrate.measure.node_groups import why_lacking
from rackrate_text.launches import lacks_capacity
from tests import ROOT
from tests.waiting import HUNG_SECONDS

NODE_CONFIG = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

{parts}--BOUNDARY--
"""


def user_data(*documents: dict[str, Any] | str) -> str:
    parts = "".join(
        "--BOUNDARY\nContent-Type: application/node.eks.aws\n\n---\n"
        + (document if isinstance(document, str) else json.dumps(document))
        + "\n\n"
        for document in documents
    )
    return base64.b64encode(NODE_CONFIG.format(parts=parts).encode()).decode()


def node_config(**kubelet: Any) -> dict[str, Any]:
    return {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"kubelet": kubelet},
    }


class Setup:
    """A VPC with a second address block, and a cluster in it."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.ec2, self.eks = lab, lab.client("ec2"), lab.client("eks")
        self.name = f"c-{uuid.uuid4().hex[:8]}"
        self.role = lab.role("eks.amazonaws.com")
        vpc = self.vpc = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.ec2.associate_vpc_cidr_block(VpcId=vpc, CidrBlock="100.64.0.0/16")
        subnets = [
            self.ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=f"us-east-1{zone}")
            for cidr, zone in (
                ("10.0.0.0/20", "a"),
                ("10.0.16.0/20", "b"),
                ("100.64.0.0/17", "a"),
            )
        ]
        self.subnets = [subnet["Subnet"]["SubnetId"] for subnet in subnets]

    def create_cluster(self, **settings: Any) -> dict[str, Any]:
        vpc = {"subnetIds": self.subnets[:2], **settings.pop("resourcesVpcConfig", {})}
        self.eks.create_cluster(
            name=self.name, roleArn=self.role, resourcesVpcConfig=vpc, **settings
        )
        return eventually(
            lambda: self.eks.describe_cluster(name=self.name)["cluster"],
            lambda description: description["status"] != "CREATING",
        )

    @property
    def recorded(self) -> RecordedCluster:
        return self.lab.backend.clusters[self.name]

    def node_group(
        self,
        *,
        desired: int = 2,
        ami_type: str = "AL2023_x86_64_STANDARD",
        instance_type: str = "c5.large",
        capacity_type: str = "ON_DEMAND",
        **template: Any,
    ) -> dict[str, Any]:
        name = f"n-{uuid.uuid4().hex[:8]}"
        response = self.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"InstanceType": instance_type, **template},
        )
        self.eks.create_nodegroup(
            clusterName=self.name,
            nodegroupName=name,
            nodeRole=self.role,
            subnets=self.subnets[2:],
            amiType=ami_type,
            capacityType=capacity_type,
            launchTemplate={"id": response["LaunchTemplate"]["LaunchTemplateId"]},
            scalingConfig={"minSize": 0, "maxSize": 8, "desiredSize": desired},
        )
        return self.settled(name)

    def settled(self, name: str) -> dict[str, Any]:
        return eventually(
            lambda: self.eks.describe_nodegroup(clusterName=self.name, nodegroupName=name)[
                "nodegroup"
            ],
            lambda group: group["status"] not in ("CREATING", "UPDATING"),
        )

    def issue(self, **settings: Any) -> tuple[str, str]:
        """The code and message of the only health issue of a failed node group."""
        group = self.node_group(**settings)
        assert group["status"] == "CREATE_FAILED"
        (issue,) = group["health"]["issues"]
        return issue["code"], issue["message"]

    def failed_launch(self, **settings: Any) -> str:
        """The message of a node group whose instances EC2 refuses to launch."""
        code, message = self.issue(**settings)
        assert code == "AsgInstanceLaunchFailures"
        return message

    def group_of(self, name: str) -> dict[str, Any]:
        """A placement group as EC2 describes it."""
        described = self.ec2.describe_placement_groups(GroupNames=[name])["PlacementGroups"]
        return dict(described[0])

    def instances(self, nodes: Iterable[Any]) -> dict[str, dict[str, Any]]:
        """The instances of nodes as EC2 describes them, by id."""
        ids = [node.instance_id for node in nodes]
        return {
            instance["InstanceId"]: instance
            for reservation in self.ec2.describe_instances(InstanceIds=ids)["Reservations"]
            for instance in reservation["Instances"]
        }

    def nodes(self, group: dict[str, Any]) -> list[Any]:
        label = "eks.amazonaws.com/nodegroup"
        return [
            node
            for node in self.recorded.nodes.values()
            if node.labels[label] == group["nodegroupName"]
        ]

    def scale(self, group: dict[str, Any], desired: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The node group and the update, when both are over."""
        name = group["nodegroupName"]
        update = self.eks.update_nodegroup_config(
            clusterName=self.name,
            nodegroupName=name,
            scalingConfig={"minSize": 0, "maxSize": 8, "desiredSize": desired},
        )["update"]
        assert update["status"] == "InProgress"
        ended = self.ended(update["id"], nodegroupName=name)
        return self.settled(name), ended

    def ended(self, update: str, **of: str) -> dict[str, Any]:
        """An update of the cluster, or of one of its node groups or add-ons, when it is over."""
        return eventually(
            lambda: self.eks.describe_update(name=self.name, updateId=update, **of)["update"],
            lambda change: change["status"] != "InProgress",
        )

    def placement_group(self, strategy: str, **settings: Any) -> str:
        name = f"g-{uuid.uuid4().hex[:8]}"
        self.ec2.create_placement_group(GroupName=name, Strategy=strategy, **settings)
        return name

    def reservation(self, **settings: Any) -> str:
        response = self.ec2.create_capacity_reservation(
            **{
                "InstanceType": "c5.large",
                "InstancePlatform": "Linux/UNIX",
                "AvailabilityZone": "us-east-1a",
                "InstanceCount": 2,
                "InstanceMatchCriteria": "targeted",
                **settings,
            }
        )
        return str(response["CapacityReservation"]["CapacityReservationId"])

    def available(self, reservation: str) -> int:
        response = self.ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])
        return int(response["CapacityReservations"][0]["AvailableInstanceCount"])


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Setup]:
    setup = Setup(lab)
    assert setup.create_cluster()["status"] == "ACTIVE"
    yield setup


def target(reservation: str) -> dict[str, Any]:
    return {"CapacityReservationTarget": {"CapacityReservationId": reservation}}


def test_nodes_of_a_secondary_address_block_have_it_and_the_cluster_knows(cluster: Setup) -> None:
    request = next(r for r in cluster.lab.backend.requests if r["name"] == cluster.name)
    assert request["vpc_cidrs"] == ("10.0.0.0/16", "100.64.0.0/16")
    for node in cluster.nodes(cluster.node_group()):
        assert str(node.block).startswith("100.64.")
        assert node.default_max_pods == 29, "three interfaces of ten addresses"


def test_node_configs_are_merged_in_order_into_the_kubelets_settings(cluster: Setup) -> None:
    data = user_data(
        node_config(config={"podsPerCore": 10, "evictionHard": {"memory.available": "1Gi"}}),
        node_config(config={"podsPerCore": 20, "evictionHard": {"pid.available": "5%"}}),
        node_config(flags=["--v=4"]),
    )
    (node,) = cluster.nodes(cluster.node_group(desired=1, UserData=data))
    assert node.kubelet_configuration == {
        "podsPerCore": 20,
        "evictionHard": {"memory.available": "1Gi", "pid.available": "5%"},
    }
    assert tuple(node.kubelet_flags) == ("--v=4",)


def test_user_data_whose_header_does_not_end_never_joins(cluster: Setup) -> None:
    whole = base64.b64decode(user_data(node_config(flags=["--v=4"]))).decode()
    header, _, body = whole.partition("\n\n")
    data = base64.b64encode(f"{header}\n{body}".encode()).decode()
    code, message = cluster.issue(desired=1, UserData=data)
    assert code == "NodeCreationFailure"
    assert "no MIME document" in message


def test_the_most_pods_are_ekss_own_field_which_only_a_flag_overrides(cluster: Setup) -> None:
    data = user_data(node_config(config={"maxPods": 10}, flags=["--max-pods=20"]))
    (node,) = cluster.nodes(cluster.node_group(desired=1, UserData=data))
    assert node.kubelet_configuration == {}
    assert tuple(node.kubelet_flags) == ("--max-pods=20",)


def test_bottlerocket_settings_become_the_kubelets(cluster: Setup) -> None:
    toml = '[settings.kubernetes]\nmax-pods = 12\nallowed-unsafe-sysctls = ["net.core.*"]\n'
    toml += '[settings.kubernetes.node-labels]\nkind = "test"\n'
    data = base64.b64encode(toml.encode()).decode()
    group = cluster.node_group(desired=1, ami_type="BOTTLEROCKET_x86_64", UserData=data)
    (node,) = cluster.nodes(group)
    assert node.kubelet_configuration == {"maxPods": 12, "allowedUnsafeSysctls": ["net.core.*"]}
    assert tuple(node.kubelet_flags) == ("--node-labels=kind=test",)


@pytest.mark.parametrize(
    ("ami_type", "data", "code", "words"),
    [
        (
            "AL2023_x86_64_STANDARD",
            base64.b64encode(b"[settings.kubernetes]\nmax-pods = 9\n").decode(),
            "Ec2LaunchTemplateInvalidConfiguration",
            "not in the MIME multipart format",
        ),
        (
            "BOTTLEROCKET_x86_64",
            user_data(node_config()),
            "Ec2LaunchTemplateInvalidConfiguration",
            "not in the TOML format",
        ),
        (
            "AL2023_x86_64_STANDARD",
            user_data({**node_config(), "spec": {"kublet": {}}}),
            "NodeCreationFailure",
            'unknown field "spec.kublet"',
        ),
        ("AL2023_x86_64_STANDARD", user_data("a: [1"), "NodeCreationFailure", "is not YAML"),
        (
            "AL2023_x86_64_STANDARD",
            user_data({**node_config(), "apiVersion": "node.eks.aws/v1"}),
            "NodeCreationFailure",
            "node.eks.aws/v1alpha1",
        ),
        (
            "BOTTLEROCKET_x86_64",
            base64.b64encode(b"[settings.kubernetes]\nmax-pod = 9\n").decode(),
            "NodeCreationFailure",
            "settings.kubernetes.max-pod",
        ),
    ],
)
def test_user_data_that_cannot_work_fails_the_node_group_with_what_is_wrong(
    cluster: Setup, ami_type: str, data: str, code: str, words: str
) -> None:
    issue, message = cluster.issue(desired=1, ami_type=ami_type, UserData=data)
    assert issue == code
    assert words in message


def test_instances_of_a_partition_group_are_spread_over_its_partitions(cluster: Setup) -> None:
    name = cluster.placement_group("partition", PartitionCount=2)
    group = cluster.node_group(desired=4, Placement={"GroupName": name})
    nodes = cluster.nodes(group)
    assert sorted(node.partition_number for node in nodes) == [1, 1, 2, 2]
    instances = cluster.instances(nodes)
    for node in nodes:
        placement = instances[node.instance_id]["Placement"]
        assert placement["PartitionNumber"] == node.partition_number


def test_ec2_reports_the_group_zone_and_capacity_type_of_each_instance(cluster: Setup) -> None:
    name = cluster.placement_group("cluster")
    inside = cluster.nodes(cluster.node_group(desired=1, Placement={"GroupName": name}))
    spot = cluster.nodes(cluster.node_group(desired=1, capacity_type="SPOT"))
    ids = [node.instance_id for node in (*inside, *spot)]
    missing = "i-0123456789abcdef0"
    by_id = {"Filters": [{"Name": "instance-id", "Values": [*ids, missing]}]}
    instances = {
        instance["InstanceId"]: instance
        for reservation in cluster.ec2.describe_instances(**by_id)["Reservations"]
        for instance in reservation["Instances"]
    }
    assert instances.keys() == set(ids), "a filter finds what there is"
    wheres = [instances[id_]["Placement"] for id_ in ids]
    assert [where.get("GroupName", "") for where in wheres] == [name, ""]
    assert wheres[0]["GroupId"] == cluster.group_of(name)["GroupId"]
    assert [where["AvailabilityZone"] for where in wheres] == ["us-east-1a", "us-east-1a"]
    assert [where["Tenancy"] for where in wheres] == ["default", "default"]
    assert [instances[id_].get("InstanceLifecycle") for id_ in ids] == [None, "spot"]


def test_ec2_reports_the_topology_of_few_instance_types_only(
    cluster: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    g_and_vt = ("ec2", "L-DB2E81BA")
    monkeypatch.setitem(quotas.QUOTAS, g_and_vt, quotas.Quota("of G", 96.0))
    name = cluster.placement_group("cluster")
    plain = cluster.nodes(cluster.node_group(desired=1))
    large = cluster.nodes(
        cluster.node_group(desired=2, instance_type="g6e.xlarge", Placement={"GroupName": name})
    )
    ids = [node.instance_id for node in (*plain, *large)]
    topology = cluster.ec2.describe_instance_topology(InstanceIds=ids)["Instances"]
    assert len(large) == 2
    assert {one["InstanceId"] for one in topology} == set(ids[1:])
    assert len({tuple(one["NetworkNodes"]) for one in topology}) == 1, "they share a rack"


def test_a_partition_that_does_not_exist_is_refused(cluster: Setup) -> None:
    name = cluster.placement_group("partition", PartitionCount=2)
    placement = {"GroupName": name, "PartitionNumber": 3}
    assert "partition number 3" in cluster.failed_launch(desired=1, Placement=placement)


def test_an_eighth_instance_of_a_spread_group_is_refused(cluster: Setup) -> None:
    placement = {"GroupName": cluster.placement_group("spread")}
    message = cluster.failed_launch(desired=8, Placement=placement)
    assert "at most 7 running instances" in message


def test_the_free_plan_keeps_nodes_of_other_types_from_starting(
    cluster: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "PLAN", "FREE")
    assert (
        "InvalidParameterCombination - The specified instance type is not eligible"
        in cluster.failed_launch(desired=1)
    )


def test_host_spread_is_for_outposts_only(cluster: Setup) -> None:
    with pytest.raises(ClientError, match="Outposts"):
        cluster.placement_group("spread", SpreadLevel="host")


def test_a_group_of_another_account_is_found_by_its_id_only(cluster: Setup) -> None:
    theirs, ec2 = group_of_another_account(), cluster.ec2
    (group,) = ec2.describe_placement_groups(GroupIds=[theirs.id])["PlacementGroups"]
    assert (group["GroupName"], group["Strategy"]) == (theirs.name, "cluster")
    assert group["GroupArn"].split(":")[4] == "222222222222"
    for named in ({"GroupNames": [theirs.name]}, {"GroupIds": ["pg-0123456789abcdef0"]}):
        with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
            ec2.describe_placement_groups(**named)
    by_name = {"Filters": [{"Name": "group-name", "Values": [theirs.name]}]}
    assert ec2.describe_placement_groups(**by_name)["PlacementGroups"] == []
    with pytest.raises(ClientError, match=r"InvalidPlacementGroup\.Unknown"):
        ec2.delete_placement_group(GroupName=theirs.name)


def test_an_account_may_use_the_name_of_another_accounts_group(cluster: Setup) -> None:
    ours = cluster.placement_group("spread")
    theirs = group_of_another_account(ours)
    assert cluster.group_of(ours)["GroupId"] != theirs.id
    cluster.node_group(desired=1, Placement={"GroupId": theirs.id})
    cluster.ec2.delete_placement_group(GroupName=ours)


def test_nodes_start_in_a_group_of_another_account_by_its_id_only(cluster: Setup) -> None:
    theirs = group_of_another_account()
    (node,) = cluster.nodes(cluster.node_group(desired=1, Placement={"GroupId": theirs.id}))
    assert (node.placement_group, node.placement_strategy) == (theirs.name, "cluster")
    (instance,) = cluster.instances([node]).values()
    assert instance["Placement"]["GroupId"] == theirs.id
    message = cluster.failed_launch(desired=1, Placement={"GroupName": theirs.name})
    assert f"'{theirs.name}' is unknown" in message


def test_a_version_of_a_launch_template_keeps_the_id_of_the_group(cluster: Setup) -> None:
    data = {"InstanceType": "c5.large", "Placement": {"GroupId": group_of_another_account().id}}
    template = cluster.ec2.create_launch_template(
        LaunchTemplateName=f"t-{uuid.uuid4().hex[:8]}", LaunchTemplateData=data
    )["LaunchTemplate"]
    which = {"LaunchTemplateId": template["LaunchTemplateId"]}
    cluster.ec2.create_launch_template_version(
        **which, SourceVersion="1", LaunchTemplateData={"InstanceType": "c5.xlarge"}
    )
    (version,) = cluster.ec2.describe_launch_template_versions(**which, Versions=["2"])[
        "LaunchTemplateVersions"
    ]
    assert version["LaunchTemplateData"] == {**data, "InstanceType": "c5.xlarge"}


def test_types_without_a_precise_clock_are_refused_in_a_precision_time_group(
    cluster: Setup,
) -> None:
    name = cluster.placement_group("precision-time")
    parent = cluster.group_of(name)["GroupId"]
    below = cluster.placement_group("cluster", ParentGroupId=parent)
    for group in (name, below):
        message = cluster.failed_launch(desired=1, Placement={"GroupName": group})
        assert "Precision-time placement groups are not supported by the 'c5.large'" in message
        placed = cluster.node_group(
            desired=1, instance_type="m7i.large", Placement={"GroupName": group}
        )
        assert placed["status"] == "ACTIVE"


def test_only_a_cluster_group_has_a_parent_and_only_a_precision_time_group_is_one(
    cluster: Setup,
) -> None:
    ids = {
        strategy: cluster.group_of(cluster.placement_group(strategy))["GroupId"]
        for strategy in ("cluster", "precision-time")
    }
    for strategy, parent in (("spread", "precision-time"), ("cluster", "cluster")):
        with pytest.raises(ClientError, match="Only 'cluster' groups have parents"):
            cluster.placement_group(strategy, ParentGroupId=ids[parent])
    name = cluster.placement_group("cluster", ParentGroupId=ids["precision-time"])
    assert cluster.group_of(name)["ParentGroupId"] == ids["precision-time"]


def interface(cluster: Setup, *, udp: bool = False) -> dict[str, Any]:
    described = cluster.eks.describe_cluster(name=cluster.name)["cluster"]
    return {
        "DeviceIndex": 0,
        "Groups": [described["resourcesVpcConfig"]["clusterSecurityGroupId"]],
        "EnaSrdSpecification": {
            "EnaSrdEnabled": True,
            "EnaSrdUdpSpecification": {"EnaSrdUdpEnabled": udp},
        },
    }


@pytest.mark.parametrize("udp", [True, False])
def test_ena_express_reaches_the_nodes_of_a_type_that_has_it(cluster: Setup, udp: bool) -> None:
    group = cluster.node_group(
        instance_type="c6in.8xlarge", NetworkInterfaces=[interface(cluster, udp=udp)]
    )
    assert [(n.ena_express, n.ena_express_udp) for n in cluster.nodes(group)] == [(True, udp)] * 2


def addon(cluster: Setup, **environment: str) -> None:
    cluster.eks.create_addon(
        clusterName=cluster.name,
        addonName="vpc-cni",
        configurationValues=json.dumps({"env": environment}),
    )
    named = {"clusterName": cluster.name, "addonName": "vpc-cni"}
    eventually(
        lambda: cluster.eks.describe_addon(**named)["addon"]["status"], lambda s: s == "ACTIVE"
    )


def pods_of_interfaces(cluster: Setup, group: dict[str, Any]) -> list[list[tuple[bool, int]]]:
    """Whether each node's interfaces have ENA Express, and for how many pods they have addresses.

    The addresses of pods are those of the node's CNI configuration.
    """
    result = []
    for node in cluster.nodes(group):
        (instance,) = cluster.instances([node]).values()
        ((range_of_pods,),) = cni.configuration(
            node.block,
            pods=node.pod_addresses,
            directory=Path("/n"),
            mtu_bytes=9001,
            version=None,
            node_bits_per_second=1e9,
        )["plugins"][0]["ipam"]["ranges"]
        start, end = (
            ipaddress.IPv4Address(range_of_pods[f"range{which}"]) for which in ("Start", "End")
        )
        result.append([])
        interfaces = instance["NetworkInterfaces"]
        for each in sorted(interfaces, key=lambda each: each["Attachment"]["DeviceIndex"]):
            addresses = [
                ipaddress.IPv4Address(a["PrivateIpAddress"]) for a in each["PrivateIpAddresses"]
            ]
            express = each["Attachment"].get("EnaSrdSpecification", {}).get("EnaSrdEnabled", False)
            result[-1].append((express, sum(start <= address <= end for address in addresses)))
    return result


def test_cni_adds_an_interface_without_ena_express_and_gives_pods_addresses_of_both(
    cluster: Setup,
) -> None:
    group = cluster.node_group(instance_type="c6in.8xlarge", NetworkInterfaces=[interface(cluster)])
    assert pods_of_interfaces(cluster, group) == [[(True, 30), (False, 30)]] * 2
    first = [
        {"Name": "private-ip-address", "Values": [str(n.block[0]) for n in cluster.nodes(group)]}
    ]
    added = cluster.ec2.describe_network_interfaces(Filters=first)["NetworkInterfaces"]
    assert len(added) == 2
    cluster.scale(group, 0)
    left = cluster.ec2.describe_network_interfaces(Filters=first)["NetworkInterfaces"]
    assert left == [], "they go with their instances"


@pytest.mark.parametrize(
    ("environment", "pods"),
    [({"MAX_ENI": "1"}, 29), ({"ENABLE_PREFIX_DELEGATION": "true"}, 60)],
)
def test_cni_with_one_interface_or_with_prefixes_adds_none(
    lab: Lab, environment: dict[str, str], pods: int
) -> None:
    cluster = Setup(lab)
    cluster.create_cluster()
    addon(cluster, **environment)
    group = cluster.node_group(instance_type="c6in.8xlarge", NetworkInterfaces=[interface(cluster)])
    assert pods_of_interfaces(cluster, group) == [[(True, pods)]] * 2


def test_kubelet_and_cni_use_the_first_network_card_alone(
    cluster: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits of amazon-vpc-cni-k8s's misc/eni-max-pods.txt, and EC2's of an interface."""
    monkeypatch.setitem(quotas.QUOTAS, ("ec2", "L-417A185B"), quotas.Quota("of P", 192.0))
    for name, pods, gigabits in (("c6in.32xlarge", 394, 170), ("p5.48xlarge", 100, 100)):
        (node,) = cluster.nodes(cluster.node_group(desired=1, instance_type=name))
        assert node.default_max_pods == pods
        assert node.instance_bits_per_second == gigabits * 1e9


@pytest.mark.parametrize(
    ("size", "weighting", "gigabits"),
    [
        # Documented: 40 Gb/s of baseline become 50 with vpc-1.
        ("24xlarge", "vpc-1", 50),
        # The volumes' 10 Gb/s become 12.5.
        ("8xlarge", "ebs-1", 12.5),
        # A burst stays what it is.
        ("large", "vpc-1", 12.5),
        ("8xlarge", None, 15),
    ],
)
def test_a_bandwidth_weighting_changes_what_the_nodes_can_carry(
    cluster: Setup, size: str, weighting: str | None, gigabits: float
) -> None:
    options = {"NetworkPerformanceOptions": {"BandwidthWeighting": weighting}} if weighting else {}
    group = cluster.node_group(
        instance_type=f"m8g.{size}", ami_type="AL2023_ARM_64_STANDARD", **options
    )
    nodes = cluster.nodes(group)
    assert [node.instance_bits_per_second for node in nodes] == [gigabits * 1e9] * 2
    for instance in cluster.instances(nodes).values():
        options = instance["NetworkPerformanceOptions"]
        assert options["BandwidthWeighting"] == (weighting or "default")


def test_network_options_of_other_types_are_refused(cluster: Setup) -> None:
    message = cluster.failed_launch(NetworkInterfaces=[interface(cluster)])
    assert "ENA Express is not supported for the instance type 'c5.large'" in message
    weighting = {"BandwidthWeighting": "vpc-1"}
    message = cluster.failed_launch(NetworkPerformanceOptions=weighting)
    assert "'vpc-1' is not supported for the instance type 'c5.large'" in message


def test_security_groups_belong_in_the_interfaces_when_there_are_some(cluster: Setup) -> None:
    own = interface(cluster)
    message = cluster.failed_launch(
        instance_type="c6in.8xlarge", NetworkInterfaces=[own], SecurityGroupIds=own["Groups"]
    )
    assert "instance-level security groups" in message


def test_instances_take_from_a_reservation_and_give_back(cluster: Setup) -> None:
    reservation = cluster.reservation()
    group = cluster.node_group(desired=2, CapacityReservationSpecification=target(reservation))
    assert group["status"] == "ACTIVE"
    assert cluster.available(reservation) == 0
    cluster.scale(group, 1)
    assert cluster.available(reservation) == 1


def test_an_open_reservation_is_used_unasked_and_a_targeted_one_is_not(cluster: Setup) -> None:
    targeted = cluster.reservation(InstanceType="m5.xlarge")
    opened = cluster.reservation(InstanceType="m5.xlarge", InstanceMatchCriteria="open")
    cluster.node_group(desired=1, instance_type="m5.xlarge")
    assert (cluster.available(opened), cluster.available(targeted)) == (1, 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"InstanceCount": 1}, "ReservationCapacityExceeded"),
        ({"InstanceType": "m5.large"}, "instance type c5.large does not match"),
        ({"AvailabilityZone": "us-east-1b"}, "Availability Zone us-east-1a does not match"),
    ],
)
def test_a_reservation_that_does_not_fit_fails_the_launch(
    cluster: Setup, settings: dict[str, Any], words: str
) -> None:
    reservation = target(cluster.reservation(**settings))
    assert words in cluster.failed_launch(CapacityReservationSpecification=reservation)


def test_an_unknown_or_cancelled_reservation_fails_the_launch(cluster: Setup) -> None:
    cancelled = cluster.reservation()
    cluster.ec2.cancel_capacity_reservation(CapacityReservationId=cancelled)
    for name, words in (("cr-0123456789abcdef0", "cr-0123456789abcdef0"), (cancelled, "cancelled")):
        assert words in cluster.failed_launch(CapacityReservationSpecification=target(name))


def test_a_placement_group_with_an_active_reservation_stays(cluster: Setup) -> None:
    name = cluster.placement_group("cluster")
    reservation = cluster.reservation(PlacementGroupArn=cluster.group_of(name)["GroupArn"])
    _, message = cluster.issue(CapacityReservationSpecification=target(reservation))
    assert "placement group" in message, "it takes instances of its group alone"
    with pytest.raises(ClientError, match="active Capacity Reservation"):
        cluster.ec2.delete_placement_group(GroupName=name)
    cluster.ec2.cancel_capacity_reservation(CapacityReservationId=reservation)
    cluster.ec2.delete_placement_group(GroupName=name)


def test_a_node_group_goes_to_zero_and_back_as_often_as_wanted(cluster: Setup) -> None:
    group = cluster.node_group(desired=2)
    first = {node.instance_id for node in cluster.nodes(group)}
    for _ in range(3):
        asleep, update = cluster.scale(group, 0)
        assert (asleep["status"], update["status"]) == ("ACTIVE", "Successful")
        assert cluster.nodes(group) == []
        awake, update = cluster.scale(group, 2)
        assert (awake["status"], update["status"]) == ("ACTIVE", "Successful")
        assert len(cluster.nodes(group)) == 2
    assert first.isdisjoint(node.instance_id for node in cluster.nodes(group))


def test_an_instance_that_somebody_terminates_is_replaced_by_one_of_another_name(
    cluster: Setup,
) -> None:
    group = cluster.node_group(desired=2)
    lost, other = cluster.nodes(group)
    cluster.ec2.terminate_instances(InstanceIds=[lost.instance_id])
    nodes = eventually(
        lambda: cluster.nodes(group),
        lambda nodes: len(nodes) == 2 and lost.name not in {node.name for node in nodes},
    )
    assert other in nodes
    assert lost.name in cluster.recorded.terminated
    assert cluster.settled(group["nodegroupName"])["status"] == "ACTIVE"
    cluster.scale(group, 0)
    assert cluster.nodes(group) == []


@pytest.fixture
def dns_cluster(lab: Lab) -> Iterator[Setup]:
    """A cluster of its own, because CoreDNS's replicas move to the nodes of other groups."""
    setup = Setup(lab)
    setup.create_cluster()
    yield setup
    with contextlib.suppress(setup.eks.exceptions.ResourceNotFoundException):
        setup.eks.delete_addon(clusterName=setup.name, addonName="coredns")


def test_the_last_node_stays_while_the_budget_of_coredns_holds_its_pod(dns_cluster: Setup) -> None:
    first, second = dns_cluster.node_group(desired=2), dns_cluster.node_group(desired=2)
    eks, addon = dns_cluster.eks, {"clusterName": dns_cluster.name, "addonName": "coredns"}
    eks.create_addon(**addon)
    eventually(
        lambda: eks.describe_addon(**addon)["addon"]["status"], lambda status: status == "ACTIVE"
    )
    asleep, _ = dns_cluster.scale(first, 0)
    assert asleep["status"] == "ACTIVE", "the other group takes the replicas"
    scaling = {"minSize": 0, "maxSize": 8, "desiredSize": 0}
    name = second["nodegroupName"]
    eks.update_nodegroup_config(
        clusterName=dns_cluster.name, nodegroupName=name, scalingConfig=scaling
    )
    eventually(lambda: len(dns_cluster.nodes(second)), lambda number: number == 1)
    held = eks.describe_nodegroup(clusterName=dns_cluster.name, nodegroupName=name)["nodegroup"]
    assert held["status"] == "UPDATING"
    eks.update_addon(
        **addon, configurationValues=json.dumps({"podDisruptionBudget": {"enabled": False}})
    )
    assert dns_cluster.settled(name)["status"] == "ACTIVE"
    assert dns_cluster.nodes(second) == []


def test_the_stacks_own_nodes_go_to_zero_without_waiting_for_coredns(dns_cluster: Setup) -> None:
    group = dns_cluster.node_group(desired=2)
    dns_cluster.lab.created(
        (ROOT / "templates" / "addons.yaml").read_text("utf-8"), {"ClusterName": dns_cluster.name}
    )
    addon = {"clusterName": dns_cluster.name, "addonName": "coredns"}
    described = dns_cluster.eks.describe_addon(**addon)["addon"]
    values = json.loads(described.get("configurationValues") or "{}")
    assert values["autoScaling"]["enabled"] is True
    asleep, update = dns_cluster.scale(group, 0)
    assert (asleep["status"], update["status"]) == ("ACTIVE", "Successful")


def test_nodes_that_do_not_come_back_degrade_the_group_until_they_do(cluster: Setup) -> None:
    group = cluster.node_group(desired=0)
    cluster.recorded.fail_with = "containerd ended"
    try:
        degraded, update = cluster.scale(group, 1)
    finally:
        cluster.recorded.fail_with = None
    assert (degraded["status"], update["status"]) == ("DEGRADED", "Failed")
    assert "containerd ended" in update["errors"][0]["errorMessage"]
    cluster.scale(group, 0)
    healed, update = cluster.scale(group, 1)
    assert (healed["status"], healed["health"]["issues"]) == ("ACTIVE", [])


def test_a_launch_is_refused_in_ec2s_words_and_what_started_joins(cluster: Setup) -> None:
    spread = cluster.placement_group("spread")
    group = cluster.node_group(desired=0, Placement={"GroupName": spread})
    other = cluster.node_group(desired=0)
    with cluster.lab.fault("launches-refused", on="spread") as fault:
        refused, update = cluster.scale(group, 5)
        filled, _ = cluster.scale(other, 2)
        active = active_faults(cluster.lab.region.endpoint_url)
        assert fault.hits == 1
    (issue,) = refused["health"]["issues"]
    assert (refused["status"], update["status"]) == ("DEGRADED", "Failed")
    assert issue["code"] == "AsgInstanceLaunchFailures"
    assert lacks_capacity(issue["message"])
    assert "do not have sufficient c5.large capacity" in issue["message"]
    assert len(cluster.nodes(group)) < 5
    assert (filled["status"], len(cluster.nodes(other))) == ("ACTIVE", 2)
    shares = {strategy: share for strategy, share, _ in capacity.truth(active)}
    assert (shares["spread"], shares["none"]) == (0.0, 1.0)
    healed, _ = cluster.scale(group, 5)
    assert (healed["status"], len(cluster.nodes(group))) == ("ACTIVE", 5)


def test_a_failed_launch_is_an_activity_long_before_it_is_a_health_issue(
    cluster: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread = cluster.placement_group("spread")
    group = cluster.node_group(desired=1, Placement={"GroupName": spread})
    names = {"clusterName": cluster.name, "nodegroupName": group["nodegroupName"]}
    scaling_group = group["resources"]["autoScalingGroups"][0]["name"]
    monkeypatch.setattr(node_groups, "GIVE_UP_SECONDS", HUNG_SECONDS)
    cluster.eks.update_nodegroup_config(**names, scalingConfig={"desiredSize": 8})

    def activities() -> list[dict[str, Any]]:
        request = {"AutoScalingGroupName": scaling_group}
        response = cluster.lab.client("autoscaling").describe_scaling_activities(**request)
        return list(response["Activities"])

    latest, earlier = eventually(activities, lambda listed: len(listed) == 2)
    assert (latest["StatusCode"], earlier["StatusCode"]) == ("Failed", "Successful")
    assert "may have at most 7 running instances" in latest["StatusMessage"]
    waiting = cluster.eks.describe_nodegroup(**names)["nodegroup"]
    assert (waiting["status"], waiting["health"]["issues"]) == ("UPDATING", [])
    scaling = cluster.lab.client("autoscaling")
    reasons = why_lacking(cluster.eks, scaling, cluster.name, [group["nodegroupName"]])
    assert "may have at most 7 running instances" in "".join(reasons.known)
    assert reasons.unread == []
    cluster.eks.delete_nodegroup(**names)
    eventually(activities, lambda listed: listed == [])


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"minSize": 2, "maxSize": 3, "desiredSize": 1}, "can't be greater than desired size 1"),
        ({"minSize": 0, "maxSize": 3, "desiredSize": 4}, "can't be greater than max size 3"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(
    cluster: Setup, sizes: dict[str, int], words: str
) -> None:
    group = cluster.node_group(desired=0)
    with pytest.raises(ClientError, match=words):
        cluster.eks.update_nodegroup_config(
            clusterName=cluster.name,
            nodegroupName=group["nodegroupName"],
            scalingConfig=sizes,
        )


def test_a_type_that_cannot_run_the_image_is_refused(cluster: Setup) -> None:
    with pytest.raises(ClientError, match="not a valid instance type for requested amiType"):
        cluster.node_group(instance_type="m7g.large")
    with pytest.raises(ClientError, match="do not exist"):
        cluster.node_group(instance_type="c5.tiny")


def test_a_clusters_settings_are_kept_and_described(lab: Lab) -> None:
    setup = Setup(lab)
    key = lab.client("kms").create_key()["KeyMetadata"]["Arn"]
    encryption = [{"resources": ["secrets"], "provider": {"keyArn": key}}]
    cluster = setup.create_cluster(
        encryptionConfig=encryption,
        logging={"clusterLogging": [{"types": ["audit"], "enabled": True}]},
        accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"},
        resourcesVpcConfig={
            "endpointPrivateAccess": True,
            "publicAccessCidrs": ["1.1.1.0/24"],
        },
    )
    assert cluster["encryptionConfig"] == encryption
    assert cluster["accessConfig"]["authenticationMode"] == "API_AND_CONFIG_MAP"
    assert cluster["resourcesVpcConfig"]["endpointPrivateAccess"] is True
    assert cluster["resourcesVpcConfig"]["publicAccessCidrs"] == ["1.1.1.0/24"]
    on, off = cluster["logging"]["clusterLogging"]
    assert (on["types"], on["enabled"]) == (["audit"], True)
    assert (len(off["types"]), off["enabled"]) == (4, False)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"resourcesVpcConfig": {"endpointPublicAccess": False}},
            "endpoint access cannot both be disabled",
        ),
        (
            {"resourcesVpcConfig": {"publicAccessCidrs": ["1.1.1.0/24", "10.0.0.0/8"]}},
            r"invalid in publicAccessCidrs: \[10.0.0.0/8\]",
        ),
        (
            {"encryptionConfig": [{"resources": ["pods"], "provider": {"keyArn": "arn:aws:k"}}]},
            '"secrets"',
        ),
        (
            {"encryptionConfig": [{"resources": ["secrets"], "provider": {"keyArn": "arn:aws:k"}}]},
            "keyArn in encryptionConfig provider is invalid",
        ),
        (
            {"logging": {"clusterLogging": [{"types": ["all"], "enabled": True}]}},
            "Unsupported log type all",
        ),
    ],
)
def test_a_cluster_that_eks_would_refuse_is_refused(
    lab: Lab, settings: dict[str, Any], words: str
) -> None:
    setup = Setup(lab)
    with pytest.raises(ClientError, match=words):
        setup.create_cluster(**settings)
    with pytest.raises(lab.client("eks").exceptions.ResourceNotFoundException):
        lab.client("eks").describe_cluster(name=setup.name)


def test_node_group_beyond_the_quota_of_nodes_is_refused_and_keeps_its_size(
    cluster: Setup,
) -> None:
    name = cluster.node_group(desired=1)["nodegroupName"]
    for size in (451, 1002):
        with pytest.raises(
            cluster.eks.exceptions.InvalidParameterException, match="450, the quota of nodes"
        ):
            cluster.eks.update_nodegroup_config(
                clusterName=cluster.name,
                nodegroupName=name,
                scalingConfig={"maxSize": size, "desiredSize": 1},
            )
    quota = cluster.lab.client("service-quotas").get_service_quota(
        ServiceCode="eks", QuotaCode="L-BD136A63"
    )["Quota"]
    assert (quota["QuotaName"], quota["Value"]) == ("Nodes per managed node group", 450)
    group = cluster.eks.describe_nodegroup(clusterName=cluster.name, nodegroupName=name)
    assert group["nodegroup"]["scalingConfig"]["maxSize"] < 450


def test_scale_out_beyond_the_subnets_addresses_degrades_the_group(cluster: Setup) -> None:
    narrow = cluster.ec2.create_subnet(
        VpcId=cluster.vpc, CidrBlock="10.0.250.0/24", AvailabilityZone="us-east-1a"
    )["Subnet"]["SubnetId"]
    cluster.subnets[2] = narrow
    group, update = cluster.scale(cluster.node_group(desired=1), 8)
    (error,) = update["errors"]
    assert (update["status"], error["errorCode"]) == ("Failed", "InsufficientFreeAddresses")
    assert "10.0.250.0/24" in error["errorMessage"]
    assert group["status"] == "DEGRADED"
    assert group["health"]["issues"][0]["code"] == "InsufficientFreeAddresses"
