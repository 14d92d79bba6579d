"""Check the instance type: results have no ceiling if EC2 does not report its bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..reading.stack import Stack
from .check import Check, required

_NAME = "instance type"


def instance_type(stack: Stack) -> Check:
    """Check that EC2 reports the bandwidth of the instance type."""
    if stack.parameters.get("ExistingClusterName"):
        return Check(_NAME, "ok", "that of the nodes of a cluster that exists")
    name = required(stack.parameters, "InstanceType")
    [type_] = stack.client("ec2").describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
    return instance_check(type_)


def instance_check(type_: Mapping[str, Any]) -> Check:
    """Turn EC2's description of an instance type into a finding."""
    name = type_["InstanceType"]
    cards = type_.get("NetworkInfo", {}).get("NetworkCards", [])
    # The first card carries the primary interface, and so the pods' traffic.
    card: Mapping[str, Any] = next(
        (card for card in cards if card.get("NetworkCardIndex", 0) == 0), {}
    )
    baseline, peak = (card.get(f"{which}BandwidthInGbps") for which in ("Baseline", "Peak"))
    if baseline is None or peak is None:
        return Check(
            _NAME,
            "unknown",
            f"EC2 reports no bandwidth of {name}",
            "read the results without a ceiling of the instance, and look out for burst marks",
        )
    finding = f"{name}: {baseline:g} Gbit/s baseline, {peak:g} Gbit/s peak"
    if len(cards) > 1:
        finding += f", of the first of its {len(cards)} network cards"
    if baseline < peak:
        return Check(_NAME, "ok", finding, "keep runs short, or the burst credits drain")
    return Check(_NAME, "ok", finding)
