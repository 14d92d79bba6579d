"""The table shows the content of results.json, and no line is wider than 80 columns."""

from __future__ import annotations

import io
import json

import pytest
from rackrate_cli.errors import Refusal
from rackrate_cli.results import Results
from rackrate_cli.verdict import print_results
from rich.console import Console

from rackrate_text.units import UNKNOWN

from .conftest import results, verdict

BARE = verdict(
    arm_median=None, ratio=None, ci95=None, ci_simultaneous=None, ceiling=None, steadiness=None
)


def printed(content: bytes) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_results(console, Results.read(content, "r"))
    return console.file.getvalue()


def test_why_a_run_stopped_follows_its_conclusion() -> None:
    why = "Stopped after 6 of at most 12 blocks: every verdict is settled."
    text = " ".join(printed(results("r", stopped={"text": why, "after_blocks": 6})).split())
    assert f"doubles what one flow carries. {why}" in text
    assert "Stopped" not in printed(results("r"))


def test_every_figure_of_a_verdict_is_shown() -> None:
    text = printed(results("r"))
    for figure in (
        "tcp-1", "throughput", "987 Mbit/s", "493 Mbit/s", "1.00 Gbit/s", "500 Mbit/s",
        "2.00", "1.99 to 2.01", "better", "single-flow", "155 µs", "457 µs", "0.331 to 0.352",
        "treatment (placement: cluster) against baseline (placement: none)",
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
        )
    )
    assert max(map(len, text.splitlines())) <= 80
    assert "0.009 to 0.010" in text
    joined = " ".join(text.split())
    for word in ("no meaningful", "difference", "instance baseline", "750 Mbit/s", "1.00"):
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
    text = " ".join(printed(results("r")).split())
    for part in (
        "0.42 %", "1.13 %", "0.372", "0.210 to 0.630", "steadier", "98.7 %", "98.6 %",
        "on these nodes", "This is about these nodes, not about others",
        "tcp-1 throughput: the limits explain the difference.",
    ):  # fmt: skip
        assert part in text, part
    assert "The intervals of all verdicts hold at once with 95 %." in text


def test_pairs_within_a_partition_and_across_partitions_have_a_row_each() -> None:
    kinds = {"within": {"pairs": 1, "median": 9.8e8}, "across": {"pairs": 5, "median": 9.1e8}}
    text = printed(results("r", verdicts=[verdict(partitions=kinds)]))
    rows = [line.split() for line in text.splitlines() if "partition" in line]
    assert ["partition", "980", "Mbit/s", "1", "pair", "in", "one"] in rows
    assert ["partition", "910", "Mbit/s", "5", "pairs", "across"] in rows
    assert max(map(len, text.splitlines())) <= 80


def test_an_arm_whose_pairs_are_across_zones_says_so() -> None:
    document = json.loads(results("r"))
    document["arms"][1]["pairs"] = "across-zones"
    text = " ".join(printed(json.dumps(document).encode()).split())
    assert "baseline (placement: none, pairs across zones)" in text


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


def test_marks_warnings_and_warm_ups_are_shown() -> None:
    text = printed(
        results(
            "r",
            mark_notes=["12 of 36 trials were limited by the client's CPU."],
            warnings=["The pair a to b did not warm up: [refused]."],
            warm_up={"trials": [{}, {}]},
        )
    )
    assert "Marked: 12 of 36 trials were limited by the client's CPU." in text
    assert "Warning: The pair a to b did not warm up: [refused]." in text
    assert "Warm-up trials, left out of every verdict: 2." in text


def test_an_earlier_run_has_a_table_of_its_own() -> None:
    earlier = verdict(baseline="run run-20261120-090000-ab12", verdict="worse", ratio=0.9)
    text = printed(results("r", regressions=[earlier]))
    assert max(map(len, text.splitlines())) <= 80
    assert "run-20261120-090000-ab12" in text and "earlier" in text and "worse" in text


def test_several_earlier_runs_are_told_by_their_number_and_name() -> None:
    runs = ", ".join(f"run-2026112{n}-090000-ab12" for n in range(4))
    for name, said in (("main", "against the 4 runs of main"), ("4 runs", "against the 4 runs")):
        text = printed(results("r", regressions=[verdict(baseline=f"{name}: {runs}")]))
        assert max(map(len, text.splitlines())) <= 80
        assert said in text and "earlier" in text


def test_a_verdict_that_lacks_earlier_runs_says_how_many() -> None:
    few = verdict(baseline="run r1", verdict="inconclusive", more_runs=3)
    text = printed(results("r", regressions=[few]))
    assert {"inconclusive,", "3", "more", "runs"} <= set(text.split())


def test_failed_trials_are_counted_in_words() -> None:
    assert "35 of 36 trials measured, 1 failed" in printed(results("r"))


def test_each_arm_has_its_own_table() -> None:
    text = printed(results("r", verdicts=[verdict(), verdict(arm="spread")]))
    assert "spread against baseline" in text
    assert "treatment (placement: cluster) against" in text


def test_no_verdict_is_said_in_words() -> None:
    assert "No verdict" in printed(results("r", verdicts=[]))


@pytest.mark.parametrize(
    "content",
    [b"{}", b"not json", b"[]", results("r", schema="rackrate.result.v2"), results("r", run={})],
)
def test_results_of_another_schema_are_refused_not_guessed(content: bytes) -> None:
    with pytest.raises(Refusal):
        Results.read(content, "r")
