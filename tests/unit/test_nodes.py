"""What is read of a Kubernetes Node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.nodes import NETWORK_SCALE_LABEL, is_ready, node_facts
from tests.unit.samples import node


def with_capacity(cpu):
    value = node("a", "ng-1")
    value["status"]["capacity"] = {"cpu": cpu}
    return value


@pytest.mark.parametrize(
    ("cpu", "cpus"),
    [("2", 2), ("96", 96), (4, 4), ("1930m", 2), ("2000m", 2), ("500m", 1)],
)
def test_the_capacity_tells_the_cpus_whole_or_in_thousandths(cpu, cpus):
    assert node_facts(with_capacity(cpu))["cpus"] == cpus


@pytest.mark.parametrize("cpu", ["", "m", "two", "nan", "inf", "0", "-1"])
def test_a_capacity_that_is_none_is_untold_instead_of_wrong(cpu):
    assert node_facts(with_capacity(cpu))["cpus"] is None


def test_a_node_that_tells_no_capacity_has_an_unknown_number_of_cpus():
    assert node_facts(node("a", "ng-1"))["cpus"] is None
    assert node_facts({"metadata": {"name": "a"}})["cpus"] is None


@settings(deadline=None)  # a busy machine is no fault
@given(st.text(max_size=12))
def test_no_capacity_whatever_hinders_reading_a_node(cpu):
    cpus = node_facts(with_capacity(cpu))["cpus"]
    assert cpus is None or cpus >= 1


def test_a_node_tells_where_and_what_it_is():
    facts = node_facts(node("a", "ng-1"))
    assert facts["instance_id"] == "i-a"
    assert facts["instance_type"] == "c5.large"
    assert facts["zone"] == "us-east-1a"
    assert facts["kernel"] == "6.12.0"


def test_a_scale_that_is_no_number_is_refused_by_its_label():
    with pytest.raises(ValueError, match=NETWORK_SCALE_LABEL):
        node_facts(node("a", "ng-1", **{NETWORK_SCALE_LABEL: "tenth"}))


def test_a_node_that_leaves_or_takes_no_pods_is_not_ready():
    assert is_ready(node("a", "ng-1"))
    assert not is_ready(node("a", "ng-1", ready=False))
    cordoned = node("a", "ng-1")
    cordoned["spec"]["unschedulable"] = True
    assert not is_ready(cordoned)
    leaving = node("a", "ng-1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not is_ready(leaving)
