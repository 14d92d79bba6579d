"""The documented limits, for the cases EC2's documentation names."""

from __future__ import annotations

import pytest

from rackrate.ceilings import (
    ENA_EXPRESS_GUIDE,
    GUIDE,
    InstanceNetwork,
    Limit,
    arm_limit,
    ceiling,
    instance_network,
    limit,
)

C5_LARGE = InstanceNetwork(0.75e9, 10e9)


def of(flows, placement, network=C5_LARGE, scale=None, ena_express=False):
    return limit(
        flows=flows, placement=placement, ena_express=ena_express, network=network, scale=scale
    )


@pytest.mark.parametrize(
    ("flows", "placement", "expected"),
    [
        (1, "cluster", Limit("single-flow", 10e9)),
        (1, "none", Limit("single-flow", 5e9)),
        (1, "spread", Limit("single-flow", 5e9)),
        (1, "partition", Limit("single-flow", 5e9)),
        (8, "cluster", Limit("instance peak", 10e9)),
        (8, "none", Limit("instance peak", 10e9)),
    ],
)
def test_c5_large(flows, placement, expected):
    assert of(flows, placement) == expected


def test_many_flows_on_a_large_instance_are_still_bound_by_the_flows():
    assert of(4, "none", InstanceNetwork(50e9, 50e9)) == Limit("single-flow", 20e9)


def test_a_large_instance_sustains_its_peak():
    assert of(32, "none", InstanceNetwork(50e9, 50e9)) == Limit("instance baseline", 50e9)


def test_a_small_instance_binds_even_one_flow():
    assert of(1, "cluster", InstanceNetwork(0.5e9, 2e9)) == Limit("instance peak", 2e9)


def test_an_unknown_instance_leaves_the_flows():
    assert of(8, "cluster", InstanceNetwork(None, None)) == Limit("single-flow", 80e9)


def test_a_scaled_network_scales_its_limits():
    assert of(1, "cluster", scale=0.1) == Limit("single-flow", 1e9)


def test_latency_has_no_ceiling():
    assert of(0, "cluster") is None
    assert ceiling(None, None) is None


def test_a_ceiling_names_its_source():
    found = ceiling(of(1, "cluster"), of(1, "none"))
    assert found == {"name": "single-flow", "arm": 10e9, "baseline": 5e9, "source": GUIDE}


ENA_EXPRESS_FLOW = "single-flow with ENA Express"


@pytest.mark.parametrize(
    ("flows", "network", "expected"),
    [
        (1, InstanceNetwork(50e9, 50e9), Limit(ENA_EXPRESS_FLOW, 25e9, ENA_EXPRESS_GUIDE)),
        (8, InstanceNetwork(50e9, 50e9), Limit("instance baseline", 50e9)),
        # "up to the aggregate instance limit"
        (1, InstanceNetwork(6.25e9, 12.5e9), Limit("instance peak", 12.5e9)),
    ],
)
@pytest.mark.parametrize("placement", ["cluster", "none"])
def test_ena_express_raises_one_flow_with_and_without_a_placement_group(
    flows, network, expected, placement
):
    assert of(flows, placement, network, ena_express=True) == expected


def test_a_ceiling_of_ena_express_names_its_own_source_and_keeps_the_others_limit():
    network = InstanceNetwork(50e9, 50e9)
    found = ceiling(of(1, "cluster", network, ena_express=True), of(1, "none", network))
    assert found == {
        "name": ENA_EXPRESS_FLOW,
        "arm": 25e9,
        "baseline": 5e9,
        "source": ENA_EXPRESS_GUIDE,
    }


def test_an_arm_stored_before_ena_express_was_a_choice_can_be_analysed_again():
    network = {"baseline_bits_per_second": 0.75e9, "peak_bits_per_second": 10e9}
    arm = {"placement": "none", "network": network, "network_scale": None}
    assert arm_limit(arm, 1) == Limit("single-flow", 5e9)
    assert arm_limit({**arm, "ena_express": True}, 1).bits_per_second == 10e9


def test_the_first_network_card_counts():
    cards = [
        {"NetworkCardIndex": 1, "BaselineBandwidthInGbps": 1.0, "PeakBandwidthInGbps": 2.0},
        {"NetworkCardIndex": 0, "BaselineBandwidthInGbps": 0.75, "PeakBandwidthInGbps": 10.0},
    ]
    assert instance_network({"NetworkInfo": {"NetworkCards": cards}}) == C5_LARGE
    assert instance_network({}) == InstanceNetwork(None, None)
