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
    placed,
    stop,
    why_one_draw,
)
from rackrate_contract.verdicts import Difference
from tests.unit.builders import verdict

TWICE = [2.0, 2.08, 1.96, 2.02, 2.04, 1.98]


def of_run(ratio, **more):
    """A run's verdict with an interval of 1 %."""
    ends = None if ratio is None else (ratio * 0.99, ratio * 1.01)
    medians = {"arm_median": ratio and ratio * 5e9, "baseline_median": 5e9}
    return verdict(**{"ratio": ratio, "ci95": ends, **medians, **more})


def draws(ratios, **more):
    return [(f"run-{n}", [of_run(ratio, **more)]) for n, ratio in enumerate(ratios, start=1)]


def answers(results, *, most=None, **more):
    least = min(4, len(results))
    return answers_of(
        results, threshold=0.05, least=least, most=max(least, most or len(results)), **more
    )


# -- the answers


def test_each_draw_gives_one_ratio_and_the_answer_is_about_the_placement_group():
    (answer,) = answers(draws(TWICE))
    assert [draw.run_id for draw in answer.draws] == [f"run-{n}" for n in range(1, 7)]
    assert [draw.ratio for draw in answer.draws] == TWICE
    assert answer.ratio == pytest.approx(math.prod(TWICE) ** (1 / 6))
    assert (answer.verdict, answer.scope, answer.left_out) == ("better", "the placement group", 0)
    assert answer.arm_median == pytest.approx(2.01 * 5e9)
    assert answer.claim.startswith("about the placement group")


def test_fewer_than_four_draws_are_about_themselves_only():
    (answer,) = answers(draws(TWICE[:3]))
    assert (answer.verdict, answer.scope, answer.more_draws) == ("inconclusive", "these draws", 1)
    assert "not about the placement group" in answer.claim


def test_a_draw_without_a_ratio_is_left_out_and_counted():
    measured = [*draws(TWICE), ("lost", []), ("empty", [of_run(None)])]
    (answer,) = answers(measured)
    assert (len(answer.draws), answer.left_out) == (6, 2)
    assert "2 draws without a ratio left out" in answer.claim


def test_every_metric_of_every_arm_has_its_own_answer():
    measured = [
        (run_id, [*verdicts, of_run(1 / 5, test="rtt", metric="rtt", unit="s", better="lower")])
        for run_id, verdicts in draws(TWICE)
    ]
    throughput, rtt = answers(measured)
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
    (answer,) = answers(bare)
    assert answer.verdict == "better"
    assert answer.draws[0].ci95 is None


def test_the_newest_draw_is_tested_only_on_request():
    measured = draws([*TWICE, 1.2])
    assert answers(measured)[0].changed is None
    assert answers(measured, since_before=True)[0].changed is True
    assert answers(draws(TWICE), since_before=True)[0].changed is False
    assert answers(draws(TWICE[:4]), since_before=True)[0].changed is None


# -- pooled runs


def on_nodes(run_id, ratio, *nodes, **more):
    return RunOnNodes(run_id, [of_run(ratio, **more)], frozenset(nodes))


def test_runs_on_the_same_nodes_count_as_one_draw():
    pooled_draws = draws_of_runs(
        [on_nodes("a", 2.0, "i-1", "i-2"), on_nodes("b", 1.0, "i-3"), on_nodes("c", 0.5, "i-1")]
    )
    assert [draw.run_id for draw in pooled_draws] == ["a, c", "b"]
    together = pooled_draws[0].verdicts[0]
    assert together.ratio == pytest.approx(1.0)
    assert together.blocks == 12
    assert math.log(together.ci95[1] / together.ci95[0]) < math.log(1.01 / 0.99)


def test_a_run_that_shares_nodes_with_two_draws_joins_them():
    pooled_draws = draws_of_runs(
        [
            on_nodes("a", 2.0, "i-1"),
            on_nodes("b", 2.0, "i-2"),
            on_nodes("c", 2.0, "i-3"),
            on_nodes("d", 2.0, "i-1", "i-2"),
        ]
    )
    assert [draw.run_id for draw in pooled_draws] == ["a, b, d", "c"]


def at(run_id, ratio, stack, time, *nodes):
    run = on_nodes(run_id, ratio, *(nodes or (run_id,)))
    return run._replace(stack=stack, started_at=f"{time}:00Z", seconds=600.0)


FOUR_OF_TWO = [
    at(f"{stack}{number}", 2.0, stack, f"2026-11-2{day}T0{number}:00")
    for stack, day in (("a", 1), ("b", 4))
    for number in (1, 2)
]


def test_runs_of_one_stack_in_the_same_hours_are_one_draw_and_this_is_said():
    assert [draw.run_id for draw in draws_of_runs(FOUR_OF_TWO)] == ["a1, a2", "b1, b2"]
    text = why_one_draw(FOUR_OF_TWO)
    assert text.startswith("4 runs count as 2 draws: a1 and a2 are of one stack within 12 h;")
    later = at("a3", 2.0, "a", "2026-11-22T09:00")
    assert len(draws_of_runs([*FOUR_OF_TWO, later])) == 3


def test_runs_that_are_all_of_one_stack_in_the_same_hours_count_as_a_campaigns_draws_do():
    runs = [at(f"r{n}", 2.0, "a", f"2026-11-21T08:{10 * n:02d}") for n in range(4)]
    assert len(draws_of_runs(runs)) == 4
    claim = claim_of(runs, pooled=True)
    assert claim.scope == "these stacks"
    assert "of this stack, in these 40 min 00 s" in claim.claim


def test_of_four_stacks_each_is_one_draw_on_however_many_days():
    runs = [at(f"{stack}{day}", 2.0, stack, f"2026-11-2{day}T08:00")
            for stack in "abcd" for day in (1, 3)]  # fmt: skip
    assert len(draws_of_runs(runs)) == 4
    assert len(draws_of_runs([run for run in runs if run.stack != "d"])) == 6


def test_why_runs_are_one_draw_names_their_nodes():
    runs = [
        at("x", 2.0, "a", "2026-11-21T08:00", "i-1"),
        at("y", 2.0, "b", "2026-11-28T08:00", "i-1"),
    ]
    assert why_one_draw(runs) == "2 runs count as 1 draw: x and y are on the same nodes."
    alone = [runs[0], at("z", 2.0, "b", "2026-11-21T08:00")]
    assert why_one_draw(alone).startswith("2 runs count as 2 draws: no two are on the same nodes")


def claim_of(runs, *, pooled):
    measured = draws_of_runs(runs) if pooled else [(run.run_id, run.verdicts) for run in runs]
    (claim,) = answers(measured)
    return placed(claim, {run.run_id: run for run in runs}, pooled=pooled)


def test_a_claim_names_its_time_and_what_would_widen_it():
    runs = [at(f"r{n}", 2.0, "a", f"2026-11-21T08:{10 * n:02d}") for n in range(4)]
    claim = claim_of(runs, pooled=False)
    assert (claim.scope, claim.time) == ("the placement group", "in these 40 min 00 s")
    assert claim.claim == (
        "about the placement group of this stack, in these 40 min 00 s: it rests on 4 draws;"
        " draws on more days and more stacks would let it say more"
    )
    assert claim.draws[0].started_at == "2026-11-21T08:00:00Z"
    assert "over 4 draws in these 40 min 00 s, with treatment" in conclusion((claim,))


def test_a_pool_of_fewer_than_four_stacks_is_about_these_stacks():
    runs = [at(f"{stack}{day}", 2.0, stack, f"2026-11-2{day}T08:00")
            for stack in "abcd" for day in (1, 3)]  # fmt: skip
    two = claim_of(runs[:4], pooled=True)
    assert (two.scope, two.time) == ("these stacks", "in these 2 days")
    assert two.claim.startswith("about the placement group of these stacks, in these 2 days")
    assert "next deployment" not in conclusion((two,))
    four = claim_of(runs, pooled=True)
    assert four.scope == "the placement group"
    assert "4 stacks" in four.claim and "more stacks" not in four.claim


def test_a_lost_run_on_the_same_nodes_changes_nothing():
    pooled_draws = draws_of_runs([on_nodes("a", None, "i-1"), on_nodes("b", 2.0, "i-1")])
    assert pooled_draws[0].verdicts[0].ratio == 2.0


@given(st.lists(st.tuples(st.floats(0.5, 2), st.sets(st.integers(0, 6), min_size=1)), max_size=8))
def test_draws_share_no_node_and_keep_every_run(runs):
    pool = [on_nodes(f"r{n}", ratio, *map(str, nodes)) for n, (ratio, nodes) in enumerate(runs)]
    pooled_draws = draws_of_runs(pool)
    groups = [draw.run_id.split(", ") for draw in pooled_draws]
    assert sorted(itertools.chain(*groups)) == sorted(run.run_id for run in pool)
    nodes = {run.run_id: run.nodes for run in pool}
    of_draws = [frozenset().union(*(nodes[run_id] for run_id in group)) for group in groups]
    assert sum(map(len, of_draws)) == len(frozenset().union(*of_draws))


# -- the end


def test_a_campaign_stops_at_a_look_when_every_answer_is_settled():
    stopped = stop(answers(draws(TWICE[:4]), most=12), after=4, least=4, most=12)
    assert (stopped.why, stopped.after, stopped.most) == ("settled", 4, 12)
    assert stopped.text == "Stopped after 4 of at most 12 draws: every answer is settled."


def test_a_campaign_goes_on_between_its_looks():
    results = answers(draws(TWICE[:5]), most=12)
    assert 5 not in looks(4, 12)
    assert stop(results, after=5, least=4, most=12) is None


def test_a_campaign_stops_where_more_draws_would_hardly_settle_anything():
    results = answers(draws([1.05, 1.04, 1.06, 1.05, 1.04, 1.06]), most=9)
    stopped = stop(results, after=6, least=4, most=9)
    assert stopped.why == "no prospect"
    assert "1 of 1 answer is not settled" in stopped.text


def test_a_campaign_makes_its_most_draws_where_they_may_still_settle_an_answer():
    results = answers(draws([1.1, 1.15, 1.05, 1.12, 1.08, 1.1]), most=12)
    assert stop(results, after=6, least=4, most=12) is None
    assert stop(results, after=12, least=4, most=12).why == "most"


def test_a_campaign_without_an_answer_goes_on_to_its_most_draws():
    assert stop((), after=4, least=4, most=12) is None
    stopped = stop((), after=12, least=4, most=12)
    assert (stopped.why, "no answer" in stopped.text) == ("most", True)


def test_too_few_draws_go_on_as_long_as_enough_are_left():
    results = answers(draws(TWICE[:2]), most=12)
    assert stop(results, after=2, least=2, most=4) is None
    assert stop(results, after=2, least=2, most=3).why == "no prospect"


# -- the sentences


def test_the_conclusion_says_the_average_the_next_deployment_and_the_luck():
    text = conclusion(answers(draws(TWICE)))
    assert text.startswith(
        "On average over 6 draws, with treatment tcp-1 throughput is twice as fast"
    )
    assert (
        "Your next deployment with treatment gets tcp-1 throughput 90 to 114 % faster (with 95 %)."
        in text
    )
    assert "This is about the placement group: it rests on 6 draws." in text
    words = "From draw to draw the change varies by 2.1 % (at most 4.47 %) in tcp-1 throughput."
    assert words in text


def test_predictions_of_several_answers_hold_each_by_itself():
    more = of_run(1 / 5, test="rtt", metric="rtt", unit="s", better="lower")
    text = conclusion(answers([(run_id, [*verdicts, more]) for run_id, verdicts in draws(TWICE)]))
    assert "90 to 114 % faster and latency 80 % lower (with 95 % each)." in text


def test_a_variability_of_zero_is_said_by_its_bound():
    alike = draws([2.0, 2.001, 2.0, 2.001])
    text = conclusion(answers(alike))
    assert "varies by at most 0.389 %" in text


def test_a_trend_is_said():
    text = conclusion(answers(draws([2.0 * 1.03**n for n in range(6)])))
    assert "the draws have a trend, +15.9 % from the first draw to the last" in text


def test_the_conclusion_of_few_draws_does_not_speak_of_the_next_deployment():
    text = conclusion(answers(draws(TWICE[:3])))
    assert "next deployment" not in text
    assert "tcp-1 throughput: at least 1 more draw is needed." in text
    assert "This is about these nodes; an answer about the placement group needs 4 draws." in text


def test_a_pool_begins_with_what_differed_and_which_runs_are_one_draw():
    differences = [
        Difference(what="kernel", run="6.12", other="6.1"),
        Difference(what="nodes of treatment", run="i-1", other="i-2"),
    ]
    text = conclusion(
        answers(draws(TWICE)), pooled_differences=differences, pooling="6 runs count as 6 draws."
    )
    assert text.startswith(
        "What differed between these runs: kernel (6.12 instead of 6.1);"
        " nodes of treatment (i-1 instead of i-2). 6 runs count as 6 draws."
    )
    nothing = conclusion(answers(draws(TWICE)), pooled_differences=())
    assert nothing.startswith("Between these runs, nothing that rackrate records differed.")


def test_a_changed_answer_is_named():
    text = conclusion(answers(draws([*TWICE, 1.2]), since_before=True))
    assert "tcp-1 throughput: the newest draw is not like those before it." in text


def test_nothing_to_compare_is_said_so():
    assert conclusion(()).startswith("Nothing can be said")
    (answer,) = answers([("a", [of_run(None)])])
    assert "at least 4 more draws are needed" in conclusion((answer,))


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        (TWICE, "tcp-1 throughput +101 % on average over 6 draws, 5.00 → 10.1 Gbit/s"),
        (TWICE, ": better, treatment against baseline; next deployment +89.7 to +114 %"),
        ([1.0] * 6, ": no meaningful difference, treatment against baseline"),
        (TWICE[:2], "2 more draws are needed"),
    ],
)
def test_a_line_says_the_word_the_average_and_the_next_deployment(ratios, words):
    (answer,) = answers(draws(ratios))
    assert words in line(answer)


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 100)), max_size=7), st.booleans())
def test_any_draws_have_a_conclusion_and_a_json_form(ratios, since_before):
    answer = answers(draws(ratios), since_before=since_before) if ratios else ()
    assert conclusion(answer).endswith(".")
    for each in answer:
        assert type(each).from_json(each.to_json()) == each
