"""results.json and the page: complete, self-contained, escaped, honest about units."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rackrate_cli.estimate import Estimate, print_estimate
from rackrate_cli.results import Results
from rackrate_cli.runs import Run
from rackrate_cli.verdict import print_results
from rich.console import Console

from tests.unit import report_samples as samples
from tests.unit.report_pages import results
from tests.unit.test_estimating import estimated

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
