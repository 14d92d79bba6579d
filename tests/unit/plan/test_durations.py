"""Expected durations of rounds and runs."""

from __future__ import annotations

import pytest

from rackrate.plan.durations import expected_block_seconds, expected_run_seconds, series_seconds
from rackrate.plan.items import block_items
from rackrate.registry import load_test
from tests.unit.builders import arm
from tests.unit.plan.schedules import build, names, warm_up

DEMO = (
    load_test({"name": "a", "tool": "iperf3", "seconds": 3}),
    load_test({"name": "b", "tool": "ping", "count": 16, "interval_seconds": 0.2}),
)


def test_a_block_takes_its_traffic_and_a_second_more_in_a_series_of_six():
    items = build(tests=DEMO)
    assert 6 < expected_block_seconds(items) < 7.5
    run = expected_run_seconds(items)
    assert run == pytest.approx(6 * expected_block_seconds(items) + 20)
    warming = warm_up(tests=DEMO)
    assert expected_run_seconds(items, warming) == pytest.approx(run + 1 + 3)


def test_a_series_of_many_pairs_takes_longer_because_each_trial_is_started_and_collected():
    few, many = (
        build(
            arms=[arm("a", names("a", n)), arm("b", names("b", n))], pairing="ring", load="together"
        )
        for n in (4, 500)
    )
    assert series_seconds(block_items(many)[:1]) - series_seconds(block_items(few)[:1]) > 10


def test_pauses_are_before_blocks_and_no_part_of_them():
    paused = [
        item.model_copy(update={"pause_seconds": 60}) for item in block_items(build(tests=DEMO))
    ]
    alone = expected_block_seconds(paused)
    assert expected_run_seconds(paused) == pytest.approx(6 * (60 + alone) + 20)
