"""The answers of a campaign from its runs' verdicts, its end, and its sentences."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackrate.plan.looks import looks
from rackrate.verdict.campaign import (
    RunOnNodes,
    answers_of,
    conclusion,
    draws_of_runs,
    line,
    stop,
)
from rackrate.verdict.model import Difference
from tests.unit.builders import verdict

TWICE = [2.0, 2.08, 1.96, 2.02, 2.04, 1.98]


def of_run(ratio, **more):
    """A run's verdict with an interval of 1 %."""
    ends = None if ratio is None else (ratio * 0.99, ratio * 1.01)
    medians = {"arm_median": ratio and ratio * 5e9, "baseline_median": 5e9}
    return verdict(**{"ratio": ratio, "ci95": ends, **medians, **more})


def draws(ratios, **more):
    return [(f"run-{n}", [of_run(ratio, **more)]) for n, ratio in enumerate(ratios, start=1)]


def answers(told, *, most=None, **more):
    least = min(4, len(told))
    return answers_of(told, threshold=0.05, least=least, most=max(least, most or len(told)), **more)


# -- the answers


def test_each_draw_gives_one_ratio_and_the_answer_is_about_the_placement_group():
    (found,) = answers(draws(TWICE))
    assert [draw.run_id for draw in found.draws] == [f"run-{n}" for n in range(1, 7)]
    assert [draw.ratio for draw in found.draws] == TWICE
    assert found.ratio == pytest.approx(math.prod(TWICE) ** (1 / 6))
    assert (found.verdict, found.scope, found.left_out) == ("better", "the placement group", 0)
    assert found.arm_median == pytest.approx(2.01 * 5e9)
    assert found.claim.startswith("about the placement group")


def test_fewer_than_four_draws_are_about_themselves_only():
    (found,) = answers(draws(TWICE[:3]))
    assert (found.verdict, found.scope, found.more_draws) == ("inconclusive", "these draws", 1)
    assert "not about the placement group" in found.claim


def test_a_draw_without_a_ratio_is_left_out_and_counted():
    told = [*draws(TWICE), ("lost", []), ("empty", [of_run(None)])]
    (found,) = answers(told)
    assert (len(found.draws), found.left_out) == (6, 2)
    assert "2 draws without a ratio left out" in found.claim


def test_every_metric_of_every_arm_has_its_own_answer():
    told = [
        (run_id, [*verdicts, of_run(1 / 5, test="rtt", metric="rtt", unit="s", better="lower")])
        for run_id, verdicts in draws(TWICE)
    ]
    throughput, rtt = answers(told)
    assert (throughput.test, rtt.test) == ("tcp-1", "rtt")
    assert rtt.verdict == "better"
    assert rtt.confidence_simultaneous > answers(draws(TWICE))[0].confidence_simultaneous


def test_the_spread_within_runs_is_not_taken_for_luck():
    wide = [(run_id, [each.model_copy(update={"ci95": (each.ratio * 0.9, each.ratio * 1.1)})])
            for run_id, (each,) in draws(TWICE)]  # fmt: skip
    assert answers(wide)[0].variability == 0
    assert answers(draws(TWICE))[0].variability > 0


def test_a_run_without_an_interval_still_counts():
    bare = [(run_id, [each.model_copy(update={"ci95": None})]) for run_id, (each,) in draws(TWICE)]
    (found,) = answers(bare)
    assert found.verdict == "better"
    assert found.draws[0].ci95 is None


def test_the_newest_draw_is_tested_only_on_request():
    told = draws([*TWICE, 1.2])
    assert answers(told)[0].changed is None
    assert answers(told, since_before=True)[0].changed is True
    assert answers(draws(TWICE), since_before=True)[0].changed is False
    assert answers(draws(TWICE[:4]), since_before=True)[0].changed is None


# -- pooled runs


def on_nodes(run_id, ratio, *nodes, **more):
    return RunOnNodes(run_id, [of_run(ratio, **more)], frozenset(nodes))


def test_runs_on_the_same_nodes_count_as_one_draw():
    found = draws_of_runs(
        [on_nodes("a", 2.0, "i-1", "i-2"), on_nodes("b", 1.0, "i-3"), on_nodes("c", 0.5, "i-1")]
    )
    assert [draw.run_id for draw in found] == ["a, c", "b"]
    together = found[0].verdicts[0]
    assert together.ratio == pytest.approx(1.0)
    assert together.blocks == 12
    assert math.log(together.ci95[1] / together.ci95[0]) < math.log(1.01 / 0.99)


def test_a_run_that_shares_nodes_with_two_draws_joins_them():
    found = draws_of_runs(
        [
            on_nodes("a", 2.0, "i-1"),
            on_nodes("b", 2.0, "i-2"),
            on_nodes("c", 2.0, "i-3"),
            on_nodes("d", 2.0, "i-1", "i-2"),
        ]
    )
    assert [draw.run_id for draw in found] == ["a, b, d", "c"]


def test_a_lost_run_on_the_same_nodes_changes_nothing():
    found = draws_of_runs([on_nodes("a", None, "i-1"), on_nodes("b", 2.0, "i-1")])
    assert found[0].verdicts[0].ratio == 2.0


@given(st.lists(st.tuples(st.floats(0.5, 2), st.sets(st.integers(0, 6), min_size=1)), max_size=8))
def test_draws_share_no_node_and_keep_every_run(runs):
    told = [on_nodes(f"r{n}", ratio, *map(str, nodes)) for n, (ratio, nodes) in enumerate(runs)]
    found = draws_of_runs(told)
    groups = [draw.run_id.split(", ") for draw in found]
    assert sorted(itertools.chain(*groups)) == sorted(run.run_id for run in told)
    nodes = {run.run_id: run.nodes for run in told}
    of_draws = [frozenset().union(*(nodes[run_id] for run_id in group)) for group in groups]
    assert sum(map(len, of_draws)) == len(frozenset().union(*of_draws))


# -- the end


def test_a_campaign_stops_at_a_look_when_every_answer_is_settled():
    found = stop(answers(draws(TWICE[:4]), most=12), after=4, least=4, most=12)
    assert (found.why, found.after, found.most) == ("settled", 4, 12)
    assert found.text == "Stopped after 4 of at most 12 draws: every answer is settled."


def test_a_campaign_goes_on_between_its_looks():
    told = answers(draws(TWICE[:5]), most=12)
    assert 5 not in looks(4, 12)
    assert stop(told, after=5, least=4, most=12) is None


def test_a_campaign_stops_where_more_draws_would_hardly_settle_anything():
    told = answers(draws([1.05, 1.04, 1.06, 1.05, 1.04, 1.06]), most=9)
    found = stop(told, after=6, least=4, most=9)
    assert found.why == "no prospect"
    assert "1 of 1 answer is not settled" in found.text


def test_a_campaign_makes_its_most_draws_where_they_may_still_settle_an_answer():
    told = answers(draws([1.1, 1.15, 1.05, 1.12, 1.08, 1.1]), most=12)
    assert stop(told, after=6, least=4, most=12) is None
    assert stop(told, after=12, least=4, most=12).why == "most"


def test_a_campaign_without_an_answer_goes_on_to_its_most_draws():
    assert stop((), after=4, least=4, most=12) is None
    found = stop((), after=12, least=4, most=12)
    assert (found.why, "no answer" in found.text) == ("most", True)


def test_too_few_draws_go_on_as_long_as_enough_are_left():
    told = answers(draws(TWICE[:2]), most=12)
    assert stop(told, after=2, least=2, most=4) is None
    assert stop(told, after=2, least=2, most=3).why == "no prospect"


# -- the sentences


def test_the_conclusion_says_the_average_the_next_deployment_and_the_luck():
    said = conclusion(answers(draws(TWICE)))
    assert said.startswith(
        "On average over 6 draws, against baseline, treatment is better in tcp-1 throughput"
    )
    assert "Your next deployment will get +89.7 to +114 % in tcp-1 throughput" in said
    assert "This is about the placement group, not only about these nodes." in said
    assert "From draw to draw the change varies by 2.1 % in tcp-1 throughput." in said


def test_the_conclusion_of_few_draws_does_not_speak_of_the_next_deployment():
    said = conclusion(answers(draws(TWICE[:3])))
    assert "next deployment" not in said
    assert "tcp-1 throughput: at least 1 more draw is needed." in said
    assert "This is about these nodes; an answer about the placement group needs 4 draws." in said


def test_a_pool_begins_with_what_differed_besides_the_nodes():
    differences = [
        Difference(what="kernel", run="6.12", other="6.1"),
        Difference(what="nodes of treatment", run="i-1", other="i-2"),
    ]
    said = conclusion(answers(draws(TWICE)), pooled_differences=differences)
    assert said.startswith("What differed between these runs: kernel (6.12 instead of 6.1).")
    nothing = conclusion(answers(draws(TWICE)), pooled_differences=differences[1:])
    assert nothing.startswith("Between these runs, nothing that rackrate records differed.")


def test_a_changed_answer_is_named():
    said = conclusion(answers(draws([*TWICE, 1.2]), since_before=True))
    assert "tcp-1 throughput: the newest draw is not like those before it." in said


def test_nothing_to_compare_is_said_so():
    assert conclusion(()).startswith("Nothing can be said")
    (found,) = answers([("a", [of_run(None)])])
    assert "at least 4 more draws are needed" in conclusion((found,))


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        (TWICE, "tcp-1 throughput +101 % on average over 6 draws, 5.00 → 10.1 Gbit/s"),
        (TWICE, ": better, treatment against baseline; next deployment +89.7 to +114 %"),
        ([1.0] * 6, ": no meaningful difference, treatment against baseline"),
        (TWICE[:2], "2 more draws are needed"),
    ],
)
def test_a_line_says_the_word_the_average_and_the_next_deployment(ratios, said):
    (found,) = answers(draws(ratios))
    assert said in line(found)


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 100)), max_size=7), st.booleans())
def test_any_draws_have_a_conclusion_and_a_json_form(ratios, since_before):
    found = answers(draws(ratios), since_before=since_before) if ratios else ()
    assert conclusion(found).endswith(".")
    for each in found:
        assert type(each).from_json(each.to_json()) == each
