"""The faults that are active in the region, each held by a lease."""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from lab.errors import LabError
from lab.faults import LEASE_SECONDS

LOG = logging.getLogger(__name__)


@dataclass
class Order:
    """A fault that somebody asks for. What makes the fault calls `hit` each time it strikes."""

    name: str
    on: str
    rate: float = 1.0
    options: Mapping[str, str] = field(default_factory=dict)
    #: Set when the fault is about to be taken back, so that nothing it holds waits longer.
    over: threading.Event = field(default_factory=threading.Event)
    hits: int = 0

    def hit(self) -> None:
        """Count one more call, invocation or program that was struck."""
        self.hits += 1

    def strikes(self) -> bool:
        """Draw whether it strikes now, and count it if so."""
        if random.random() >= self.rate:
            return False
        self.hit()
        return True

    def number(self, name: str, default: float) -> float:
        """An option that is a number. Raises LabError for anything else."""
        try:
            return float(self.options.get(name, default))
        except ValueError:
            raise LabError(
                f"{name} of {self.name} is a number, not {self.options[name]!r}."
            ) from None


#: Makes a fault when it is entered, and takes it back when it is left, in whatever thread.
type Injector = Callable[[Order], AbstractContextManager[object]]


class Orders:
    """The orders that are obeyed now, for any thread to go through."""

    def __init__(self) -> None:
        self._orders: tuple[Order, ...] = ()

    def __iter__(self) -> Iterator[Order]:
        return iter(self._orders)

    @contextmanager
    def obeying(self, order: Order) -> Iterator[None]:
        """Have the order within the `with` block."""
        self._orders = (*self._orders, order)
        try:
            yield
        finally:
            self._orders = tuple(each for each in self._orders if each is not order)


@dataclass
class _Active:
    order: Order
    fault: AbstractContextManager[object]
    lease_ends: float
    ends: float


class Leases:
    """Makes faults, and takes each back when it is over or when its lease is not renewed."""

    def __init__(
        self, injectors: Mapping[str, Injector], lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self._injectors, self._lease_seconds = dict(injectors), lease_seconds
        self._active: dict[str, _Active] = {}
        self._orders: dict[str, Order] = {}
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._stopped = False
        threading.Thread(target=self._expire, name="faults", daemon=True).start()

    @property
    def names(self) -> set[str]:
        """The faults that can be injected here."""
        return set(self._injectors)

    def active(self) -> list[dict[str, Any]]:
        """The faults that are active, as they were ordered."""
        with self._changed:
            orders = [one.order for one in self._active.values()]
        return [
            {"name": each.name, "on": each.on, "rate": each.rate, "options": dict(each.options)}
            for each in orders
        ]

    def begin(self, order: Order, seconds: float | None = None) -> str:
        """Make a fault; returns its id. Raises LabError for an unknown fault or target."""
        injector = self._injectors.get(order.name)
        if injector is None:
            raise LabError(f"This lab has no fault {order.name!r}.")
        fault = injector(order)
        fault.__enter__()
        LOG.info("fault %s on %s begins", order.name, order.on)
        now = time.monotonic()
        with self._changed:
            key = str(next(self._numbers))
            ends = float("inf") if seconds is None else now + seconds
            self._orders[key] = order
            self._active[key] = _Active(order, fault, now + self._lease_seconds, ends)
            self._changed.notify()
        return key

    def renew(self, key: str) -> int:
        """Hold a fault for another lease; returns its hits. One that has ended stays so."""
        with self._changed:
            order = self._order(key)
            if key in self._active:
                self._active[key].lease_ends = time.monotonic() + self._lease_seconds
            return order.hits

    def end(self, key: str) -> int:
        """Take a fault back; returns its hits. Safe to call twice."""
        with self._changed:
            order = self._order(key)
            active = self._active.pop(key, None)
        if active is not None:
            order.over.set()
            active.fault.__exit__(None, None, None)
            LOG.info("fault %s on %s is over", order.name, order.on)
        return order.hits

    def _order(self, key: str) -> Order:
        if key not in self._orders:
            raise LabError(f"There was no fault {key}.")
        return self._orders[key]

    def stop(self) -> None:
        """Take every fault back."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
            keys = list(self._active)
        for key in keys:
            self._end_quietly(key)

    def _expire(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                now = time.monotonic()
                due = {key: min(one.lease_ends, one.ends) for key, one in self._active.items()}
                over = [key for key, when in due.items() if when <= now]
                if not over:
                    self._changed.wait(min((when - now for when in due.values()), default=None))
                    continue
            for key in over:
                self._end_quietly(key)

    def _end_quietly(self, key: str) -> None:
        try:
            self.end(key)
        except Exception:
            LOG.exception("fault %s was not taken back", key)
