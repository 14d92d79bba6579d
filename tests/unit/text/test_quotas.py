"""The arithmetic of vCPU quotas: what counts, what is the stack's own, and what it still needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate_text.quotas import (
    Nodes,
    counted_types,
    divided,
    quota_code,
    vcpu_quota_name,
    vcpu_use,
)

ACCOUNT = "123456789012"
VCPUS = {"c5.large": 2, "m5.xlarge": 4}
NODES = Nodes("bench", "c5.large", 2)


def instance(kind="c5.large", stack=None, **more):
    tags = [{"Key": "rackrate:stack", "Value": stack}] if stack else []
    return {"InstanceType": kind, "Tags": tags, **more}


def reservation(id_, unused, *, owner=ACCOUNT, kind="c5.large", state="active", total=4):
    return {
        "CapacityReservationId": id_,
        "OwnerId": owner,
        "InstanceType": kind,
        "State": state,
        "AvailableInstanceCount": unused,
        "TotalInstanceCount": total,
    }


def use(instances=(), reservations=(), nodes=NODES, quota=100):
    [code] = nodes.quota_codes
    return vcpu_use(nodes, code, quota, instances, reservations, VCPUS, ACCOUNT)


def test_a_node_that_runs_is_not_needed_again():
    counted = use(
        [instance(stack="bench"), instance("m5.xlarge"), instance(stack="other")], quota=14
    )
    assert (counted.in_use, counted.of_nodes, counted.needed) == (8, 2, 8)
    assert (counted.needed_quota, counted.suffices) == (14, True)
    assert not use([instance("m5.xlarge")], quota=11).suffices


def test_load_nodes_count_beside_those_of_the_arms():
    nodes = Nodes("bench", "c5.large", 2, load_type="m5.xlarge", load_nodes=1)
    running = [instance(stack="bench")] * 5 + [instance("m5.xlarge", stack="bench")] * 2
    counted = use(running, nodes=nodes)
    assert (counted.in_use, counted.of_nodes, counted.needed) == (18, 12, 12)
    alike = use(running, nodes=Nodes("bench", "c5.large", 2, load_nodes=3))
    assert (alike.of_nodes, alike.needed) == (10, 14)


def test_nodes_of_another_type_are_replaced_and_run_beside_the_new_ones():
    counted = use([instance("m5.xlarge", stack="bench")] * 2)
    assert (counted.in_use, counted.of_nodes) == (8, 0)


@pytest.mark.parametrize(
    "other",
    [
        instance("p3.2xlarge"),
        instance(InstanceLifecycle="spot"),
        instance(InstanceLifecycle="capacity-block"),
        instance(Placement={"Tenancy": "host"}),
    ],
)
def test_what_another_quota_counts_is_not_in_use(other):
    assert use([other]).in_use == 0


def test_a_reservation_counts_whole_and_its_unused_part_is_there_for_the_nodes_that_name_it():
    inside = instance(CapacityReservationId="cr-1")
    held = [reservation("cr-1", 3), reservation("cr-2", 1, kind="m5.xlarge")]
    assert use([inside], held).in_use == 2 + 3 * 2 + 4
    assert use([inside], held).of_nodes == 0, "nobody named it"
    named = Nodes("bench", "c5.large", 2, ("cr-1", ""))
    assert use([inside], held, named).of_nodes == 2 * 2
    both = Nodes("bench", "c5.large", 2, ("cr-1", "cr-1"))
    assert use([inside], held, both).of_nodes == 3 * 2


def test_a_reservation_that_waits_to_be_active_counts_already():
    assert use((), [reservation("cr-1", 0, state="pending", total=2)]).in_use == 4


def test_a_reservation_of_another_account_counts_there():
    inside = instance(CapacityReservationId="cr-1", stack="bench")
    held = [reservation("cr-1", 4, owner="999999999999")]
    counted = use([inside], held, Nodes("bench", "c5.large", 2, ("cr-1", "cr-1")))
    assert (counted.in_use, counted.of_nodes) == (0, 8)


def test_only_types_of_the_same_quota_are_looked_up():
    kinds = [instance("p3.2xlarge"), instance("m5.xlarge"), instance("inf1.xlarge")]
    assert counted_types(kinds, [reservation("cr-1", 1, kind="r5.large")], NODES) == {
        "c5.large",
        "m5.xlarge",
        "r5.large",
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("c5.large", "Standard (A, C, D, H, I, M, R, T, Z)"),
        ("im4gn.large", "Standard (A, C, D, H, I, M, R, T, Z)"),
        ("g6e.xlarge", "G and VT"),
        ("vt1.3xlarge", "G and VT"),
        ("p5.48xlarge", "P"),
        ("inf2.xlarge", "Inf"),
        ("x2idn.16xlarge", "X"),
        ("f2.6xlarge", "F"),
        ("trn1.2xlarge", "Trn"),
        ("dl1.24xlarge", "DL"),
        ("hpc7a.96xlarge", "HPC"),
        ("u-6tb1.56xlarge", "High Memory"),
        ("u7i-12tb.224xlarge", "High Memory"),
    ],
)
def test_every_family_has_its_quota(kind, name):
    assert vcpu_quota_name(quota_code(kind)) == f"Running On-Demand {name} instances"


@given(st.integers(0, 5000), st.integers(1, 12))
def test_node_groups_share_an_arms_nodes_evenly_and_lose_none(nodes, groups):
    sizes = divided(nodes, groups)
    assert (len(sizes), sum(sizes)) == (groups, nodes)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
