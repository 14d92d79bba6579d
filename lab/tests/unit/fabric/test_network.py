"""Which instances share a rack, and what a node knows about another."""

from __future__ import annotations

import ipaddress

import pytest

from lab.fabric.luck import MEAN_RACK, Luck
from lab.fabric.network import Placement, Port, Rack, delay_commands
from lab.fabric.shaping import EnaExpress, Limits


def port(number: int, zone: str, express: EnaExpress, group: str | None = None) -> Port:
    block = ipaddress.IPv4Network(f"10.0.{number}.0/26")
    return Port(
        namespace=f"node{number}",
        rack=Rack(0, MEAN_RACK),
        device="eth0",
        address=next(block.hosts()),
        block=block,
        zone=zone,
        group=group,
        ena_express=express,
        limits=Limits.of_instance(10e9, 0.1),
    )


def test_only_a_cluster_group_and_a_partition_share_a_rack() -> None:
    assert Placement.of("cluster", "g", None) == Placement("group-g", "g", "cluster")
    first, again = Placement.of("partition", "g", 1), Placement.of("partition", "g", 1)
    assert first == again
    assert first.rack not in (None, Placement.of("partition", "g", 2).rack)
    assert first.rack != Placement.of("partition", "other", 1).rack
    in_zones = {Placement.of("partition", "g", 1, zone).rack for zone in ("a", "b")}
    assert len(in_zones) == 2, "zones share no rack"
    assert first.cluster_group is None, "a partition has no larger flows"
    # A rack of None means that the instance has its own rack.
    assert Placement.of("spread", "g", None) == Placement.of(None, None, None) == Placement()


@pytest.mark.parametrize("zone", ["us-east-1a", "us-east-1b"])
@pytest.mark.parametrize("other", [EnaExpress(), EnaExpress(tcp=True), EnaExpress(True, True)])
def test_ena_express_needs_both_ends_in_one_zone_or_two(zone: str, other: EnaExpress) -> None:
    one = port(1, "us-east-1a", EnaExpress(tcp=True, udp=True))
    seen = one.sees(port(2, zone, other)).ena_express
    assert seen == other


def test_no_group_is_not_a_group_in_common() -> None:
    plain = EnaExpress()
    assert not port(1, "a", plain).sees(port(2, "a", plain)).same_cluster_group
    assert port(1, "a", plain, "g").sees(port(2, "a", plain, "g")).same_cluster_group
    assert not port(1, "a", plain, "g").sees(port(2, "a", plain, "h")).same_cluster_group


def test_both_ends_of_an_uplink_are_delayed_so_that_ways_add_up() -> None:
    """With netem, a frame passes the uplink of one rack and the downlink of another."""
    place = next(rack for n in range(99) if (rack := Luck(1).rack(str(n))).position == 7)
    assert delay_commands(Rack(3, place)) == [
        "qdisc replace dev up3 root netem delay 74us limit 20000",
        "qdisc replace dev down3 root netem delay 74us limit 20000",
    ]
