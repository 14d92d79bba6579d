"""Preflight refuses what cannot work, names parameter and remedy, and runs before all else."""

from __future__ import annotations

import functools
import ipaddress
import json
import re
from dataclasses import replace
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from lab.aws import quotas as lab_quotas
from lab.aws.moto_patches import CAPACITY_RESERVATIONS, PLACEMENT_GROUPS, QUOTAS, apply
from lab.tests.aws.region import group_of_another_account
from rackrate.plan import capacity
from rackrate.plan.capacity import addresses_per_node
from rackrate.settings import Cni
from rackrate.stack.existing_cluster import check_existing_cluster
from rackrate.stack.patience import Patience
from rackrate.stack.preflight import (
    LEAST_PODS,
    STACK_NAME_CHARACTERS,
    PreflightFailed,
    check_new_cluster,
    pods_that_fit,
)
from rackrate.stack.request import Request, Zones
from rackrate.stages.stack import preflight as stage
from tests import ROOT
from tests.templates.cloudformation import load
from tests.unit.stack.custom_resources import STACK_ID, Context, listener, only
from tests.unit.stack.custom_resources import request as cloudformation_request

PARENT = "pg-0123456789abcdef0"
PROPERTIES = {
    "StackName": "bench",
    "ExistingClusterName": "",
    "ExistingSubnetIds": "",
    "TreatmentSelector": "placementGroup=true",
    "BaselineSelector": "placementGroup=false",
    "Tolerations": "",
    "OnDemandNodeCount": "0",
    "ClusterName": "bench-0a",
    "InstanceType": "c5.large",
    "AmiType": "AL2023_x86_64_STANDARD",
    "NodeCount": "2",
    "LoadNodeCount": "0",
    "LoadInstanceType": "",
    "EndpointInstance": "none",
    "EndpointInstanceType": "",
    "LoadNodeSelector": "",
    "TreatmentStrategy": "cluster",
    "PartitionCount": "2",
    "ExistingPlacementGroup": "",
    "EnaExpress": "none",
    "BandwidthWeighting": "default",
    "MaxPods": "",
    "PrefixDelegation": "false",
    "TreatmentCapacityReservationId": "",
    "BaselineCapacityReservationId": "",
    "AvailabilityZone": "",
    "BaselineZones": "one",
    "Arms": "both",
    "VpcCidr": "10.0.0.0/16",
    "SecondaryCidr": "",
    "Egress": "nat",
    "HostNetwork": "false",
    "ToolImage": "build",
    "AllowedEndpoints": "",
    "RunOnCreate": "",
    "CampaignSchedule": "",
    "PublicAccessCidrs": "0.0.0.0/0",
    "KubernetesVersion": "1.36",
    "EncryptionKey": "aws",
    "AlarmRecipient": "",
    "Observability": "true",
    "RetainResults": "true",
}


@functools.cache
def region(instance_type="c5.large"):
    """The facts of us-east-1, from EC2's own tables in moto."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        ec2 = boto3.client("ec2", region_name="us-east-1")
        request = Request.from_properties({**PROPERTIES, "InstanceType": instance_type})
        return stage._facts(request, {}, ec2)


def check(facts=None, earlier=None, **properties):
    request = Request.from_properties({**PROPERTIES, **properties})
    return check_new_cluster(request, facts or region(request.instance_type), earlier or Zones())


def faults(facts=None, **properties):
    _, refused = check(facts, **properties)
    return [str(fault) for fault in refused]


def with_reservations(**reservations):
    return replace(region(), reservations=reservations)


def reservation(**changes):
    return {
        "State": "active",
        "InstanceType": "c5.large",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": "us-east-1c",
        "AvailableInstanceCount": 4,
        "TotalInstanceCount": 4,
        **changes,
    }


def test_the_templates_hand_over_every_property_the_check_reads():
    roots = [load(ROOT / f"{name}.yaml") for name in ("template", "existing-cluster")]
    of_roots = [set(root["Resources"]["Preflight"]["Properties"]) for root in roots]
    assert set.union(*of_roots) - {"ServiceToken", "ServiceTimeout"} == set(PROPERTIES)
    assert all("RetainResults" in properties for properties in of_roots)


def test_the_defaults_are_fine_and_the_first_zones_are_chosen():
    assert check() == (Zones("us-east-1a", "us-east-1b"), [])


def test_a_stack_with_one_arm_refuses_what_only_a_baseline_has():
    assert faults(Arms="treatment") == []
    refused = faults(Arms="treatment", BaselineZones="two", CampaignSchedule="rate(1 day)")
    places = ["BaselineZones two", "CampaignSchedule rate(1 day)"]
    assert [text.partition(":")[0] for text in refused] == places
    assert faults(CampaignSchedule="rate(1 day)") == []


# -- the image in the nodes' own network

DIGEST = f"@sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("host", "image", "refused"),
    [
        ("true", "docker.io/me/tools:1", True),
        ("true", "tools", True),
        ("true", f"docker.io/me/tools:1{DIGEST}", False),
        ("true", "build", False),
        ("false", "docker.io/me/tools:1", False),
    ],
)
def test_an_image_that_can_change_does_not_run_in_the_nodes_own_network(host, image, refused):
    expected = [
        f"HostNetwork true with ToolImage {image}: a tag can be moved to another image, and pods in"
        " the nodes' own network can get the credentials of the nodes' role; name the image with"
        " its digest (@sha256:...), or set ToolImage to build"
    ]
    assert faults(HostNetwork=host, ToolImage=image) == (expected if refused else [])
    assert existing(HostNetwork=host, ToolImage=image) == (expected if refused else [])


# -- the stack's name


@pytest.mark.parametrize("wrong", ["10.0.3.5/33", "10.0.3.5/16", "999.0.0.1/32", "fd00::/129"])
def test_a_range_of_endpoints_that_is_none_is_refused(wrong):
    told = faults(AllowedEndpoints=f"10.1.0.0/16,{wrong}")
    assert told == existing(AllowedEndpoints=f"10.1.0.0/16,{wrong}")
    (fault,) = told
    assert fault.startswith(f"AllowedEndpoints {wrong}: it is no range: ")
    assert fault.endswith("write such as 10.0.3.5/32")
    assert faults(AllowedEndpoints="10.0.3.5/32,fd00::/8") == []


def test_a_stack_whose_name_is_too_long_is_refused_before_the_cluster_is_made(clients):
    assert faults(StackName="n" * STACK_NAME_CHARACTERS) == []
    name = "n" * (STACK_NAME_CHARACTERS + 1)
    assert faults(StackName=name) == [
        f"The stack's name {name}: it has 71 characters, and the names of its state machines would"
        " be too long; deploy with a --stack-name of at most 70 characters"
    ]
    with pytest.raises(PreflightFailed, match=r"--stack-name[^\0]*no such cluster"):
        ask(clients, changes={"StackName": name, "ExistingClusterName": "house"})


# -- the instance type


def test_an_instance_type_that_cannot_be_in_the_group_is_refused_with_what_it_can():
    (fault,) = faults(InstanceType="t3.large")
    assert fault == (
        "InstanceType t3.large: it cannot be in a cluster placement group; choose another type,"
        " such as c5.large, or set TreatmentStrategy to partition, spread or none"
    )
    assert faults(InstanceType="t3.large", TreatmentStrategy="spread") == []
    assert faults(InstanceType="t3.large", TreatmentStrategy="none") == []


def test_an_unknown_instance_type_is_one_fault_and_not_five():
    (fault,) = faults(InstanceType="x9.huge")
    assert fault.startswith("InstanceType x9.huge: EC2 has no such instance type in this Region")


def test_ena_express_needs_a_type_that_has_it():
    (fault,) = faults(EnaExpress="treatment")
    assert fault.startswith("EnaExpress treatment: c5.large does not support ENA Express")
    assert faults(EnaExpress="both", InstanceType="c6in.8xlarge") == []


def test_with_ena_express_a_node_takes_no_more_pods_than_one_interface_has_addresses_for():
    express = {"EnaExpress": "treatment", "InstanceType": "c6in.8xlarge"}
    assert faults(**express, MaxPods="31") == []
    assert faults(**express, MaxPods="32") == [
        "MaxPods 32: with EnaExpress treatment nodes use one network interface, and that of"
        " c6in.8xlarge has addresses for 31 pods; set MaxPods to 31 or less, or leave it empty"
    ]
    assert faults(**express, MaxPods="250", PrefixDelegation="true") == []
    assert faults(**{**express, "EnaExpress": "none"}, MaxPods="32") == []


@pytest.mark.parametrize("weighting", ["vpc-1", "ebs-1"])
def test_a_bandwidth_weighting_needs_a_type_that_has_it(weighting):
    (fault,) = faults(BandwidthWeighting=weighting)
    assert fault.startswith(f"BandwidthWeighting {weighting}: c5.large can have default only")
    graviton = {"InstanceType": "m8g.large", "AmiType": "AL2023_ARM_64_STANDARD"}
    assert faults(BandwidthWeighting=weighting, **graviton) == []


@pytest.mark.parametrize(
    ("ami", "instance_type", "fits"),
    [
        ("AL2023_ARM_64_STANDARD", "c5.large", False),
        ("BOTTLEROCKET_ARM_64", "c5.large", False),
        ("BOTTLEROCKET_x86_64", "c5.large", True),
        ("AL2023_x86_64_STANDARD", "c6g.large", False),
        ("AL2023_ARM_64_STANDARD", "c6g.large", True),
    ],
)
def test_the_image_must_be_for_the_types_processor(ami, instance_type, fits):
    refused = faults(AmiType=ami, InstanceType=instance_type)
    assert (refused == []) is fits
    if not fits:
        assert refused[0].startswith(f"AmiType {ami}: the image is for")


# -- the group


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("c6g.large", "AmiType AL2023_x86_64_STANDARD: the image is for x86_64 and c6g.large is"),
        ("c9z.large", "LoadInstanceType c9z.large: EC2 has no such instance type"),
    ],
)
def test_the_load_nodes_own_type_must_be_there_and_fit_the_image(clients, kind, words):
    with pytest.raises(PreflightFailed, match=re.escape(words)):
        ask(clients, changes={"LoadNodeCount": "1", "LoadInstanceType": kind})
    # Without load nodes nothing asks for it.
    assert faults(LoadInstanceType=kind) == []


@pytest.mark.parametrize(
    ("endpoint", "kind", "words"),
    [
        ("outside", "c9z.large", "EC2 has no such instance type"),
        ("in-group", "c9z.large", "EC2 has no such instance type"),
        (
            "outside",
            "hpc7g.4xlarge",
            "the zone us-east-1a does not offer it, and the arms are there",
        ),
        ("in-group", "t3.large", "it cannot be in a cluster placement group; choose another type"),
        ("outside", "t3.large", None),
        ("in-group", "c6g.large", None),
        ("none", "c9z.large", None),
    ],
)
def test_the_type_of_the_instance_outside_the_cluster_must_be_there_and_fit_the_group(
    clients, endpoint, kind, words
):
    changes = {"EndpointInstance": endpoint, "EndpointInstanceType": kind}
    if words is None:
        assert ask(clients, changes=changes).data["Warnings"] == "none"
        return
    with pytest.raises(PreflightFailed) as refused:
        ask(clients, changes=changes)
    fault, *of_quotas = map(str, refused.value.faults)
    assert fault.startswith(f"EndpointInstanceType {kind}: {words}")
    assert all("vCPUs of the quota" in other for other in of_quotas)


def test_an_instance_in_the_group_needs_a_group():
    (fault,) = faults(EndpointInstance="in-group", TreatmentStrategy="none")
    assert fault.startswith("EndpointInstance in-group: TreatmentStrategy is none")
    assert faults(EndpointInstance="outside", TreatmentStrategy="none") == []


@pytest.mark.parametrize(
    ("changes", "architecture"),
    [
        ({"EndpointInstance": "outside"}, "x86_64"),
        ({"EndpointInstance": "outside", "EndpointInstanceType": "c6g.large"}, "arm64"),
    ],
)
def test_it_answers_with_the_architecture_of_the_instance_outside_the_cluster(
    clients, changes, architecture
):
    assert ask(clients, changes=changes).data["EndpointArchitecture"] == architecture


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("build", ""),
        ("ghcr.io/nicolaka/netshoot:v0.13", ""),
        (
            f"123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/tools:1{DIGEST}",
            "ecr:eu-west-1:123456789012:repository/team/tools",
        ),
        (
            "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/tools",
            "ecr:cn-north-1:123456789012:repository/tools",
        ),
    ],
)
def test_an_image_in_ecr_has_the_repository_that_the_instance_may_pull_from(image, repository):
    assert Request(StackName="bench", ToolImage=image).image_repository == repository


def test_a_rack_level_spread_group_takes_seven_instances():
    assert faults(TreatmentStrategy="spread", NodeCount="7") == []
    (fault,) = faults(TreatmentStrategy="spread", NodeCount="8")
    assert fault.startswith("NodeCount 8: a spread placement group holds at most 7")
    (fault,) = faults(TreatmentStrategy="spread", NodeCount="7", EndpointInstance="in-group")
    assert fault.endswith("set NodeCount to 6 or less, or choose another TreatmentStrategy")
    assert faults(TreatmentStrategy="cluster", NodeCount="8") == []


def test_a_group_takes_seven_partitions():
    (fault,) = faults(TreatmentStrategy="partition", PartitionCount="8")
    assert fault.startswith("PartitionCount 8:")
    assert faults(TreatmentStrategy="partition", PartitionCount="7") == []
    assert faults(TreatmentStrategy="cluster", PartitionCount="8") == []


def test_a_group_that_exists_must_be_there_and_of_the_strategy():
    def refused(group, **properties):
        return faults(replace(region(), group=group), ExistingPlacementGroup="theirs", **properties)

    assert refused({"State": "available", "Strategy": "cluster"}) == []
    (fault,) = refused(None)
    assert fault.startswith("ExistingPlacementGroup theirs: this Region has no such")
    (fault,) = refused({"State": "deleting", "Strategy": "cluster"})
    assert "the placement group is deleting" in fault
    (fault,) = refused({"State": "available", "Strategy": "spread"})
    assert "its strategy is spread, and it must be cluster" in fault
    assert "another TreatmentStrategy" in fault
    (fault,) = refused({"State": "available", "Strategy": "spread"}, TreatmentStrategy="none")
    assert "none, which uses no placement group" in fault


@pytest.mark.parametrize(
    ("kind", "strategy", "parent", "words"),
    [
        ("m7i.large", "precision-time", None, None),
        ("m8g.large", "precision-time", None, None),
        ("c5.large", "precision-time", None, "it cannot be in a precision-time placement group"),
        ("c5.large", "precision-time", None, "set TreatmentStrategy to cluster, partition, spread"),
        ("c5.large", "cluster", PARENT, "m7i.large, or take a placement group without a parent"),
        ("m7i.large", "cluster", PARENT, None),
        ("c5.large", "cluster", None, None),
    ],
)
def test_types_before_the_seventh_generation_have_no_precise_clock(kind, strategy, parent, words):
    group = {"State": "available", "Strategy": strategy}
    if parent:
        group["ParentGroupId"] = parent
    facts = replace(region(kind), group=group)
    image = "AL2023_ARM_64_STANDARD" if kind == "m8g.large" else "AL2023_x86_64_STANDARD"
    refused = faults(
        facts,
        InstanceType=kind,
        AmiType=image,
        TreatmentStrategy=strategy,
        ExistingPlacementGroup="theirs",
    )
    assert (refused == []) if words is None else (len(refused) == 1 and words in refused[0])


# -- zones


def test_a_zone_that_does_not_offer_the_type_is_refused_with_those_that_do():
    facts = replace(region(), offered=frozenset({"us-east-1b", "us-east-1d"}))
    (fault,) = faults(facts, AvailabilityZone="us-east-1a")
    assert fault.startswith("AvailabilityZone us-east-1a: the zone does not offer c5.large")
    assert "us-east-1b and us-east-1d" in fault
    assert check(facts)[0] == Zones("us-east-1b", "us-east-1a"), "the second needs no such offer"


def test_a_zone_without_control_planes_is_neither_chosen_nor_accepted():
    by_id = {zone["ZoneId"]: zone["ZoneName"] for zone in region().zones}
    bad = by_id["use1-az3"]
    facts = replace(region(), offered=frozenset({bad, "us-east-1f"}))
    assert check(facts)[0] == Zones("us-east-1f", "us-east-1a")
    fault, *_ = faults(AvailabilityZone=bad)
    assert "EKS places no control plane there (zone id use1-az3)" in fault


def test_local_zones_and_zones_of_elsewhere_are_refused():
    local = {"ZoneName": "us-east-1-bos-1a", "ZoneId": "use1-bos1-az1", "ZoneType": "local-zone"}
    zones, offered = [local, *region().zones], region().offered | {local["ZoneName"]}
    facts = replace(region(), zones=zones, offered=offered)
    assert check(facts)[0].first == "us-east-1a"
    (fault,) = faults(facts, AvailabilityZone="us-east-1-bos-1a")
    assert "EKS places no control plane in a local-zone" in fault
    assert "eu-west-1a: the Region has no such zone" in faults(AvailabilityZone="eu-west-1a")[0]


def test_the_second_zone_differs_from_a_first_that_was_named():
    assert check(AvailabilityZone="us-east-1a")[0] == Zones("us-east-1a", "us-east-1b")
    assert check(AvailabilityZone="us-east-1b")[0] == Zones("us-east-1b", "us-east-1a")


def test_a_second_zone_with_nodes_has_to_offer_their_type():
    facts = replace(region(), offered=frozenset({"us-east-1b", "us-east-1d"}))
    assert check(facts, BaselineZones="two") == (Zones("us-east-1b", "us-east-1d"), [])
    earlier = Zones("us-east-1b", "us-east-1a")
    assert check(facts, earlier) == (earlier, [])
    (fault,) = check(facts, earlier, BaselineZones="two")[1]
    assert str(fault).startswith("BaselineZones two: the second zone, us-east-1a, does not offer")


def test_a_second_range_of_addresses_is_in_one_zone_and_so_are_the_nodes():
    (fault,) = faults(SecondaryCidr="100.64.0.0/16", BaselineZones="two")
    assert fault.startswith("SecondaryCidr 100.64.0.0/16: it is in one zone")


def test_a_type_that_one_zone_offers_has_no_second_zone_for_its_nodes():
    facts = replace(region(), offered=frozenset({"us-east-1b"}))
    (fault,) = faults(facts, BaselineZones="two")
    assert "set BaselineZones to one, or choose another InstanceType" in fault


def test_an_update_keeps_the_zones():
    earlier = Zones("us-east-1d", "us-east-1c")
    assert check(earlier=earlier) == (earlier, [])
    assert check(earlier=earlier, AvailabilityZone="us-east-1d") == (earlier, [])


@given(st.sampled_from(["us-east-1a", "ap-northeast-1d"]), st.data())
def test_zones_survive_the_physical_id(first, data):
    zones = Zones(first, data.draw(st.text("abcdef-123", min_size=1)))
    assert Zones.from_text(str(zones)) == zones
    assert Zones.from_text("nothing") == Zones.from_text("my-cluster") == Zones()


# -- capacity reservations


def test_a_reservation_chooses_the_zone():
    zones, refused = check(
        with_reservations(**{"cr-1": reservation()}), BaselineCapacityReservationId="cr-1"
    )
    assert (zones, refused) == (Zones("us-east-1c", "us-east-1a"), [])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"State": "cancelled"}, "the reservation is cancelled"),
        ({"InstanceType": "m5.large"}, "it reserves m5.large, not c5.large"),
        ({"InstancePlatform": "Windows"}, "it reserves Windows"),
        ({"AvailableInstanceCount": 1}, "1 instances are free in it and 2 nodes are to use it"),
        ({"PlacementGroupArn": "arn:x:placement-group/theirs"}, "only for instances there"),
    ],
)
def test_a_reservation_that_does_not_fit_is_refused(changes, words):
    facts = with_reservations(**{"cr-1": reservation(**changes)})
    (fault,) = faults(facts, BaselineCapacityReservationId="cr-1")
    assert fault.startswith("BaselineCapacityReservationId cr-1: ") and words in fault


def test_reservations_that_do_not_exist_or_are_elsewhere_are_refused():
    facts = with_reservations(**{"cr-1": None, "cr-2": reservation()})
    refused = faults(
        facts,
        TreatmentCapacityReservationId="cr-1",
        BaselineCapacityReservationId="cr-2",
        AvailabilityZone="us-east-1a",
    )
    assert len(refused) == 2
    assert "TreatmentCapacityReservationId cr-1: there is no such" in refused[0]
    assert "it is in us-east-1c and the nodes are in us-east-1a" in refused[1]


def test_one_reservation_for_both_arms_must_hold_both_and_own_nodes_count_on_an_update():
    both = {
        "TreatmentCapacityReservationId": "cr-1",
        "BaselineCapacityReservationId": "cr-1",
        "TreatmentStrategy": "none",
    }
    assert faults(with_reservations(**{"cr-1": reservation()}), **both) == []
    refused = faults(with_reservations(**{"cr-1": reservation(AvailableInstanceCount=3)}), **both)
    assert len(refused) == 2 and "3 instances are free in it and 4 nodes" in refused[0]
    used = with_reservations(**{"cr-1": reservation(AvailableInstanceCount=0)})
    assert faults(replace(used, held=frozenset({"cr-1"})), **both) == []


@pytest.mark.parametrize(
    ("strategy", "existing_group", "made_in", "words"),
    [
        ("cluster", "theirs", "theirs", None),
        ("precision-time", "theirs", "theirs", None),
        ("precision-time", "theirs", "", "a precision-time placement group takes only"),
        ("cluster", "pg-0123456789abcdef0", "theirs", None),
        ("cluster", "theirs", "other", "set ExistingPlacementGroup to other"),
        ("cluster", "", "theirs", "set ExistingPlacementGroup to theirs"),
        ("cluster", "theirs", "", "made in no placement group"),
        ("cluster", "", "", "made in no placement group"),
        ("spread", "", "", "capacity cannot be reserved in a spread placement group"),
        ("none", "", "theirs", "only for instances there"),
    ],
)
def test_a_cluster_group_takes_only_reservations_made_in_it(
    strategy, existing_group, made_in, words
):
    more = {"PlacementGroupArn": f"arn:x:placement-group/{made_in}"} if made_in else {}
    reservations = {"cr-1": reservation(InstanceType="m7i.large", **more)}
    group = None
    if existing_group:
        named = {"GroupArn": "arn:x:placement-group/theirs"}
        group = {"State": "available", "Strategy": strategy, **named}
    facts = replace(region("m7i.large"), reservations=reservations, group=group)
    refused = faults(
        facts,
        InstanceType="m7i.large",
        TreatmentStrategy=strategy,
        ExistingPlacementGroup=existing_group,
        TreatmentCapacityReservationId="cr-1",
    )
    assert (refused == []) if words is None else (len(refused) == 1 and words in refused[0])


# -- addresses


@pytest.mark.parametrize(("nodes", "fits"), [("101", True), ("102", False)])
def test_too_few_addresses_are_refused_with_the_arithmetic(nodes, fits):
    refused = faults(NodeCount=nodes)
    assert (refused == []) is fits
    if not fits:
        assert refused == [
            "NodeCount 102: the 204 nodes of the arms can take 4080 addresses, 20 each (2 network"
            " interfaces of 10 for 9 pods and for quick starts), and a subnet of VpcCidr, a /20,"
            " has 4059 for them; lower NodeCount or set SecondaryCidr to a /16, such as"
            " 100.64.0.0/16"
        ]
        assert "set a smaller MaxPods" in faults(NodeCount=nodes, MaxPods="29")[0]
        assert faults(NodeCount="450", SecondaryCidr="100.64.0.0/16") == []


@pytest.mark.parametrize(
    ("nodes", "changes", "pods"),
    [
        ("67", {}, None),
        ("68", {}, 11),
        ("20", {"InstanceType": "c5.24xlarge"}, 51),
        ("102", {}, LEAST_PODS),
        ("546", {"SecondaryCidr": "100.64.0.0/16"}, None),
        ("819", {"SecondaryCidr": "100.64.0.0/16"}, 11),
    ],
)
def test_nodes_get_as_many_pods_as_the_subnet_has_addresses_for(nodes, changes, pods):
    request = Request.from_properties({**PROPERTIES, "NodeCount": nodes, **changes})
    assert pods_that_fit(request, region(request.instance_type).instance_type, None) == pods


@given(
    nodes=st.integers(2, 450),
    pods=st.none() | st.integers(4, 250),
    prefixes=st.booleans(),
    kind=st.sampled_from(["c5.large", "c6in.8xlarge", "c5.24xlarge", "t3.micro", "c6g.large"]),
)
def test_more_nodes_or_more_pods_never_take_fewer_addresses(nodes, pods, prefixes, kind):
    described = region(kind).instance_type
    cni = Cni(prefixes, one_interface=False)
    each, _ = addresses_per_node(described, cni, max_pods=pods)
    network = described["NetworkInfo"]
    assert (
        each > network["Ipv4AddressesPerInterface"]
        or each > capacity._PREFIX_ADDRESSES
        or (network["MaximumNetworkInterfaces"] * network["Ipv4AddressesPerInterface"] == each)
    )
    if pods is not None and pods < 250:
        more, _ = addresses_per_node(described, cni, max_pods=pods + 1)
        assert more >= each
    text = {"NodeCount": str(nodes), "MaxPods": "" if pods is None else str(pods)}
    refused = faults(
        InstanceType=kind,
        AmiType="AL2023_ARM_64_STANDARD" if kind == "c6g.large" else PROPERTIES["AmiType"],
        TreatmentStrategy="none",
        PrefixDelegation="true" if prefixes else "false",
        **text,
    )
    if pods is None and 2 * nodes * each > 4096 - 5 - 32:
        each, _ = addresses_per_node(described, cni, max_pods=LEAST_PODS)
    assert bool(refused) == (2 * nodes * each > 4096 - 5 - 32)


@pytest.mark.parametrize(
    ("vpc", "secondary", "words"),
    [
        ("10.0.0.0/16", "10.0.0.0/16", "overlaps VpcCidr 10.0.0.0/16"),
        ("10.0.0.0/16", "192.168.0.0/16", "another private range"),
        ("10.0.0.0/16", "100.64.300.0/16", "not an IPv4 range"),
        ("10.0.0.300/16", "", "VpcCidr 10.0.0.300/16: it is not an IPv4 range"),
    ],
)
def test_ranges_that_a_vpc_does_not_take_are_refused(vpc, secondary, words):
    (fault,) = faults(VpcCidr=vpc, SecondaryCidr=secondary)
    assert words in fault
    assert faults(VpcCidr="10.0.0.0/16", SecondaryCidr="10.1.0.0/16") == []


@given(st.integers(0, 255), st.integers(0, 255))
def test_overlap_is_found_wherever_it_is(one, two):
    vpc, secondary = f"10.{one}.0.0/17", f"10.{two}.0.0/16"
    overlapping = ipaddress.ip_network(vpc).overlaps(ipaddress.ip_network(secondary))
    assert bool(faults(VpcCidr=vpc, SecondaryCidr=secondary)) == overlapping


# -- an existing cluster

CLUSTER = {
    "name": "house",
    "arn": "arn:aws:eks:us-east-1:123456789012:cluster/house",
    "status": "ACTIVE",
    "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
    "resourcesVpcConfig": {
        "vpcId": "vpc-1",
        "clusterSecurityGroupId": "sg-1",
        "endpointPublicAccess": True,
        "endpointPrivateAccess": True,
        "publicAccessCidrs": ["0.0.0.0/0"],
    },
}
SUBNET = {"SubnetId": "subnet-1", "VpcId": "vpc-1", "AvailableIpAddressCount": 100}


def existing(cluster=CLUSTER, subnets=(SUBNET,), **properties):
    request = Request.from_properties({**PROPERTIES, "ExistingClusterName": "house", **properties})
    refused = check_existing_cluster(request, cluster, {s["SubnetId"]: s for s in subnets})
    return [str(fault) for fault in refused]


def network(**changes):
    return {**CLUSTER, "resourcesVpcConfig": {**CLUSTER["resourcesVpcConfig"], **changes}}


def test_a_cluster_that_is_ready_for_access_entries_is_taken_whatever_the_instance_type():
    assert existing() == existing(InstanceType="t3.large", NodeCount="450") == []
    assert existing(ExistingSubnetIds="subnet-1") == []


@pytest.mark.parametrize(
    ("cluster", "properties", "words"),
    [
        (None, {}, "ExistingClusterName house: this Region has no such cluster"),
        ({**CLUSTER, "status": "UPDATING"}, {}, "the cluster is UPDATING; wait"),
        (
            {**CLUSTER, "accessConfig": {"authenticationMode": "CONFIG_MAP"}},
            {},
            "run aws eks update-cluster-config --name house --access-config"
            " authenticationMode=API_AND_CONFIG_MAP",
        ),
        ({k: v for k, v in CLUSTER.items() if k != "accessConfig"}, {}, "mode is CONFIG_MAP"),
        (
            network(endpointPublicAccess=False),
            {},
            "ExistingSubnetIds: the cluster's endpoint is not public",
        ),
        (network(publicAccessCidrs=["192.0.2.0/24"]), {}, "only 192.0.2.0/24 may reach"),
        (
            network(endpointPrivateAccess=False),
            {"ExistingSubnetIds": "subnet-1"},
            "ExistingSubnetIds: the cluster's endpoint cannot be reached from its VPC",
        ),
        (
            CLUSTER,
            {"ExistingSubnetIds": "subnet-1,subnet-9"},
            "ExistingSubnetIds subnet-9: this Region has no such subnet",
        ),
        (
            network(vpcId="vpc-2"),
            {"ExistingSubnetIds": "subnet-1"},
            "it is in vpc-1 and the cluster in vpc-2",
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_with_the_remedy(cluster, properties, words):
    (fault,) = existing(cluster, **properties)
    assert words in fault


IPV6 = {**CLUSTER, "kubernetesNetworkConfig": {"ipFamily": "ipv6"}}


def test_tests_that_a_cluster_of_ipv6_cannot_have_are_refused_in_the_first_run():
    plan = json.dumps(
        {"tests": ["tcp-1", "latency", "cassandra", "misspelt", {"name": "requests"}]}
    )
    first, second = existing(IPV6, RunOnCreate=plan)
    assert first.startswith("RunOnCreate tests[1]: the cluster's pods have IPv6 addresses, and")
    assert second.startswith("RunOnCreate tests[2]: ")
    assert existing(RunOnCreate=plan) == []
    for other in ("", "{}", "{", "[]", json.dumps({"tests": 5})):
        assert existing(IPV6, RunOnCreate=other) == []


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {"TreatmentSelector": "pool in fast"},
            "TreatmentSelector pool in fast: 'pool in fast' is",
        ),
        ({"BaselineSelector": "a=b,"}, "BaselineSelector a=b,: a condition is empty; write"),
        ({"Tolerations": "dedicated:Never"}, "Tolerations dedicated:Never: 'Never' in"),
        (
            {"TreatmentSelector": "a=b,c=d", "BaselineSelector": "c == d, a == b"},
            "it selects the same nodes as TreatmentSelector",
        ),
    ],
)
def test_what_selects_no_nodes_or_the_same_is_refused_by_its_parameters_name(properties, words):
    (fault,) = existing(**properties)
    assert words in fault


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"OnDemandNodeCount": "1"}, "OnDemandNodeCount 1: a pair needs 2 nodes"),
        ({"LoadNodeCount": "1"}, "LoadNodeCount 1: no label says which nodes"),
        (
            {"OnDemandNodeCount": "2", "LoadNodeSelector": "arm=load"},
            "a run would ask for 0 nodes that LoadNodeSelector selects",
        ),
        ({"OnDemandNodeCount": "2", "LoadNodeSelector": "arm=load", "LoadNodeCount": "1"}, None),
        ({"LoadNodeSelector": "arm=load"}, None),
    ],
)
def test_nodes_that_an_autoscaler_is_asked_for_need_a_label_and_a_number(properties, words):
    refused = existing(**properties)
    assert (refused == []) if words is None else (len(refused) == 1 and words in refused[0])


def test_alarms_need_observability():
    off = {"AlarmRecipient": "me@example.com", "Observability": "false"}
    for refused in (faults(**off), existing(**off)):
        assert len(refused) == 1 and refused[0].startswith("AlarmRecipient me@example.com: ")
    assert faults(AlarmRecipient="me@example.com") == faults(Observability="false") == []


def test_nodes_without_a_way_to_the_internet_pull_no_public_image():
    image = f"ghcr.io/me/tools:1{DIGEST}"
    (fault,) = faults(Egress="endpoints", ToolImage=image)
    assert fault.startswith(f"Egress endpoints with ToolImage {image}: ")
    own = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/tools{DIGEST}"
    assert faults(Egress="endpoints", ToolImage=own) == faults(ToolImage=image) == []


def test_faults_of_selectors_are_told_with_a_missing_cluster():
    assert len(existing(None, TreatmentSelector="=", Tolerations="=")) == 3


def test_a_full_subnet_is_refused():
    full = {**SUBNET, "AvailableIpAddressCount": 3}
    (fault,) = existing(subnets=[full], ExistingSubnetIds="subnet-1")
    assert fault.startswith("ExistingSubnetIds subnet-1: 3 of its addresses are free")


# -- the custom resource


@pytest.fixture(scope="module")
def clients(aws):
    apply((*CAPACITY_RESERVATIONS, *PLACEMENT_GROUPS, *QUOTAS))
    known = {name: aws.client(name) for name in ("ec2", "eks", "service-quotas")}
    return known | {"cloudformation": StackOf("UPDATE_IN_PROGRESS"), "freetier": FreeTier("PAID")}


class FreeTier:
    """AWS Free Tier with an account of this plan."""

    def __init__(self, plan):
        self.plan = plan

    def get_account_plan_state(self):
        return {"accountPlanType": self.plan, "accountPlanStatus": "ACTIVE"}


class StackOf:
    """CloudFormation with a stack of this status, and nested stacks with these parameters."""

    def __init__(self, status, **nested):
        self.status, self.nested = status, nested

    def describe_stacks(self, StackName):
        if StackName == STACK_ID:
            return {"Stacks": [{"StackStatus": self.status}]}
        parameters = self.nested[StackName].items()
        entries = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters]
        return {"Stacks": [{"Parameters": entries}]}

    def get_paginator(self, operation):
        assert operation == "list_stack_resources"
        return self

    def paginate(self, StackName):
        assert StackName == STACK_ID
        named = [{"LogicalResourceId": n, "PhysicalResourceId": n} for n in self.nested]
        return [{"StackResourceSummaries": named}]


def ask(clients, kind="Create", changes=None, patience=None, **extra):
    event = cloudformation_request(kind, {**PROPERTIES, **(changes or {})}, **extra)
    return stage.serve_request(
        event,
        ec2=clients["ec2"],
        eks=clients["eks"],
        quotas=clients["service-quotas"],
        free_tier=clients["freetier"],
        cloudformation=clients["cloudformation"],
        patience=patience or Patience([]),
    )


def update(clients, changes, before=None, **more):
    old = {**PROPERTIES, **(before or {})}
    id_ = "us-east-1c,us-east-1d"
    return ask(
        clients, "Update", changes, PhysicalResourceId=id_, OldResourceProperties=old, **more
    )


def test_it_answers_with_the_zones_it_chose(clients):
    answer = ask(clients)
    assert answer.physical_id == "us-east-1a,us-east-1b"
    assert answer.data == {
        "AvailabilityZone": "us-east-1a",
        "OtherAvailabilityZone": "us-east-1b",
        "ClusterArn": "",
        "ClusterSecurityGroupId": "",
        "NodesOfGroups": "2,0,0,0",
        "NodesOfFirstGroup": "2",
        "NodesOfSecondGroup": "0",
        "NodesOfThirdGroup": "0",
        "NodesOfFourthGroup": "0",
        "EncryptSecrets": "false",
        "MaxPods": "",
        "LoadMaxPods": "",
        "PlacementGroupIsId": "false",
        "EndpointArchitecture": "x86_64",
        "ToolImageRepository": "",
        "Warnings": "none",
    }


def test_an_update_is_checked_again_and_a_deletion_never(clients):
    bad = {"InstanceType": "t3.large"}
    with pytest.raises(PreflightFailed, match=r"t3\.large"):
        update(clients, bad)
    assert ask(clients, "Delete", bad, PhysicalResourceId="nothing").physical_id == "nothing"


def test_an_update_tells_its_refused_changes_and_other_faults_in_one_message(clients):
    with pytest.raises(PreflightFailed) as refused:
        update(clients, {"VpcCidr": "10.1.0.0/16", "RetainResults": "false", "EnaExpress": "both"})
    names = [str(fault).partition(":")[0] for fault in refused.value.faults]
    assert names == [
        "RetainResults true -> false",
        "VpcCidr 10.0.0.0/16 -> 10.1.0.0/16",
        "EnaExpress both",
    ]


def test_another_cluster_is_refused_before_anything_is_asked_of_it(clients):
    with pytest.raises(PreflightFailed, match=r"\(empty\) -> house: a stack stays"):
        update({**clients, "eks": None}, {"ExistingClusterName": "house"})


@pytest.mark.parametrize("before", [{"VpcCidr": "10.1.0.0/16"}, {"InstanceType": "t3.large"}])
def test_a_rollback_is_never_refused_and_gives_the_zones_back(clients, before):
    rolled_back = {**clients, "cloudformation": StackOf("UPDATE_ROLLBACK_IN_PROGRESS")}
    answer = update(rolled_back, {"InstanceType": "t3.large"}, before=before)
    assert answer.physical_id == "us-east-1c,us-east-1d"
    assert answer.data["AvailabilityZone"] == "us-east-1c"


class Clusters:
    """EKS with the stack's own cluster."""

    def __init__(self, *encryption):
        self.encryption = list(encryption)

    def describe_cluster(self, name):
        assert name == PROPERTIES["ClusterName"]
        return {"cluster": {"name": name, "encryptionConfig": self.encryption}}


def test_secrets_of_a_new_cluster_have_the_stacks_key_and_an_existing_cluster_keeps_its_own(
    clients,
):
    key = {"EncryptionKey": "create"}
    assert ask(clients).data["EncryptSecrets"] == "false"
    assert ask(clients, changes=key).data["EncryptSecrets"] == "true"
    plain = {**clients, "eks": Clusters()}
    assert update(plain, key).data["EncryptSecrets"] == "false"
    encrypted = Clusters({"resources": ["secrets"], "provider": {"keyArn": "arn:x:key/1"}})
    answer = update({**clients, "eks": encrypted}, key, before=key)
    assert answer.data["EncryptSecrets"] == "true"


EARLIER = {
    "SpreadLevel": "rack",
    "NodeGroupsPerArm": "1",
    "PublicEndpoint": "true",
    "AuthenticationMode": "API",
    "EncryptSecrets": "true",
    "NodesOnDemand": "false",
    "OtherAvailabilityZone": "us-east-1d",
}


def test_a_stack_of_an_earlier_release_is_updated_unless_it_has_a_value_that_is_no_more(clients):
    nested = {"Cluster": {"ControlPlaneLogs": "all"}, "Network": {"Egress": "nat"}}
    earlier = {**clients, "cloudformation": StackOf("UPDATE_IN_PROGRESS", **nested)}
    assert update(earlier, {}, before=EARLIER).physical_id == "us-east-1c,us-east-1d"
    nested |= {"TreatmentNodes": {"KubeletConfig": '{"a": 1}'}, "Monitoring": {"AlarmEmail": "a@b"}}
    earlier["cloudformation"] = StackOf("UPDATE_IN_PROGRESS", **nested)
    with pytest.raises(PreflightFailed) as refused:
        update(earlier, {}, before={**EARLIER, "SpreadLevel": "host"})
    assert [str(fault).partition(":")[0] for fault in refused.value.faults] == [
        "AlarmEmail a@b",
        'KubeletConfig {"a"',
        "SpreadLevel host",
    ]


def test_a_stack_that_goes_back_to_an_earlier_release_gets_the_node_groups_that_it_had(clients):
    rolled_back = {**clients, "cloudformation": StackOf("UPDATE_ROLLBACK_IN_PROGRESS")}
    earlier = {**EARLIER, "NodeCount": "4", "NodeGroupsPerArm": "2"}
    assert update(rolled_back, earlier).data["NodesOfGroups"] == "2,2,0,0"


EXPRESS = {"EnaExpress": "treatment", "InstanceType": "c6in.8xlarge"}


@pytest.mark.parametrize(
    ("changes", "pods", "of_load"),
    [
        ({**EXPRESS, "NodeCount": "2"}, "31", "31"),
        ({**EXPRESS, "LoadNodeCount": "1", "LoadInstanceType": "c5.large"}, "31", "11"),
        ({**EXPRESS, "MaxPods": "20"}, "20", "20"),
        ({**EXPRESS, "PrefixDelegation": "true"}, "", ""),
        ({"MaxPods": "20"}, "20", "20"),
    ],
)
def test_it_answers_with_the_pods_of_one_interface_where_ena_express_is_used(
    clients, allow, changes, pods, of_load
):
    allow(STANDARD, 4000.0)
    answer = ask(clients, changes=changes)
    assert (answer.data["MaxPods"], answer.data["LoadMaxPods"]) == (pods, of_load)


def test_a_rollback_to_ena_express_answers_with_the_same_pods(clients):
    rolled_back = {**clients, "cloudformation": StackOf("UPDATE_ROLLBACK_IN_PROGRESS")}
    assert update(rolled_back, EXPRESS).data["MaxPods"] == "31"


def test_node_groups_that_are_replaced_need_vcpus_and_reservations_beside_the_old_ones(
    clients, allow
):
    allow(STANDARD, 7.0)
    with pytest.raises(PreflightFailed, match="= 8; 0 of 7 vCPUs"):
        update(clients, {"AmiType": "BOTTLEROCKET_x86_64"})
    reserved = {"BaselineCapacityReservationId": "cr-0123456789abcdef0"}
    request = Request.from_properties({**PROPERTIES, **reserved})
    assert stage._facts(request, reserved, clients["ec2"]).held == set(reserved.values())
    assert stage._facts(request, reserved, clients["ec2"], is_replaced=True).held == frozenset()


def test_an_unknown_reservation_is_a_fault_and_no_crash(clients):
    class Ec2:
        """EC2's answer for an unknown capacity reservation, because moto has none."""

        def __getattr__(self, name):
            return getattr(clients["ec2"], name)

        def describe_capacity_reservations(self, **_):
            error = {"Code": "InvalidCapacityReservationId.NotFound", "Message": "no"}
            raise ClientError({"Error": error}, "DescribeCapacityReservations")

    unknown = {"BaselineCapacityReservationId": "cr-0123"}
    with pytest.raises(PreflightFailed, match="cr-0123: there is no such"):
        ask({**clients, "ec2": Ec2()}, changes=unknown)


# -- quotas


@pytest.fixture
def allow(monkeypatch):
    """Set the account's value of a quota; None if nobody asked for more than the default."""

    def set_value(key, value):
        monkeypatch.setitem(lab_quotas.QUOTAS, key, replace(lab_quotas.QUOTAS[key], applied=value))

    return set_value


STANDARD = ("ec2", "L-1216C47A")


def refusal(*arguments, **named):
    with pytest.raises(PreflightFailed) as refused:
        ask(*arguments, **named)
    return str(refused.value)


def test_a_new_accounts_vcpus_are_too_few_for_the_default_stack_and_it_says_how_to_get_more(
    clients, allow
):
    allow(STANDARD, None)
    assert refusal(clients) == (
        "NodeCount 2: 4 nodes in all arms x 2 vCPUs (c5.large) = 8; 0 of 5 vCPUs of the quota"
        ' L-1216C47A ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances") are in'
        " use; ask Service Quotas for 8 or more (aws service-quotas"
        " request-service-quota-increase --service-code ec2 --quota-code L-1216C47A"
        " --desired-value 8), or choose another InstanceType with fewer vCPUs"
    )
    allow(STANDARD, 8.0)
    assert ask(clients).data["Warnings"] == "none"


def test_load_nodes_need_vcpus_too_also_of_another_quota(clients, allow):
    allow(STANDARD, 11.0)
    load = {"LoadNodeCount": "2"}
    words = "4 nodes in all arms x 2 vCPUs (c5.large) + 2 load nodes x 2 vCPUs (c5.large) = 12"
    assert words in refusal(clients, changes=load)
    load |= {"LoadInstanceType": "g4dn.xlarge"}
    allow(("ec2", "L-DB2E81BA"), 4.0)
    assert refusal(clients, changes=load).startswith(
        "LoadNodeCount 2: 2 load nodes x 4 vCPUs (g4dn.xlarge) = 8; 0 of 4 vCPUs of the quota"
    )
    allow(("ec2", "L-DB2E81BA"), 8.0)
    assert ask(clients, changes=load).data["Warnings"] == "none"


def test_the_instance_outside_the_cluster_needs_vcpus_too_also_of_another_quota(clients, allow):
    allow(STANDARD, 9.0)
    one = {"EndpointInstance": "outside"}
    words = "(c5.large) + 1 instance outside the cluster x 2 vCPUs (c5.large) = 10"
    assert words in refusal(clients, changes=one)
    one |= {"EndpointInstanceType": "g4dn.xlarge"}
    allow(("ec2", "L-DB2E81BA"), 3.0)
    refused = refusal(clients, changes=one)
    assert refused.startswith(
        "EndpointInstanceType g4dn.xlarge: 1 instance outside the cluster x 4 vCPUs"
        " (g4dn.xlarge) = 4; 0 of 3 vCPUs of the quota"
    )
    assert refused.endswith("or choose another EndpointInstanceType with fewer vCPUs")
    allow(("ec2", "L-DB2E81BA"), 4.0)
    assert ask(clients, changes=one).data["Warnings"] == "none"


@pytest.mark.parametrize(
    "more", [{"Arms": "treatment", "EndpointInstance": "outside"}, {"Arms": "both"}]
)
def test_an_update_that_adds_instances_needs_their_vcpus(clients, allow, more):
    allow(STANDARD, 5.0)
    with pytest.raises(PreflightFailed, match="of 5 vCPUs of the quota"):
        update(clients, more, before={"Arms": "treatment"})


def test_running_instances_of_the_family_count_and_those_of_others_do_not(clients, allow):
    ec2 = clients["ec2"]
    allow(STANDARD, 11.0)
    ids = []
    try:
        for kind in ("m5.xlarge", "g4dn.xlarge"):
            launched = ec2.run_instances(
                ImageId="ami-12c6146b", InstanceType=kind, MinCount=1, MaxCount=1
            )
            ids.append(launched["Instances"][0]["InstanceId"])
        assert "= 8; 4 of 11 vCPUs" in refusal(clients)
        allow(STANDARD, 12.0)
        ask(clients)
    finally:
        ec2.terminate_instances(InstanceIds=ids)
    allow(STANDARD, 8.0)
    ask(clients)


@pytest.mark.parametrize(
    ("nodes", "answer"), [("450", "450,0,0,0"), ("451", "226,225,0,0"), ("819", "410,409,0,0")]
)
def test_an_arm_has_as_few_node_groups_as_eks_allows(clients, allow, nodes, answer):
    allow(STANDARD, 4000.0)
    data = ask(clients, changes={"NodeCount": nodes, **WIDE}).data
    assert data["NodesOfGroups"] == answer
    assert data["NodesOfSecondGroup"] == answer.split(",")[1]


#: Room for the addresses of about 800 nodes of c5.large in each arm.
WIDE = {"SecondaryCidr": "100.64.0.0/16"}


def test_a_full_region_is_refused_with_every_quota_that_is_in_the_way(clients, allow):
    vpcs = len(clients["ec2"].describe_vpcs()["Vpcs"])
    allow(lab_quotas.VPCS, float(vpcs))
    allow(lab_quotas.ELASTIC_ADDRESSES, 0.0)
    allow(lab_quotas.NAT_GATEWAYS_PER_ZONE, 0.0)
    vpc, address, gateway = refusal(clients).splitlines()
    assert vpc.startswith("VpcCidr: the stack makes a VPC, and")
    assert f"{vpcs} of {vpcs} VPCs of this Region (the quota L-F678F1CE)" in vpc
    assert f"--service-code vpc --quota-code L-F678F1CE --desired-value {vpcs + 1}" in vpc
    assert address.startswith("Egress nat: its NAT gateway needs an elastic IP address, and 0 of 0")
    assert "0 of 0 NAT gateways in us-east-1a (the quota L-FE5A380F)" in gateway
    allow(lab_quotas.VPCS, float(vpcs + 1))
    ask(clients, changes={"Egress": "endpoints"})


def test_an_update_asks_only_for_what_it_changes(clients, allow):
    """What the stack has is in use already, and a full Region must not hold up an update."""
    for key in (STANDARD, lab_quotas.VPCS, lab_quotas.ELASTIC_ADDRESSES):
        allow(key, 0.0)
    update(clients, {"MaxPods": "20"})
    with pytest.raises(PreflightFailed, match="NodeCount 3: 6 nodes"):
        update(clients, {"NodeCount": "3"})
    with pytest.raises(PreflightFailed, match=r"\AEgress nat: its NAT gateway needs"):
        update(clients, {}, before={"Egress": "endpoints"})


class Refusing:
    """A client whose calls fail, the first `times` or all of them: AWS refuses, or an error."""

    def __init__(self, client, code, times=None):
        self.client, self.code, self.left = client, code, times
        self.refused = 0

    def __getattr__(self, name):
        if name == "get_paginator":
            return lambda operation: Refusing.Pages(self, operation)
        return lambda **arguments: self.call(lambda: getattr(self.client, name), name, **arguments)

    def call(self, method, name, **arguments):
        if self.left is None or self.refused < self.left:
            self.refused += 1
            if isinstance(self.code, Exception):
                raise self.code
            raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, name)
        return method()(**arguments)

    class Pages:
        def __init__(self, outer, operation):
            self.outer, self.operation = outer, operation

        def paginate(self, **arguments):
            pages = self.outer.client.get_paginator
            return self.outer.call(
                lambda: pages(self.operation).paginate, self.operation, **arguments
            )


def test_what_service_quotas_may_not_tell_is_a_warning_and_stops_nothing(clients):
    refusing = Refusing(clients["service-quotas"], "AccessDeniedException")
    warnings = ask({**clients, "service-quotas": refusing}).data["Warnings"]
    for code in ("L-1216C47A", "L-F678F1CE", "L-0263D0A3", "L-FE5A380F", "L-4DDC4A99"):
        assert code in warnings
    assert "AccessDeniedException" in warnings


def test_a_region_without_a_way_to_service_quotas_is_a_warning(clients):
    nowhere = EndpointConnectionError(endpoint_url="https://servicequotas.test")
    answer = ask({**clients, "service-quotas": Refusing(clients["service-quotas"], nowhere)})
    assert "Could not connect" in answer.data["Warnings"]
    assert answer.data["AvailabilityZone"] == "us-east-1a"


def test_other_faults_are_told_when_quotas_cannot_be(clients):
    refusing = Refusing(clients["service-quotas"], "AccessDeniedException")
    bad = {"InstanceType": "t3.large"}
    assert "cannot be in a cluster" in refusal({**clients, "service-quotas": refusing}, changes=bad)


# -- the account's plan


def test_a_type_that_the_free_plan_does_not_start_is_refused_with_the_remedy(clients):
    free = {**clients, "freetier": FreeTier("FREE")}
    assert refusal(free) == (
        "InstanceType c5.large: the account has AWS's Free plan, and EC2 starts only types that are"
        " eligible for Free Tier there, none of which can be in a cluster placement group; upgrade"
        " the account to the Paid plan, which costs nothing by itself and keeps your credits (aws"
        " freetier upgrade-account-plan --account-plan-type PAID)"
    )
    small = {"InstanceType": "m7i-flex.large", "TreatmentStrategy": "none"}
    assert ask(free, changes=small).data["Warnings"] == "none"
    load = {**small, "LoadNodeCount": "2", "LoadInstanceType": "c5.large"}
    assert refusal(free, changes=load).startswith("LoadInstanceType c5.large: the account has")
    one = {**small, "EndpointInstance": "outside", "EndpointInstanceType": "c5.large"}
    assert refusal(free, changes=one).startswith("EndpointInstanceType c5.large: the account has")
    assert "Endpoint" not in refusal(free, changes={"EndpointInstance": "outside"})


def test_no_type_of_the_free_plan_can_be_in_a_cluster_placement_group(clients):
    eligible = [{"Name": "free-tier-eligible", "Values": ["true"]}]
    types = clients["ec2"].describe_instance_types(Filters=eligible)["InstanceTypes"]
    assert "m7i-flex.large" in [one["InstanceType"] for one in types]
    for described in types:
        assert "cluster" not in described["PlacementGroupInfo"]["SupportedStrategies"]


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Get"),
        ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "Get"),
        ConnectTimeoutError(endpoint_url="https://freetier.test"),
    ],
)
def test_a_plan_that_aws_does_not_tell_is_a_warning_and_stops_nothing(clients, error):
    warnings = ask({**clients, "freetier": Refusing(None, error)}).data["Warnings"]
    assert warnings == (
        f"The preflight did not check the account's plan: {error}. If it is the Free plan, the"
        " deployment fails later."
    )


def test_only_an_update_that_makes_nodes_of_another_type_asks_for_the_plan(clients):
    free = {**clients, "freetier": FreeTier("FREE")}
    update(free, {"MaxPods": "20"})
    with pytest.raises(PreflightFailed, match="AWS's Free plan"):
        update(free, {"InstanceType": "c5.xlarge"})


def test_no_answer_of_the_plan_costs_more_than_three_seconds(clients, monkeypatch):
    from handlers import preflight as handler

    configs = {}

    def client(name, config=None):
        configs[name] = config
        return clients[name]

    monkeypatch.setattr(handler.aws.session(), "client", client)
    with listener() as (url, responses):
        event = cloudformation_request("Create", PROPERTIES, ResponseURL=url)
        handler.handler(event, Context())
    assert only(responses)["Status"] == "SUCCESS"
    config = configs["freetier"]
    assert config.connect_timeout + config.read_timeout <= 3
    assert config.retries["total_max_attempts"] == 1


# -- the quota of the image's builds


def test_an_account_that_builds_nothing_is_refused_for_each_environment_of_the_image(
    clients, allow
):
    allow(lab_quotas.LINUX_LARGE_BUILDS, 0.0)
    assert refusal(clients) == (
        "ToolImage build: CodeBuild builds the image, and 0 of 0 builds in Linux/Large (the quota"
        " L-4DDC4A99) are in use; ask Service Quotas for 1 or more (aws service-quotas"
        " request-service-quota-increase --service-code codebuild --quota-code L-4DDC4A99"
        " --desired-value 1), or name an image"
    )
    allow(lab_quotas.ARM_LARGE_BUILDS, 0.0)
    assert "L-596BEAB4" in refusal(clients, changes={"ExistingClusterName": "none"})
    assert ask(clients, changes={"ToolImage": "tools:1"}).data["Warnings"] == "none"
    update(clients, {"MaxPods": "20"})
    with pytest.raises(PreflightFailed, match=r"\AToolImage build: "):
        update(clients, {}, before={"ToolImage": "tools:1"})


def test_the_quota_of_a_new_account_is_a_warning_that_a_build_may_wait(clients, allow):
    allow(lab_quotas.ARM_LARGE_BUILDS, None)
    warnings = ask(clients).data["Warnings"]
    assert "other builds in ARM/Large, where CodeBuild runs one at once (quota L-596" in warnings
    assert "Linux/Large" not in warnings


# -- a role that IAM has just made


def test_a_call_that_a_new_role_may_not_make_yet_is_made_again(clients):
    slept = []
    refusing = Refusing(clients["ec2"], "UnauthorizedOperation", times=2)
    answer = ask({**clients, "ec2": refusing}, patience=Patience([1, 2, 4], sleep=slept.append))
    assert answer.data["Warnings"] == "none"
    assert slept == [1, 2]


def test_a_role_that_may_never_make_the_call_fails_with_the_refusal(clients):
    slept = []
    refusing = Refusing(clients["ec2"], "UnauthorizedOperation")
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ask({**clients, "ec2": refusing}, patience=Patience([1, 2], sleep=slept.append))
    assert slept == [1, 2]


def test_other_errors_are_not_waited_out(clients):
    refusing = Refusing(clients["ec2"], "InternalError", times=1)
    with pytest.raises(ClientError, match="InternalError"):
        ask({**clients, "ec2": refusing}, patience=Patience([1], sleep=pytest.fail))


class Reserving:
    """EC2 as it answers for a reservation, which moto does not have."""

    def __init__(self, answer):
        self.answer = answer

    def describe_capacity_reservations(self, *, CapacityReservationIds):
        return {
            "CapacityReservations": [r for r in self.answer if r["id"] in CapacityReservationIds]
        }


def test_a_reservation_is_looked_up_by_its_id():
    assert stage._reservation("cr-1", Reserving([{"id": "cr-1"}])) == {"id": "cr-1"}
    assert stage._reservation("cr-2", Reserving([{"id": "cr-1"}])) is None


@pytest.mark.parametrize("look_up", [stage._reservation, stage._group])
def test_a_reservation_or_group_of_which_ec2_refuses_to_tell_is_not_missing(look_up):
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        look_up("theirs", Refusing(None, "UnauthorizedOperation"))


def test_a_placement_group_is_looked_up_by_its_name_or_its_id(clients):
    ec2, theirs = clients["ec2"], group_of_another_account()
    groups = [
        ec2.create_placement_group(GroupName=name, Strategy="cluster")["PlacementGroup"]
        for name in (f"ours-{uuid4().hex}", f"pg-{uuid4().hex[:12]}")
    ]
    for group in groups:
        for named in (group["GroupName"], group["GroupId"]):
            assert stage._group(named, ec2)["GroupArn"] == group["GroupArn"]
    assert stage._group(theirs.id, ec2)["GroupArn"] == theirs.arn
    for named in (theirs.name, PARENT, "gone", ""):
        assert stage._group(named, ec2) is None


@pytest.mark.parametrize(("by_id", "answer"), [(True, "true"), (False, "false")])
def test_the_nodes_are_told_whether_the_group_is_named_by_its_id(clients, by_id, answer):
    name = f"ours-{uuid4().hex}"
    group = clients["ec2"].create_placement_group(GroupName=name, Strategy="cluster")
    named = group["PlacementGroup"]["GroupId"] if by_id else name
    created = ask(clients, changes={"ExistingPlacementGroup": named})
    assert created.data["PlacementGroupIsId"] == answer
    clients["cloudformation"] = StackOf("UPDATE_ROLLBACK_IN_PROGRESS")
    clients["ec2"].delete_placement_group(GroupName=name)
    back = update(clients, {"ExistingPlacementGroup": named})
    assert back.data["PlacementGroupIsId"] == answer, "also where nothing is looked up"


def test_a_group_of_another_account_is_refused_by_its_name_with_the_remedy(clients):
    theirs = group_of_another_account()
    with pytest.raises(PreflightFailed, match="a group that another account shares by its id"):
        ask(clients, changes={"ExistingPlacementGroup": theirs.name})
    ask(clients, changes={"ExistingPlacementGroup": theirs.id})


def test_an_existing_cluster_is_described_to_the_stack(clients, monkeypatch):
    ec2, eks = clients["ec2"], clients["eks"]
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = [s["SubnetId"] for s in ec2.describe_subnets()["Subnets"] if s["VpcId"] == vpc][:2]
    created = eks.create_cluster(
        name="house",
        roleArn="arn:aws:iam::123456789012:role/eks",
        resourcesVpcConfig={"subnetIds": subnets},
    )["cluster"]

    class Eks:
        """EKS with access modes and VPCs of clusters, which moto lacks."""

        def describe_cluster(self, name):
            description = eks.describe_cluster(name=name)["cluster"]
            return {
                "cluster": {
                    **CLUSTER,
                    "arn": description["arn"],
                    "resourcesVpcConfig": {**CLUSTER["resourcesVpcConfig"], "vpcId": vpc},
                }
            }

    both = {**clients, "eks": Eks()}
    private = {
        "ExistingClusterName": "house",
        "ExistingSubnetIds": ",".join(subnets),
    }
    answer = ask(both, changes=private)
    assert answer.physical_id == "house"
    assert answer.data["ClusterArn"] == created["arn"]
    assert answer.data["AvailabilityZone"] == ""
    assert answer.data["ClusterSecurityGroupId"] == "sg-1"
    assert answer.data["Warnings"] == "none"
    monkeypatch.setitem(CLUSTER, "kubernetesNetworkConfig", IPV6["kubernetesNetworkConfig"])
    warning = ask(both, changes=private).data["Warnings"]
    assert "IPv6" in warning and "cassandra" in warning and "sockperf" in warning
    eks.delete_cluster(name="house")
    with pytest.raises(PreflightFailed, match="no such cluster"):
        ask(both, changes=private)


def test_the_handler_tells_every_fault_in_one_readable_reason(clients, monkeypatch):
    from handlers import preflight as handler

    monkeypatch.setattr(handler.aws.session(), "client", lambda name, **_: clients[name])
    changes = {"InstanceType": "t3.large", "AmiType": "AL2023_ARM_64_STANDARD", "NodeCount": "300"}
    with listener() as (url, responses):
        event = cloudformation_request("Create", {**PROPERTIES, **changes}, ResponseURL=url)
        handler.handler(event, Context())
    answer = only(responses)
    assert answer["Status"] == "FAILED"
    reason = answer["Reason"]
    assert "\n" not in reason, "the console shows one paragraph"
    assert reason.startswith(
        "PreflightFailed: (1) InstanceType t3.large: it cannot be in a cluster"
    )
    assert "(2) AmiType AL2023_ARM_64_STANDARD:" in reason and "(3) NodeCount 300:" in reason
