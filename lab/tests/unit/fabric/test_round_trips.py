"""What the machine adds to a round trip is measured between nodes whose places are known."""

from __future__ import annotations

import pytest

from lab.errors import LabError
from lab.fabric import round_trips
from lab.fabric.caps import Link
from lab.fabric.luck import Luck, RackLuck
from lab.fabric.shaping import Limits
from lab.fabric.truth import Setting, truth


def link(node: str, rack: str, uplink: float, zone: str = "a") -> Link:
    labels = {"topology.kubernetes.io/zone": zone}
    limits = Limits.of_instance(10e9, 0.1)
    return Link(node, node, "d", limits, False, labels, rack, RackLuck(1, uplink, 1.0))


LINKS = [
    link("ip-10-0-0-1.internal", "group", 60e-6),
    link("ip-10-0-0-2.internal", "group", 60e-6),
    link("ip-10-0-1-1.internal", "rack1", 90e-6),
    link("ip-10-0-2-1.internal", "rack2", 70e-6, zone="b"),
]


def test_the_machines_part_of_a_round_trip_is_what_the_spine_does_not_explain(monkeypatch) -> None:
    def seconds(one, other):
        return 100e-6 if one.rack == other.rack else 550e-6

    monkeypatch.setattr(round_trips, "ping_seconds", seconds)
    within, between = round_trips.machine_seconds(LINKS)
    assert (within, between) == pytest.approx((100e-6, 550e-6 - 2 * (60e-6 + 90e-6)))
    # The ratio that is true on such a machine is not that of the assumed one.
    measured = truth(Luck(None), Setting(within_seconds=within, between_seconds=between), 100)
    assert measured["ratios"]["cluster"]["round_trip"]["mean"] == pytest.approx(100 / 550, rel=0.01)


@pytest.mark.parametrize("some", [LINKS[:2], LINKS[1:], []])
def test_without_a_pair_of_each_kind_nothing_is_assumed(some) -> None:
    with pytest.raises(LabError, match="deploy the stack with a cluster group"):
        round_trips.machine_seconds(some)


def test_a_round_trip_that_the_spine_alone_explains_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(round_trips, "ping_seconds", lambda one, other: 200e-6)
    with pytest.raises(LabError, match="measure again"):
        round_trips.machine_seconds(LINKS)
