"""What a hunt says of the present nodes, and when it stops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.results.build import RunTimes, build_results
from rackrate.times import now
from rackrate.verdict.hunt import (
    hunted,
    interval_of_better,
    kept_in_words,
    limits_of_rank,
    sentences,
    share_of_better,
    stop_hunt,
    value_of_going_on,
    without_error,
)
from rackrate.verdict.model import Analysis
from rackrate_contract.campaign import HuntGoal
from rackrate_contract.verdicts import Summary
from tests.unit.builders import node, plan, planned_run, usual_arm

WANTED = HuntGoal(
    test="rtt",
    metric="rtt",
    unit="s",
    better="lower",
    arm="treatment",
    endpoint=None,
    target=None,
    best_share=None,
    dollars_per_percent=None,
)
levels = st.lists(st.floats(-3, 3, allow_subnormal=False), min_size=3, max_size=12).map(np.array)


def run(value, *, nodes=None, spread=0.01, blocks=6, run_id="run"):
    """The results of a run that measured one arm."""
    summary = Summary(
        test="rtt",
        metric="rtt",
        unit="s",
        arm="treatment",
        median=value,
        trials=blocks,
        blocks=blocks,
        pairs=1,
        spread_between_blocks=spread,
        spread_between_pairs=None,
        percentiles=None,
        loss_ratio=None,
        retransmits=None,
    )
    analysis = Analysis(
        method="",
        verdicts=(),
        summaries=(summary,),
        marks=(),
        regressions=(),
        regression_differences=None,
        warnings=(),
    )
    arm = usual_arm("treatment", nodes or [f"a-{value}", f"b-{value}"])
    return build_results(
        planned_run(plan(), [arm], run_id=run_id),
        [],
        analysis,
        trials_planned=0,
        stopped=None,
        times=RunTimes(now(), now()),
        lab_scale=None,
        warnings=(),
    )


def known(values, *, wanted=None, left=4, measured=True, dollars=0.12, earlier=None):
    """What a hunt knows after runs with these values, in microseconds, or these results.

    `measured` says whether the present nodes are those of the last run.
    """
    runs = [
        run(each / 1e6, run_id=f"run-{number}") if isinstance(each, int) else each
        for number, each in enumerate(values)
    ]
    return hunted(
        runs,
        WANTED.model_copy(update=wanted or {}),
        earlier=earlier or {},
        last_run_id=runs[-1].run.id if measured else "lost",
        left=left,
        dollars_per_draw=dollars,
    )


def text(hunt):
    """What is known, as a person reads it."""
    return " ".join(sentences(hunt))


# -- when to stop


@pytest.mark.parametrize(("most", "best"), [(3, 5 / 3), (4, 15 / 8), (5, 2.05)])
def test_by_ranks_a_hunt_ends_with_the_least_expected_rank_there_is(most, best):
    # Of all rules; Chow, Moriguti, Robbins and Samuels 1964.
    limits = limits_of_rank(most)
    final = []
    for order in itertools.permutations(range(1, most + 1)):
        ranks = [sorted(order[:n]).index(order[n - 1]) + 1 for n in range(1, most + 1)]
        stop = next(n for n, rank in enumerate(ranks) if rank <= limits[n])
        final.append(order[stop])
    assert np.mean(final) == pytest.approx(best)


def test_a_hunt_without_a_goal_stops_where_going_on_would_probably_be_worse():
    stopped = stop_hunt(known([100, 120, 90]), after=3, most=5)
    assert stopped.why == "found"
    assert "going on would not improve the rank on average" in stopped.text
    assert stop_hunt(known([90, 100, 120]), after=3, most=5) is None


def test_a_hunt_stops_at_its_target_and_goes_on_before_it():
    wanted = {"target": 95e-6}
    assert stop_hunt(known([100, 94], wanted=wanted), after=2, most=6).why == "found"
    assert stop_hunt(known([100, 90, 96], wanted=wanted), after=3, most=6) is None


def test_a_target_that_no_draw_meets_is_given_up_with_its_chance():
    hunt = known([100, 101, 102, 99], wanted={"target": 10e-6}, left=2)
    assert hunt.chance < 0.001
    assert "The goal is not met: at most 10.0 µs. The next draw has a chance of" in text(hunt)
    stopped = stop_hunt(hunt, after=4, most=6)
    assert stopped.why == "no prospect"
    assert "2 more draws would have a chance of <0.001 % to meet the goal" in stopped.text
    # A draw of a bad rank is not what a hunt should end with.
    worst = known([100, 101, 99, 102], wanted={"target": 10e-6}, left=2)
    assert stop_hunt(worst, after=4, most=6) is None


def test_a_share_of_the_best_takes_draws_to_be_shown():
    wanted = {"best_share": 0.1}
    assert known(range(105, 99, -1), wanted=wanted).met is False
    assert known(range(106, 99, -1), wanted=wanted).met is True


def test_a_draw_that_costs_more_than_its_gain_is_not_made():
    values = [100, 95, 105, 96]
    assert known(values, wanted={"dollars_per_percent": 1000.0}).met is None
    hunt = known(values, wanted={"dollars_per_percent": 0.01})
    assert hunt.met is True
    assert "1 % better costs more than $0.01" in stop_hunt(hunt, after=4, most=9).text


def test_nodes_that_were_not_measured_are_not_good_enough():
    hunt = known([100, 90], wanted={"target": 95e-6}, measured=False)
    assert (hunt.met, hunt.rank, hunt.better_than, hunt.gain) == (None, None, None, None)
    assert "they were not measured" in text(hunt)
    assert stop_hunt(hunt, after=3, most=6) is None
    assert stop_hunt(hunt, after=6, most=6).why == "most"
    assert stop_hunt(None, after=1, most=6) is None


# -- what is known


def test_the_share_of_placements_is_that_of_ranks():
    # The best of 9: 1 - 0.5 ** (1 / 9), and 2.5 % and 97.5 % of the same distribution.
    hunt = known(range(140, 95, -5))
    assert hunt.rank == 1
    assert hunt.better_than == pytest.approx(0.5 ** (1 / 9))
    assert hunt.better_than_ci95 == pytest.approx((0.025 ** (1 / 9), 0.975 ** (1 / 9)))
    assert "rank 1 of 9 draws, better than 92.6 % of placements (66.4 % to 99.7 %)." in text(hunt)


@given(levels, st.floats(0, 2))
def test_a_wider_error_gives_no_narrower_interval_which_holds_the_share(values, half):
    rank = 1 + int((values > values[-1]).sum())
    narrow = interval_of_better(values, np.full(values.size, half))
    low, high = interval_of_better(values, np.full(values.size, half + 0.5))
    assert low <= narrow[0] <= share_of_better(rank, values.size) <= narrow[1] <= high


def test_an_unknown_error_allows_any_rank():
    hunt = known([run(value, blocks=1, run_id=str(value)) for value in (1e-4, 9e-5, 8e-5)])
    assert hunt.draws[-1].ci95 is None
    low, high = hunt.better_than_ci95
    assert low < 0.01 and high > 0.99
    assert hunt.gain is None
    needs = "3 draws with an interval, which more blocks give, at $0.12 a draw."
    assert f"What going on would gain is not known without {needs}" in text(hunt)
    assert "is not known without 3 draws, at $0.12 a draw." in text(known([90, 95]))


def test_two_blocks_that_measure_a_pair_in_turns_give_no_interval():
    results = run(1e-4, blocks=2, spread=None)
    assert known([results]).draws[-1].ci95 is None


@given(levels, st.integers(1, 12))
def test_going_on_is_worth_at_least_a_draw_and_at_most_the_best(values, left):
    value = value_of_going_on(values, left)
    assert values.mean() - 1e-9 <= value <= values.max() + 1e-9
    assert value <= value_of_going_on(values, left + 1) + 1e-9
    assert value_of_going_on(values, left, 0.1) < value


def test_what_is_measurement_of_a_good_draw_is_not_expected_to_last():
    values = np.array([0.0, 1.0, 2.0])
    assert without_error(values, np.zeros(3)) == pytest.approx(values)
    shrunk = without_error(values, np.full(3, 1.2))
    assert shrunk.mean() == pytest.approx(1)
    assert 1 < shrunk[-1] < 2
    assert without_error(values, np.full(3, 9.0)) == pytest.approx(np.ones(3))


def test_the_gain_is_in_the_metrics_unit_and_never_below_nothing():
    hunt = known([90, 95, 105, 100], left=1)
    assert hunt.gain == pytest.approx(100e-6 - (90 * 95 * 105 * 100) ** 0.25 * 1e-6, rel=0.1)
    assert "Going on would gain 2." in text(hunt) and "at $0.12 a draw" in text(hunt)
    best = known([100, 105, 95, 90], left=1)
    assert best.gain == 0
    assert "Going on would gain nothing on average" in text(best)


# -- nodes that an earlier hunt measured


def test_nodes_of_an_earlier_hunt_are_measured_again_and_compared_with_themselves():
    runs = [
        run(value, nodes=nodes, run_id=name)
        for name, value, nodes in (
            ("a", 100e-6, None),
            ("b", 90e-6, ["a", "b"]),
            ("c", 99e-6, ["a", "b"]),
        )
    ]
    hunt = known(runs, earlier={"a": "hunt a", "b": "hunt b"})
    assert [draw.value for draw in hunt.draws] == [100e-6, 99e-6]
    assert hunt.since.ratio == pytest.approx(1.1)
    low, high = hunt.since.ci95
    assert 1 < low < 1.1 < high
    # An earlier hunt that failed has measured nodes, but it has kept none.
    assert "These are the nodes that hunt b measured last: +10 % (95 % CI" in text(hunt)


def test_lost_nodes_are_named_and_what_is_there_now_is_a_new_draw():
    before = run(90e-6, nodes=["a", "b.ec2"], run_id="before")
    hunt = known([before, run(99e-6, nodes=["a", "c"])], earlier={"before": "hunt b"})
    assert hunt.since.gone == ("b.ec2",)
    assert (hunt.since.ratio, len(hunt.draws)) == (None, 2)
    assert "This is a new draw: hunt b measured b last, gone since then." in text(hunt)


def test_a_new_instance_with_the_name_of_a_node_is_another():
    nodes = [[node("a", instance_id=f"i-{number}"), node("b")] for number in (1, 2)]
    before, now_there = (run(90e-6, nodes=each, run_id=each[0].instance_id) for each in nodes)
    hunt = known([before, now_there], earlier={"i-1": "hunt b"})
    assert (hunt.since.gone, len(hunt.draws)) == (("a",), 2)


def test_a_run_without_a_figure_is_no_draw():
    assert known([run(None)]) is None
    lost = known([run(1e-4, run_id="a"), run(None, run_id="b")])
    assert lost.rank is None, "the figure is of nodes that are gone"
    assert len(known([run(None), run(1e-4)]).draws) == 1
    assert math.isfinite(known([100]).better_than)


def test_an_endpoint_is_named():
    hunt = known([100], wanted={"endpoint": "instance"})
    assert "rtt towards instance is 100 µs" in text(hunt)


def test_only_measured_nodes_of_a_hunt_that_came_to_its_end_are_kept():
    hunt = known([100, 94], wanted={"target": 95e-6})
    stopped = stop_hunt(hunt, after=2, most=6)
    assert "Kept, with the label rackrate.dev/kept: a-9" in kept_in_words(hunt, "camp", stopped)
    assert "--continue camp`" in kept_in_words(hunt, "camp", stopped)
    assert kept_in_words(hunt, "camp", None) == "No nodes were kept."
    lost = known([100, 94], measured=False)
    assert kept_in_words(lost, "camp", stopped) == "No nodes were kept."
