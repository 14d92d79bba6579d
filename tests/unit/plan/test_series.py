"""Series: which items of a schedule one launch starts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from rackrate.plan.items import (
    MAX_PAIRS_PER_ITEM,
    MakeupItem,
    SeriesItem,
    block_items,
    item_from_json,
    planned_trials,
)
from rackrate.plan.series import (
    MAX_PODS_PER_NODE,
    MAX_SECONDS,
    MAX_TESTS,
    in_series,
    launches,
    slot_seconds,
)
from rackrate.registry import load_test
from tests.unit.builders import arm
from tests.unit.plan.schedules import build, names, plans, warm_up

SHORT = tuple(load_test({"name": n, "tool": "iperf3", "seconds": 3}) for n in ("tcp-1", "tcp-8"))


@given(plans())
def test_series_have_all_items_in_order_and_makeups_stay_behind_them(plan):
    items = build(**plan)
    launched = launches(items)
    assert block_items(launched) == block_items(items)
    assert planned_trials(launched) == planned_trials(items)
    kinds = [isinstance(item, MakeupItem) for item in launched]
    assert kinds == sorted(kinds)
    assert all(item_from_json(item.to_json()) == item for item in launched)


@given(plans())
def test_a_series_is_bounded_in_time_pods_and_size(plan):
    for items in in_series(block_items(build(**plan))):
        assert len({item.batch for item in items}) == 1
        if len(items) == 1:
            continue
        pairs = [pair for item in items for pair in item.pairs]
        assert sum(slot_seconds(item.tests) for item in items) <= MAX_SECONDS
        assert sum(len(item.tests) for item in items) <= MAX_TESTS
        assert len(pairs) <= MAX_PAIRS_PER_ITEM
        pods = Counter((pair.client, pair.client_network) for pair in set(pairs))
        assert max(pods.values()) <= MAX_PODS_PER_NODE
        names = [(p, name) for item in items for p in item.pairs for name in item.containers]
        assert len(set(names)) == len(names), "a pod has no two containers of one name"


def test_the_blocks_of_short_tests_are_one_series():
    (series, *makeups) = launches(build(tests=SHORT))
    assert isinstance(series, SeriesItem)
    assert series.progress == "blocks 1 to 6 of 6"
    assert {item.kind for item in makeups} == {"makeup"}


def test_rounds_of_one_block_say_so():
    arms = [arm(name, names(name, 8)) for name in ("a", "b")]
    first, *_ = launches(build(arms=arms, pairing="mesh", tests=SHORT, load="isolated"))
    assert first.progress.startswith("block 1 of 6, rounds 1 to ")


def test_a_pause_begins_a_series():
    plan = build(tests=SHORT)
    paused = [item.model_copy(update={"pause_seconds": 60}) for item in block_items(plan)]
    assert [len(items) for items in in_series(paused)] == [1] * 6


def test_a_warm_up_is_in_no_series():
    arms = [arm(name, names(name, 4)) for name in ("a", "b")]
    items = block_items(warm_up(arms=arms, pairing="mesh"))
    assert len(items) > 1 and all(len(series) == 1 for series in in_series(items))
