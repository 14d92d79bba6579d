"""Places are drawn from the seed alone, within bounds, with the mean that the docs state."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.fabric.luck import (
    FARTHEST_SECONDS,
    LARGEST_STRETCH,
    LEAST_SHARE,
    MEAN_RACK,
    NEAREST_SECONDS,
    POSITIONS,
    Luck,
    fresh_seed,
    uplink_seconds,
)

SEEDS = st.integers(min_value=0, max_value=10**9)


@given(SEEDS, st.text(max_size=20))
def test_no_share_passes_the_cap_and_none_falls_below_the_least(seed: int, name: str) -> None:
    luck = Luck(seed)
    rack = luck.rack(name)
    assert LEAST_SHARE <= rack.share <= 1
    assert LEAST_SHARE <= luck.host(name) <= 1
    assert 0.97 <= rack.share * luck.host(name) <= 1
    assert NEAREST_SECONDS <= rack.uplink_seconds <= FARTHEST_SECONDS
    assert rack.position is not None
    assert rack.uplink_seconds == uplink_seconds(rack.position)


@given(SEEDS, st.text(max_size=20))
def test_same_seed_gives_the_same_place_in_any_order(seed: int, name: str) -> None:
    forth, back = Luck(seed), Luck(seed)
    first = (forth.host(name), forth.rack(name), forth.rack("other"))
    assert first == tuple(reversed((back.rack("other"), back.rack(name), back.host(name))))


def test_another_seed_or_another_launch_gives_another_place() -> None:
    places = {Luck(seed).rack(f"group/{number}") for seed in range(5) for number in range(5)}
    assert len(places) == 25


def test_every_position_occurs_and_the_mean_way_is_150_microseconds() -> None:
    racks = [Luck(1).rack(str(number)) for number in range(2000)]
    assert {rack.position for rack in racks} == set(range(POSITIONS))
    assert 2 * fmean(rack.uplink_seconds for rack in racks) == pytest.approx(150e-6, rel=0.01)
    assert 2 * MEAN_RACK.uplink_seconds == pytest.approx(150e-6)


def test_stretched_places_keep_their_order_and_their_mean() -> None:
    usual, stretched = Luck(1), Luck(1, stretch=LARGEST_STRETCH)
    for name in map(str, range(50)):
        near, far = usual.rack(name), stretched.rack(name)
        assert (near.position, near.share) == (far.position, far.share)
        moved = [rack.uplink_seconds - MEAN_RACK.uplink_seconds for rack in (near, far)]
        assert moved[1] == pytest.approx(LARGEST_STRETCH * moved[0])
    assert uplink_seconds(0, LARGEST_STRETCH) == pytest.approx(0, abs=1e-9)


def test_without_a_seed_all_places_are_the_same_and_whole() -> None:
    even = Luck(None)
    assert even.rack("a") == even.rack("b") == MEAN_RACK
    assert MEAN_RACK.share == even.host("a") == 1


def test_fresh_seeds_differ() -> None:
    assert len({fresh_seed() for _ in range(20)}) > 10
