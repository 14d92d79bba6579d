"""Launches that faults refuse or delay: as often as the truth says, and only what they are on."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from lab.aws.ec2.capacity import Capacity, truth
from lab.errors import LabError
from lab.faults.leases import Order

LAUNCHES = 4000


def fault(name: str, on: str, rate: float = 1.0, **options: str) -> Order:
    return Order(f"launches-{name}", on, rate, options)


def test_launches_are_refused_as_often_as_the_truth_says_and_get_any_smaller_number() -> None:
    capacity, order = Capacity(), fault("refused", "cluster", 0.3)
    with capacity.injectors[order.name](order):
        got = Counter(capacity.room("cluster", 4) for _ in range(LAUNCHES))
        assert {capacity.room("none", 4) for _ in range(100)} == {4}
    shown = {"name": order.name, "on": order.on, "rate": order.rate, "options": {}}
    shares = {strategy: share for strategy, share, _ in truth([shown])}
    error = math.sqrt(0.3 * 0.7 / LAUNCHES)
    assert got[4] / LAUNCHES == pytest.approx(shares["cluster"], abs=5 * error)
    assert {number for number, times in got.items() if times} == {0, 1, 2, 3, 4}
    assert shares["none"] == 1.0
    assert order.hits == LAUNCHES - got[4]
    assert capacity.room("cluster", 4) == 4, "the fault is over"


def test_a_delayed_launch_waits_until_the_fault_is_over_at_the_latest() -> None:
    capacity, order = Capacity(), fault("delayed", "all", delay_ms="60000")
    order.over.set()
    with capacity.injectors[order.name](order):
        assert capacity.room("spread", 2) == 2
    assert order.hits == 1
    shown = {"name": order.name, "on": "all", "rate": 0.5, "options": dict(order.options)}
    assert {delay for *_, delay in truth([shown])} == {30.0}


@pytest.mark.parametrize(
    ("on", "options"), [("treatment", {}), ("all", {"delay_ms": "long"})], ids=str
)
def test_a_target_or_a_delay_that_is_none_is_refused(on: str, options: dict[str, str]) -> None:
    order = fault("delayed", on, **options)
    with pytest.raises(LabError):
        Capacity().injectors[order.name](order).__enter__()
