"""What EC2 says of nodes: it is read as EC2 writes it, and never fails a run."""

from __future__ import annotations

import pytest
from botocore.stub import Stubber

from rackrate.measure.placement import MOST_INSTANCES, MOST_VALUES, placed
from rackrate_contract.arms import InstancePlacement, Node

NODES = [
    Node(name="a", instance_id="i-a", instance_type="c5.large", zone="us-east-1a"),
    Node(name="b", instance_id="i-b", instance_type="c5.large"),
    Node(name="c"),
]


@pytest.fixture(scope="module")
def client(aws):
    return aws.client("ec2")


@pytest.fixture
def ec2(client):
    """A client of EC2 whose requests and answers are checked against EC2's own model."""
    with Stubber(client) as stub:
        client.stub = stub
        yield client
        stub.assert_no_pending_responses()


def filtered(name, *values):
    return {"Filters": [{"Name": name, "Values": list(values)}]}


def instance(id_, *, placement, **more):
    return {"InstanceId": id_, "Placement": placement, **more}


def tell_instances(ec2, *instances):
    answer = {"Reservations": [{"Instances": [one]} for one in instances]}
    ids = [node.instance_id for node in NODES if node.instance_id]
    ec2.stub.add_response("describe_instances", answer, filtered("instance-id", *ids))


def tell_group(ec2, name, strategy, request, **more):
    answer = {"PlacementGroups": [{"GroupName": name, "Strategy": strategy, **more}]}
    ec2.stub.add_response("describe_placement_groups", answer, request)


def refuse(ec2, operation, code="UnauthorizedOperation"):
    ec2.stub.add_client_error(operation, code, "not for you")


def no_topology(ec2, *ids):
    ec2.stub.add_response("describe_instance_topology", {"Instances": []}, {"InstanceIds": [*ids]})


def test_a_node_has_the_group_partition_zone_and_capacity_type_of_its_instance(ec2):
    where = {
        "GroupName": "racks",
        "GroupId": "pg-1",
        "PartitionNumber": 3,
        "AvailabilityZone": "us-east-1b",
        "Tenancy": "default",
    }
    spot = instance("i-a", placement=where, InstanceLifecycle="spot")
    alone = {"GroupName": "", "AvailabilityZone": "us-east-1c", "Tenancy": "dedicated"}
    reserved = instance("i-b", placement=alone, CapacityReservationId="cr-1")
    tell_instances(ec2, spot, reserved)
    tell_group(ec2, "racks", "partition", {"GroupIds": ["pg-1"]})
    no_topology(ec2, "i-a", "i-b")
    a, b, c = placed(ec2, NODES)
    assert a.ec2_placement == InstancePlacement(
        group="racks",
        group_id="pg-1",
        strategy="partition",
        partition=3,
        tenancy="default",
        lifecycle="spot",
    )
    assert b.ec2_placement == InstancePlacement(
        tenancy="dedicated", lifecycle="on-demand", capacity_reservation="cr-1"
    )
    assert (a.zone, b.zone) == ("us-east-1b", "us-east-1c"), "EC2 knows better than a label"
    assert c == NODES[2], "without an instance nothing is known"


def attached(express=None, card=0):
    specification = {} if express is None else {"EnaSrdSpecification": {"EnaSrdEnabled": express}}
    return {"Attachment": {"NetworkCardIndex": card, **specification}}


@pytest.mark.parametrize(
    ("interfaces", "has_it"),
    [
        ([attached(True)], True),
        ([attached(True), attached(True)], True),
        ([attached(True), attached()], False),
        ([attached(True), attached(False)], False),
        ([attached(False)], False),
        ([attached(True), attached(card=1)], True),
        ([attached()], None),
        ([], None),
    ],
)
def test_a_node_has_ena_express_if_all_interfaces_that_pods_use_have_it(ec2, interfaces, has_it):
    where = {"GroupName": ""}
    tell_instances(ec2, instance("i-a", placement=where, NetworkInterfaces=interfaces))
    no_topology(ec2, "i-a")
    assert placed(ec2, NODES)[0].ec2_placement.ena_express is has_it


def test_what_ec2_refuses_to_say_is_unknown(ec2):
    refuse(ec2, "describe_instances")
    assert placed(ec2, NODES) == NODES


def test_a_group_whose_strategy_ec2_refuses_to_say_keeps_its_name(ec2):
    tell_instances(ec2, instance("i-a", placement={"GroupName": "racks"}))
    refuse(ec2, "describe_placement_groups")
    refuse(ec2, "describe_instance_topology")
    a, b, _ = placed(ec2, NODES)
    assert a.ec2_placement is not None and (a.ec2_placement.group, a.ec2_placement.strategy) == (
        "racks",
        None,
    )
    assert (a.zone, a.network_layers) == ("us-east-1a", None)
    assert b == NODES[1], "an instance that EC2 does not list is unknown"


def test_a_group_is_asked_for_by_its_name_only_where_ec2_tells_no_id(ec2):
    tell_instances(ec2, instance("i-a", placement={"GroupName": "racks"}))
    tell_group(ec2, "racks", "spread", {"GroupNames": ["racks"]})
    no_topology(ec2, "i-a")
    where = placed(ec2, NODES)[0].ec2_placement
    assert (where.group, where.group_id, where.strategy) == ("racks", None, "spread")


@pytest.mark.parametrize("description", ["theirs", ""])
def test_a_group_of_another_account_has_its_name_and_parent_from_its_own_description(
    ec2, description
):
    tell_instances(ec2, instance("i-a", placement={"GroupName": description, "GroupId": "pg-2"}))
    tell_group(ec2, "theirs", "cluster", {"GroupIds": ["pg-2"]}, ParentGroupId="pg-3")
    no_topology(ec2, "i-a")
    assert placed(ec2, NODES)[0].ec2_placement == InstancePlacement(
        group="theirs", group_id="pg-2", parent_group_id="pg-3", strategy="cluster"
    )


def test_a_group_that_ec2_does_not_know_any_more_hides_no_other(ec2):
    tell_instances(
        ec2,
        instance("i-a", placement={"GroupId": "pg-1"}),
        instance("i-b", placement={"GroupId": "pg-2"}),
    )
    refuse(ec2, "describe_placement_groups", "InvalidPlacementGroup.Unknown")
    tell_group(ec2, "theirs", "cluster", {"GroupIds": ["pg-2"]})
    no_topology(ec2, "i-a", "i-b")
    wheres = [node.ec2_placement for node in placed(ec2, NODES)[:2]]
    assert [(where.group, where.strategy) for where in wheres] == [
        ("pg-1", None),
        ("theirs", "cluster"),
    ]


def test_all_pages_of_many_nodes_are_read():
    many = [Node(name=f"n{n}", instance_id=f"i-{n}", instance_type="c5.large") for n in range(450)]
    requests = []

    class Paging:
        """EC2 with two pages for each call."""

        def describe_instances(self, *, Filters, NextToken=None):
            ids = Filters[0]["Values"]
            requests.append(len(ids))
            half = ids[: len(ids) // 2] if NextToken is None else ids[len(ids) // 2 :]
            more = {"NextToken": "more"} if NextToken is None else {}
            nodes = [instance(one, placement={"GroupName": ""}) for one in half]
            return {"Reservations": [{"Instances": nodes}], **more}

        def describe_placement_groups(self):
            """Asked for nothing, since no instance is in a group."""

        def describe_instance_topology(self, *, InstanceIds):
            requests.append(-len(InstanceIds))
            return {"Instances": []}

    nodes = placed(Paging(), many)
    assert all(node.ec2_placement is not None for node in nodes)
    assert requests == [MOST_VALUES, MOST_VALUES, MOST_VALUES, MOST_VALUES, 50, 50, -MOST_INSTANCES]
    assert {node.network_layers for node in nodes} == {()}, "one empty answer settles the type"


def test_the_topology_of_types_that_have_one_is_read_where_labels_do_not_tell_it(ec2):
    labelled = NODES[0].model_copy(update={"network_layers": ("nn-9",)})
    large = NODES[1].model_copy(update={"instance_type": "hpc7a.96xlarge"})
    tell_instances(ec2, *(instance(one, placement={"GroupName": ""}) for one in ("i-a", "i-b")))
    layers = {"Instances": [{"InstanceId": "i-b", "NetworkNodes": ["nn-1", "nn-2", "nn-3"]}]}
    ec2.stub.add_response("describe_instance_topology", layers, {"InstanceIds": ["i-b"]})
    a, b = placed(ec2, [labelled, large])
    assert (a.network_layers, b.network_layers) == (("nn-9",), ("nn-1", "nn-2", "nn-3"))


def test_a_type_without_a_topology_is_told_apart_from_no_answer(ec2):
    tell_instances(ec2, *(instance(one, placement={"GroupName": ""}) for one in ("i-a", "i-b")))
    no_topology(ec2, "i-a", "i-b")
    assert [node.network_layers for node in placed(ec2, NODES)] == [(), (), None]


def test_a_region_without_topology_reports_none(ec2):
    tell_instances(ec2, instance("i-a", placement={"GroupName": ""}))
    refuse(ec2, "describe_instance_topology", "UnsupportedOperation")
    assert placed(ec2, NODES)[0].network_layers == ()
