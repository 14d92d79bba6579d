"""results.json: complete, self-contained, escaped, and with a unit for each figure."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rackrate_cli.printing.estimate import print_estimate
from rackrate_cli.printing.verdict import print_results
from rackrate_cli.reading.documents import read_estimates, read_results
from rackrate_cli.reading.runs import Run
from rich.console import Console

from rackrate.measure.counters import Counters
from rackrate.report.page import render_page
from rackrate.results.build import RunFailure, final_status
from rackrate.verdict.enough import stop
from tests.unit import builders
from tests.unit.plan.test_estimate import estimated
from tests.unit.report import samples
from tests.unit.verdict.test_network_cards import CARD

# -- results.json


def results(**changes):
    """results.json of the sample run as plain data."""
    return samples.results(**changes).to_json()


def test_everything_the_analysis_found_is_in_the_results():
    built = samples.results()
    analysis = samples.analysis()
    for name in ("verdicts", "regressions", "summaries", "marks", "method"):
        assert getattr(built, name) == getattr(analysis, name)
    assert built.mark_notes == ("2 of 23 trials may have been limited by the client's CPU.",)
    assert built.warnings == ("1 of 2 pairs did not warm up.", *analysis.warnings)
    assert built.estimates == samples.planned_run().estimates
    assert built.run.seconds == 90


def test_the_open_comparisons_with_earlier_runs_stand_beside_why_the_run_stopped():
    since = samples.analysis().regressions[0]
    still_open = since.model_copy(update={"verdict": "inconclusive"})
    stopped = stop([since], blocks=6, most=12)
    text = samples.results(stopped=stopped, regressions=(still_open,)).stopped.text
    assert "1 of 1 comparison with earlier runs is open" in text


def test_what_the_run_waited_is_no_part_of_what_it_took():
    built = samples.results(times=replace(samples.TIMES, waited_seconds=60.0))
    assert (built.run.seconds, built.run.waited_seconds) == (30, 60)
    page = render_page(built, samples.trials(), {})
    assert "took 30 s, after 1 min 00 s of waiting" in page


@pytest.mark.parametrize(("status", "is_stop"), [("ABORTED", True), ("FAILED", False)])
def test_a_child_that_somebody_stopped_has_not_failed(status, is_stop):
    cause = json.dumps({"Status": status, "Error": "StoppedByCaller", "Cause": "enough"})
    failure = RunFailure.read({"Error": "States.TaskFailed", "Cause": cause})
    assert failure.stopped is is_stop


def test_a_warm_up_is_kept_apart_from_the_trials_that_count():
    first, *rest = samples.trials()
    refused = builders.trial_of(first.key, samples.TESTS[0], None, reason="Connection refused")
    built = samples.results(trials=[refused, *rest])
    assert (built.warm_up.measured, built.warm_up.failed) == (3, 1)
    assert [f.block for f in built.trials.failures] == [6]
    assert [trial.reason for trial in built.warm_up.trials] == [
        *("Connection refused", None, None, None),
    ]


def test_a_trial_that_never_ran_has_failed_without_a_reason():
    counts = samples.results(trials=samples.trials()[:-2]).trials
    assert (counts.planned, counts.measured, counts.failed) == (24, 22, 2)
    assert counts.failures == ()


def test_an_arm_reports_whose_nodes_it_uses_and_through_which_network():
    first, second = samples.arms()
    host = {"stack_arm": "baseline", "client_network": "host", "server_network": "host"}
    arms = (first.model_copy(update=host), second)
    arm, other = results(planned=samples.planned_run(arms=arms))["arms"]
    assert (arm["stack_arm"], arm["client_network"], arm["server_network"]) == (
        *("baseline", "host", "host"),
    )
    assert (other["stack_arm"], other["client_network"]) == ("baseline", "pod")


def test_counters_are_given_as_what_the_run_added_and_unknown_is_not_zero():
    counters = results(counters=samples.counters())["counters"]
    assert counters["nodes"]["treatment-1"]["eth0"] == {
        "bw_out_allowance_exceeded": 900,
        "pps_allowance_exceeded": 0,
    }
    assert counters["nodes"]["baseline-1"]["eth0"] == {"bw_out_allowance_exceeded": None}
    assert counters["note"] == "1 node could not be read after the run."
    assert results()["counters"] is None


def test_a_gauge_keeps_both_readings_and_is_no_increase():
    name = "conntrack_allowance_available"
    read = Counters(
        before={"n": {"e": {name: 9, "tx_bytes": 1}}},
        after={"n": {"e": {name: 4, "tx_bytes": 3}}, "m": {"e": {name: 2}}},
        note=None,
    )
    counters = results(counters=read)["counters"]
    assert counters["nodes"]["n"]["e"] == {"tx_bytes": 2}
    assert counters["gauges"] == {
        "n": {"e": {name: {"before": 9, "after": 4}}},
        "m": {"e": {name: {"before": None, "after": 2}}},
    }


def test_a_node_reports_what_its_network_cards_were():
    read = Counters(before={}, after={}, interfaces={"treatment-1": {"ens5": CARD}}, note=None)
    document = results(counters=read)
    first, *others = document["arms"][0]["node_facts"]
    assert first["interfaces"]["ens5"]["driver_version"] == "2.16.1g"
    assert all(node["interfaces"] is None for node in others)
    assert document["versions"]["network_drivers"] == ["ena 2.16.1g"]


def test_a_counter_that_fell_was_reset_and_has_no_increase():
    fell = Counters(before={"n": {"e": {"c": 9}}}, after={"n": {"e": {"c": 1}}}, note=None)
    assert results(counters=fell)["counters"]["nodes"]["n"]["e"]["c"] is None


@pytest.mark.parametrize(
    ("failure", "lost", "status"),
    [
        (None, 0, "succeeded"),
        (None, 1, "degraded"),
        ({"Error": "TrialsLost"}, 9, "failed"),
        ({"Error": "InvalidPlan"}, 0, "invalid"),
    ],
)
def test_the_status_of_a_run_that_came_to_its_end(failure, lost, status):
    assert final_status(RunFailure.read(failure), lost=lost) == status


def test_the_command_reads_what_the_report_writes():
    document = results(counters=samples.counters())
    read = read_results(json.dumps(document).encode(), "run-1")
    console = Console(file=io.StringIO(), width=80)
    print_results(console, read, verbose=True)
    text = " ".join(console.file.getvalue().split())
    for part in (
        "4.95 → 9.52 Gbit/s",
        "steadier",
        "95.2 %",
        "against run run-2026",
        "did not warm up",
    ):
        assert part in text, part
    assert document["conclusion"] in text


def test_the_command_reads_what_a_plan_estimates():
    plan = {
        "estimates": estimated(region="eu-central-1").to_json(),
        "placeholder_nodes": False,
    }
    read = read_estimates(json.dumps(plan).encode(), "run-1")
    console = Console(file=io.StringIO(), width=80)
    run = Run.from_item({"pk": "run#run-1", "blocks": 6, "trials_planned": 36})
    print_estimate(console, run, read)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    for part in ("node-a", "EC2 c5.large, 4 nodes *", "state transitions", "Total", "Remedy:"):
        assert part in text, part
