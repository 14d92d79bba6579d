"""The page: complete, self-contained, small, escaped, and readable without seeing its figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackrate.report.charts import canvas
from rackrate.report.markup import MOST_ROWS
from rackrate.report.page import MOST_BYTES, render_page
from rackrate.report.results import build_results
from rackrate.report.sections import opening
from tests.unit import report_samples as samples
from tests.unit.report_pages import (
    FAILURE,
    NASTY,
    Elements,
    figures,
    marks,
    page,
    raw_of,
    results,
    said,
    tips,
    undrawn,
    words,
)

NO_DRAWING = mock.patch.object(canvas, "rendered", undrawn)


# -- what it says


def test_the_page_needs_nothing_but_itself():
    text = page(failure=FAILURE, counters=samples.counters())
    elements = Elements(text).found
    assert not {"script", "img", "iframe", "link"} & {tag for tag, _ in elements}
    assert not [attrs for _, attrs in elements if "src" in attrs]
    assert "url(" not in text and "@import" not in text


def test_the_first_thing_said_is_one_sentence_that_tells_which_way_it_went():
    text = words()
    headline = (
        "Against baseline, treatment is better in tcp-1 throughput (1.92 times) and is"
        " inconclusive in rtt."
    )
    assert headline in text
    assert text.index(headline) < text.index("on these nodes") < text.index("Every comparison")


def verdict_of(arm: int, test: str, word: str, ratio: float = 1.92) -> dict[str, Any]:
    return samples.verdict(arm=f"arm-{arm}", test=test, verdict=word, ratio=ratio)


def test_a_headline_stays_one_sentence_however_many_arms_and_tests_there_are():
    many = [verdict_of(0, f"test-{n}", "better") for n in range(6)]
    assert opening.headline(results(verdicts=many)) == (
        "Against baseline, arm-0 is better in test-0 throughput (1.92 times), test-1 throughput"
        " (1.92 times), test-2 throughput (1.92 times) and 3 other comparisons."
    )
    alike = [verdict_of(n, "tcp-1", "worse", 0.5 + n / 10) for n in range(3)]
    different = [*alike, verdict_of(3, "tcp-1", "inconclusive")]
    assert opening.headline(results(verdicts=different)) == (
        "Against baseline, arm-0, arm-1 and arm-2 are worse in tcp-1 throughput (0.50 to 0.70"
        " times); arm-3 is inconclusive in tcp-1 throughput."
    )
    words = ("better", "worse", "inconclusive", "no meaningful difference")
    mixed = [verdict_of(n, "tcp-1", word) for n, word in enumerate(words)]
    assert opening.headline(results(verdicts=mixed)) == (
        "Of 4 comparisons: 1 better, 1 worse, 1 inconclusive and 1 no meaningful difference."
    )


@NO_DRAWING
def test_a_long_conclusion_is_folded_and_a_short_one_is_not():
    fold = "The conclusion in full, with its intervals"
    assert fold not in words()
    assert fold in words(verdicts=[samples.verdict(test=f"test-{n}") for n in range(20)])


@NO_DRAWING
def test_what_differs_from_the_earlier_run_stands_before_what_it_did():
    found = [{"what": "kernel", "run": "6.12.0", "with": "6.1.0"}]
    document = {**results(), "regression_differences": found}
    text = said(render_page(document, samples.trials()))
    assert text.index("kernel6.12.06.1.0") < text.index("Each arm against itself then")


def test_the_page_shows_every_part_of_a_verdict():
    text = words()
    for part in (
        "1.911 to 1.936", "1.902 to 1.945", "these nodes", "for all verdicts at once",
        "95.2 % of 10.0 Gbit/s", "99 % of 5.00 Gbit/s",
        "This is about these nodes, not about others placed alike: it rests on 1 pair",
        ": the limits explain the difference. (source)",
        "steadier than the baseline", "spread 0.4 % against 1.1 %",
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
    text = words(
        failure=FAILURE, run={"lab_scale": 0.15, "trials_measured": 21, "trials_failed": 3}
    )
    assert "TrialsLost" in text and "21 of 24 trials measured" in text
    assert "scaled by 0.15" in text
    assert "2 trials never ran" in text
    assert "the server is busy" in text


@NO_DRAWING
def test_beside_every_figure_of_the_lab_stands_its_scale():
    text = page(run={"lab_scale": 0.15})
    found = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    assert len(found) > 4
    assert all("Network scaled by 0.15: figures are not EC2" in figure for figure in found)
    assert "Network scaled" not in page()


@NO_DRAWING
def test_the_page_lists_warnings_warm_ups_counters_and_the_earlier_run():
    text = words(counters=samples.counters())
    assert "1 of 2 pairs did not warm up." in text
    assert "did not warm up: Connection refused." in text
    assert "4 measured. They are kept and left out of every verdict" in text
    assert "bw_out_allowance_exceeded900" in text
    assert (
        "Compared with an earlier run" in text
        and "treatment since run-20261120-090000-ab12" in text
    )
    assert "For each block the log ratio" in text
    assert "Compared with an earlier run" not in words(regressions=[])


@NO_DRAWING
def test_an_arm_is_shown_with_what_distinguishes_it():
    plan = samples.stored_plan()
    plan["arms"][0] |= {"ena_express": True}
    plan["arms"][1] |= {"stack_arm": "treatment", "client_network": "host"}
    text = words(plan=plan)
    assert "treatment (cluster, ENA Express)" in text
    assert "baseline (none, nodes of treatment, network host to pod)" in text


@NO_DRAWING
def test_the_topology_tells_where_the_nodes_of_an_arm_are():
    plan = samples.stored_plan()
    for n, node in enumerate(plan["arms"][0]["nodes"]):
        node["network_layers"] = ["nn-1", "nn-2", f"nn-3{n}"]
    text = words(plan=plan)
    assert (
        "treatment: 2 nodes in us-east-1a; EC2's network nodes, layer 1: 1 network node,"
        " layer 2: 1 network node, layer 3: 2 network nodes" in text
    )
    assert "baseline: 2 nodes in us-east-1a; EC2 told nothing of network nodes" in text


@NO_DRAWING
def test_how_it_was_measured_is_there_and_folded_away():
    text = page(counters=samples.counters())
    section = text[text.index('<section id="method"') :]
    for part in ("&quot;blocks&quot;: 6", "Seed of every order", "v1.36.3", "ami-0123", "iperf"):
        assert part in section, part
    assert "<details open" not in section


@NO_DRAWING
def test_raw_output_is_linked_to_where_the_trial_is_named():
    trials = samples.trials()
    for trial in trials:
        trial["raw_key"] = f"runs/run-1/raw/{trial['block']:04d}_{trial['arm']}_x.1.txt"
    links = {a["href"] for tag, a in Elements(page(trials=trials)).found if tag == "a"}
    assert "raw/0006_baseline_x.1.txt" in links, "of the trial that failed"
    assert "raw/0002_treatment_x.1.txt" in links, "of one that is marked"
    trials[5]["raw_href"] = "../../runs/other/raw/1.txt"
    trials[6]["raw_href"] = "javascript:alert(1)"
    links = {a["href"] for tag, a in Elements(page(trials=trials)).found if tag == "a"}
    assert "../../runs/other/raw/1.txt" in links
    assert not [link for link in links if link.startswith("javascript")]


@NO_DRAWING
def test_a_table_that_is_too_long_says_how_much_it_leaves_out():
    marks = [samples.mark(block) for block in range(1, MOST_ROWS + 6)]
    assert "And 5 more, which results.json lists." in words(marks=marks)


def test_a_page_of_a_run_that_measured_nothing_is_still_a_page():
    nothing = {"verdicts": [], "summaries": [], "marks": [], "regressions": [], "warnings": []}
    text = words(trials=[], method=None, **nothing)
    assert "No trial was measured" in text
    assert "Nothing can be said" in text


def test_of_a_run_whose_trials_were_all_lost_no_verdict_is_the_headline():
    lost = results(run={"trials_measured": 0, "trials_failed": 24})
    assert opening.headline(lost) == (
        "Nothing was measured: none of the 24 trials has a value, so nothing can be said of any"
        " arm."
    )


@NO_DRAWING
def test_an_arm_that_lost_every_trial_is_in_the_legend_of_its_crosses():
    trials = samples.trials()
    for trial in trials:
        if (trial["test"], trial["arm"]) == ("tcp-1", "baseline"):
            trial |= {"status": "failed", "value": None, "values": {}, "reason": "refused"}
    legends = re.findall(r"<ul class=legend>.*?</ul>", page(trials=trials))
    assert "treatment" in legends[0] and "baseline" in legends[0]


@NO_DRAWING
def test_a_steadiness_of_which_nothing_is_known_has_no_empty_figures():
    nothing = {"arm": None, "baseline": None, "ratio": None, "ci95": None}
    unknown = {**nothing, "verdict": "inconclusive", "reason": "no values of both arms"}
    text = words(verdicts=[samples.verdict(steadiness=unknown)])
    assert "Steadiness: inconclusive. No values of both arms." in text


@NO_DRAWING
def test_an_interval_that_excludes_nothing_has_no_digits():
    wide = samples.verdict(ci95=[1e-300, 1e300], ci_simultaneous=[0.0004, 812.5])
    text = words(verdicts=[wide])
    assert "below 0.001 to over 10000 by itself" in text
    assert "below 0.001 to 812 for all verdicts at once" in text


@NO_DRAWING
def test_a_source_that_is_no_address_is_not_a_link():
    ceiling = {**samples.verdict()["ceiling"], "source": "javascript:alert(1)"}
    text = page(verdicts=[samples.verdict(ceiling=ceiling)])
    links = [a["href"] for tag, a in Elements(text).found if tag == "a"]
    assert all(link.startswith("#") for link in links)


# -- a comparison


def comparison(**changes: Any) -> dict[str, Any]:
    """comparison.json: the page's parts of results.json, and what differed."""
    document = results(regressions=[], warnings=[])
    differences = [{"what": "kernel", "run": "6.12.0", "with": "6.1.0"}]
    compared = {"run": "run-2", "with": "run-1", "baseline": "october", "differences": differences}
    return {**document, "comparison": {**compared, **changes}}


@NO_DRAWING
def test_a_comparison_says_what_differed_before_what_it_did():
    text = said(render_page(comparison(), samples.trials()))
    assert text.startswith("Skip to the conclusionrackrate: run-2 compared with run-1 (baseline")
    assert "The runs differ in kernel; treatment is better in tcp-1 throughput" in text
    assert "6.12.0" in text and "6.1.0" in text
    assert text.index("6.1.0") < text.index("Every comparison of the run")
    alike = said(render_page(comparison(differences=[]), samples.trials()))
    assert "The runs differ in nothing that they recorded" in alike
    assert "Nothing that the runs recorded" in alike


def test_a_comparison_names_its_own_files_and_no_warm_up():
    text = said(render_page(comparison(), samples.trials()))
    assert "comparison.json" in text and "results.json" not in text
    assert "There was none" not in text
    assert "the folders raw of the two runs" in text


# -- its figures


def test_every_figure_of_a_run_is_there_and_says_what_it_shows():
    text = page()
    found = figures(text)
    assert set(found) == {
        *("trials-1-1", "series-1", "ratio-v-1-1"),
        *("trials-2-2", "ecdf-2-0", "ratio-v-2-1"),
        "ratio-r-0",
    }
    for name, chart in found.items():
        assert chart.get("role") == "img"
        title, description = chart[0], chart[1]
        assert chart.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert re.search(r"\d", description.text), name
    assert "median 9.52 Gbit/s of 6 trials" in found["trials-1-1"][1].text
    assert "p50" in found["ecdf-2-0"][1].text
    for name in set(found) - {"ratio-v-1-1", "ratio-v-2-1", "ratio-r-0"}:
        figure = text[text.index(f'<figure id="{name}"') :]
        assert "Data of this figure" in figure[: figure.index("</figure>")], name


def test_every_trial_that_counts_is_a_mark_with_a_tip():
    told = [
        tip for name, chart in figures(page()).items() if "trials" in name for tip in tips(chart)
    ]
    assert len(told) == 24, "without the warm-up"
    assert "treatment, block 1, treatment-1 to treatment-2: 9.52 Gbit/s" in " ".join(told)
    marked = [tip for tip in told if "computed 97% of the time" in tip]
    assert len(marked) == 2
    assert [tip for tip in told if tip.endswith("failed, the server is busy")]


def test_a_marked_trial_is_hollow_and_more_of_a_value_is_higher():
    chart = figures(page())["trials-1-1"]
    dots = marks(chart)
    hollow = {mark.tip for mark in dots if "fill:var(--paper)" in mark.style}
    assert hollow == {mark.tip for mark in dots if "computed" in mark.tip}
    height = {mark.tip.split(",")[0]: mark.y for mark in dots}
    assert height["treatment"] < height["baseline"]


def mesh() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run in which three nodes of each arm were measured with each other."""
    trials = []
    for trial in samples.trials():
        for client, server in ((1, 2), (2, 3), (3, 1)):
            names = {"client": f"{trial['arm']}-{client}", "server": f"{trial['arm']}-{server}"}
            trials.append({**trial, **names})
    return results(trials=trials), trials


def test_nodes_that_were_measured_with_each_other_have_a_heat_map_for_each_arm():
    document, trials = mesh()
    found = figures(render_page(document, trials))
    assert {name for name in found if "matrix" in name} == {
        *("matrix-1-1-0", "matrix-1-1-1", "matrix-2-2-0", "matrix-2-2-1"),
    }
    cells = tips(found["matrix-1-1-0"])
    assert len(cells) == 3, "and none for what was not measured"
    assert any(cell.startswith("treatment-1 to treatment-2: 9.5") for cell in cells)
    assert "3 of the 6 ways between 3 nodes" in found["matrix-1-1-0"][1].text
    assert not [name for name in figures(page()) if "matrix" in name]


def test_a_page_without_raw_values_has_neither_ecdf_nor_series():
    assert {name.split("-")[0] for name in figures(page(raw={}))} == {"trials", "ratio"}


def test_ids_are_there_once_and_what_is_referred_to_exists():
    elements = [attrs for _, attrs in Elements(page()).found]
    ids = [attrs["id"] for attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    wanted = {a["href"][1:] for a in elements if a.get("href", "").startswith("#")}
    labels = {name for a in elements for name in a.get("aria-labelledby", "").split()}
    assert (wanted | labels) - set(ids) == set()


def test_the_same_run_has_the_same_page():
    assert page() == page()


# -- for those who read it otherwise


def test_the_page_has_landmarks_headings_in_order_and_named_tables():
    elements = Elements(page(failure=FAILURE, counters=samples.counters())).found
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


def large(pairs: int, blocks: int) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    """A run with so many pairs of nodes in each arm, and raw values of every trial."""
    plan = samples.stored_plan()
    for arm in plan["arms"]:
        node = arm["nodes"][0]
        arm["nodes"] = [
            {**node, "name": f"{arm['name']}-{n}.compute.internal"} for n in range(2 * pairs)
        ]
    trials = []
    for trial in samples.trials():
        if not 1 <= trial["block"] <= blocks or trial["status"] != "measured":
            continue
        for n in range(pairs):
            value = trial["value"] * (1 + 0.0001 * (n * 7919 % 101))
            ends = (f"{trial['arm']}-{2 * n + m}.compute.internal" for m in (0, 1))
            client, server = ends
            values = {trial["metric"]: value}
            names = {"client": client, "server": server, "raw_key": f"runs/r/raw/{client}.1.txt"}
            trials.append({**trial, **names, "value": value, "values": values})
    marks = [
        samples.mark(t["block"], client=t["client"], server=t["server"])
        for t in trials
        if t["test"] == "tcp-1"
    ]
    document = results(trials=trials, plan=plan, marks=marks[:1000])
    return document, trials, raw_of(trials)


def test_a_page_of_a_thousand_nodes_is_small_and_has_every_figure():
    document, trials, raw = large(pairs=250, blocks=4)
    text = render_page(document, trials, raw)
    assert len(text.encode()) < 0.7 * MOST_BYTES
    found = figures(text)
    assert {name.split("-")[0] for name in found} == {"trials", "series", "ecdf", "matrix", "ratio"}
    assert found["trials-1-1"].find(".//image") is not None, "too many dots for vectors"
    assert "64 are drawn" in found["series-1"][1].text


def test_what_would_be_too_large_is_left_out_and_said():
    trials = samples.trials()
    tests = [{**samples.TESTS[0], "name": f"tcp-{n}"} for n in range(20)]
    plan = samples.stored_plan()
    plan["plan"]["tests"] = tests
    reason = "x" * 4000
    failed = [
        {**trial, "test": test["name"], "status": "failed", "reason": reason}
        for test in tests
        for trial in trials
        if not trial.get("warm_up")
    ]
    with NO_DRAWING:
        text = render_page(results(trials=failed, plan=plan), failed)
    assert len(text.encode()) < MOST_BYTES
    assert re.search(r"And \d+ more, which results.json lists", text)


# -- what comes from runs is text


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all strings in a document."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from leaves(entry, (*path, name))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from leaves(entry, (*path, index))


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    """Changes one value of a document."""
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


#: Every string is changed once, while most others are as they were.
_GROUPS = 23


def nasty(value: Any) -> Any:
    """A document with nasty names for arms, nodes, tests and whatever else is text in it."""
    if isinstance(value, dict):
        return {name: nasty(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [nasty(entry) for entry in value]
    return f"{NASTY} $x^{{2}}$ \x01{value}" if isinstance(value, str) else value


@NO_DRAWING
def test_no_string_of_the_results_becomes_markup_wherever_it_stands():
    document = results(failure=FAILURE, counters=samples.counters())
    document["comparison"] = comparison()["comparison"]
    paths = list(leaves(document))
    for group in range(_GROUPS):
        changed = deepcopy(document)
        for path in paths[group::_GROUPS]:
            put(changed, path, NASTY)
        text = render_page(changed, samples.trials())
        assert "<script" not in text, paths[group::_GROUPS]
        Elements(text)


def test_no_name_becomes_markup_within_a_figure():
    """Names that match each other, so that every figure is drawn from them."""
    document, trials = nasty(results()), nasty(samples.trials())
    for trial in trials:
        trial["status"] = trial["status"].rsplit("\x01", 1)[1]
        if "values" in trial:
            trial["values"] = {nasty(name): value for name, value in trial["values"].items()}
    raw = raw_of(trials)
    for kept in raw.values():
        kept["samples"] = {nasty(kind): values for kind, values in kept["samples"].items()}
    text = render_page(document, trials, raw)
    assert "<script" not in text
    Elements(text)
    found = figures(text)
    assert {"trials-1-1", "trials-2-2", "series-1", "ecdf-2-0"} <= set(found)
    assert NASTY in "".join(found["trials-1-1"].itertext())


@NO_DRAWING
def test_no_string_of_a_trial_or_a_name_becomes_markup():
    trials = [
        trial | dict.fromkeys(("arm", "client", "server", "unit"), NASTY)
        for trial in samples.trials()
    ]
    document = results(trials=trials)
    for arm in document["arms"]:
        arm["name"] = NASTY
    document["counters"] = {"note": None, "nodes": {NASTY: {NASTY: {NASTY: 1}}}}
    document["verdicts"][0]["marks"] = {NASTY: 1}
    text = render_page(document, trials)
    assert "<script" not in text
    assert NASTY in "".join(Elements(text).text)


# -- what is not known

#: What the analysis may not know.
NULLABLE = {
    "verdicts": (
        *("arm_median", "baseline_median", "ratio", "ci95", "ci_simultaneous", "ceiling", "marks"),
        *("confidence_simultaneous", "reason", "blocks", "pairs", "scope", "claim"),
        *("more_blocks", "more_pairs", "steadiness"),
    ),
    "summaries": (
        *("median", "trials", "blocks", "pairs", "spread_between_blocks", "spread_between_pairs"),
        *("percentiles", "loss_ratio", "retransmits"),
    ),
}
NULLABLE["regressions"] = NULLABLE["verdicts"]


def page_of_partial_knowledge(data: Any) -> str:
    """The page of an analysis that lacks something of everything."""
    analysis = samples.analysis()
    for part, fields in NULLABLE.items():
        for entry in analysis[part]:
            for field in data.draw(st.sets(st.sampled_from(fields))):
                entry[field] = None
            for inner in ("ceiling", "steadiness", "percentiles"):
                if isinstance(entry.get(inner), dict):
                    for name in data.draw(st.sets(st.sampled_from(sorted(entry[inner])))):
                        if (inner, name) != ("ceiling", "name"):
                            entry[inner][name] = None
    if data.draw(st.booleans()):
        del analysis["method"]
    document = build_results(
        run=samples.run(),
        failure=None,
        stored_plan=samples.stored_plan(),
        trials=samples.trials(),
        analysis=analysis,
        written_at="2026-11-21T08:01:30Z",
    )
    return render_page(document, samples.trials())


def check_partial_knowledge(text: str) -> None:
    shown = " ".join(Elements(text).text)
    assert "None" not in shown.replace("None.", "")
    assert "nan" not in text


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_what_the_analysis_does_not_know_never_breaks_the_page(data):
    with NO_DRAWING:
        check_partial_knowledge(page_of_partial_knowledge(data))


@given(st.data())
@settings(max_examples=2, deadline=None)
def test_what_the_analysis_does_not_know_never_breaks_a_figure(data):
    check_partial_knowledge(page_of_partial_knowledge(data))


@pytest.mark.parametrize("raw", [{"samples": {"rtt": []}}, {"series": []}, {}])
def test_raw_values_that_are_empty_are_no_figure(raw):
    trials = samples.trials()
    found = dict.fromkeys(raw_of(trials), raw)
    with NO_DRAWING:
        text = render_page(results(), trials, found)
    assert 'data-figure="ecdf"' not in text and 'data-figure="series"' not in text
