"""results.json and the page: complete, self-contained, escaped, honest about units."""

from __future__ import annotations

import html.parser
import io
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rackrate_cli.estimate import Estimate, print_estimate
from rackrate_cli.results import Results
from rackrate_cli.runs import Run
from rackrate_cli.verdict import print_results
from rich.console import Console

from rackrate.report.figures import Dot, interval_figure, si, trials_figure
from rackrate.report.markup import MOST_ROWS
from rackrate.report.page import render_page
from rackrate.report.results import build_results
from tests.unit import report_samples as samples
from tests.unit.test_estimating import estimated

NASTY = "<script>alert('x')</script>&\""
FAILURE = {"Error": "TrialsLost", "Cause": NASTY}


def results(*, failure=None, counters=None, trials=None, plan=None, run=None, **analysis):
    return build_results(
        run=samples.run(**(run or {})),
        failure=failure,
        stored_plan=plan or samples.stored_plan(),
        trials=samples.trials() if trials is None else trials,
        analysis=samples.analysis(**analysis),
        counters=counters,
        written_at="2026-11-21T08:01:30Z",
    )


def page(**choices):
    trials = choices.get("trials")
    return render_page(results(**choices), samples.trials() if trials is None else trials)


# -- results.json


def test_everything_the_analysis_found_is_in_the_results():
    found = results()
    analysis = samples.analysis()
    for name in ("verdicts", "regressions", "summaries", "marks", "method"):
        assert found[name] == analysis[name]
    assert found["mark_notes"] == ["2 of 23 trials may have been limited by the client's CPU."]
    assert found["warnings"] == [*samples.run()["warnings"], *analysis["warnings"]]
    assert found["estimates"] == samples.stored_plan()["estimates"]
    assert json.loads(json.dumps(found)) == found


def test_a_warm_up_is_kept_apart_from_the_trials_that_count():
    trials = samples.trials()
    trials[0] |= {"status": "failed", "reason": "Connection refused", "value": None}
    found = results(trials=trials)
    assert (found["warm_up"]["measured"], found["warm_up"]["failed"]) == (3, 1)
    assert [f["block"] for f in found["trials"]["failures"]] == [6]
    reasons = [trial["reason"] for trial in found["warm_up"]["trials"]]
    assert reasons == ["Connection refused", None, None, None]


def test_an_arm_tells_whose_nodes_it_uses_and_through_which_network():
    plan = samples.stored_plan()
    plan["arms"][0] |= {"stack_arm": "baseline", "client_network": "host", "server_network": "host"}
    del plan["arms"][1]["stack_arm"], plan["arms"][1]["client_network"]
    arm, old = results(plan=plan)["arms"]
    assert (arm["stack_arm"], arm["client_network"], arm["server_network"]) == (
        *("baseline", "host", "host"),
    )
    assert (old["stack_arm"], old["client_network"]) == ("baseline", "pod")


def test_counters_are_given_as_what_the_run_added_and_unknown_is_not_zero():
    found = results(counters=samples.counters())["counters"]
    assert found["nodes"]["treatment-1"]["eth0"] == {
        "bw_out_allowance_exceeded": 900,
        "pps_allowance_exceeded": 0,
    }
    assert found["nodes"]["baseline-1"]["eth0"] == {"bw_out_allowance_exceeded": None}
    assert found["note"] == "1 node could not be read after the run."
    assert results()["counters"] is None


def test_a_counter_that_fell_was_reset_and_has_no_increase():
    counters = {"before": {"n": {"e": {"c": 9}}}, "after": {"n": {"e": {"c": 1}}}, "note": None}
    assert results(counters=counters)["counters"]["nodes"]["n"]["e"]["c"] is None


def test_every_field_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
    words = set(re.findall(r"[a-z0-9_]+", text))
    found = results(counters=samples.counters())
    # What these hold is named by others: plan.md, cost.md, the nodes, the kernel's driver.
    for name in ("plan", "estimates", "counters"):
        found[name] = {}
    for arm in found["arms"]:
        arm["node_facts"], arm["network"] = [], {}
    for verdict in found["verdicts"]:
        verdict["marks"] = {}
    unnamed = set(names(found)) - words
    assert not unnamed


def test_the_command_reads_what_the_report_writes():
    found = results(counters=samples.counters())
    read = Results.read(json.dumps(found).encode(), "run-1")
    console = Console(file=io.StringIO(), width=80)
    print_results(console, read, None)
    text = " ".join(console.file.getvalue().split())
    for part in ("1.90 to 1.95", "steadier", "95.2 %", "against run run-2026", "did not warm up"):
        assert part in text, part
    assert found["conclusion"] in text
    assert text.count("hold for all verdicts at once") == 1


def test_the_command_reads_what_a_plan_estimates():
    plan = {"estimates": estimated(region="eu-central-1")}
    read = Estimate.read(json.dumps(plan).encode(), "run-1")
    console = Console(file=io.StringIO(), width=80)
    run = Run.from_item({"pk": "run#run-1", "blocks": 6, "trials_planned": 36})
    print_estimate(console, run, read)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for part in ("node-a", "EC2 c5.large, 4 nodes *", "state transitions", "Total", "Remedy:"):
        assert part in text, part


def names(value: Any) -> Iterator[str]:
    """Every name of a field in a document."""
    if isinstance(value, dict):
        yield from value
    for entry in value.values() if isinstance(value, dict) else value:
        if isinstance(entry, dict | list):
            yield from names(entry)


# -- the page


class Elements(html.parser.HTMLParser):
    """Collects elements and checks that they are closed in order."""

    void = frozenset({"meta"})

    def __init__(self, text):
        super().__init__()
        self.found, self.open, self.text = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def words(**choices) -> str:
    """What a reader of the page reads."""
    return " ".join("".join(Elements(page(**choices)).text).split())


def test_the_page_needs_nothing_but_itself():
    text = page(failure=FAILURE, counters=samples.counters())
    elements = Elements(text).found
    assert not {"script", "img", "iframe", "link"} & {tag for tag, _ in elements}
    assert not [attrs for _, attrs in elements if "src" in attrs]
    assert "url(" not in text and "@import" not in text


def test_the_page_shows_every_part_of_a_verdict():
    text = words()
    for part in (
        "1.911 to 1.936", "1.902 to 1.945", "these nodes", "for all verdicts at once",
        "This is about these nodes, not about others placed alike: it rests on 1 pair",
        ": the limits explain the difference. (source)",
        "steadier than the baseline", "spread 0.4 % against 1.1 %",
        "About 7 more blocks would settle it",
        "2 trials may have been limited by the client's CPU",
    ):  # fmt: skip
        assert part in text, part


def test_the_page_shows_each_arm_by_itself():
    text = words()
    for part in ("155 µs", "171 µs", "240 µs", "410 µs", "180", "0.56 %", "17", "0.4 %"):
        assert part in text, part


def test_the_page_says_what_failed_what_was_scaled_and_what_never_ran():
    text = words(
        failure=FAILURE, run={"lab_scale": 0.15, "trials_measured": 21, "trials_failed": 3}
    )
    assert "TrialsLost" in text and "21 of 24 trials measured" in text
    assert "scaled by 0.15" in text
    assert "2 trials never ran" in text
    assert "the server is busy" in text


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


def test_an_arm_is_shown_with_what_distinguishes_it():
    plan = samples.stored_plan()
    plan["arms"][0] |= {"ena_express": True}
    plan["arms"][1] |= {"stack_arm": "treatment", "client_network": "host"}
    text = words(plan=plan)
    assert "treatment (cluster, ENA Express)" in text
    assert "baseline (none, nodes of treatment, network host to pod)" in text


def test_every_trial_that_counts_is_shown_and_a_marked_one_has_another_shape():
    elements = Elements(page()).found
    drawn = [(tag, attrs) for tag, attrs in elements if attrs.get("class", "").startswith("arm-")]
    dots = [attrs for tag, attrs in drawn if tag == "circle"]
    diamonds = [attrs for tag, attrs in drawn if tag == "path"]
    assert len(diamonds) == 2
    assert len(dots) == 24 - 1 - 2, "without the warm-up, the lost trial and the marked ones"
    heights = {attrs["class"]: float(attrs["cy"]) for attrs in dots[:10]}
    assert heights["arm-0"] < heights["arm-1"], "more is higher"
    assert "computed 97% of the time on one CPU" in words()


def test_a_table_that_is_too_long_says_how_much_it_leaves_out():
    marks = [samples.mark(block) for block in range(1, MOST_ROWS + 6)]
    assert "And 5 more, which results.json lists." in words(marks=marks)


def test_a_page_of_a_run_that_measured_nothing_is_still_a_page():
    nothing = {"verdicts": [], "summaries": [], "marks": [], "regressions": [], "warnings": []}
    text = words(trials=[], method=None, **nothing)
    assert "No trial was measured" in text
    assert "Nothing can be said" in text


def test_a_source_that_is_no_address_is_not_a_link():
    ceiling = {**samples.verdict()["ceiling"], "source": "javascript:alert(1)"}
    text = page(verdicts=[samples.verdict(ceiling=ceiling)])
    assert not [a for tag, a in Elements(text).found if tag == "a"]


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


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with one value changed."""
    changed = deepcopy(document)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


def test_no_string_of_the_results_becomes_markup_wherever_it_stands():
    document = results(failure=FAILURE, counters=samples.counters())
    for path in leaves(document):
        text = render_page(replaced(document, path, NASTY), samples.trials())
        assert "<script" not in text, path
        Elements(text)


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


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_what_the_analysis_does_not_know_never_breaks_the_page(data):
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
    text = render_page(document, samples.trials())
    shown = " ".join(Elements(text).text)
    assert "None" not in shown.replace("None.", "")
    assert "nan" not in text


# -- figures


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (9.5e9, "bit/s", "9.50 Gbit/s"),
        (155e-6, "s", "155 µs"),
        (0.000457, "s", "457 µs"),
        (999.96, "bit/s", "1.00 kbit/s"),
        (0, "s", "0 s"),
        (1, "s", "1.00 s"),
        (12.34, "s", "12.3 s"),
        (5e13, "bit/s", "50.0 Tbit/s"),
        (2e-10, "s", "0.200 ns"),
    ],
)
def test_values_have_si_prefixes_and_three_digits(value, unit, text):
    assert si(value, unit) == text


@given(st.floats(1e-9, 1e14))
def test_no_digit_that_matters_is_lost(value):
    number, unit = si(value, "x").split(" ")
    factor = {"T": 12, "G": 9, "M": 6, "k": 3, "": 0, "m": -3, "µ": -6, "n": -9}[unit[:-1]]
    assert float(number) * 10**factor == pytest.approx(value, rel=0.006)


@given(
    st.lists(
        st.builds(
            Dot,
            st.integers(1, 40),
            st.just(0.0) | st.floats(1e-6, 1e12),
            st.sampled_from([(), ("a mark",)]),
        ),
        min_size=1,
        max_size=20,
    ),
    st.lists(st.floats(0.001, 1000), min_size=5, max_size=5),
)
def test_figures_stay_within_their_frame(points, ratios):
    least, low, ratio, high, most = sorted(ratios)
    text = trials_figure({"a": points}, unit="s", ceilings={}, title="t")
    text += interval_figure(ratio, (low, high), (least, most), threshold=0.05, title="t")
    assert "nan" not in text and "inf" not in text
    for value in re.findall(r'\b(?:x1|x2|cx)="([-0-9.]+)"', text):
        assert 0 <= float(value) <= 640
    for value in re.findall(r'\b(?:y1|y2|cy)="([-0-9.]+)"', text):
        assert 0 <= float(value) <= 220
    for x, y in re.findall(r'd="M([-0-9.]+) ([-0-9.]+)l', text):
        assert 0 <= float(x) <= 640 and 0 <= float(y) <= 220


def test_a_ratio_without_a_logarithm_is_not_drawn():
    assert interval_figure(1.0, (0.0, 2.0), None, threshold=0.05, title="t") == ""
