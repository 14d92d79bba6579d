"""A run's end shows the content of results.json: the answer first, the rest with `--verbose`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rackrate_cli.printing.junit import junit_xml
from rackrate_cli.printing.markdown import markdown
from rackrate_cli.printing.verdict import print_results
from rackrate_cli.reading.documents import read_results
from rich.console import Console

from rackrate_contract.results import Results
from rackrate_text.units import UNKNOWN
from tests.unit.report.campaigns import launch

from .conftest import results, stopped, verdict

MARKS = ((1, "cpu"), (1, "clock"), (2, "cpu"))
BARE = verdict(
    arm_median=None, ratio=None, ci95=None, ci_simultaneous=None, ceiling=None, steadiness=None
)


DEMO = Path(__file__).parents[1] / "docs" / "data" / "demo.results.json"


def printed(content: bytes, *, verbose: bool = False, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_results(console, read_results(content, "r"), verbose=verbose)
    return console.file.getvalue()


def test_a_usual_run_of_three_tests_ends_in_at_most_twelve_lines_with_its_page() -> None:
    document = json.loads(DEMO.read_bytes())
    document["run"]["lab_scale"] = None  # which takes a line in the lab
    lines = printed(json.dumps(document).encode()).splitlines()
    assert len(lines) + len(["Results: out/run/report.html"]) <= 12
    assert max(map(len, lines)) <= 80
    for figure in ("+99.8 %", "496 → 992 Mbit/s", "+99.4 to +100 %", "564 → 111 µs"):
        assert any(figure in line for line in lines), figure


def test_a_run_s_details_are_printed_on_demand_only() -> None:
    why = "Stopped after 6 of at most 12 blocks: every verdict is settled."
    trial = {"arm": "a", "test": "rtt", "client": "x", "server": "y", "metric": "rtt", "unit": "s"}
    warm_up = {"measured": 2, "failed": 0, "trials": [trial | {"status": "measured"}] * 2}
    content = results("r", stopped=stopped(why), warm_up=warm_up)
    conclusion = "The cluster placement group doubles what one flow carries."
    shown = " ".join(printed(content, verbose=True).split())
    for part in (why, conclusion, "the limits explain", "variability", "Warm-up trials"):
        assert part in shown, part
        assert part not in printed(content), part


def test_the_first_line_has_the_time_of_the_claim_and_not_that_of_the_run() -> None:
    shown = printed(results("r", verdicts=[verdict(scope="these nodes", span_seconds=26.0)]))
    assert "on these nodes, 26 s" in " ".join(shown.split())
    old = printed(results("r", verdicts=[verdict(scope="these nodes", span_seconds=None)]))
    assert "1 min 24 s" not in shown + old  # the run's 84.2 s


def test_how_the_nodes_came_that_a_run_woke_has_a_line() -> None:
    run = json.loads(results("r"))["run"]
    woken = results("r", launches=[launch(began_at=run["started_at"]).to_json()])
    came = "cluster group 2 of 2 nodes in 31 s to 48 s."
    assert f"Capacity: {came}" in printed(woken).splitlines()
    created = results("r", launches=[launch(began_at="2020-01-01T00:00:00.000Z").to_json()])
    assert came not in printed(created)
    shown = " ".join(printed(created, verbose=True).split())
    assert f"Capacity at the stack's creation: {came}" in shown


def test_nothing_explains_a_difference_that_is_not_settled() -> None:
    one_block = verdict(verdict="inconclusive", ci95=None, ci_simultaneous=None, more_blocks=5)
    text = printed(results("r", verdicts=[one_block]), verbose=True)
    assert "98.7 % of 1.00 Gbit/s" in text and "explain" not in text


def test_each_throughput_has_a_line_on_how_near_both_arms_came_to_their_limits() -> None:
    same = verdict()["ceiling"] | {"baseline": 1e9}
    unmeasured = verdict()["ceiling"] | {"baseline_share": None}
    verdicts = [
        verdict(),
        verdict(test="tcp-8", ceiling=same),
        verdict(test="tcp-2", ceiling=unmeasured),
        verdict(test="rtt", metric="rtt", unit="s", ceiling=None),
    ]
    content = results("r", verdicts=verdicts, regressions=[verdict(baseline="run r0")])
    shown = printed(content)
    assert [line for line in shown.splitlines() if " limit: " in line] == [
        "tcp-1 limit: treatment 98.7 % of 1.00 Gbit/s, baseline 98.6 % of 500 Mbit/s",
        "tcp-8 limit: treatment 98.7 %, baseline 98.6 % of 1.00 Gbit/s",
        f"tcp-2 limit: treatment 98.7 % of 1.00 Gbit/s, baseline {UNKNOWN} of 500 Mbit/s",
    ]
    narrow = printed(content, width=60).splitlines()
    first = narrow.index("tcp-1 limit: treatment 98.7 % of 1.00 Gbit/s,")
    assert narrow[first + 1] == "  baseline 98.6 % of 500 Mbit/s"
    # Verbose output repeats none of these figures.
    assert printed(content, verbose=True).count("98.6 %") == shown.count("98.6 %")


def test_a_drift_takes_one_line() -> None:
    drift = "treatment alone fell by 12 % from block 4 on"
    lines = printed(results("r", verdicts=[verdict(drift=drift)])).splitlines()
    assert f"Drift, tcp-1 throughput: {drift}." in lines


def test_the_interval_says_for_how_many_tests_it_is_adjusted() -> None:
    assert "adjusted" in printed(results("r")) and "for 2 tests" in printed(results("r"))
    assert "adjusted" not in printed(results("r", verdicts=[verdict()]))


def test_a_row_that_cannot_say_what_it_lacks_is_followed_by_its_reason() -> None:
    open_ones = [
        verdict(test=test, verdict="inconclusive", reason="the threshold is too near")
        for test in ("tcp-1", "tcp-8")
    ]
    text = " ".join(printed(results("r", verdicts=open_ones)).split())
    assert text.count("the threshold is too near") == 1
    assert "tcp-1 throughput and tcp-8 throughput: the threshold" in text


@pytest.mark.parametrize("width", [60, 80])
def test_a_table_keeps_its_words_in_a_narrow_terminal(width: int) -> None:
    lines = printed(DEMO.read_bytes(), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.rstrip().endswith("no meaningful") for line in lines)


def test_every_figure_of_a_verdict_is_shown() -> None:
    text = printed(results("r"), verbose=True)
    for figure in (
        "tcp-1", "throughput", "493 → 987 Mbit/s", "1.00 Gbit/s", "500 Mbit/s",
        "+100 %", "+99.4 to +101 %", "better", "457 → 155 µs", "−66.9 to −64.8 %",
        "treatment against baseline, on these nodes",
    ):  # fmt: skip
        assert figure in text, figure


def test_the_widest_verdict_fits_80_columns_without_losing_a_figure() -> None:
    text = printed(
        results(
            "r",
            verdicts=[
                verdict(
                    test="a-test-with-a-rather-long-name",
                    arm="partitioned-treatment",
                    ratio=0.9999,
                    ci_simultaneous=[0.00912, 0.00998],
                    verdict="no meaningful difference",
                    ceiling={
                        **verdict()["ceiling"],
                        "name": "instance baseline",
                        "arm": 7.5e8,
                        "baseline": 7.5e8,
                    },
                )
            ],
        ),
        verbose=True,
    )
    assert max(map(len, text.splitlines())) <= 80
    assert "−99.1 to −99 %" in text
    joined = " ".join(text.split())
    for word in ("no meaningful", "difference", "750 Mbit/s", "0 %"):
        assert word in joined, word


def test_the_lab_is_named_when_the_network_was_scaled_and_only_then() -> None:
    assert "Network scaled by 0.1: figures are not EC2's." in printed(results("r"))
    run = {**json.loads(results("r"))["run"], "lab_scale": None}
    assert "scaled" not in printed(results("r", run=run))


def test_what_was_not_measured_is_never_shown_as_zero() -> None:
    text = printed(results("r", verdicts=[BARE]))
    assert UNKNOWN in text
    assert " 0 " not in text


def test_steadiness_shares_of_the_ceiling_and_the_claim_are_shown() -> None:
    text = " ".join(printed(results("r"), verbose=True).split())
    for part in (
        "0.42 %", "1.13 %", "steadier", "−62.8 %", "−79 to −37 %", "98.7 %", "98.6 %",
        "This is about these nodes, not about others",
        "tcp-1 throughput: the limits explain the difference.",
    ):  # fmt: skip
        assert part in text, part


def test_pairs_within_a_partition_and_across_partitions_have_a_row_each() -> None:
    kinds = {"within": {"pairs": 1, "median": 9.8e8}, "across": {"pairs": 5, "median": 9.1e8}}
    text = printed(results("r", verdicts=[verdict(partitions=kinds)]), verbose=True)
    rows = [line.split() for line in text.splitlines() if "partition" in line]
    assert ["partition", "980", "Mbit/s", "1", "pair", "in", "one"] in rows
    assert ["partition", "910", "Mbit/s", "5", "pairs", "across"] in rows
    assert max(map(len, text.splitlines())) <= 80


def test_an_arm_whose_pairs_are_across_zones_says_so() -> None:
    document = json.loads(results("r"))
    document["arms"][1]["pairs"] = "across-zones"
    text = " ".join(printed(json.dumps(document).encode()).split())
    assert "against baseline (pairs across zones)," in text


def test_an_arm_towards_an_endpoint_says_so() -> None:
    document = json.loads(results("r"))
    document["arms"][0]["endpoint"] = {"name": "10.0.3.5:5201", "address": "10.0.3.5", "port": 5201}
    text = " ".join(printed(json.dumps(document).encode()).split())
    assert " (towards 10.0.3.5:5201) against " in text
    document["arms"][1]["endpoint"] = document["arms"][0]["endpoint"]
    text = " ".join(printed(json.dumps(document).encode()).split())
    assert " against baseline, towards 10.0.3.5:5201, on these nodes" in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"more_blocks": 1}, {"1", "more", "block"}),
        ({"more_blocks": 7, "more_pairs": 2}, {"7", "more", "blocks"}),
    ],
)
def test_an_open_verdict_says_what_would_settle_it(fields: dict[str, int], words: set[str]) -> None:
    text = printed(results("r", verdicts=[verdict(verdict="inconclusive", **fields)]))
    assert words | {"inconclusive,", "about"} <= set(text.split())


def test_a_settled_verdict_asks_for_no_more() -> None:
    assert "more block" not in printed(results("r", verdicts=[verdict(more_blocks=3)]))


def test_marks_are_counted_once_a_trial_and_named_on_demand() -> None:
    trial = {"arm": "treatment", "test": "rtt", "client": "a", "server": "b", "text": "busy"}
    marks = [trial | {"block": block, "mark": mark} for block, mark in MARKS]
    content = results("r", marks=marks, mark_notes=["2 of 35 trials were limited by a CPU."])
    assert "2 of 35 trials are marked; --verbose names why." in printed(content)
    assert "Marked: 2 of 35 trials were limited by a CPU." in printed(content, verbose=True)
    assert "marked" not in printed(results("r"))


def test_warnings_are_shown() -> None:
    text = printed(results("r", warnings=["The pair a to b did not warm up: [refused]."]))
    assert "Warning: The pair a to b did not warm up: [refused]." in text


def test_an_earlier_run_has_a_table_of_its_own() -> None:
    earlier = verdict(baseline="run run-20261120-090000-ab12", verdict="worse", ratio=0.9)
    text = printed(results("r", regressions=[earlier]))
    assert max(map(len, text.splitlines())) <= 80
    assert "run-20261120-090000-ab12" in text and "earlier" in text and "worse" in text


def test_several_earlier_runs_are_named_by_their_number_and_name() -> None:
    runs = ", ".join(f"run-2026112{n}-090000-ab12" for n in range(4))
    for name, message in (("main", "against the 4 runs of main"), ("4 runs", "against the 4 runs")):
        text = printed(results("r", regressions=[verdict(baseline=f"{name}: {runs}")]))
        assert max(map(len, text.splitlines())) <= 80
        assert message in text and "earlier" in text


def test_a_verdict_that_lacks_earlier_runs_says_how_many() -> None:
    few = verdict(baseline="run r1", verdict="inconclusive", more_runs=3)
    text = printed(results("r", regressions=[few]))
    assert {"inconclusive,", "3", "more", "runs"} <= set(text.split())


def test_failed_trials_are_counted_with_their_causes() -> None:
    causes = [{"count": 1, "cause": f"cause {n}", "where": ["treatment, a → b"]} for n in range(5)]
    content = results("r", trials={"planned": 36, "measured": 31, "failed": 5, "causes": causes})
    assert "31 of 36 trials measured, 5 failed" in printed(content)
    assert "1 trial (treatment, a → b): cause 0" in printed(content)
    assert "2 more causes" in printed(content) and "cause 4" not in printed(content)
    assert "cause 4" in printed(content, verbose=True)


def test_arms_are_called_what_they_are() -> None:
    titles = {"arm_title": "cluster group", "baseline_title": "no group"}
    text = printed(results("r", verdicts=[verdict(**titles)]), verbose=True)
    assert "cluster group against no group, on these nodes" in text
    assert "tcp-1 limit: cluster group 98.7 %" in text
    assert "treatment" not in text and "baseline" not in text


def test_each_arm_has_its_own_table() -> None:
    text = printed(results("r", verdicts=[verdict(), verdict(arm="spread")]))
    assert "spread against baseline" in text
    assert "treatment against baseline" in text


def test_no_verdict_is_printed_in_words() -> None:
    text = printed(results("r", verdicts=[]))
    assert "No verdict" in text and "doubles what one flow carries" in text


def test_the_figures_beside_a_change_are_those_whose_quotient_it_is() -> None:
    """A run printed `+2.3 %  629 → 600 µs`."""
    fields = verdict(
        test="rtt", metric="rtt", unit="s", ratio=1.023, arm_median=600e-6, baseline_median=629e-6
    )
    means = {"arm_mean": 635e-6, "baseline_mean": 621e-6}
    read = read_results(results("r", verdicts=[{**fields, **means}]), "r")
    for text in (printed_of(read), markdown("r", read).decode(), junit_xml("r", read).decode()):
        assert "621 → 635 µs" in text and "629" not in text
    older = read_results(results("r", verdicts=[fields]), "r")
    assert "629 → 600 µs" in printed_of(older)


def test_a_drift_of_one_arm_is_marked_in_its_row_and_named_below() -> None:
    drift = "treatment alone fell by 12 % from block 4 on"
    read = read_results(results("r", verdicts=[verdict(drift=drift), verdict(test="tcp-8")]), "r")
    for text in (printed_of(read), markdown("r", read).decode()):
        assert text.count("better, drift") == 1
        assert drift in " ".join(text.split())
    assert drift in junit_xml("r", read).decode()


def printed_of(run: Results) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_results(console, run)
    return console.file.getvalue()
