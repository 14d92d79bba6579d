"""The end of a run: its record, and the output of its execution."""

from __future__ import annotations

import json

import pytest

from rackrate.results.build import RunFailure
from rackrate.stages.run.finish import finish
from rackrate.times import later, now
from tests.unit.given import Given
from tests.unit.report.samples import analysis

RUN, ARN = "run-1", "arn:aws:states:us-east-1:123456789012:execution:rackrate:run-1"
PAGE = f"runs/{RUN}/report.html"
DASHBOARD = "https://us-east-1.console.aws.amazon.com/cloudwatch/home"


@pytest.fixture
def ended(store):
    """A run that was analyzed and reported."""
    store.runs.start(
        RUN,
        "running",
        "2026-11-21T08:00:00Z",
        trials_measured=36,
        trials_failed=0,
        conclusion="It is better. It is steadier. It is warm. It is late.",
        lab_scale=None,
    )
    store.runs.put(RUN, "analysis.json", analysis())

    def do(*, failure=None, page=PAGE, dashboard_url=None):
        return finish(
            RUN,
            Given(store=store),
            execution_arn=ARN,
            failure=failure,
            report_key=page,
            dashboard_url=dashboard_url,
        )

    return do


def test_a_good_run_says_what_it_found_in_a_few_words_with_links(ended):
    output = ended(dashboard_url=DASHBOARD).output
    assert (output.status, output.conclusion) == (
        "succeeded",
        "It is better. It is steadier. It is warm.",
    )
    assert output.verdicts == (
        "tcp-1 throughput +92.3 %, 4.95 → 9.52 Gbit/s (95 % CI +90.2 to +94.5 %): better,"
        " cluster group against no group",
        "rtt −3.7 %, 161 → 155 µs (95 % CI −7.9 to +0.7 %): inconclusive, cluster group"
        " against no group: about 7 more blocks would settle it",
        "tcp-1 throughput −3.8 %, 9.90 → 9.52 Gbit/s (95 % CI −4.9 to −2.7 %): no meaningful"
        " difference, cluster group since run-20261120-090000-ab12",
    )
    assert output.report.startswith(f"https://results.s3.us-east-1.amazonaws.com/{PAGE}?")
    assert output.report_valid.startswith("The link opens the page with all figures and charts")
    assert "at most 12 hours, often less" in output.report_valid
    assert f"s3://results/{PAGE}" in output.report_valid
    assert output.dashboard == DASHBOARD
    assert output.results == f"s3://results/runs/{RUN}/"


def test_a_stack_without_a_dashboard_has_none_to_show(ended):
    assert ended().output.dashboard is None


def test_the_scale_of_a_lab_stands_beside_its_figures(ended, store):
    store.runs.update(RUN, lab_scale=0.05)
    conclusion = ended().output.conclusion
    assert conclusion == (
        "It is better. It is steadier. Network scaled by 0.05: figures are not EC2's."
    )


def test_a_failed_run_is_reported_without_a_document_and_says_where_its_report_is(ended, store):
    document = {"errorType": "TrialsLost", "errorMessage": "24 of 36", "stackTrace": ["x"]}
    done = ended(failure=RunFailure("TrialsLost", json.dumps(document)))
    assert done.output is None
    assert done.cause == f"24 of 36\nThe report on what was measured: s3://results/{PAGE}"
    assert store.runs.find(RUN).cause == "24 of 36", "the item has the same sentence"


def test_a_failed_run_reports_how_much_it_measured_and_in_which_phase_it_failed(ended, store):
    store.runs.update(RUN, phase="starting servers", trials_planned=24, trials_measured=4)
    cause = ended(failure=RunFailure("Runtime.ExitError", ""), page=None).cause
    assert "starting servers" in cause
    assert "4 of 24 trials were measured" in cause


@pytest.mark.parametrize("cause", ["", "The state timed out", "[1]", '{"other": 1}', "12"])
def test_any_cause_becomes_a_sentence_before_the_place_of_the_report(ended, cause):
    first, last = ended(failure=RunFailure("States.Timeout", cause)).cause.splitlines()
    assert first.startswith("The run failed")
    assert "longer than it may" in first
    assert last == f"The report on what was measured: s3://results/{PAGE}"


def test_a_run_that_has_no_report_names_none(ended):
    failure = RunFailure("InvalidPlan", '{"errorMessage": "blocks: no"}')
    assert ended(failure=failure, page=None).cause == "blocks: no"


def test_the_end_is_written_once(ended, store):
    assert ended().ended.seconds is not None
    assert ended(failure=RunFailure("Late", "too late")).ended.seconds is None
    assert store.runs.find(RUN).status == "succeeded"


def test_a_run_took_as_long_as_its_report_says(ended, store):
    store.runs.update(RUN, seconds=39.0)
    assert ended().ended.seconds == store.runs.find(RUN).seconds == 39.0


def test_what_a_run_waited_for_nodes_and_servers_is_told_apart(store):
    store.runs.start(RUN, "running", later(now(), -200))
    store.runs.begin(store.runs.find(RUN))
    store.runs.begin(store.runs.find(RUN).model_copy(update={"started_at": "2026-11-20T08:00:00Z"}))
    finish(RUN, Given(store=store), execution_arn=ARN, failure=None, report_key=None)
    run = store.runs.find(RUN)
    assert run.waited_seconds == pytest.approx(200, abs=30), "the first time counts"
    assert 0 <= run.seconds < 30


def test_an_invalid_plan_is_recorded_although_nothing_was_planned(store):
    failure = RunFailure("InvalidPlan", json.dumps({"errorMessage": "blocks: no"}))
    finish(RUN, Given(store=store), execution_arn=ARN, failure=failure, report_key=None)
    run = store.runs.find(RUN)
    assert (run.status, run.error) == ("invalid", "InvalidPlan")
    assert store.table.get(f"run#{RUN}", "run")["gsi1sk"] == run.started_at, "the index lists it"
