"""Series: items of a schedule that one launch starts. Pure.

A pod takes seconds to start and to end, and processor time of its node. So a launch starts the pods
of several items before the first test, and the tests begin at agreed times. No pod starts or ends
while a test of the series runs, and the trials are collected after the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rackrate.plan.items import (
    MAX_PAIRS_PER_ITEM,
    MAX_TRIALS_PER_ITEM,
    BlockItem,
    Item,
    MakeupItem,
    SeriesItem,
    block_items,
)
from rackrate.tools.base import TestBase

#: How long the tests of a series take at most. What a node's end loses is at most so much.
MAX_SECONDS = 64.0
#: How many tests the pods of a series have at most, and how many of its pods start on one node: the
#: smallest instances have room for few.
MAX_TESTS, MAX_PODS_PER_NODE = 24, 4
#: Between the last test of an item and the first of the next, so that no test meets the one before.
_SPARE_SECONDS = 0.2


def slot_seconds(tests: Iterable[TestBase]) -> float:
    """How long after an item's first start the next item of its series begins."""
    return _SPARE_SECONDS + sum(test.expected_seconds + test.ending_seconds for test in tests)


def in_series(items: Iterable[BlockItem]) -> list[list[BlockItem]]:
    """Items in series, in their order. The warm-up's and those of workloads are alone."""
    series: list[list[BlockItem]] = []
    for item in items:
        if series and item.pause_seconds == 0 and _fits([*series[-1], item]):
            series[-1].append(item)
        else:
            series.append([item])
    return series


def _fits(items: Sequence[BlockItem]) -> bool:
    pairs = [pair for item in items for pair in item.pairs]
    pods = Counter((pair.client, pair.client_network) for pair in set(pairs))
    return (
        all(item.has_agreed_starts and item.batch == items[0].batch for item in items)
        and sum(slot_seconds(item.tests) for item in items) <= MAX_SECONDS
        and sum(len(item.tests) for item in items) <= MAX_TESTS
        and len(pairs) <= MAX_PAIRS_PER_ITEM
        and sum(len(item.pairs) * len(item.tests) for item in items) <= MAX_TRIALS_PER_ITEM
        and max(pods.values()) <= MAX_PODS_PER_NODE
    )


def launches(items: Sequence[Item]) -> list[Item]:
    """What is launched one after the other: items, some of them in series, then make-up items."""
    makeups = [item for item in items if isinstance(item, MakeupItem)]
    return [*map(_launched, in_series(block_items(items))), *makeups]


def _launched(items: Sequence[BlockItem]) -> Item:
    first, last = items[0], items[-1]
    if first is last:
        return first
    return SeriesItem(
        progress=progress(items),
        batch=first.batch,
        pause_seconds=first.pause_seconds,
        items=tuple(items),
    )


def progress(items: Sequence[BlockItem]) -> str:
    """How far a run is with a series, in words."""
    first, last = items[0], items[-1]
    if first is last:
        return first.progress
    most = first.progress.removeprefix(f"block {first.block} of ").partition(",")[0]
    if first.block == last.block:
        return (
            f"block {first.block} of {most}, rounds {first.round} to {last.round} of {last.rounds}"
        )
    return f"blocks {first.block} to {last.block} of {most}"
