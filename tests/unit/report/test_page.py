"""The page: complete, self-contained, small, escaped, and readable without seeing its figures."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Callable
from itertools import pairwise
from types import NoneType
from typing import Any, get_args
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.measure.counters import Counters
from rackrate.measure.trials import RawValues, Trial
from rackrate.plan.planned_run import PlannedRun
from rackrate.report.charts import canvas
from rackrate.report.material import Detail, Material
from rackrate.report.page import MOST_BYTES, render_page
from rackrate.report.rendering import code
from rackrate.report.sections import opening
from rackrate.report.tables import MOST_ROWS
from rackrate.results.build import RunFailure
from rackrate.times import later
from rackrate_contract.arms import EnaExpressUse, InstanceNetwork, Node
from rackrate_contract.comparison import Compared, ComparedRun, Comparison
from rackrate_contract.document import Document
from rackrate_contract.results import Findings, Results
from rackrate_contract.verdicts import (
    Baseline,
    Difference,
    KindOfPairs,
    PartitionPairs,
    Steadiness,
    Verdict,
)
from tests.unit.report import samples as samples
from tests.unit.report.campaigns import launch
from tests.unit.report.pages import (
    FAILURE,
    NASTY,
    NOT_FREE,
    Elements,
    changed,
    figures,
    marks,
    page,
    raw_of,
    text_of,
    tips,
    undrawn,
    words,
)
from tests.unit.verdict.test_network_cards import CARD


def planned(**changes: Any) -> PlannedRun:
    """plan.json of the sample run, with these changes."""
    return samples.planned_run().model_copy(update=changes)


NO_DRAWING = mock.patch.object(canvas.Chart, "svg", undrawn)


# -- its content


def test_the_page_needs_nothing_but_itself():
    text = page(failure=FAILURE, counters=samples.counters())
    elements = Elements(text).tags
    assert not {"img", "iframe", "link"} & {tag for tag, _ in elements}
    assert not [attrs for _, attrs in elements if "src" in attrs]
    assert "url(" not in text and "@import" not in text


def test_the_page_begins_with_one_sentence_that_says_which_way_it_went_and_on_what():
    text = words()
    headline = (
        "In the cluster placement group one flow is 92 % faster; latency is inconclusive."
        "Cluster group against no group, on 4 nodes of c5n.9xlarge in us-east-1a."
    )
    assert text.index(headline) < text.index("What it gives") < text.index("Every comparison")


@NO_DRAWING
def test_what_changed_since_earlier_runs_leads_and_so_does_an_arm_that_moved_alone():
    drift = "cluster group alone fell by 12 % from block 4 on"
    regression = samples.regression(smallest_regression=0.66)
    text = words(verdicts=(samples.verdict(drift=drift),), regressions=(regression,))
    moved = text.index(f"tcp-1 throughput: {drift}.")
    since = text.index(
        f"Since {samples.EARLIER}, in the cluster placement group one flow is alike."
    )
    assert moved < since < text.index("In the cluster placement group one flow is 92 % faster.")
    tiles = text[since : text.index("What it gives")]
    assert "a regression would show from −34 % on" in tiles
    assert tiles.index("cluster group since run-") < tiles.index("cluster group against no group")


@NO_DRAWING
def test_the_first_screen_tells_what_is_not_known_yet_an_open_verdict_first():
    for verdict, line in (
        (samples.verdict(), "Not known yet. What another placement gets:"),
        (
            samples.inconclusive(),
            f"Not known yet. {samples.inconclusive().test}: about 7 more blocks",
        ),
    ):
        first_screen = words(verdicts=(verdict,), regressions=()).partition("What it gives")[0]
        assert line in first_screen


@NO_DRAWING
def test_every_comparison_is_drawn_on_one_axis_in_the_first_screen_and_leads_to_its_test():
    unknown = samples.verdict(ratio=None)
    html = page(verdicts=(samples.verdict(), samples.inconclusive(), unknown), regressions=())
    forest = html[html.index('<ol class="forest">') :].partition("</ol>")[0]
    assert re.findall(r'<a href="(#test-\d)">([^<]*)', forest) == [
        ("#test-1", "tcp-1 throughput"),
        ("#test-2", "rtt"),
    ]
    assert forest.count("<svg") == 3, "the scale, and what has a ratio"


@NO_DRAWING
def test_the_metrics_of_a_test_share_a_tile():
    p99 = samples.inconclusive(metric="rtt_p99")
    html = page(verdicts=(samples.verdict(), samples.inconclusive(), p99), regressions=())
    tiles = html[html.index('<ul class="tiles">') :].partition("</ul>")[0]
    assert tiles.count("<li>") == 2
    assert tiles.index("rtt p99") > tiles.index("pings, 5 a second")


@NO_DRAWING
def test_each_node_has_its_figures_marks_and_failures_in_a_row():
    table = page().partition("Medians of the trials")[2].partition("</table>")[0]
    (row,) = [row for row in table.split("<tr>") if "> treatment-1<" in row]
    assert "9.52 Gbit/s" in row and "client_cpu" in row


def test_a_comparison_gives_this_runs_arms_the_colors_of_its_own_page():
    arms = [
        arm.model_copy(update={"name": name})
        for name in (
            "treatment",
            "treatment (run-1)",
            "baseline",
            "baseline (run-1)",
        )
        for arm in samples.results().arms[:1]
    ]
    results = samples.results().model_copy(update={"arms": tuple(arms)})
    material = Material(results, (), {}, Detail(rows=1, vectors=0, drawn_tests=1, values=0))
    assert [material.arm_number(arm) for arm in material.arms] == [0, 2, 1, 3]


@NO_DRAWING
def test_each_comparison_has_a_tile_with_its_change_both_medians_its_word_and_its_scope():
    text = words()
    tiles = text[: text.index("What it gives")]
    for part in (
        "+92.3 %",
        "4.95 → 9.52 Gbit/s",
        "better",
        "−3.7 %",
        "161 → 155 µs",
        "these nodes",
    ):
        assert part in tiles, part
    assert "about 7 more blocks would settle it" in tiles


@NO_DRAWING
def test_a_drift_of_one_arm_is_on_the_first_screen_and_in_its_row():
    drift = "treatment alone fell by 12 % from block 4 on"
    text = words(verdicts=(samples.verdict(drift=drift), samples.verdict()))
    opening, table = text.split("What it gives", 1)
    assert f"tcp-1 throughput: {drift}." in opening
    for part in (opening, table[: table.index("This is about these nodes")]):
        assert part.count("better, drift") == 1


@NO_DRAWING
def test_the_figures_beside_a_change_are_those_whose_quotient_it_is():
    text = words(verdicts=(samples.verdict(arm_mean=9.5178e9, baseline_mean=4.9494e9),))
    assert "4.95 → 9.52 Gbit/s" in text
    text = words(verdicts=(samples.verdict(arm_mean=9.4e9, baseline_mean=4.888e9),))
    assert "4.89 → 9.40 Gbit/s" in text and "cluster group 9.40 Gbit/s" in text


@NO_DRAWING
def test_tiles_that_are_too_many_to_see_at_a_glance_are_counted():
    assert "4 more comparisons" in page(verdicts=(samples.verdict(),) * 15)


def headline(results: Findings) -> str:
    return opening.conclusion(
        Material(results, (), {}, Detail(rows=1, vectors=0, drawn_tests=1, values=0))
    )


def verdict_of(arm: int, test: str, word: str, ratio: float = 1.92) -> Verdict:
    named = {"arm": f"arm-{arm}", "arm_title": f"arm-{arm}", "test": test, "title": ""}
    return samples.verdict(**named, verdict=word, ratio=ratio)


def test_a_headline_stays_one_sentence_however_many_arms_and_tests_there_are():
    many = [verdict_of(0, f"test-{n}", "better") for n in range(6)]
    assert headline(samples.results(verdicts=tuple(many), regressions=())) == (
        "With arm-0: of 6 comparisons 6 are better."
    )
    alike = [verdict_of(n, "tcp-1", "worse", 0.5 + n / 10) for n in range(3)]
    different = (*alike, verdict_of(3, "tcp-1", "inconclusive"))
    assert headline(samples.results(verdicts=different, regressions=())) == (
        "Of 4 comparisons 3 are worse and 1 inconclusive."
    )
    words = ("better", "worse", "inconclusive", "no meaningful difference")
    mixed = tuple(verdict_of(n, "tcp-1", word) for n, word in enumerate(words))
    assert headline(samples.results(verdicts=mixed, regressions=())) == (
        "Of 4 comparisons 1 is better, 1 worse, 1 inconclusive and 1 alike."
    )


@NO_DRAWING
def test_what_differs_from_the_earlier_run_stands_before_what_it_did():
    text = words(regression_differences=(KERNEL,))
    assert text.index("kernel6.12.06.1.0") < text.index("Each arm against itself then")


def test_several_earlier_runs_are_named_on_the_page():
    runs = ("run-1", "run-2", "run-3", "run-4")
    since_main = samples.regression(baseline=Baseline("main", runs))
    text = words(regressions=(since_main,), regression_differences=(KERNEL,))
    assert "Compared with 4 earlier runs" in text
    assert "Pages of then: run-1, run-2, run-3, run-4." in text
    assert "the earlier runs" in text
    assert "cluster group since the 4 runs of main" in text


def test_the_page_shows_every_part_of_a_verdict():
    text = words()
    for part in (
        "+90.2 to +94.5 %", "these 4 nodes", "95 % CI, adjusted for 2 tests",
        "95.2 % of 10.0 Gbit/s", "99 % of 5.00 Gbit/s",
        "This is about these nodes, not about others placed alike: it rests on 1 pair",
        ": the limits explain the difference. (source)",
        "steadier than the baseline", "variability (CV) 0.4 % against 1.1 %",
        "About 7 more blocks would settle it",
        "2 trials may have been limited by the client's CPU",
    ):  # fmt: skip
        assert part in text, part


@NO_DRAWING
def test_the_page_shows_each_arm_by_itself():
    text = words()
    for part in ("155 µs", "171 µs", "240 µs", "410 µs", "180", "0.56 %", "17", "0.4 %"):
        assert part in text, part


@NO_DRAWING
def test_the_page_says_what_failed_what_was_scaled_and_what_never_ran():
    trials = [trial for trial in samples.trials() if trial.block != 3 or trial.test != "rtt"]
    text = words(failure=FAILURE, lab_scale=0.15, trials=trials)
    assert "TrialsLost" in text and "21 of 24 trials measured" in text
    assert "scaled by 0.15" in text
    assert re.search(r"2\s*never ran", text), "a row of the causes"
    assert "the server is busy" in text


@NO_DRAWING
def test_a_run_that_lost_trials_reports_why_and_in_which_blocks_of_which_arm():
    trials = [
        without_value(trial, "the node is gone")
        if trial.arm == "baseline" and trial.block > 4 and not trial.warm_up
        else trial
        for trial in samples.trials()
    ]
    text = page(trials=trials)
    lost = text[text.index('id="lost"') : text.index('id="meaning"')]
    assert "the node is gone" in lost
    treatment, baseline = (
        [int(measured) for measured in counts]
        for row in lost.split("<tr>")
        if (counts := re.findall(r">(\d+)/\d+<", row))
    )
    assert 0 not in treatment
    assert [block for block, measured in enumerate(baseline, 1) if measured == 0] == [5, 6]


def test_a_run_that_lost_nothing_has_no_section_on_losses():
    results = samples.results()
    counts = results.trials.model_copy(update={"failed": 0, "causes": (), "failures": ()})
    whole = results.model_copy(update={"trials": counts})
    assert "What was lost" not in text_of(render_page(whole, samples.trials(), {}))


@NO_DRAWING
def test_equal_causes_are_one_row_and_each_lost_trial_is_only_in_the_folded_details():
    ids = itertools.count(0x6F1C3F5E)
    trials = [
        without_value(
            trial, f"the function crashed (RequestId: {next(ids):x}-0d2b-4b4f-9d0e-{1:012x})"
        )
        if trial.test == "rtt" and not trial.warm_up
        else trial
        for trial in samples.trials()
    ]
    text = page(trials=trials)
    shown = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
    lost = sum(not trial.is_measured and not trial.warm_up for trial in trials)
    assert lost > 5
    # In the section of the test, and in the section of all trials.
    assert shown.count("the function crashed") == 2
    assert "0d2b-4b4f" not in shown
    assert text.count("0d2b-4b4f") >= lost


TRACE = ['  File "plan.py", line 7']


@NO_DRAWING
@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (json.dumps({"errorMessage": "too few nodes", "stackTrace": TRACE}), "too few nodes"),
        (json.dumps(["too", "few"]), '["too", "few"]'),
        (json.dumps({"errorMessage": ""}), ""),
        ("too few nodes", "too few nodes"),
    ],
)
def test_of_a_function_that_failed_the_page_has_the_message_and_no_stack_trace(cause, message):
    text = words(failure=RunFailure("NodesUnavailable", cause))
    assert f"NodesUnavailable {message}" in " ".join(text.split())
    assert "plan.py" not in text


@NO_DRAWING
def test_the_labs_scale_is_reported_once_where_it_stays_in_view_and_never_on_aws():
    text = page(lab_scale=0.15)
    assert text.count("scaled by 0.15: figures are not EC2") == 1
    assert text.index("scaled by 0.15") < text.index("<header>")
    assert "position: sticky" in text[text.index(".lab {") :].split("}")[0]
    assert "Lab run" not in page()


@NO_DRAWING
def test_a_lab_run_recommends_nothing_and_a_run_on_aws_has_the_three_sides():
    lab = words(lab_scale=0.15)
    assert "Nothing about EC2" in lab and "documented single-flow limits explain it" not in lab
    aws = words()
    for part in (
        "tcp-1 throughput: +92.3 %, better. EC2's documented single-flow limits explain it: 5.00"
        " → 10.0 Gbit/s.",
        "No fee.", "InsufficientInstanceCapacity", "rtt: about 7 more blocks would settle it",
        "measures 4 to 12 placements with new nodes each",
    ):  # fmt: skip
        assert part in aws, part


@NO_DRAWING
def test_how_the_nodes_came_is_beside_them_and_on_aws_among_the_costs():
    launches = [launch(began_at=later(samples.TIMES.started_at, 1))]
    came = "Capacity: cluster group 2 of 2 nodes in 31 s to 48 s."
    assert words(launches=launches).count(came) == 2
    assert words(launches=launches, lab_scale=0.15).count(came) == 1
    assert "Capacity:" not in words()


@NO_DRAWING
def test_nodes_that_the_stack_did_not_make_are_pooled_and_not_drawn_again():
    arms = [arm.model_copy(update={"node_groups": ()}) for arm in samples.results().arms]
    results = samples.results().model_copy(update={"arms": tuple(arms)})
    adopted = text_of(render_page(results, samples.trials(), {}))
    assert "rackrate pool answers" in adopted and "campaign run measures" not in adopted


@NO_DRAWING
def test_what_a_group_costs_is_reported_only_of_the_strategies_that_were_compared():
    arms = [arm.model_copy(update={"placement": "none"}) for arm in samples.results().arms]
    results = samples.results().model_copy(update={"arms": tuple(arms)})
    none = text_of(render_page(results, samples.trials(), {}))
    assert "no arm has a placement group" in none and "Insufficient" not in none


@NO_DRAWING
def test_the_page_lists_warnings_warm_ups_counters_and_the_earlier_run():
    text = words(counters=samples.counters())
    assert "1 of 2 pairs did not warm up." in text
    assert "did not warm up: Connection refused." in text
    assert "4 measured. They are kept and left out of every verdict" in text
    assert "bw_out_allowance_exceeded900" in text
    assert (
        "Compared with an earlier run" in text
        and "cluster group since run-20261120-090000-ab12" in text
    )
    assert "For each block the log ratio" in text
    assert "Compared with an earlier run" not in words(regressions=())


@NO_DRAWING
def test_the_page_says_what_network_cards_are_and_why_it_does_not_know_more():
    unread = CARD.model_copy(update={"queues": None, "unknown": "queues: not supported"})
    cards = {"treatment-1": {"ens5": CARD}, "treatment-2": {"ens5": unread}}
    text = words(counters=Counters(before={}, after={}, interfaces=cards, note=None))
    assert "ena 2.16.1g" in text
    assert "9001" in text
    assert "Unknown of 1 interface: queues: not supported." in text


@NO_DRAWING
def test_an_arm_is_shown_with_what_distinguishes_it():
    treatment, baseline = samples.arms()
    express = treatment.model_copy(update={"ena_express": True})
    host = baseline.model_copy(update={"stack_arm": "treatment", "client_network": "host"})
    text = words(planned=planned(arms=(express, host)))
    assert "treatment (cluster, ENA Express)" in text
    assert "baseline (none, nodes of treatment, network host to pod)" in text
    unused = express.model_copy(update={"ena_express_use": EnaExpressUse(eligible=9, sent=0)})
    weighted = baseline.model_copy(update={"network": InstanceNetwork(bandwidth_weighting="vpc-1")})
    text = words(planned=planned(arms=(unused, weighted)))
    assert "treatment (cluster, ENA Express, not used)" in text
    assert "treatment sent 0 packets by ENA Express, of 9 that were eligible." in text
    assert "baseline (none, bandwidth weighting vpc-1)" in text


@NO_DRAWING
def test_pairs_of_a_partition_arm_are_reported_by_kind_with_their_medians():
    kinds = PartitionPairs(
        within=KindOfPairs(pairs=1, median=9.8e9), across=KindOfPairs(pairs=5, median=9.1e9)
    )
    verdicts = (samples.verdict(partitions=kinds),)
    assert (
        "Partitions of cluster group: 1 pair within one partition, median 9.80 Gbit/s; 5 pairs"
        " across partitions, median 9.10 Gbit/s." in words(verdicts=verdicts)
    )


@NO_DRAWING
def test_the_topology_shows_where_the_nodes_of_an_arm_are():
    treatment, baseline = samples.arms()
    placed = tuple(
        node.model_copy(update={"network_layers": ("nn-1", "nn-2", f"nn-3{n}")})
        for n, node in enumerate(treatment.nodes)
    )
    without = tuple(node.model_copy(update={"network_layers": ()}) for node in baseline.nodes)
    arms = (
        treatment.model_copy(update={"nodes": placed}),
        baseline.model_copy(update={"nodes": without}),
    )
    text = words(planned=planned(arms=arms))
    assert (
        "treatment: 2 nodes in us-east-1a; EC2's network nodes, layer 1: 1 network node,"
        " layer 2: 1 network node, layer 3: 2 network nodes" in text
    )
    assert "baseline: 2 nodes in us-east-1a; EC2 reports no topology for c5n.9xlarge" in text


@NO_DRAWING
def test_how_it_was_measured_is_there_and_folded_away():
    text = page(counters=samples.counters())
    section = text[text.index('<section id="method"') :]
    for part in ("&#34;blocks&#34;: 6", "Seed of every order", "v1.36.3", "ami-0123", "iperf"):
        assert part in section, part
    assert "<details open" not in section


@NO_DRAWING
def test_raw_output_is_linked_to_where_the_trial_is_named():
    trials = [
        trial.model_copy(
            update={"raw_key": f"runs/r/raw/{trial.block:04d}_{trial.arm}_{trial.test}.1.txt"}
        )
        for trial in samples.trials()
    ]
    links = links_of(page(trials=trials))
    assert "raw/0006_baseline_rtt.1.txt" in links, "of the trial that failed"
    assert "raw/0002_treatment_tcp-1.1.txt" in links, "of one that is marked"
    links = links_of(render_page(comparison(), trials, {}))
    assert "../../runs/r/raw/0002_treatment_tcp-1.1.txt" in links, "seen from comparisons/<id>"


def links_of(text: str) -> set[str]:
    return {attrs["href"] for tag, attrs in Elements(text).tags if tag == "a"}


@NO_DRAWING
def test_a_table_that_is_too_long_says_how_much_it_leaves_out():
    marks = tuple(samples.mark(1, mark=f"mark-{n}") for n in range(MOST_ROWS + 5))
    assert "And 5 more, which results.json lists." in words(marks=marks)


def test_a_page_of_a_run_that_measured_nothing_is_still_a_page():
    nothing = ("verdicts", "summaries", "marks", "regressions", "warnings")
    text = words(trials=[], **dict.fromkeys(nothing, ()))
    assert "No trial was measured" in text
    assert "Nothing was measured" in text and "What this means" not in text


def test_of_a_run_whose_trials_were_all_lost_no_verdict_is_the_headline():
    lost = [without_value(trial, "refused") for trial in samples.trials()]
    assert headline(samples.results(trials=lost)) == (
        "Nothing was measured: none of the 24 trials has a value, so nothing can be said of any"
        " arm."
    )


def without_value(trial: Trial, reason: str) -> Trial:
    """A failed copy of the trial."""
    lost = {"status": "failed", "reason": reason, "value": None, "values": {}}
    return trial.model_copy(update=lost)


@NO_DRAWING
def test_an_arm_that_lost_every_trial_is_in_the_legend_of_its_crosses():
    trials = [
        without_value(trial, "refused")
        if (trial.test, trial.arm) == ("tcp-1", "baseline")
        else trial
        for trial in samples.trials()
    ]
    legends = re.findall(r'<ul class="legend">.*?</ul>', page(trials=trials))
    assert "cluster group" in legends[0] and "no group" in legends[0]


@NO_DRAWING
def test_a_steadiness_of_which_nothing_is_known_has_no_empty_figures():
    unknown = Steadiness(
        arm=None,
        baseline=None,
        ratio=None,
        ci95=None,
        verdict="inconclusive",
        reason="no values of both arms",
    )
    text = words(verdicts=(samples.verdict(steadiness=unknown),))
    assert "Steadiness: inconclusive. No values of both arms." in text


@NO_DRAWING
def test_an_interval_that_excludes_nothing_has_no_digits():
    wide, wider = (
        samples.verdict(ci_simultaneous=ends) for ends in ((0.0004, 812.5), (1e-300, 1e300))
    )
    text = words(verdicts=(wide, wider))
    assert "95 % CI <−99.9 to >+99 900 %" in text
    assert "95 % CI <−99.9 to +81 150 %" in text


def test_a_limit_that_the_plan_sets_has_no_link():
    ceiling = samples.verdict().ceiling.model_copy(update={"source": "the plan"})
    text = page(verdicts=(samples.verdict(ceiling=ceiling),))
    assert "source</a>" not in text
    assert "(the plan)" in text_of(text)


def test_a_run_that_stopped_says_why_beside_its_conclusion():
    why = samples.stopped()
    (conclusion,) = re.findall(r'<section id="conclusion".*?</section>', page(stopped=why), re.S)
    assert why.text in text_of(conclusion)


# -- a comparison

KERNEL = Difference(what="kernel", run="6.12.0", other="6.1.0")


def comparison(*, differences: tuple[Difference, ...] = (KERNEL,), **choices: Any) -> Comparison:
    """A comparison with the verdicts of the sample run, and these differences."""
    results = samples.results(**{"regressions": (), "warnings": (), **choices})
    parts = {name: getattr(results, name) for name in Findings.model_fields if name != "version"}
    compared = Compared(
        run="run-2",
        other="run-1",
        with_runs=("run-1",),
        baseline="october",
        differences=differences,
    )
    run = ComparedRun(**dict(results.run) | {"status": "compared"})
    return Comparison(**{**parts, "run": run, "comparison": compared})


@NO_DRAWING
def test_a_comparison_says_what_differed_before_what_it_did():
    text = text_of(render_page(comparison(), samples.trials(), {}))
    assert text.startswith("Skip to the conclusion rackrate: run-2 compared with run-1 (baseline")
    assert "The runs differ in kernel. Against the same arm in run-1" in text
    assert "6.12.0" in text and "6.1.0" in text
    assert text.index("6.1.0") < text.index("Every comparison of the run")
    alike = text_of(render_page(comparison(differences=()), samples.trials(), {}))
    assert "The runs differ in nothing that they recorded" in alike
    assert "Nothing that the runs recorded" in alike


def test_a_comparison_names_its_own_files_and_no_warm_up():
    text = text_of(render_page(comparison(), samples.trials(), {}))
    assert "comparison.json" in text and "results.json" not in text
    assert "There was none" not in text
    assert "the folders raw of the runs" in text


# -- its figures


def test_every_figure_of_a_run_is_there_and_says_what_it_shows():
    text = page()
    charts = figures(text)
    assert set(charts) == {
        *("trials-1-1", "series-1", "ratio-v-1-1"),
        *("trials-2-2", "ecdf-2-0", "ratio-v-2-1"),
        "ratio-r-0",
    }
    for name, chart in charts.items():
        assert chart.get("role") == "img"
        title, description = chart[0], chart[1]
        assert chart.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert re.search(r"\d", description.text), name
    assert "median 9.52 Gbit/s of 6 trials" in charts["trials-1-1"][1].text
    assert "p50" in charts["ecdf-2-0"][1].text
    for name in set(charts) - {"ratio-v-1-1", "ratio-v-2-1", "ratio-r-0"}:
        figure = text[text.index(f'<figure id="{name}"') :]
        assert "Data of this figure" in figure[: figure.index("</figure>")], name


def test_every_trial_that_counts_is_a_mark_with_a_tip():
    all_tips = [
        tip for name, chart in figures(page()).items() if "trials" in name for tip in tips(chart)
    ]
    assert len(all_tips) == 24, "without the warm-up"
    assert "cluster group, block 1, treatment-1 → treatment-2: 9.52 Gbit/s" in " ".join(all_tips)
    marked = [tip for tip in all_tips if "computed 97% of the time" in tip]
    assert len(marked) == 2
    assert [tip for tip in all_tips if tip.endswith("failed, the server is busy")]


def test_a_marked_trial_is_hollow_and_more_of_a_value_is_higher():
    chart = figures(page())["trials-1-1"]
    dots = marks(chart)
    hollow = {mark.tip for mark in dots if "fill:var(--paper)" in mark.style}
    assert hollow == {mark.tip for mark in dots if "computed" in mark.tip}
    height = {mark.tip.split(",")[0]: mark.y for mark in dots}
    assert height["cluster group"] < height["no group"]


def test_nodes_that_were_measured_with_each_other_have_a_heat_map_for_each_arm():
    arms = tuple(
        arm.model_copy(update={"nodes": (*arm.nodes, Node(name=f"{arm.name}-3"))})
        for arm in samples.arms()
    )
    trials = [
        trial.model_copy(
            update={"client": f"{trial.arm}-{client}", "server": f"{trial.arm}-{server}"}
        )
        for trial in samples.trials()
        for client, server in ((1, 2), (2, 3), (3, 1))
    ]
    charts = figures(page(raw={}, trials=trials, planned=planned(arms=arms)))
    assert {name for name in charts if "matrix" in name} == {
        *("matrix-1-1-0", "matrix-1-1-1", "matrix-2-2-0", "matrix-2-2-1"),
    }
    cells = tips(charts["matrix-1-1-0"])
    assert len(cells) == 3, "and none for what was not measured"
    assert any(cell.startswith("treatment-1 to treatment-2: 9.5") for cell in cells)
    assert "3 of the 6 ways between 3 nodes" in charts["matrix-1-1-0"][1].text
    assert not [name for name in figures(page()) if "matrix" in name]


def test_a_page_without_raw_values_has_neither_ecdf_nor_series():
    assert {name.split("-")[0] for name in figures(page(raw={}))} == {"trials", "ratio"}


def test_ids_are_there_once_and_what_is_referred_to_exists():
    elements = [attrs for _, attrs in Elements(page()).tags]
    ids = [attrs["id"] for attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for a in elements if a.get("href", "").startswith("#")}
    labels = {name for a in elements for name in a.get("aria-labelledby", "").split()}
    assert (targets | labels) - set(ids) == set()


def test_the_same_run_has_the_same_page():
    assert page() == page()


# -- accessibility


def test_the_page_has_landmarks_headings_in_order_and_named_tables():
    elements = Elements(page(failure=FAILURE, counters=samples.counters())).tags
    tags = [tag for tag, _ in elements]
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert tags.count(landmark) == 1, landmark
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert tags.count("caption") == tags.count("table") > 5
    assert all("scope" in attrs for tag, attrs in elements if tag == "th")
    for tag, attrs in elements:
        if attrs.get("class") == "scroll":
            assert (attrs["tabindex"], attrs["role"]) == ("0", "region") and attrs["aria-label"]
        if tag == "svg":
            assert attrs.get("aria-hidden") or (attrs["role"] == "img")


# -- large runs


def large(pairs: int, blocks: int) -> tuple[Results, list[Trial], dict[str, RawValues]]:
    """A run with `pairs` pairs of nodes in each arm, and raw values of all trials."""
    arms = tuple(
        arm.model_copy(
            update={
                "nodes": tuple(
                    arm.nodes[0].model_copy(update={"name": f"{arm.name}-{n}.compute.internal"})
                    for n in range(2 * pairs)
                )
            }
        )
        for arm in samples.arms()
    )
    trials = []
    for trial in samples.trials():
        if not 1 <= trial.block <= blocks:
            continue
        for n in range(pairs):
            value = trial.value * (1 + 0.0001 * (n * 7919 % 101))
            client, server = (f"{trial.arm}-{2 * n + m}.compute.internal" for m in (0, 1))
            values = {"value": value, "values": {trial.metric: value}}
            names = {"client": client, "server": server, "raw_key": f"runs/r/raw/{client}.1.txt"}
            trials.append(trial.model_copy(update={**names, **values}))
    marks = tuple(
        samples.mark(trial.block, arm=trial.arm, client=trial.client, server=trial.server)
        for trial in trials
        if trial.test == "tcp-1"
    )
    document = samples.results(trials=trials, planned=planned(arms=arms), marks=marks[:1000])
    return document, trials, raw_of(trials)


def test_a_browser_may_run_only_the_page_s_own_script_and_fetch_nothing():
    text = render_page(samples.results(), samples.trials(), {})
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert text.index(policy) < text.index("<title>"), "it applies to what follows it"
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules["script-src"] == f"'sha256-{digest}'" and "connect-src" not in rules
    assert (rules["style-src"], rules["img-src"]) == ("'unsafe-inline'", "data:")


def test_a_page_of_a_thousand_nodes_is_small_and_has_every_figure():
    document, trials, raw = large(pairs=250, blocks=4)
    text = render_page(document, trials, raw)
    assert len(text.encode()) < 0.7 * MOST_BYTES
    charts = figures(text)
    assert {name.split("-")[0] for name in charts} == {
        "trials",
        "series",
        "ecdf",
        "matrix",
        "ratio",
    }
    assert charts["trials-1-1"].find(".//image") is not None, "too many dots for vectors"
    assert "64 are drawn" in charts["series-1"][1].text
    kept = set(re.findall(r'<figure id="([a-z]+)[^>]* data-values=', text))
    assert kept == {"series", "ecdf", "matrix", "ratio"}, (
        "of so many trials trials.csv has the values"
    )


def test_what_would_be_too_large_is_left_out_and_reported():
    tests = tuple(samples.TESTS[0].model_copy(update={"name": f"tcp-{n}"}) for n in range(20))
    plan = samples.planned_run().plan.model_copy(update={"tests": tests})
    failed = [
        without_value(trial, "x" * 4000).model_copy(update={"test": test.name})
        for test in tests
        for trial in samples.trials()
        if not trial.warm_up
    ]
    nothing = dict.fromkeys(("verdicts", "regressions", "summaries", "marks"), ())
    with NO_DRAWING:
        text = page(raw={}, trials=failed, planned=planned(plan=plan), **nothing)
    assert len(text.encode()) < MOST_BYTES
    assert re.search(r"And \d+ more, which results.json lists", text)


# -- text from runs is escaped

#: Names that other parts of the document refer to.
_NAMES = frozenset({"name", "arm", "client", "server", "metric"})
#: The number of groups. Each round changes the texts of one group, so most texts stay unchanged.
_GROUPS = 23


def one_of(groups: int, group: int) -> Callable[[str], str]:
    """Return a function that changes the texts of one group out of `groups`."""
    turn = itertools.cycle(range(groups))
    return lambda text: NASTY if next(turn) == group else text


@NO_DRAWING
def test_no_string_of_the_results_becomes_markup_wherever_it_stands():
    run = samples.results(
        failure=FAILURE, counters=samples.counters(), regression_differences=(KERNEL,)
    )
    for document in (run, comparison()):
        for group in range(_GROUPS):
            hostile = changed(document, one_of(_GROUPS, group), NOT_FREE | _NAMES)
            text = render_page(hostile, samples.trials(), {})
            assert text.count("<script") == 1, group
            Elements(text)


def test_no_name_becomes_markup_within_a_figure():
    """All names change in the same way, so that the page still draws all figures."""

    def nasty(value: str) -> str:
        return f"{NASTY} $x^{{2}}$ \x01{value}"

    document = changed(samples.results(counters=samples.counters()), nasty)
    trials = [changed(trial, nasty) for trial in samples.trials()]
    text = render_page(document, trials, raw_of(trials))
    assert text.count("<script") == 1, "the page's own"
    Elements(text)
    charts = figures(text)
    assert {"trials-1-1", "trials-2-2", "series-1", "ecdf-2-0"} <= set(charts)
    assert NASTY in "".join(charts["trials-1-1"].itertext())


def test_a_command_in_a_sentence_is_code_and_its_text_is_escaped():
    assert code("Run `a <b>` & see.") == "Run <code>a &lt;b&gt;</code> &amp; see."


# -- unknown values


def forgotten[D: Document](document: D, data: Any) -> D:
    """A copy of the document with some optional fields set to None."""
    fields = type(document).model_fields
    nullable = [name for name, field in fields.items() if NoneType in get_args(field.annotation)]
    unknown = data.draw(st.sets(st.sampled_from(nullable))) if nullable else ()
    inner = {
        name: forgotten(value, data)
        for name in fields
        if isinstance(value := getattr(document, name), Document)
    }
    return document.model_copy(update={**inner, **dict.fromkeys(unknown)})


def page_of_partial_knowledge(data: Any) -> str:
    """The page of an analysis in which optional fields are missing everywhere."""
    known = samples.analysis()
    partial = {
        part: tuple(forgotten(each, data) for each in getattr(known, part))
        for part in ("verdicts", "regressions", "summaries")
    }
    return page(raw={}, **partial)


def check_partial_knowledge(text: str) -> None:
    shown = " ".join(Elements(text).text)
    assert "None" not in shown.replace("None.", "")
    assert "nan" not in text


@given(st.data())
@settings(max_examples=60)
def test_what_the_analysis_does_not_know_never_breaks_the_page(data):
    with NO_DRAWING:
        check_partial_knowledge(page_of_partial_knowledge(data))


@given(st.data())
@settings(max_examples=2)
def test_what_the_analysis_does_not_know_never_breaks_a_figure(data):
    check_partial_knowledge(page_of_partial_knowledge(data))


@pytest.mark.parametrize("raw", [RawValues(samples={"rtt": ()}), RawValues()])
def test_raw_values_that_are_empty_are_no_figure(raw):
    empty = dict.fromkeys(raw_of(samples.trials()), raw)
    with NO_DRAWING:
        text = page(raw=empty)
    assert 'data-figure="ecdf"' not in text and 'data-figure="series"' not in text


def test_a_page_with_a_test_of_dns_says_on_which_nodes_it_was_answered():
    results = samples.results()
    arm = results.arms[0]
    nodes = (arm.nodes[0].name, "elsewhere", "elsewhere")
    with_dns = results.model_copy(update={"dns_nodes": nodes})
    text = text_of(render_page(with_dns, samples.trials(), raw_of(samples.trials())))
    assert f"{nodes[0]} (1 pod, {arm.name}) and elsewhere (2 pods, no arm)" in text
    assert "DNS answered" not in text_of(page()), "nobody asked it"
