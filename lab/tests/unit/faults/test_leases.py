"""A fault ends with whoever holds it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from lab.aws.ec2.capacity import Capacity
from lab.aws.event_bridge import EventRouter
from lab.errors import LabError
from lab.faults import FAULTS, functions, programs
from lab.faults.apis import ApiFaults
from lab.faults.leases import Leases, Order
from lab.faults.links import Links
from lab.faults.programs import Target


class Light:
    """A fault that tells whether it is active."""

    def __init__(self) -> None:
        self.on = threading.Event()
        self.off = threading.Event()

    @contextlib.contextmanager
    def shine(self, _: Order) -> Iterator[None]:
        self.on.set()
        try:
            yield
        finally:
            self.off.set()


def test_a_fault_that_nobody_renews_is_taken_back() -> None:
    light = Light()
    leases = Leases({"light": light.shine}, lease_seconds=0.05)
    leases.begin(Order("light", "all"))
    assert light.on.is_set()
    assert light.off.wait(5)


def test_a_renewed_fault_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    # A time that goes on only here: a busy machine may renew late.
    clock = Mock(**{"monotonic.return_value": 0.0})
    monkeypatch.setattr("lab.faults.leases.time", clock)
    light = Light()
    leases = Leases({"light": light.shine}, lease_seconds=0.05)
    key = leases.begin(Order("light", "all"))
    for _ in range(10):
        clock.monotonic.return_value += 0.04
        leases.renew(key)
    assert not light.off.wait(0.5)
    clock.monotonic.return_value += 0.06
    assert light.off.wait(5)


def test_a_fault_ends_at_its_time_though_it_is_renewed() -> None:
    light = Light()
    leases = Leases({"light": light.shine}, lease_seconds=60)
    key = leases.begin(Order("light", "all"), seconds=0.05)
    leases.renew(key)
    assert light.off.wait(5)


def test_a_fault_can_be_taken_back_twice() -> None:
    light = Light()
    leases = Leases({"light": light.shine})
    order = Order("light", "all")
    key = leases.begin(order)
    order.hit()
    assert (leases.end(key), leases.end(key), leases.renew(key)) == (1, 1, 1)


def test_the_region_takes_all_faults_back_when_it_stops() -> None:
    light = Light()
    leases = Leases({"light": light.shine})
    leases.begin(Order("light", "all"))
    leases.stop()
    assert light.off.is_set()


def test_a_fault_that_the_lab_lacks_is_refused() -> None:
    with pytest.raises(LabError):
        Leases({}).begin(Order("light", "all"))


def test_every_fault_that_is_listed_can_be_made_and_every_other_is_listed() -> None:
    nowhere = Target(Mock())
    injectors = [
        ApiFaults(lambda _: None).injectors,
        functions.injectors(Mock()),
        EventRouter(Mock()).injectors,
        Capacity().injectors,
        programs.injectors(nowhere),
        Links(nowhere).injectors,
    ]
    assert {name for names in injectors for name in names} == set(FAULTS)
