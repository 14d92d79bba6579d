"""The documented limits of EC2 that apply to a trial, and whether they explain a verdict. Pure.

Source of the per-flow limits: the EC2 user guide, "Amazon EC2 instance network bandwidth". One flow
(5-tuple) gets 5 Gb/s outside a cluster placement group, and 10 Gb/s between instances in the same
group. Many flows may use the instance's bandwidth. DescribeInstanceTypes reports it as a baseline
and a peak, and it applies to each direction separately. Between instances that both have ENA
Express one flow gets up to 25 Gb/s, in a placement group or not, in one zone or, in most Regions,
across zones (the EC2 user guide, "Improve network performance between EC2 instances with ENA
Express"). A bandwidth weighting moves bandwidth between an instance's network and its volumes, and
changes no limit of a flow. These limits apply to the instance, so pods in the nodes' own network
namespace have the same limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rackrate.tools.base import TestBase, Throughput
from rackrate_contract.arms import Arm, BandwidthWeighting, InstanceNetwork
from rackrate_contract.verdicts import Ceiling
from rackrate_text.units import percent, quantity

GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-network-bandwidth.html"
ENA_EXPRESS_GUIDE = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ena-express.html"
WEIGHTING_GUIDE = (
    "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configure-bandwidth-weighting.html"
)
#: The Regions in which ENA Express works within a zone only (ENA_EXPRESS_GUIDE, 2026-08).
ONE_ZONE_REGIONS = frozenset({"sa-east-1", "me-south-1", "me-central-1"})
#: The share by which a weighting raises the baseline of what it favors. EC2 says "up to 25%"
#: (API reference, InstanceNetworkPerformanceOptions).
WEIGHTED_MORE = 0.25
#: The source of a limit that is the test's own rate.
PLAN = "the plan"
FLOW_BITS_PER_SECOND = {"cluster": 10e9}
DEFAULT_FLOW_BITS_PER_SECOND = 5e9
ENA_EXPRESS_FLOW_BITS_PER_SECOND = 25e9
_GIGABIT = re.compile(r"([\d.]+) Gigabit")
_SMALL_SIZES = frozenset({"medium", "large", "xlarge", "2xlarge", "4xlarge"})
#: An arm within this share of its limit counts as limited by it. Tools count payload: with an MTU
#: of 1500, a frame takes 1538 bytes on the wire and carries 1448 bytes of TCP with timestamps,
#: which is 94 %. TCP's control loop costs a little more. Published results are 9.50 of 10 Gb/s and
#: 4.94 of 5 Gb/s.
NEAR = 0.10
#: Medians whose relative difference is at most this are alike, unless the plan sets a threshold.
ALIKE = 0.05


@dataclass(frozen=True)
class Limit:
    """A limit of one arm.

    Attributes:
        name: its name, such as `single-flow`.
        bits_per_second: its size, summed over the directions in which the test sends.
        source: the page that documents it.
        sustained_bits_per_second: the instance's baseline, which applies when the burst is over;
            None where the baseline is not lower.
    """

    name: str
    bits_per_second: float
    source: str = GUIDE
    sustained_bits_per_second: float | None = None


@dataclass(frozen=True)
class Explanation:
    """Whether the documented limits explain the result, and a sentence on how."""

    explains: bool
    text: str


def instance_network(
    description: Mapping[str, Any], weighting: BandwidthWeighting = "default"
) -> InstanceNetwork:
    """The bandwidth of the first network card, which carries an instance's primary interface.

    Pods use no other card. The VPC CNI manages the first one alone, and with ENABLE_MULTI_NIC it
    gives a pod one address, of the first card while that has one, unless the pod has an annotation
    that rackrate's pods lack (amazon-vpc-cni-k8s v1.23.1, README and rpc_handler.go). One interface
    of a 32xlarge with two cards gets 170 of the instance's 200 Gb/s (EC2 user guide 2023, "Network
    performance"), which only the text of the card says.

    With `vpc-1` the network's baseline is a quarter higher. With `ebs-1` the baseline of the
    volumes is a quarter higher, and the network's is lower by as many bits per second, and so is
    its peak. A peak is never below the baseline. Flex instances keep their peak up to the size
    4xlarge, and in larger ones it changes with the baseline (WEIGHTING_GUIDE).

    Args:
        description: one element of `InstanceTypes` in the response of DescribeInstanceTypes.
        weighting: the instance's bandwidth weighting.
    """
    cards = description.get("NetworkInfo", {}).get("NetworkCards", [])
    first: Mapping[str, Any] = next(
        (card for card in cards if card.get("NetworkCardIndex", 0) == 0), {}
    )
    baseline = _bits(first.get("BaselineBandwidthInGbps"))
    peak = _bits(first.get("PeakBandwidthInGbps"))
    advertised = _GIGABIT.search(first.get("NetworkPerformance", "")) if len(cards) > 1 else None
    if advertised is not None and baseline is not None and peak is not None:
        peak = min(peak, float(advertised[1]) * 1e9)
        baseline = min(baseline, peak)
    if weighting != "default":
        baseline, peak = _weighted(description, weighting, baseline, peak)
    return InstanceNetwork(
        baseline_bits_per_second=baseline,
        peak_bits_per_second=peak,
        bandwidth_weighting=weighting,
    )


def _weighted(
    description: Mapping[str, Any],
    weighting: BandwidthWeighting,
    baseline: float | None,
    peak: float | None,
) -> tuple[float | None, float | None]:
    """The baseline and the peak with a weighting; None where EC2 does not report enough."""
    volumes = description.get("EbsInfo", {}).get("EbsOptimizedInfo", {})
    megabits = volumes.get("BaselineBandwidthInMbps")
    if weighting == "vpc-1":
        more = None if baseline is None else baseline * WEIGHTED_MORE
    else:
        more = None if megabits is None else -megabits * 1e6 * WEIGHTED_MORE
    if baseline is None or more is None:
        return None, None
    weighted = baseline + more
    if peak is None:
        return weighted, None
    family, _, size = str(description.get("InstanceType", "")).partition(".")
    if family.endswith("-flex"):
        peak += 0 if size in _SMALL_SIZES else more
    elif more < 0:
        peak += more
    return weighted, max(peak, weighted)


def bandwidth_weighting(instance: Mapping[str, Any]) -> BandwidthWeighting:
    """An instance's bandwidth weighting.

    Args:
        instance: one element of `Instances` in the response of DescribeInstances.
    """
    weighting = instance.get("NetworkPerformanceOptions", {}).get("BandwidthWeighting")
    return weighting if weighting in ("vpc-1", "ebs-1") else "default"


def _bits(gigabits: float | None) -> float | None:
    return None if gigabits is None else float(gigabits) * 1e9


def arm_limit(arm: Arm, sent: Throughput) -> Limit:
    """The lowest limit of an arm for a throughput test, summed over the test's directions.

    Args:
        arm: the arm; its tests run between two of its own nodes.
        sent: the test's traffic; the limit applies to each direction separately.
    """
    name, bits_per_second, source = _network_limit(arm, sent.flows)
    bits_per_second *= arm.scale
    offered = sent.offered_bits_per_second
    if offered is not None and offered <= bits_per_second:
        name, bits_per_second, source = "offered rate", offered, PLAN
    sustained = None
    if arm.network.bursts and arm.network.baseline_bits_per_second is not None:
        after_burst = arm.network.baseline_bits_per_second * arm.scale
        sustained = after_burst * sent.directions if after_burst < bits_per_second else None
    return Limit(name, bits_per_second * sent.directions, source, sustained)


def _network_limit(arm: Arm, flows: int) -> tuple[str, float, str]:
    """Name, size in bit/s and source of the lowest limit of the network, unscaled."""
    if _uses_ena_express(arm):
        name, source = "single-flow with ENA Express", ENA_EXPRESS_GUIDE
        one_flow = ENA_EXPRESS_FLOW_BITS_PER_SECOND
    else:
        name, source = "single-flow", GUIDE
        one_flow = FLOW_BITS_PER_SECOND.get(arm.placement, DEFAULT_FLOW_BITS_PER_SECOND)
    together = flows * one_flow
    peak = arm.network.peak_bits_per_second
    if peak is None or peak > together or (peak == together and flows == 1):
        return name, together, source
    # An instance without a burst sustains its peak, which is then its baseline.
    steady = flows > 1 and peak == arm.network.baseline_bits_per_second
    name = "instance baseline" if steady else "instance peak"
    if arm.network.bandwidth_weighting == "default":
        return name, peak, GUIDE
    return f"{name} ({arm.network.bandwidth_weighting})", peak, WEIGHTING_GUIDE


def _uses_ena_express(arm: Arm) -> bool:
    """Whether an arm's flows may use ENA Express: it has it, can use it, and has not left it."""
    zones = {node.zone for node in arm.nodes if node.zone}
    regions = {node.region for node in arm.nodes}
    return (
        arm.ena_express
        and not arm.ena_express_unused
        and (len(zones) < 2 or regions.isdisjoint(ONE_ZONE_REGIONS))
    )


def limit_for(arm: Arm, test: TestBase) -> Limit | None:
    """The limit of an arm for a test's throughput; None for a test that measures none.

    Nobody knows what limits an endpoint, or the path to it.
    """
    if test.throughput is None or arm.endpoint is not None:
        return None
    return arm_limit(arm, test.throughput)


def ceiling(
    arm: Limit | None,
    baseline: Limit | None,
    *,
    arm_level: float | None = None,
    baseline_level: float | None = None,
    names: tuple[str, str] = ("arm", "baseline"),
    alike: float = ALIKE,
    decided: bool = True,
) -> Ceiling | None:
    """The ceiling of a verdict.

    Args:
        arm: the arm's limit, None for a metric other than throughput.
        baseline: the baseline's limit.
        arm_level: the arm's level, in bit/s; None when nothing was measured.
        baseline_level: the baseline's level.
        names: the names of the two arms in the text. The same name twice means that an arm is
            compared with itself in an earlier run.
        alike: the largest relative difference of the levels that does not matter.
        decided: whether the verdict is settled. Of an open one nothing is known that limits could
            explain.
    """
    if arm is None or baseline is None:
        return None
    if names[0] == names[1]:
        names = (f"{names[0]} now", f"{names[1]} before")
    explanation = explain(
        arm, baseline, arm_level, baseline_level, names=names, alike=alike, decided=decided
    )
    return Ceiling(
        name=arm.name,
        arm=arm.bits_per_second,
        baseline=baseline.bits_per_second,
        source=arm.source,
        arm_share=_share(arm_level, arm),
        baseline_share=_share(baseline_level, baseline),
        explains=explanation.explains,
        text=explanation.text,
    )


def _share(level: float | None, bound: Limit) -> float | None:
    return None if level is None else level / bound.bits_per_second


@dataclass(frozen=True)
class _Side:
    """An arm with the limit that applies to it; after a burst this is the instance baseline."""

    name: str
    level: float
    limit: Limit

    @property
    def share(self) -> float:
        return self.level / self.limit.bits_per_second

    @property
    def at_limit(self) -> bool:
        return abs(self.share - 1) <= NEAR

    @property
    def above_limit(self) -> bool:
        return self.share > 1 + NEAR

    @property
    def share_of_limit(self) -> str:
        size = quantity(self.limit.bits_per_second, "bit/s")
        return f"{self.name} came to {percent(self.share)} of its {self.limit.name} limit of {size}"


def _side(name: str, level: float, bound: Limit) -> _Side:
    sustained = bound.sustained_bits_per_second
    spent = sustained is not None and abs(level / sustained - 1) <= NEAR
    if sustained is not None and spent and level < bound.bits_per_second * (1 - NEAR):
        return _Side(name, level, Limit("sustained instance baseline", sustained, GUIDE))
    return _Side(name, level, bound)


def explain(
    arm_limit: Limit,
    baseline_limit: Limit,
    arm_level: float | None,
    baseline_level: float | None,
    *,
    names: tuple[str, str] = ("arm", "baseline"),
    alike: float = ALIKE,
    decided: bool = True,
) -> Explanation:
    """Decide whether the documented limits explain how two arms compare.

    Limits explain a difference if the slower arm is at a limit that the faster arm does not have.
    They explain a missing difference if both arms are at the same limit. An arm is at a limit if
    its level is within `NEAR` of it. An arm at its instance's baseline has used up its burst, so
    it is compared with the baseline.

    Args:
        arm_limit: the arm's limit.
        baseline_limit: the baseline's limit.
        arm_level: the arm's level, in bit/s; None when nothing was measured.
        baseline_level: the baseline's level.
        names: the names of the two arms in the text.
        alike: the largest relative difference of the levels that does not matter.
        decided: whether the verdict is settled.
    """
    if not arm_level or not baseline_level:
        return Explanation(False, "one of the arms was not measured, so its limit explains nothing")
    arm = _side(names[0], arm_level, arm_limit)
    baseline = _side(names[1], baseline_level, baseline_limit)
    shares = f"{arm.share_of_limit} and {baseline.share_of_limit}"
    if not decided:
        return Explanation(False, shares)
    for side in (arm, baseline):
        if side.above_limit:
            return Explanation(
                False, f"{shares}: {side.name} was not held by that limit, so it explains nothing"
            )
    slower, faster = sorted((arm, baseline), key=lambda side: side.level)
    if faster.level <= slower.level * (1 + alike):
        return _explain_alike(shares, arm, baseline)
    if not slower.at_limit:
        if faster.at_limit:
            why = f"{faster.name} reached its limit, something else held {slower.name} back"
        else:
            why = "both are below their limits, something else made the difference"
        return Explanation(False, f"{shares}: {why}")
    if faster.limit.bits_per_second <= slower.limit.bits_per_second * (1 + alike):
        return Explanation(
            False, f"{shares}: the limits are alike, so they do not explain the difference"
        )
    if faster.at_limit:
        return Explanation(True, f"{shares}: the limits explain the difference")
    return Explanation(
        True,
        f"{shares}: its limit explains why {slower.name} stayed behind, and something else kept"
        f" {faster.name} from a greater difference",
    )


def _explain_alike(shares: str, arm: _Side, baseline: _Side) -> Explanation:
    if arm.at_limit and baseline.at_limit:
        size = quantity(baseline.limit.bits_per_second, "bit/s")
        if arm.limit.name == baseline.limit.name:
            return Explanation(
                True,
                f"both were at the same {arm.limit.name} limit of {size}, so no difference could"
                " show",
            )
        return Explanation(True, f"{shares}: both were at their limits, which are about the same")
    held = next((side for side in (arm, baseline) if side.at_limit), None)
    if held is not None:
        other = baseline if held is arm else arm
        return Explanation(
            False, f"{shares}: something else held {other.name} at what limits {held.name}"
        )
    return Explanation(
        False, f"{shares}: both are below their limits, which do not explain why they are alike"
    )
