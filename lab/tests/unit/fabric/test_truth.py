"""What is true over draws agrees with the caps, the delays and the places that nodes get."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fabric.luck import LEAST_SHARE, Luck
from lab.fabric.truth import Setting, Spread, many_flows, one_flow, place, round_trip, truth

SETTING = Setting()


def test_without_luck_the_truth_is_ec2s_limits_and_no_draw_differs() -> None:
    result = truth(Luck(None), SETTING, 200)
    caps = {name: figures["one_flow"]["mean"] for name, figures in result["placements"].items()}
    assert caps == pytest.approx({"cluster": 1e9, "partition": 0.5e9, "none": 0.5e9})
    assert result["ratios"]["cluster"]["one_flow"]["mean"] == pytest.approx(2)
    assert result["ratios"]["cluster"]["many_flows"]["mean"] == pytest.approx(1)
    assert result["placements"]["none"]["round_trip"]["mean"] == pytest.approx(180e-6 + 300e-6)
    deviations = [f["log_deviation"] for p in result["ratios"].values() for f in p.values()]
    assert deviations == pytest.approx([0] * 6, abs=1e-12)


def test_ratios_over_draws_are_near_those_without_luck_but_not_at_them() -> None:
    result = truth(Luck(3), SETTING, 4000)
    one, many = (result["ratios"]["cluster"][name] for name in ("one_flow", "many_flows"))
    # The slower of two hosts limits a flow of the group, only the sender one outside.
    assert 1.98 < one["mean"] < 2
    assert 0.99 < many["mean"] < 1.01
    for spread in (one, many):
        assert 0.002 < spread["log_deviation"] < 0.012
        assert spread["low"] < spread["mean"] < spread["high"]
        assert spread["error"] == pytest.approx(spread["log_deviation"] / math.sqrt(4000))
    assert 0.03 < result["ratios"]["cluster"]["round_trip"]["log_deviation"] < 0.08


def test_no_meaningful_difference_of_many_flows_holds_in_every_draw() -> None:
    """A threshold of 5 % stays decided however unlucky the places are."""
    least = LEAST_SHARE**2
    assert least > 0.95 * 1.02
    ratios = [
        fmean(math.log(many_flows(a, b, kind)) for a, b in (hosts, hosts[::-1])) * sign
        for draw in range(500)
        for kind, sign in (("cluster", 1), ("none", -1))
        for hosts in [place(Luck(3), kind, draw, SETTING)]
    ]
    differences = [one + other for one, other in zip(ratios[::2], ratios[1::2], strict=True)]
    assert max(map(abs, differences)) < math.log(1 / 0.97)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_caps_of_a_pair_never_pass_ec2s_and_its_way_is_that_of_its_racks(
    seed: int, draw: int
) -> None:
    luck = Luck(seed)
    one, other = place(luck, "cluster", draw, SETTING)
    assert one.rack == other.rack
    assert 0.97e9 <= one_flow(one, other, "cluster") == many_flows(one, other, "cluster") <= 1e9
    assert round_trip(SETTING)(one, other, "cluster") == SETTING.within_seconds
    one, other = place(luck, "none", draw, SETTING)
    assert 0.485e9 <= one_flow(one, other, "none") <= 0.5e9
    way = one.luck.uplink_seconds + other.luck.uplink_seconds
    assert round_trip(SETTING)(one, other, "none") == pytest.approx(180e-6 + 2 * way)


def test_racks_share_of_a_group_does_not_average_out_over_its_nodes() -> None:
    many = truth(Luck(1), Setting(nodes=6), 600)
    few = truth(Luck(1), Setting(nodes=2), 600)
    spread = {
        n: f["placements"]["cluster"]["many_flows"]["log_deviation"]
        for n, f in ((6, many), (2, few))
    }
    apart = {
        n: f["placements"]["none"]["many_flows"]["log_deviation"] for n, f in ((6, many), (2, few))
    }
    assert spread[6] > 0.8 * spread[2]
    assert apart[6] < 0.8 * apart[2]


def test_spread_is_of_logarithms() -> None:
    spread = Spread.of([math.log(2)] * 50 + [math.log(8)] * 50)
    assert spread.mean == pytest.approx(4)
    assert (spread.low, spread.high) == pytest.approx((2, 8))
