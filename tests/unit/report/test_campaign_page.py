"""A campaign's page: what it says and where, its links, and that no text becomes markup."""

from __future__ import annotations

import itertools
import re
from types import NoneType
from typing import Any, get_args
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.report.campaign_material import MOST_FIGURES
from rackrate.report.campaign_page import render_campaign
from rackrate.report.charts import canvas
from rackrate.report.page import MOST_BYTES
from rackrate_contract.campaign import CampaignResults
from rackrate_contract.document import Document
from rackrate_text.units import UNKNOWN
from tests.unit.report import campaigns
from tests.unit.report.campaigns import (
    LOST,
    answer,
    campaign,
    capacity,
    draw,
    facts,
    hunt,
    open_answer,
    pool,
    step,
    sweep,
)
from tests.unit.report.pages import (
    NASTY,
    NOT_FREE,
    Elements,
    changed,
    figures,
    text_of,
    tips,
    undrawn,
)

NO_DRAWING = mock.patch.object(canvas.Chart, "svg", undrawn)
DOCUMENTS = {"draws": campaign, "sweep": sweep, "pool": pool, "hunt": hunt}


def words(document: CampaignResults) -> str:
    """The visible text of a campaign's page, without its figures."""
    with NO_DRAWING:
        return text_of(render_campaign(document))


def rows(document: CampaignResults, caption: str) -> list[list[str]]:
    """The texts of the cells of a table of a campaign's page, row by row."""
    with NO_DRAWING:
        page = render_campaign(document)
    table = page[page.index(f"<caption>{caption}") :].split("</table>")[0].split("<tbody")[1]
    return [
        [" ".join(re.sub(r"<title>.*?</desc>|<[^>]*>", " ", cell).split()) for cell in row]
        for row in (re.findall(r"(?s)<t[hd].*?</t[hd]>", line) for line in table.split("</tr>"))
        if row
    ]


def links(document: CampaignResults) -> set[str]:
    """The files that a campaign's page links to."""
    with NO_DRAWING:
        elements = Elements(render_campaign(document)).tags
    targets = {attrs["href"] for tag, attrs in elements if tag == "a"}
    return {link for link in targets if not link.startswith(("#", "https://"))}


# -- what is said, and where


def test_the_parts_come_in_the_order_in_which_a_reader_needs_them():
    text = words(campaign())
    parts = [
        "scaled by 0.1",
        "Your next deployment with treatment gets",
        "On average over 6 draws, with treatment tcp-1 throughput is 85 % faster",
        "Every comparison",
        "draw by draw",
        "Every step, in order",
        "Stopped after 7 of at most 12 draws",
        "Budget $5.00; its steps cost about $1.47",
        "Changes: treatment against baseline",
        "How the figures came about",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_what_differed_between_pooled_runs_comes_before_their_answers():
    text = words(pool())
    assert text.index("kernel6.12.0varying: 6.1.0, 6.2.0") < text.index("Every comparison")
    assert "What differed" not in words(campaign())
    assert "Nothing that the runs recorded" in words(pool(differences=()))


def test_an_answer_has_its_medians_its_average_its_prediction_and_its_variability():
    (row,) = rows(campaign(answers=(answer(),)), "Every comparison")
    assert row == [
        "tcp-1 throughput treatment against baseline",
        "better",
        "+84.6 % +66 to +106 %",
        "treatment 9.43 Gbit/s baseline 4.95 Gbit/s",
        "+47 to +132 % draws vary by 8.3 % (at most 20.4 %)",
    ]
    assert "They apply to the placement group, 6 draws." in words(campaign(answers=(answer(),)))


def test_answers_with_different_scopes_have_a_column_for_it():
    first, second = rows(campaign(answers=(answer(), open_answer())), "Every comparison")
    assert first[-1] == "the placement group, 6 draws"
    assert second[-1].startswith("these draws")


def test_each_answer_has_a_tile_with_its_change_both_medians_its_word_and_its_scope():
    text = words(campaign(answers=(answer(), open_answer())))
    tiles = text[: text.index("Every comparison")]
    for part in ("+84.6 %", "4.95 → 9.43 Gbit/s", "better", "the placement group, 6 draws"):
        assert part in tiles, part


@pytest.mark.parametrize(
    ("answers", "scope"),
    [
        ((answer(),), "The interval of the average is about the placement group"),
        ((open_answer(),), "too few for an answer about the placement group"),
        ((answer(), open_answer()), "The interval of the average is about the placement group"),
    ],
)
def test_the_scope_is_about_the_placement_group_only_with_enough_draws(answers, scope):
    assert scope in words(campaign(answers=answers))


def test_the_opening_has_the_next_deployment_only_with_enough_draws():
    prediction = "Your next deployment with treatment gets tcp-1 throughput 47 to 132 % faster"
    text = words(campaign(answers=(answer(), open_answer())))
    assert prediction in text[: text.index("Every comparison")]
    assert "Your next deployment" not in words(campaign(answers=(open_answer(),)))


def test_the_first_runs_own_interval_stands_beside_the_campaigns():
    document = campaign(answers=(answer(),))
    assert rows(document, "Changes: treatment against baseline") == [
        ["tcp-1 throughput", "+94 % +92.1 to +95.9 %", "+84.6 % +69 to +102 %", "+47 to +132 %"]
    ]
    text = words(document)
    assert "0 of 6 contain the average" in text
    assert "One run beside" not in words(campaign(answers=(answer(draws=(draw(1, 2.0),)),)))


def test_a_step_without_a_result_says_why_and_is_no_zero():
    *_, lost = rows(campaign(), "Every step")
    why = "the node group has no capacity: InsufficientInstanceCapacity"
    assert lost == [
        *("7", "new nodes", campaigns.run_id(7), "lost", UNKNOWN),
        *("1 min 35 s", UNKNOWN, UNKNOWN, UNKNOWN, why),
    ]


def test_a_failure_is_reported_in_words_with_the_steps_that_there_are():
    cause = '{"errorMessage": "The node group did not come back.", "stackTrace": ["x"]}'
    failed = facts(status="failed", error="NodesUnavailable", cause=cause)
    text = words(campaign(campaign=failed, answers=(), stopped=None))
    assert "NodesUnavailable The node group did not come back." in text
    assert "stackTrace" not in text and "Every step, in order" in text


def test_a_campaign_without_steps_and_answers_is_a_page_too():
    empty = campaign(answers=(), steps=(), stopped=None, conclusion="No step was made.")
    assert "No step was made." in words(empty)


def test_a_sweep_over_nodes_says_on_top_whether_throughput_grows_with_them():
    text = words(sweep())
    growth = "the growth of tcp-1 throughput of treatment is not settled, near-linear or not"
    assert text.index(growth) < text.index("values of the sweep, by arm")
    assert "near-linear" not in words(
        sweep(campaign=campaigns.facts(kind="sweep", swept="vpc_cni"))
    )


def test_a_sweep_has_a_row_for_each_value_and_arm_and_says_what_is_open():
    first, *_, last = rows(sweep(), "tcp-1 throughput: 3 values")
    figures = ("9.40 Gbit/s", "94 %", "141 Gbit/s")
    assert first == ["15", "treatment", "2", *figures, UNKNOWN, UNKNOWN, UNKNOWN]
    assert last[-3:] == ["90 %", UNKNOWN, "inconclusive"]
    assert rows(sweep(), "tcp-1 throughput: what is not settled") == [
        ["150, treatment; 150, baseline", "There is one run per value."]
    ]


def test_beside_the_rate_of_a_workload_stands_its_median_latency():
    rate = {"test": "store", "metric": "operations", "unit": "operations/s", "mean": 8.4e3}
    time = {"test": "store", "unit": "s", "better": "lower", "total": None}
    results = sweep(
        sweep=tuple(
            campaigns.swept(nodes, "treatment", **fields)
            for fields in (
                {**time, "metric": "latency", "mean": 5.3e-3},
                {**time, "metric": "latency_p99", "mean": 2e-2},
                {**rate, "share_of_nominal": None, "total": 8.4e3 * 15},
            )
            for nodes in (15, 60)
        )
    )
    first, _ = rows(results, "store operations: 2 values")
    assert first[3:6] == ["8400 operations/s", "126 000 operations/s", "5.30 ms"]


def test_a_figure_of_a_sweep_names_the_percentile_in_words():
    cells = tuple(
        campaigns.swept(nodes, "treatment", metric="latency_p99", unit="s", mean=2e-2)
        for nodes in (15, 60)
    )
    assert "latency p99, ms" in text_of(render_campaign(sweep(sweep=cells)))


def test_what_adds_up_over_nodes_has_an_efficiency_and_anything_else_a_change():
    assert "efficiency per node" in words(sweep())
    cells = tuple(cell.model_copy(update={"total": None}) for cell in sweep().sweep)
    assert "change against the first" in words(sweep(sweep=cells))


def test_columns_without_any_value_are_left_out():
    few = sweep(
        sweep=(campaigns.swept("iptables", "treatment", total=None, share_of_nominal=None),)
    )
    text = words(few)
    assert "share of nominal" not in text and "total" not in text


# -- links


def test_runs_are_linked_where_they_have_a_page_in_this_bucket():
    assert links(campaign()) == {
        f"../../runs/{campaigns.run_id(n)}/report.html" for n in range(1, 7)
    }
    elsewhere = f"../../runs/{campaigns.run_id(5)}/report.html"
    assert elsewhere not in links(pool()), "it lies in the bucket of another stack"
    steps = tuple(step(1, status=status) for status in ("aborted", "running", "lost"))
    assert links(campaign(steps=steps[:1], answers=())) == set()
    assert links(campaign(steps=steps[1:2], answers=())) == set()


def test_a_draw_of_an_earlier_campaign_of_the_series_is_linked():
    earlier = draw(1, 1.9, run_id="camp-20261119-01")
    continued = answer(draws=(earlier, *answer().draws))
    assert "../../runs/camp-20261119-01/report.html" in links(campaign(answers=(continued,)))


# -- figures


def test_every_draw_has_a_dot_that_names_its_run_and_its_own_interval():
    charts = figures(render_campaign(campaign()))
    assert set(charts) == {"draws-0", "draws-1"}
    shown = tips(charts["draws-0"])
    assert len(shown) == 6
    assert shown[0].startswith(f"draw 1, {campaigns.run_id(1)}, 2026-11-21T16:05:00Z: +94 %")
    assert "+92.1 to +95.9 % for its nodes" in shown[0]


def test_every_cell_of_a_sweep_with_a_value_has_a_dot():
    (chart,) = figures(render_campaign(sweep())).values()
    assert sorted(tips(chart))[0] == "15, baseline: 9.40 Gbit/s"
    assert len(tips(chart)) == 6


@pytest.mark.parametrize("name", DOCUMENTS)
def test_ids_are_there_once_and_what_is_referred_to_exists(name):
    elements = Elements(render_campaign(DOCUMENTS[name]())).tags
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for _, a in elements if a.get("href", "").startswith("#")}
    labels = {label for _, a in elements for label in a.get("aria-labelledby", "").split()}
    assert (targets | labels) - set(ids) == set()


def test_a_page_of_very_many_answers_and_draws_is_small_and_says_what_is_left_out():
    many = tuple(draw(n % 10 + 1, 1 + n / 100) for n in range(60))
    answers = tuple(answer(test=f"tcp-{n}", draws=many) for n in range(40))
    text = render_campaign(campaign(answers=answers))
    assert len(text.encode()) < MOST_BYTES
    assert len(figures(text)) == MOST_FIGURES
    assert text.count("Its figure is left out") == 40 - MOST_FIGURES


# -- text from campaigns is escaped

#: Names that other parts of the document refer to.
_NAMES = frozenset({"arm", "baseline", "metric", "run_id"})
_GROUPS = 7


@NO_DRAWING
@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_string_of_a_campaign_becomes_markup_wherever_it_stands(name):
    for group in range(_GROUPS):
        turn = itertools.cycle(range(_GROUPS))
        document = changed(
            DOCUMENTS[name](),
            lambda text, turn=turn, group=group: NASTY if next(turn) == group else text,
            NOT_FREE | _NAMES,
        )
        text = render_campaign(document)
        assert text.count("<script") == 1, group
        Elements(text)


@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - {"hunt"}))
def test_no_name_becomes_markup_within_a_figure_or_a_link(name):
    document = changed(DOCUMENTS[name](), lambda value: f"{NASTY} $x^{{2}}$ \x01{value}")
    text = render_campaign(document)
    assert text.count("<script") == 1, "the page's own"
    Elements(text)
    assert figures(text)


# -- what it means for a decision


def meaning(document: CampaignResults) -> str:
    """The text of the section on what a campaign means."""
    text = words(document)
    start = text.rindex("What this means")
    return text[start : text.index("What your application gains")]


def on_aws(document: CampaignResults) -> CampaignResults:
    return document.model_copy(
        update={"campaign": document.campaign.model_copy(update={"lab_scale": None})}
    )


def test_a_lab_campaign_recommends_nothing_and_one_on_aws_has_the_three_sides():
    lab, aws = meaning(campaign()), meaning(on_aws(campaign()))
    assert "Nothing about EC2" in lab and "+84.6 %" not in lab
    assert "Everything about EC2: there rackrate campaign run measures 4 to 12 placements" in lab
    for part in (
        "tcp-1 throughput: +84.6 % on average, better. The next deployment gets +47 to +132 %.",
        "No fee.",
        "InsufficientInstanceCapacity",
        "rtt: at least 1 more draw is needed, 6 min 45 s, $0.21 more.",
        "--continue camp-20261121-160000-1f2e --draws 4 adds draws.",
        "a campaign on a stack with them takes 40 min 30 s, $1.26, as this one did.",
    ):
        assert part in aws, part


def test_a_sweep_says_what_it_is_about_and_what_would_show_the_group():
    text = meaning(on_aws(sweep()))
    counted = "of 4 comparisons 2 are alike and 2 inconclusive"
    assert f"tcp-1 throughput: against 15 nodes, {counted}." in text
    assert "What the group gives: a sweep compares its values." in text
    assert "--runs-per-step 3 measures each value once more: 20 min 15 s, $0.63 more." in text


def test_a_pool_is_answered_further_by_more_runs_and_not_by_draws():
    text = meaning(on_aws(pool()))
    assert "rackrate pool with runs on other nodes adds draws." in text
    assert "--continue" not in text


def test_a_campaign_costs_what_the_strategies_of_its_arms_do():
    spread = campaign(placements={"treatment": "spread", "baseline": "none"})
    assert "seven nodes" in meaning(spread) and "Insufficient" not in meaning(spread)
    precise = meaning(campaign(placements={"treatment": "precision-time", "baseline": "none"}))
    assert "precise clocks" in precise and "no arm has a placement group" not in precise
    assert "Unknown" in meaning(campaign(placements={}, capacity=()))


def test_what_the_group_costs_has_how_often_it_filled_as_it_was_measured():
    line = (
        "Capacity: cluster group 6 of 7 draws filled (95 % CI 42 to 100 %), in 48 s at the median;"
        " no group 7 of 7 (59 to 100 %), in 48 s at the median."
    )
    on_aws = meaning(campaign(campaign=facts(lab_scale=None)))
    assert line in on_aws and on_aws.index(line) < on_aws.index("Capacity is not promised")
    assert line not in meaning(campaign()), "the lab says nothing about EC2"
    first, second = rows(campaign(), "How often all nodes of an arm came")
    refused = "node group ng-1: InsufficientInstanceCapacity: no c5.large in us-east-1a"
    assert first == ["cluster group", "6 of 7", "42 to 100 %", "48 s", refused]
    assert second == ["no group", "7 of 7", "59 to 100 %", "48 s", UNKNOWN]


def test_draws_that_were_not_filled_count_where_more_are_proposed():
    unfilled = step(7, **LOST | {"status": "unfilled"})
    document = campaign(answers=(open_answer(),), steps=(*campaign().steps[:3], unfilled))
    assert "--continue camp-20261121-160000-1f2e --draws 5 adds draws" in meaning(document)


def test_a_campaign_whose_group_never_filled_says_what_that_means():
    never = capacity(filled=0, ci95=(0.0, 0.41), median_seconds=None)
    text = meaning(
        campaign(campaign=facts(lab_scale=None), steps=(), answers=(), capacity=(never,))
    )
    assert "cluster group 0 of 7 draws filled (95 % CI 0 to 41 %)." in text
    of_sweep = never.model_copy(update={"value": 15})
    text = meaning(on_aws(sweep(sweep=(), capacity=(of_sweep,))))
    assert "Capacity, 15 nodes: cluster group 0 of 7 steps filled" in text


def test_a_series_whose_new_draws_were_all_lost_still_says_what_it_means():
    lost = tuple(step(n, status="lost", run_seconds=None, dollars=None) for n in (1, 2))
    assert "--dry-run tells" in meaning(campaign(steps=lost))
    assert "What it costs" not in words(campaign(steps=lost, answers=(), capacity=()))


# -- unknown values


def forgotten[D: Document](document: D, data: Any) -> D:
    """A copy of the document with some optional figures set to None."""
    fields = type(document).model_fields
    nullable = [name for name, field in fields.items() if NoneType in get_args(field.annotation)]
    unknown = data.draw(st.sets(st.sampled_from(nullable)))
    return document.model_copy(update=dict.fromkeys(unknown))


@given(st.data())
@settings(max_examples=60)
def test_what_a_campaign_does_not_know_never_breaks_its_page(data):
    document = data.draw(st.sampled_from(list(DOCUMENTS.values())))()
    parts = {
        part: tuple(forgotten(each, data) for each in getattr(document, part))
        for part in ("answers", "steps", "sweep")
    }
    fewer = {"campaign": forgotten(document.campaign, data), "stopped": None}
    text = words(document.model_copy(update={**parts, **fewer}))
    assert "None" not in text.replace("None.", "") and "nan" not in text


def test_a_hunt_shows_each_placement_and_what_it_kept():
    first, second, last = rows(hunt(), "Every step, in order")
    assert "98.0 µs to 102 µs" in first
    assert second[first.index("98.0 µs to 102 µs")] == UNKNOWN
    assert "87.0 µs" in last
    text = words(hunt(endpoint="instance"))
    assert "rtt towards instance is 87.0 µs (95 % CI 85.3 µs to 88.7 µs) on the present" in text
    assert "The goal is met: at most 90.0 µs." in text
    assert "Kept, with the label rackrate.dev/kept: node-3a and node-3b." in text
    assert "Stopped after 3 of 5 steps." in text
    assert "What this means" not in text
    # The nodes of a hunt that failed get no label.
    failed = words(hunt().model_copy(update={"stopped": None}))
    assert "No nodes were kept." in failed
    assert "rackrate.dev/kept" not in failed
