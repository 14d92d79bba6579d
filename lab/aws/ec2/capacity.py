"""Capacity that EC2 lacks on purpose: faults refuse launches with a known rate, or delay them.

How often EC2 lacks capacity is not published, so without a fault it always has enough.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lab.aws.ec2.placement_groups import STRATEGIES
from lab.errors import LabError
from lab.faults.leases import Injector, Order, Orders

REFUSED, DELAYED = "launches-refused", "launches-delayed"
DELAY_MILLISECONDS = 20_000.0
ALL = "all"


class Capacity:
    """The faults of launches that are active. A target is a strategy, `none` or `all`."""

    def __init__(self) -> None:
        self._orders = Orders()

    @property
    def injectors(self) -> Mapping[str, Injector]:
        """The faults by name."""
        return dict.fromkeys((REFUSED, DELAYED), self._inject)

    def _inject(self, order: Order) -> AbstractContextManager[None]:
        if order.on not in (*STRATEGIES, "none", ALL):
            raise LabError(f"{order.name} is on {ALL}, none or a strategy, not on {order.on!r}.")
        order.number("delay_ms", DELAY_MILLISECONDS)
        return self._orders.obeying(order)

    def room(self, strategy: str, count: int) -> int:
        """How many of the instances of a launch EC2 starts, after the delays of it.

        A refused launch gets any number below what it asked for, each equally likely.

        Args:
            strategy: that of their placement group, or `none`.
            count: how many it asks for.
        """
        room = count
        for order in self._orders:
            if order.on not in (strategy, ALL) or not order.strikes():
                continue
            if order.name == DELAYED:
                order.over.wait(order.number("delay_ms", DELAY_MILLISECONDS) / 1e3)
            else:
                room = min(room, random.randrange(count))
        return room


def truth(faults: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float, float]]:
    """What is true of a node group's launches while faults are active: a row for each placement.

    Args:
        faults: the active faults, as they were ordered.

    Yields:
        The strategy or `none`, the share of launches of which all instances start, and the mean of
        their delay in seconds.
    """
    for strategy in (*STRATEGIES, "none"):
        of_it = [each for each in faults if each["on"] in (strategy, ALL)]
        filled = math.prod(1 - each["rate"] for each in of_it if each["name"] == REFUSED)
        delays = (
            each["rate"] * float(each["options"].get("delay_ms", DELAY_MILLISECONDS)) / 1e3
            for each in of_it
            if each["name"] == DELAYED
        )
        yield strategy, filled, sum(delays)
