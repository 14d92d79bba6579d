"""Marks on trials: each marks only its own problem, with figures, and rarely noise."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate import registry
from rackrate.measure.counters import Counters
from rackrate.measure.trials import RawValues
from rackrate.tools.base import Interval
from rackrate.verdict.marks import (
    CLEARLY_ABOVE,
    LEAST_BLOCKS_AFTER,
    LEAST_BLOCKS_BEFORE,
    LEAST_INTERVALS,
    drop_to,
    ena_allowance_notes,
    mark_trials,
    sustained_bits_per_second,
)
from rackrate_contract.arms import InstanceNetwork, Node
from rackrate_contract.trials import TrialKey
from tests.unit import builders

BASELINE = 0.75e9
NODES = {"treatment": ("a", "b"), "baseline": ("c", "d")}
TESTS = {
    test.name: test
    for test in map(
        registry.load_test,
        (
            {"name": "tcp-1", "tool": "iperf3", "streams": 1, "seconds": 10},
            {"name": "tcp-8", "tool": "iperf3", "streams": 8, "seconds": 10},
            {"name": "rtt", "tool": "ping"},
            {"name": "etcd", "tool": "etcd"},
            {"name": "valkey", "tool": "valkey"},
        ),
    )
}


def planned_run(*, baseline=BASELINE, peak=10e9, scale=None, cpus=2):
    network = InstanceNetwork(baseline_bits_per_second=baseline, peak_bits_per_second=peak)
    arms = [
        builders.usual_arm(
            arm,
            [Node(name=name, cpus=cpus) for name in names],
            network=network,
            network_scale=scale,
        )
        for arm, names in NODES.items()
    ]
    return builders.planned_run(builders.plan(tests=tuple(TESTS.values())), arms)


def key(block=1, arm="treatment", test="tcp-1", turned=False):
    client, server = NODES[arm][::-1] if turned else NODES[arm]
    return TrialKey(block=block, arm=arm, test=test, client=client, server=server)


def trial(value=4.9e9, *, version="iperf 3.12", **changes):
    """Return a function that makes the trial of a key."""
    return lambda key: builders.trial_of(
        key, TESTS[key.test], value, **{"tool_version": version, **changes}
    )


def intervals(rates, length=1.0):
    return RawValues(
        series=tuple(
            Interval(n * length, (n + 1) * length, bits_per_second=rate)
            for n, rate in enumerate(rates)
        )
    )


def marked(trials, *, plan=None, raw=None, counters=None):
    """The marks by trial, without trials that have none."""
    measured = {key: make(key) for key, make in trials.items()}
    all_marks = mark_trials(plan or planned_run(), measured, raw or {}, counters)
    by_trial = itertools.groupby(all_marks, key=lambda mark: mark.key)
    return {key: list(marks) for key, marks in by_trial}


def names(marks):
    return [mark.mark for mark in marks]


class TestCpu:
    @pytest.mark.parametrize("end", ["client", "server"])
    def test_a_busy_thread_is_marked_at_its_end_and_on_its_node(self, end):
        marks = marked({key(): trial(details={f"{end}_cpu_percent": 96.0})})
        assert names(marks[key()]) == [f"{end}_cpu"]
        node = "a" if end == "client" else "b"
        assert f"the {end}, on {node}, computed 96 % of the time" in marks[key()][0].text

    def test_a_thread_that_waits_for_the_network_is_not_marked(self):
        marks = marked({key(): trial(details={"client_cpu_percent": 60, "server_cpu_percent": 80})})
        assert marks == {}

    def test_one_thread_for_all_streams_is_busy_at_one_cpu(self):
        busy = {"client_cpu_percent": 97.0}
        old = marked({key(test="tcp-8"): trial(details=busy, version="iperf 3.12")})
        new = marked({key(test="tcp-8"): trial(details=busy, version="iperf 3.17")})
        assert names(old[key(test="tcp-8")]) == ["client_cpu"]
        assert new == {}

    def test_more_threads_than_cpus_are_busy_when_the_cpus_are(self):
        busy = {"client_cpu_percent": 190.0}
        eight = key(test="tcp-8")
        trials = {eight: trial(details=busy, version="iperf 3.17")}
        assert names(marked(trials)[eight]) == ["client_cpu"]
        assert "2 CPUs" in marked(trials)[eight][0].text
        assert marked(trials, plan=planned_run(cpus=16)) == {}

    def test_an_unknown_number_of_cpus_leaves_the_threads(self):
        plan = planned_run(cpus=None)
        assert marked({key(): trial(details={"client_cpu_percent": 95.0})}, plan=plan)

    def test_a_failed_trial_and_a_tool_that_tells_nothing_are_not_marked(self):
        failed = trial(details={"client_cpu_percent": 100.0}, status="failed")
        assert marked({key(): failed, key(2): trial()}) == {}

    @pytest.mark.parametrize(
        ("test", "cpus", "least"),
        [("etcd", 2, 180), ("etcd", 16, 1440), ("valkey", 16, 90), ("valkey", None, 90)],
    )
    def test_a_member_is_busy_with_all_cpus_of_its_node_or_all_of_its_threads(
        self, test, cpus, least
    ):
        def marked_at(percent):
            details = {"members_cpu_percent": 1.0, "busiest_member_cpu_percent": percent}
            trials = {key(test=test): trial(0.001, details=details)}
            return marked(trials, plan=planned_run(cpus=cpus))

        assert marked_at(least - 1) == {}
        (mark,) = marked_at(least + 1)[key(test=test)]
        assert mark.mark == "server_cpu"
        assert "the busiest member computed 9" in mark.text

    def test_a_member_of_a_node_with_unknown_cpus_may_have_more(self):
        details = {"busiest_member_cpu_percent": 6000.0}
        trials = {key(test="etcd"): trial(0.001, details=details)}
        assert marked(trials, plan=planned_run(cpus=None)) == {}

    @given(st.floats(0, 1600), st.sampled_from(["tcp-1", "tcp-8"]), st.integers(1, 64))
    def test_a_mark_means_nine_tenths_of_what_the_tool_could_use(self, percent, test, cpus):
        where = key(test=test)
        trials = {where: trial(details={"server_cpu_percent": percent}, version="iperf 3.16")}
        usable = min(TESTS[test].threads(None), cpus)
        marks = marked(trials, plan=planned_run(cpus=cpus))
        assert bool(marks) == (percent >= 0.9 * 100 * usable)


def at(second, minute=0):
    return f"2026-11-21T12:{minute:02d}:{second:02d}Z"


def epoch(second):
    return 1795262400 + second  # 2026-11-21T12:00:00Z


class TestClocks:
    def test_a_container_shorter_than_its_tools_measurement_is_marked(self):
        short = trial(details={"seconds": 10.0}, started_at=at(0), finished_at=at(5))
        marks = marked({key(): short})
        assert names(marks[key()]) == ["clock"]
        assert "ran 5 s, but its tool measured for 10 s" in marks[key()][0].text

    def test_whole_seconds_of_the_kubelet_are_no_disagreement(self):
        fine = trial(
            details={"seconds": 10.0, "started_at_epoch_seconds": epoch(0)},
            started_at=at(1),
            finished_at=at(10),
        )
        assert marked({key(): fine}) == {}

    @pytest.mark.parametrize(("start", "off"), [(20, "10 s"), (-7, "7 s")])
    @pytest.mark.parametrize("moment", ["started_at", "first_reply_at"])
    def test_a_tool_whose_own_time_is_outside_of_its_containers_life_is_marked(
        self, moment, start, off
    ):
        odd = trial(
            details={f"{moment}_epoch_seconds": epoch(start)},
            started_at=at(0),
            finished_at=at(10),
        )
        marks = marked({key(): odd})
        assert names(marks[key()]) == ["clock"]
        assert off in marks[key()][0].text

    def test_a_trial_without_times_or_with_odd_ones_says_nothing_of_clocks(self):
        details = {"seconds": 10.0, "started_at_epoch_seconds": epoch(99)}
        for times in ({}, {"started_at": "noon", "finished_at": "?"}, {"started_at": at(0)}):
            assert marked({key(): trial(details=details, **times)}) == {}

    def test_a_block_that_begins_before_the_last_one_is_over_shows_clocks_that_disagree(self):
        early, late = key(1), key(2, "baseline")
        marks = marked(
            {
                early: trial(started_at=at(0), finished_at=at(20)),
                late: trial(started_at=at(12), finished_at=at(32)),
            }
        )
        assert names(marks[early]) == names(marks[late]) == ["clock"]
        assert "a trial of c in block 2 began 8 s before the last of a in block 1" in (
            marks[late][0].text
        )

    def test_blocks_in_their_order_and_repeated_trials_are_no_fault_of_the_clock(self):
        trials = {
            key(1): trial(started_at=at(0), finished_at=at(20)),
            key(2): trial(started_at=at(18), finished_at=at(40)),
            key(3): trial(started_at=at(45), finished_at=at(55)),
            # This trial failed and was repeated at the end.
            key(1, "baseline"): trial(attempt=2, started_at=at(0, 5), finished_at=at(20, 5)),
        }
        assert "clock" not in {name for marks in marked(trials).values() for name in names(marks)}

    def test_only_the_trials_between_which_they_disagree_are_marked(self):
        trials = {
            key(1): trial(started_at=at(0), finished_at=at(20)),
            key(1, test="tcp-8"): trial(started_at=at(0), finished_at=at(10)),
            key(2, "baseline"): trial(started_at=at(12), finished_at=at(32)),
            key(2): trial(started_at=at(22), finished_at=at(42)),
        }
        assert set(marked(trials)) == {key(1), key(2, "baseline")}


DROP = [4.9e9] * 5 + [0.72e9] * 5


class TestABurstThatEndsInATrial:
    def test_a_drop_to_the_baseline_is_marked_with_when_and_how_far(self):
        marks = marked({key(): trial()}, raw={key().id: intervals(DROP)})
        assert names(marks[key()]) == ["burst_drop_in_trial"]
        text = marks[key()][0].text
        assert "after 5 s the rate fell from 4.90 Gbit/s to 720 Mbit/s" in text
        assert "the instance sustains 750 Mbit/s" in text

    def test_both_directions_together_sustain_twice_as_much(self):
        both = TESTS["tcp-1"].model_copy(update={"bidirectional": True})
        assert sustained_bits_per_second(planned_run().arms[0], both) == 2 * BASELINE

    def test_a_scaled_network_has_a_scaled_baseline(self):
        raw = {key().id: intervals([rate / 10 for rate in DROP])}
        assert marked({key(): trial()}, raw=raw) == {}
        assert marked({key(): trial()}, raw=raw, plan=planned_run(scale=0.1))

    @pytest.mark.parametrize(
        ("baseline", "peak"), [(10e9, 10e9), (None, None), (0.75e9, None), (None, 10e9)]
    )
    def test_an_instance_without_a_known_burst_is_never_marked(self, baseline, peak):
        plan = planned_run(baseline=baseline, peak=peak)
        low = (baseline or BASELINE) * 0.97
        raw = {key().id: intervals([3 * low] * 5 + [low] * 5)}
        blocks = {key(n): trial(3 * low if n < 3 else low) for n in range(1, 7)}
        assert marked({key(): trial()}, plan=plan, raw=raw) == {}
        assert marked(blocks, plan=plan) == {}

    @pytest.mark.parametrize(
        "rates",
        [
            [4.9e9] * 8 + [0.72e9] * 2,  # too few intervals after the drop
            [0.72e9] * 5 + [4.9e9] * 5,  # a rise
            [4.9e9] * 5 + [2e9] * 5,  # a drop, but not to the baseline
            [4.9e9] * 5 + [0.2e9] * 5,  # far below it
            [4.9e9, 0.72e9] * 5,  # it does not stay there
            [4.9e9] * 4 + [0.72e9] * 3 + [4.9e9] * 3,  # it comes back
            [0.72e9] * 10,  # it was over before
            [],
            [4.9e9],
        ],
    )
    def test_what_is_no_lasting_drop_to_the_baseline_is_not_marked(self, rates):
        assert marked({key(): trial()}, raw={key().id: intervals(rates)}) == {}

    def test_a_slow_start_and_a_hiccup_do_not_hide_a_drop(self):
        rates = [0.6e9] + [4.9e9] * 9 + [0.72e9] * 4 + [2e9] + [0.72e9] * 5
        assert marked({key(): trial()}, raw={key().id: intervals(rates)})

    def test_a_latency_test_has_no_burst(self):
        assert sustained_bits_per_second(planned_run().arms[0], TESTS["rtt"]) is None
        rtt = key(test="rtt")
        raw = {rtt.id: intervals(DROP)}
        assert marked({rtt: trial(0.0004)}, raw=raw) == {}


class TestABurstThatEndsBetweenBlocks:
    def fall(self, values, arm="treatment"):
        return {
            key(block, arm, turned=block % 2 == 0): trial(value)
            for block, value in enumerate(values, start=1)
        }

    def test_the_blocks_from_the_drop_on_are_marked_whichever_way_the_pair_was_turned(self):
        by_trial = marked(self.fall([9.4e9, 9.3e9, 9.4e9, 0.73e9, 0.72e9, 0.73e9]))
        assert sorted(k.block for k in by_trial) == [4, 5, 6]
        assert all(names(marks) == ["burst_drop_across_blocks"] for marks in by_trial.values())
        text = by_trial[key(5)][0].text
        assert "from block 4 on a and b came to 730 Mbit/s, after 9.40 Gbit/s before" in text

    @pytest.mark.parametrize(
        "values",
        [
            [9.4e9] * 6,
            [0.73e9] * 6,
            [0.73e9, 0.73e9, 9.4e9, 9.4e9],
            [9.4e9, 0.73e9, 9.4e9, 0.73e9, 9.4e9, 0.73e9],
            [9.4e9, 9.4e9, 0.73e9],
            [9.4e9],
        ],
    )
    def test_what_is_no_lasting_drop_is_not_marked(self, values):
        assert marked(self.fall(values)) == {}

    def test_one_arms_empty_burst_does_not_mark_the_other(self):
        trials = self.fall([9.4e9, 9.4e9, 0.73e9, 0.73e9]) | self.fall([4.9e9] * 4, "baseline")
        assert {k.arm for k in marked(trials)} == {"treatment"}


class TestFalseAlarms:
    """Simulated noise around constant levels. The false-positive rate must be below 1 %."""

    RUNS = 1000
    # The worst level is between the baseline and a level that is clearly above it.
    LEVELS = (0.5, 0.97, 1.0, 1.1, 1.17, 1.2, 1.25, 1.5, 4.0)

    @pytest.mark.parametrize("level", LEVELS)
    @pytest.mark.parametrize(
        ("where", "count", "before", "after"),
        [
            *(("trial", count, LEAST_INTERVALS, LEAST_INTERVALS) for count in (6, 10, 30)),
            *(("blocks", count, LEAST_BLOCKS_BEFORE, LEAST_BLOCKS_AFTER) for count in (3, 6, 12)),
        ],
    )
    def test_three_percent_of_noise_is_no_drop(self, level, where, count, before, after):
        chance = random.Random(f"{level}/{count}/{where}")
        alarms = 0
        for _ in range(self.RUNS):
            values = [level * chance.gauss(1, 0.03) for _ in range(count)]
            cut = drop_to(1.0, values, least_before=before, least_after=after)
            alarms += cut is not None
        assert alarms < 0.01 * self.RUNS

    @pytest.mark.parametrize("height", [1.5, 2.0, 6.5])
    def test_true_drops_under_the_same_noise_are_found(self, height):
        chance = random.Random(f"drops/{height}")
        count = 0
        for _ in range(self.RUNS):
            cut = chance.randint(3, 7)
            rates = [height] * cut + [0.96] * (10 - cut)
            noisy = [rate * chance.gauss(1, 0.03) for rate in rates]
            count += drop_to(1.0, noisy, least_before=3, least_after=3) == cut
        assert count > 0.99 * self.RUNS

    @given(
        st.lists(st.floats(0, 1e11), max_size=40),
        st.floats(1e6, 1e10),
        st.integers(1, 4),
        st.integers(1, 4),
    )
    def test_a_cut_lies_within_the_values_and_between_the_levels(
        self, values, sustained, before, after
    ):
        cut = drop_to(sustained, values, least_before=before, least_after=after)
        if cut is not None:
            assert before <= cut <= len(values) - after
            assert max(values[:cut]) >= CLEARLY_ABOVE * sustained
            assert min(values[cut:]) <= 1.1 * sustained


BEFORE = {"a": {"eth0": {"bw_out_allowance_exceeded": 5, "tx_bytes": 10}}, "b": {}}
AFTER = {
    "a": {
        "eth0": {"bw_out_allowance_exceeded": 12, "tx_bytes": 999},
        "eth1": {"bw_out_allowance_exceeded": 3, "pps_allowance_exceeded": 1},
    },
    "b": {},
}


def counted(before, after):
    return Counters(before=before, after=after, note=None)


COUNTERS = counted(BEFORE, AFTER)


class TestAllowancesOfTheNetworkCard:
    def test_rises_are_summed_over_interfaces_and_noted_on_the_trials_of_the_node(self):
        marks = marked({key(): trial(), key(arm="baseline"): trial()}, counters=COUNTERS)
        assert set(marks) == {key()}
        assert names(marks[key()]) == ["ena_allowance"]
        text = marks[key()][0].text
        assert "bw_out_allowance_exceeded by 10, pps_allowance_exceeded by 1" in text
        assert "tx_bytes" not in text

    def test_a_failed_trial_is_noted_too_since_it_may_be_why(self):
        assert marked({key(): trial(status="failed")}, counters=COUNTERS)

    @pytest.mark.parametrize(
        "counters",
        [
            None,
            Counters.not_read(),
            counted(BEFORE, {}),
            counted({}, AFTER),
            counted(AFTER, AFTER),
        ],
    )
    def test_what_was_not_counted_twice_or_did_not_rise_is_not_noted(self, counters):
        assert ena_allowance_notes(counters) == {}

    def test_a_counter_that_began_anew_counts_from_zero(self):
        before = {"a": {"eth0": {"pps_allowance_exceeded": 100}}}
        after = {"a": {"eth0": {"pps_allowance_exceeded": 4}}}
        assert "by 4" in ena_allowance_notes(counted(before, after))["a"]

    def test_what_remains_of_an_allowance_is_not_taken_for_an_excess(self):
        before = {"a": {"eth0": {"conntrack_allowance_available": 1}}}
        after = {"a": {"eth0": {"conntrack_allowance_available": 9}}}
        assert ena_allowance_notes(counted(before, after)) == {}


def test_trials_on_a_node_with_few_connections_left_are_marked():
    left = {"a": {"eth0": {"conntrack_allowance_available": 9}}}
    marks = marked({key(): trial(), key(arm="baseline"): trial()}, counters=counted(left, left))
    assert names(marks[key()]) == ["few_connections"]
    assert "only 9 more connections" in marks[key()][0].text


def test_marks_come_together_in_one_order_and_nothing_is_dropped():
    trials = {
        key(): trial(
            details={"client_cpu_percent": 99.0, "server_cpu_percent": 99.0, "seconds": 10.0},
            started_at=at(0),
            finished_at=at(3),
        ),
        key(2): trial(),
    }
    by_trial = marked(trials, raw={key().id: intervals(DROP)}, counters=COUNTERS)
    assert names(by_trial[key()]) == [
        "client_cpu",
        "server_cpu",
        "clock",
        "burst_drop_in_trial",
        "ena_allowance",
    ]
    assert names(by_trial[key(2)]) == ["ena_allowance"]
    assert all(mark.text for marks in by_trial.values() for mark in marks)


@pytest.mark.parametrize(("together", "name"), [(True, "repeated"), (False, "repeated_alone")])
def test_a_repeated_trial_says_whether_the_other_arms_were_repeated_with_it(together, name):
    again = trial(attempt=2, repeated_together=together)
    by_trial = marked({key(): again, key(2): trial(attempt=1)})
    assert [names(marks) for marks in by_trial.values()] == [[name]]
    assert "attempt 2" in by_trial[key()][0].text
