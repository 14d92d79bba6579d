"""Expected durations of rounds and runs."""

from __future__ import annotations

import pytest

from rackrate.plan.durations import expected_block_seconds, expected_run_seconds, round_seconds
from rackrate.registry import load_test
from tests.unit.plan.schedules import build, warm_up


def test_expected_times_add_up_to_the_traffic_and_a_little_more():
    demo = (
        load_test({"name": "a", "tool": "iperf3", "seconds": 3}),
        load_test({"name": "b", "tool": "ping", "count": 16, "interval_seconds": 0.2}),
    )
    items = build(tests=demo)
    assert expected_block_seconds(items) == pytest.approx(6 + 4)
    assert expected_run_seconds(items) == pytest.approx(6 * 10 + 20)
    warming = warm_up(tests=demo)
    short = demo[0].warm_up().expected_seconds
    assert expected_run_seconds(items, warming) == pytest.approx(6 * 10 + 20 + short + 4)


def test_a_round_of_many_pairs_takes_longer_because_each_trial_is_started_and_collected():
    tests = (load_test({"name": "a", "tool": "iperf3", "seconds": 3}),)
    assert round_seconds(tests, 500) - round_seconds(tests, 1) > 5
    together = round_seconds(tests, 500, together=True)
    assert together - round_seconds(tests, 500) > 5, "the pods wait for the last one"
