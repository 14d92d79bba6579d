"""How many nodes fit: what limits their number is found before they are asked for."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan.capacity import Room, addresses_per_node, faults_of_node_counts, most_pods
from rackrate.settings import Cni

ONE_INTERFACE = Cni(prefix_delegation=False, one_interface=True)


def described(interfaces: int, per_interface: int, vcpus: int) -> dict[str, dict[str, Any]]:
    """An instance type as EC2 describes it."""
    return {
        "NetworkInfo": {
            "MaximumNetworkInterfaces": interfaces,
            "Ipv4AddressesPerInterface": per_interface,
        },
        "VCpuInfo": {"DefaultVCpus": vcpus},
    }


C5_LARGE = described(3, 10, 2)
#: Two arms of two nodes of c5.large in an empty /20, in an account that has asked for more vCPUs.
ROOM = Room(
    arms=2,
    nodes=4,
    instance_type="c5.large",
    vcpus=2,
    vcpu_quota=640.0,
    vcpu_quota_code="L-1216C47A",
    groups_per_arm=1,
    nodes_per_group=450,
    subnet="subnet-1",
    free_addresses=3900,
    addresses=30,
    because="3 network interfaces of 10",
)


def faults(counts: list[int], room: Room = ROOM):
    """The faults of a sweep over these numbers of nodes."""
    return faults_of_node_counts(dict(enumerate(counts)), room)


def test_addresses_of_a_node_follow_the_cni():
    per_node = functools.partial(addresses_per_node, cni=Cni(False, False))
    assert per_node(C5_LARGE, max_pods=None)[0] == 30
    assert per_node(C5_LARGE, max_pods=11)[0] == 20, "one interface for 9 pods, and one warm"
    assert per_node(C5_LARGE, max_pods=110)[0] == 30, "never more than it has"
    prefixes = addresses_per_node(C5_LARGE, Cni(True, False), max_pods=110)
    assert prefixes[0] == 1 + 8 * 16, "108 pods fill 7 prefixes, and one is warm"
    large = described(15, 50, 96)
    assert per_node(large, max_pods=None)[0] == 7 * 50, "EKS gives it 250 pods at most"


def test_a_node_with_one_interface_has_its_addresses_and_no_more():
    c6in_8xlarge = described(8, 30, 32)
    assert most_pods(c6in_8xlarge, Cni(False, False)) == 234
    assert most_pods(c6in_8xlarge, ONE_INTERFACE) == 31
    assert addresses_per_node(c6in_8xlarge, ONE_INTERFACE, max_pods=None) == (
        30,
        "1 network interface of 30 for 29 pods and for quick starts",
    )
    # 15 prefixes for 234 pods, one more that is warm, and the interface's own address.
    with_prefixes = addresses_per_node(c6in_8xlarge, Cni(True, True), max_pods=236)
    assert with_prefixes[0] == 1 + 16 * 16


def test_pods_get_addresses_of_the_first_network_card_alone():
    """The pods of amazon-vpc-cni-k8s's misc/eni-max-pods.txt."""
    for (of_first, of_all, per_interface), pods in (((2, 64, 50), 100), ((8, 16, 50), 394)):
        entry = described(of_all, per_interface, 192)
        entry["NetworkInfo"]["NetworkCards"] = [
            {"NetworkCardIndex": 1, "MaximumNetworkInterfaces": of_all - of_first},
            {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": of_first},
        ]
        assert most_pods(entry, Cni(False, False)) == pods


def test_numbers_that_fit_have_no_fault():
    assert faults([2, 15, 60]) == []


@pytest.mark.parametrize(
    ("count", "room", "words"),
    [
        (1, ROOM, "1 in each arm; a pair needs 2"),
        (8, replace(ROOM, is_spread=True), "a spread placement group holds at most 7"),
        (451, replace(ROOM, vcpu_quota=None, addresses=1), "this account allows 450 in each"),
        (
            901,
            replace(ROOM, groups_per_arm=2, vcpu_quota=None, addresses=1),
            "901 in each arm, and its 2 node groups can have 900",
        ),
        (
            68,
            ROOM,
            "136 nodes in all arms need 3960 more addresses, 30 each (3 network interfaces of 10),"
            " and the subnet subnet-1 has 3900 free",
        ),
        (
            161,
            replace(ROOM, addresses=1),
            "322 nodes in all arms (c5.large) need 644 vCPUs, and this account allows 640 (the"
            " quota L-1216C47A of EC2)",
        ),
    ],
)
def test_each_limit_refuses_the_step_that_exceeds_it(count, room, words):
    [fault] = faults([2, count], room)
    assert fault.path == "sweep.nodes[1]"
    assert words in fault.problem
    assert fault.remedy


def test_all_limits_of_a_step_are_told_at_once():
    paths = [fault.path for fault in faults([2, 501])]
    assert paths == ["sweep.nodes[1]"] * 3


def test_addresses_of_the_nodes_there_are_count_only_once():
    """66 of 67 nodes in each arm have their addresses already."""
    almost = replace(ROOM, nodes=2 * 66, free_addresses=2 * 30)
    assert faults([67], almost) == []
    assert faults([68], almost) != []


@given(
    count=st.integers(2, 600),
    more=st.integers(0, 600),
    room=st.builds(
        replace,
        st.just(ROOM),
        nodes=st.integers(0, 900),
        vcpus=st.integers(1, 192),
        vcpu_quota=st.none() | st.floats(0, 10_000),
        groups_per_arm=st.integers(1, 4),
        nodes_per_group=st.integers(2, 600),
        free_addresses=st.integers(0, 130_000),
        addresses=st.integers(1, 350),
        is_spread=st.booleans(),
    ),
)
def test_more_nodes_never_fit_where_fewer_do_not(count, more, room):
    if faults([count], room):
        assert faults([count + more], room)
