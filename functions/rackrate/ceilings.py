"""The documented limits of EC2 that apply to a trial. Pure.

Source of the per-flow limits: the EC2 user guide, "Amazon EC2 instance network bandwidth". One flow
(5-tuple) gets 5 Gb/s outside a cluster placement group and 10 Gb/s between instances of one; many
flows may use the instance's bandwidth, which DescribeInstanceTypes tells as a baseline and a peak.
Between instances that both have ENA Express one flow gets up to 25 Gb/s, in a placement group or
not (the EC2 user guide, "Improve network performance between EC2 instances with ENA Express").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html"
ENA_EXPRESS_GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ena-express.html"
FLOW_BITS_PER_SECOND = {"cluster": 10e9}
DEFAULT_FLOW_BITS_PER_SECOND = 5e9
ENA_EXPRESS_FLOW_BITS_PER_SECOND = 25e9


@dataclass(frozen=True)
class InstanceNetwork:
    """The bandwidth of an instance type, in bit/s; None where EC2 does not say."""

    baseline_bits_per_second: float | None
    peak_bits_per_second: float | None


@dataclass(frozen=True)
class Limit:
    """A limit of one arm: what binds, its size in bit/s, and the page that documents it."""

    name: str
    bits_per_second: float
    source: str = GUIDE


def instance_network(description: Mapping[str, Any]) -> InstanceNetwork:
    """The bandwidth of the first network card, which carries an instance's primary interface.

    Args:
        description: one element of DescribeInstanceTypes' `InstanceTypes`.
    """
    cards = description.get("NetworkInfo", {}).get("NetworkCards", [])
    first: Mapping[str, Any] = next(
        (card for card in cards if card.get("NetworkCardIndex", 0) == 0), {}
    )
    return InstanceNetwork(
        _bits(first.get("BaselineBandwidthInGbps")), _bits(first.get("PeakBandwidthInGbps"))
    )


def _bits(gigabits: float | None) -> float | None:
    return None if gigabits is None else float(gigabits) * 1e9


def limit(
    *,
    flows: int,
    placement: str,
    ena_express: bool,
    network: InstanceNetwork,
    scale: float | None,
) -> Limit | None:
    """The limit that binds first for a throughput test, or None for a test of something else.

    Args:
        flows: number of flows the test uses; 0 when throughput is not what it measures.
        placement: placement strategy of the arm.
        ena_express: does the arm use ENA Express? Its tests run between two of its own nodes.
        network: the bandwidth of its instances.
        scale: factor by which the nodes' network was scaled on purpose, or None.
    """
    if flows == 0:
        return None
    if ena_express:
        single = Limit(
            "single-flow with ENA Express", ENA_EXPRESS_FLOW_BITS_PER_SECOND, ENA_EXPRESS_GUIDE
        )
    else:
        of_placement = FLOW_BITS_PER_SECOND.get(placement, DEFAULT_FLOW_BITS_PER_SECOND)
        single = Limit("single-flow", of_placement)
    together = flows * single.bits_per_second
    peak = network.peak_bits_per_second
    if peak is not None and peak <= together and flows > 1:
        # Without a burst, the peak is what the instance sustains: its baseline.
        name = "instance baseline" if peak == network.baseline_bits_per_second else "instance peak"
        chosen = Limit(name, peak)
    elif peak is not None and peak < together:
        chosen = Limit("instance peak", peak)
    else:
        chosen = replace(single, bits_per_second=together)
    factor = 1.0 if scale is None else scale
    return replace(chosen, bits_per_second=chosen.bits_per_second * factor)


def arm_limit(arm: Mapping[str, Any], flows: int) -> Limit | None:
    """`limit` for an arm of a stored plan."""
    return limit(
        flows=flows,
        placement=arm["placement"],
        # Plans that were stored before there was a choice had none.
        ena_express=arm.get("ena_express", False),
        network=InstanceNetwork(**arm["network"]),
        scale=arm["network_scale"],
    )


def ceiling(arm: Limit | None, baseline: Limit | None) -> dict[str, Any] | None:
    """The ceiling of a verdict, as results.json has it; it is named after the arm's limit."""
    if arm is None or baseline is None:
        return None
    return {
        "name": arm.name,
        "arm": arm.bits_per_second,
        "baseline": baseline.bits_per_second,
        "source": arm.source,
    }
