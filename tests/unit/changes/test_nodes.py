"""A sweep over the number of nodes: its limits come from AWS, and all arms are scaled together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from rackrate.changes.nodes import NodeCount
from rackrate.errors import NodesUnavailable
from rackrate.settings import StackArm
from rackrate_contract.selectors import Selector
from rackrate_text.quotas import NODES_PER_GROUP, STANDARD
from tests.unit.given import Given
from tests.unit.measure.fake_cluster import FakeCluster
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.samples import ARMS, LABEL, SETTINGS, node

GROUPS = ("ng-1", "ng-2")


class Quotas:
    """The account's quotas, by service and code."""

    def __init__(self, **values):
        self.values = values

    def get_service_quota(self, *, ServiceCode, QuotaCode):
        try:
            return {"Quota": {"Value": self.values[f"{ServiceCode}_{QuotaCode[2:]}"]}}
        except KeyError:
            code = {"Error": {"Code": "NoSuchResourceException"}}
            raise ClientError(code, "GetServiceQuota") from None


@pytest.fixture(scope="module")
def ec2(aws):
    return aws.client("ec2")


@pytest.fixture(scope="module")
def subnet(ec2):
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    return ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/20")["Subnet"]["SubnetId"]


@pytest.fixture
def eks(subnet):
    return FakeNodeGroups(*GROUPS, subnets=[subnet])


@pytest.fixture
def resources(ec2, eks):
    quotas = Quotas(**{f"ec2_{STANDARD[2:]}": 640.0})
    return Given(settings=SETTINGS, ec2=ec2, eks=eks, quotas=quotas, cluster=FakeCluster())


def faults(values, resources):
    return NodeCount().faults(values, resources)


class TestFaults:
    def test_what_limits_the_last_step_is_refused_before_the_first(self, resources):
        assert faults([2, 15, 60], resources) == []
        refused = faults([2, 15, 60, 501], resources)
        assert {fault.path for fault in refused} == {"sweep.nodes[3]"}
        problems = " ".join(fault.problem for fault in refused)
        assert "can have 450: this account allows 450 in each" in problems, (
            "AWS's default, as the account has none"
        )
        assert "need 29940 more addresses, 30 each" in problems
        assert "need 2004 vCPUs, and this account allows 640" in problems

    def test_raised_quotas_and_a_larger_subnet_have_room_for_it(self, resources, ec2, eks):
        vpc = ec2.create_vpc(CidrBlock="100.64.0.0/16")["Vpc"]["VpcId"]
        wide = ec2.create_subnet(VpcId=vpc, CidrBlock="100.64.0.0/17")["Subnet"]["SubnetId"]
        for group in eks.groups.values():
            group["subnets"] = [wide]
        raised = {f"ec2_{STANDARD[2:]}": 4000.0, f"eks_{NODES_PER_GROUP[2:]}": 600.0}
        assert faults([501], resources.but(quotas=Quotas(**raised))) == []

    def test_fewer_pods_and_prefixes_change_what_a_node_takes(self, resources):
        small = replace(SETTINGS, max_pods=11)
        assert faults([100], resources)
        assert faults([100], resources.but(settings=small)) == []
        prefixes = replace(SETTINGS, max_pods=110, prefix_delegation=True)
        [fault] = faults([100], resources.but(settings=prefixes))
        assert "129 each (1 of its own and 8 prefixes of 16 for 108 pods)" in fault.problem

    def test_with_ena_express_a_node_takes_the_addresses_of_one_interface(self, resources):
        arms = tuple(replace(arm, ena_express=not arm.baseline) for arm in SETTINGS.arms)
        refused = faults([300], resources.but(settings=replace(SETTINGS, arms=arms)))
        words = "10 each (1 network interface of 10 for 9 pods and for quick starts)"
        assert [words in fault.problem for fault in refused].count(True) == 1

    @pytest.mark.parametrize(
        ("type_of_load", "words"), [("g5.xlarge", "240 vCPUs"), ("c5.large", "")]
    )
    def test_load_nodes_of_another_family_have_a_quota_of_their_own(
        self, resources, eks, type_of_load, words
    ):
        eks.groups["load"] = {**eks.groups["ng-1"], "instanceTypes": [type_of_load]}
        load = StackArm("load", "none", False, ("load",), Selector.parse(f"{LABEL}=load"))
        settings = replace(SETTINGS, load=load, load_node_count=SETTINGS.node_count, max_pods=11)
        quotas = Quotas(**{f"ec2_{STANDARD[2:]}": 640.0, "ec2_DB2E81BA": 128.0})
        refused = faults([2, 60], resources.but(settings=settings, quotas=quotas))
        assert [fault.path for fault in refused] == ["sweep.nodes[1]"] * bool(words)
        assert all(words in fault.problem and "L-DB2E81BA" in fault.problem for fault in refused)

    def test_a_text_is_no_number_of_nodes(self, resources):
        text, small = faults([2, "15", 1], resources)
        assert (text.path, text.problem) == (
            "sweep.nodes[1]",
            "must be a whole number, not the text '15'",
        )
        assert small.path == "sweep.nodes[2]", "all are told at once"

    def test_a_spread_group_stays_small(self, resources):
        spread = StackArm("treatment", "spread", False, ("ng-1",), Selector.parse(f"{LABEL}=ng-1"))
        settings = replace(SETTINGS, arms=(spread, ARMS[1]))
        [fault] = faults([7, 8], resources.but(settings=settings))
        assert fault.path == "sweep.nodes[1]"

    def test_a_node_group_without_an_instance_type_is_told(self, resources, eks):
        eks.groups["ng-1"]["instanceTypes"] = []
        with pytest.raises(NodesUnavailable, match="ng-1 has no instance type"):
            faults([2], resources)

    def test_a_vpc_without_a_way_to_service_quotas_has_the_usual_quotas(self, resources):
        class Unreachable:
            def get_service_quota(self, **_):
                raise EndpointConnectionError(endpoint_url="https://servicequotas.test")

        [fault] = faults([60, 451], resources.but(quotas=Unreachable()))[:1]
        assert fault.path == "sweep.nodes[1]"
        assert "this account allows 450 in each" in fault.problem

    def test_other_errors_of_service_quotas_are_not_taken_for_no_quota(self, resources):
        class Refuses:
            def get_service_quota(self, **_):
                raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetServiceQuota")

        with pytest.raises(ClientError, match="AccessDenied"):
            faults([2], resources.but(quotas=Refuses()))


class TestMake:
    def test_all_arms_are_emptied_then_scaled_together_and_all_nodes_waited_for(
        self, resources, eks
    ):
        result = NodeCount().make(3, {}, resources)
        assert {group["scalingConfig"]["desiredSize"] for group in eks.groups.values()} == {0}
        had = list(resources.cluster.nodes)
        resources.cluster.nodes = []
        result = NodeCount().make(3, result.progress, resources)
        assert not result.done
        sizes = [group["scalingConfig"] for group in eks.groups.values()]
        assert sizes == [{"minSize": 0, "desiredSize": 3, "maxSize": 3}] * 2
        cluster = resources.cluster
        cluster.nodes = had + [node(f"node-{name}", name) for name in GROUPS]
        assert NodeCount().make(3, result.progress, resources).done

    def test_a_number_that_stays_gets_new_nodes_too(self, resources, eks):
        assert not NodeCount().make(2, {}, resources).done
        assert {group["scalingConfig"]["desiredSize"] for group in eks.groups.values()} == {0}

    def test_the_sizes_are_put_back_as_they_were(self, resources, eks):
        before = NodeCount().before(resources)
        NodeCount().make(3, {}, resources)
        assert not NodeCount().undo(before, resources).done
        assert NodeCount().undo(before, resources).done
        sizes = [group["scalingConfig"] for group in eks.groups.values()]
        assert sizes == [{"minSize": 2, "desiredSize": 2, "maxSize": 2}] * 2

    def test_the_number_of_a_stack_that_was_updated_meanwhile_is_kept(self, resources, eks):
        before = NodeCount().before(resources)
        NodeCount().make(0, {}, resources)
        updated = resources.but(settings=replace(resources.settings, node_count=3))
        NodeCount().undo(before, updated)
        sizes = [group["scalingConfig"] for group in eks.groups.values()]
        assert sizes == [{"minSize": 3, "desiredSize": 3, "maxSize": 3}] * 2


def test_the_runs_of_a_step_have_as_many_nodes_as_its_value():
    change = NodeCount()
    assert change.node_count(15, 2) == 15
    assert change.title(15) == "15 nodes in each arm"
    assert not change.needs_nodes, "it asks for the nodes of its step itself"
