"""The facts read from a Kubernetes Node."""

from __future__ import annotations

import pytest

from rackrate.measure.nodes import NETWORK_SCALE_LABEL, is_ready, node_of, untolerated_taints
from rackrate_contract.arms import Node
from tests.unit.samples import node

LAYER = "topology.k8s.aws/network-node-layer-"


def with_capacity(cpu):
    value = node("a", "ng-1")
    value["status"]["capacity"] = {"cpu": cpu}
    return value


@pytest.mark.parametrize(
    ("cpu", "cpus"),
    [("2", 2), ("96", 96), (4, 4), ("1930m", 2), ("2000m", 2), ("500m", 1)],
)
def test_the_capacity_tells_the_cpus_whole_or_in_thousandths(cpu, cpus):
    assert node_of(with_capacity(cpu)).cpus == cpus


@pytest.mark.parametrize("cpu", ["", "m", "two", "nan", "inf", "0", "-1"])
def test_a_capacity_that_is_none_is_untold_instead_of_wrong(cpu):
    assert node_of(with_capacity(cpu)).cpus is None


def test_a_node_that_tells_no_capacity_has_an_unknown_number_of_cpus():
    assert node_of(node("a", "ng-1")).cpus is None


def test_a_node_tells_where_and_what_it_is():
    labels = {NETWORK_SCALE_LABEL: "0.15", f"{LAYER}2": "nn-2", f"{LAYER}1": "nn-1"}
    facts = node_of(node("a", "ng-1", **labels))
    assert (facts.name, facts.instance_id) == ("a", "i-a")
    assert (facts.instance_type, facts.zone) == ("c5.large", "us-east-1a")
    assert (facts.image, facts.node_group) == ("ami-0123", "ng-1")
    assert (facts.kernel, facts.kubernetes) == ("6.12.0", "v1.36.3")
    assert facts.network_scale == 0.15
    assert facts.network_layers == ("nn-1", "nn-2"), "from the top"


def test_what_a_node_does_not_tell_is_null():
    assert node_of({"metadata": {"name": "bare"}}) == Node(name="bare")
    assert Node(name="bare").instance_id is None


@pytest.mark.parametrize("scale", ["tenth", "", "nan", "inf", "-inf", "0", "-0.1", "1.01", "1e400"])
def test_a_scale_that_is_no_share_is_no_claim(scale):
    assert node_of(node("a", "ng-1", **{NETWORK_SCALE_LABEL: scale})).network_scale is None


def test_a_node_of_another_system_is_no_node_of_an_arm():
    windows = node("a", "ng-1", **{"kubernetes.io/os": "windows"})
    assert not is_ready(windows)
    assert is_ready(node("a", "ng-1", **{"kubernetes.io/os": "linux"}))


def test_a_node_that_leaves_or_takes_no_pods_is_not_ready():
    assert is_ready(node("a", "ng-1"))
    assert not is_ready(node("a", "ng-1", ready=False))
    cordoned = node("a", "ng-1")
    cordoned["spec"]["unschedulable"] = True
    assert not is_ready(cordoned)
    leaving = node("a", "ng-1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not is_ready(leaving)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, (None, None, None, None)),
        (
            {
                "karpenter.sh/nodepool": "fast",
                "karpenter.sh/capacity-type": "spot",
                "karpenter.k8s.aws/placement-group-id": "pg-0123",
                "karpenter.k8s.aws/placement-group-partition": "2",
            },
            ("fast", "spot", "pg-0123", "2"),
        ),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, (None, "on-demand", None, None)),
    ],
)
def test_a_nodes_pool_is_what_its_labels_say(labels, expected):
    facts = node_of(node("a", "ng-1", **labels))
    assert (
        facts.node_pool,
        facts.capacity_type,
        facts.labelled_group_id,
        facts.labelled_partition,
    ) == expected


def test_a_node_that_became_ready_is_not_left_out_for_the_taint_that_kubernetes_still_has_to_take():
    became_ready = node("a", "ng-1")
    late = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    others = {"key": "dedicated", "value": "db", "effect": "NoExecute"}
    became_ready["spec"]["taints"] = [late, others]
    assert untolerated_taints(became_ready, ()) == ["dedicated=db:NoExecute"]
