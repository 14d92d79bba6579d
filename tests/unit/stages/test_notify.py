"""What the subscribers of the alarms' topic read when a run or a campaign ends."""

from __future__ import annotations

import json

import pytest

from rackrate.executions.campaigns import CampaignStep
from rackrate.results.build import RunFailure
from rackrate.stages.execution.notify import Post, notify
from rackrate.stages.run.finish import finish
from tests.unit.given import Given
from tests.unit.stack.custom_resources import Context
from tests.unit.stages.runs import ARN, RUN

RUNS = "arn:aws:states:us-east-1:123456789012:stateMachine:house-benchmark"
CAMPAIGNS = "arn:aws:states:us-east-1:123456789012:stateMachine:house-campaign"
TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"
REQUEST = "6f1c3f5e-0d2b-4b4f-9d0e-0a1b2c3d4e5f"
DOCUMENT = json.dumps(
    {
        "errorMessage": f"RequestId: {REQUEST} Error: Runtime exited with error: exit status 1",
        "errorType": "Runtime.ExitError",
    }
)


class Topic:
    """SNS, which remembers what was published."""

    def __init__(self):
        self.sent = []

    def publish(self, **message):
        self.sent.append(message)


@pytest.fixture
def topic():
    return Topic()


@pytest.fixture
def end(store, topic):
    """Tell Notify that an execution ended. Returns the lines that it sent; None without any."""

    def do(status, *, name=RUN, machine=RUNS, stack="house", **detail):
        post = Post(stack, CAMPAIGNS, TOPIC, store, topic)
        detail = {"name": name, "stateMachineArn": machine, "status": status, **detail}
        message = notify({"input": "{}", **detail}, post)
        assert (message is None) == (not topic.sent)
        return None if message is None else message.text.split("\n")

    return do


def finish_run(store, failure):
    """Finish a run as its last states do. Returns the cause of its execution."""
    page = f"runs/{RUN}/report.html"
    return finish(
        RUN, Given(store=store), execution_arn=ARN, failure=failure, report_key=page
    ).cause


def test_a_failed_run_sends_its_sentence_once_with_the_report_and_the_way_on(
    plan, store, end, topic
):
    plan()
    store.runs.update(RUN, trials_planned=24, trials_measured=4, phase="block 2 of 3")
    cause = finish_run(store, RunFailure("NodesUnavailable", "node ip-10-0-0-7 is gone"))
    assert end("FAILED", error="NodesUnavailable", cause=cause) == [
        "node ip-10-0-0-7 is gone; 4 of 24 trials were measured.",
        f"The report on what was measured: s3://results/runs/{RUN}/report.html",
        "",
        f"`rackrate show {RUN} --stack house` shows the run.",
        f"`rackrate run --continue {RUN} --stack house` measures what is missing, on the same"
        " nodes.",
    ]
    (sent,) = topic.sent
    assert (sent["TopicArn"], sent["Subject"]) == (TOPIC, f"house: run {RUN} failed")


def test_a_run_whose_end_is_not_recorded_yet_is_reported_from_the_event(plan, store, end, topic):
    plan()
    store.runs.update(RUN, trials_planned=24, trials_measured=4, phase="block 2 of 3")
    lines = end("ABORTED", stack="rackrate")
    assert lines[0] == (
        'The run was stopped in the phase "block 2 of 3"; 4 of 24 trials were measured.'
    )
    assert lines[-1].startswith(f"`rackrate run --continue {RUN}` "), (
        "the usual stack needs no name"
    )
    assert topic.sent[0]["Subject"] == f"rackrate: run {RUN} was stopped"


def test_documents_of_lambda_become_sentences_with_one_request_id(plan, end):
    plan()
    message = "\n".join(end("FAILED", error="Runtime.ExitError", cause=DOCUMENT))
    assert "the function crashed" in message
    assert message.count(REQUEST) == 1
    assert "{" not in message and "errorMessage" not in message


def test_a_run_that_tolerated_its_losses_reports_them_by_cause(deploy, measure, store, end, topic):
    measure(deploy()[0])
    states = store.trials.states(RUN)
    lost = next(iter(states))
    store.trials.forget(RUN, apart_from=set(states) - {lost})
    store.runs.update(RUN, trials_planned=6, trials_failed=1, conclusion="It is better.")
    finish_run(store, None)
    lines = end("SUCCEEDED")
    assert lines[:2] == [
        "The run ended well, but 1 of 6 trials were lost: 1 trial: never ran.",
        "It is better.",
    ]
    assert "--continue" not in "".join(lines)
    assert topic.sent[0]["Subject"] == f"house: run {RUN} lost a part"


@pytest.mark.parametrize("error", ["InvalidPlan", "InvalidCampaign"])
def test_who_made_a_refused_input_reads_the_refusal_and_nobody_else(end, error):
    for machine in (RUNS, CAMPAIGNS):
        assert end("FAILED", machine=machine, error=error, cause="blocks: 0; use 1") is None


def test_dry_runs_and_runs_of_campaigns_send_nothing(plan, store, end):
    plan()
    store.runs.update(RUN, campaign="camp")
    assert end("FAILED", error="NodesUnavailable") is None
    store.runs.update(RUN, campaign=None)
    store.runs.finish(RUN, "dry_run")
    assert end("SUCCEEDED", output='{"status": "dry_run"}') is None


OUTPUT = {
    "conclusion": "It is better.",
    "report": "https://bucket/report.html?signed",
    "report_valid": "at most 12 hours",
}


def test_a_good_run_sends_its_sentence_a_line_for_each_comparison_and_the_page(
    plan, store, end, topic
):
    plan()
    store.runs.finish(RUN, "succeeded")
    lines = end("SUCCEEDED", output=json.dumps({**OUTPUT, "verdicts": ["rtt +1 %", "tcp-1 0 %"]}))
    assert lines[:3] == ["It is better.", "", "rtt +1 %"]
    assert "The page: https://bucket/report.html?signed" in lines
    assert topic.sent[0]["Subject"] == f"house: run {RUN} succeeded"


def test_no_log_has_the_page_s_link(plan, store, topic, monkeypatch, caplog):
    """Whoever may read the log would get the page with it."""
    from handlers import notify as function

    plan()
    store.runs.finish(RUN, "succeeded")
    post = Post("house", CAMPAIGNS, TOPIC, store, topic)
    monkeypatch.setattr(function, "_post", lambda: post)
    detail = {"name": RUN, "stateMachineArn": RUNS, "status": "SUCCEEDED", "input": "{}"}
    with caplog.at_level("INFO"):
        function.handler({"detail": {**detail, "output": json.dumps(OUTPUT)}}, Context())
    assert "signed" in topic.sent[0]["Message"]
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert RUN in logged and "signed" not in logged


def test_a_run_whose_output_is_too_large_for_an_event_sends_its_sentence(plan, store, end):
    plan()
    store.runs.update(RUN, conclusion="It is better.")
    store.runs.finish(RUN, "succeeded")
    assert end("SUCCEEDED", output=None)[0] == "It is better."


def test_a_good_campaign_sends_its_answers(campaign, end, topic):
    campaign.finish("camp", "succeeded")
    output = json.dumps({**OUTPUT, "answers": ["rtt +1 % on average"]})
    lines = end("SUCCEEDED", name="camp", machine=CAMPAIGNS, output=output)
    assert lines[:3] == ["It is better.", "", "rtt +1 % on average"]
    assert topic.sent[0]["Subject"] == "house: campaign camp succeeded"


def test_a_campaign_that_was_skipped_sends_nothing(campaign, end):
    campaign.start("next", "skipped", "2026-11-21T08:01:00Z", kind="draws")
    assert end("SUCCEEDED", name="next", machine=CAMPAIGNS, output="{}") is None


def test_a_run_that_was_stopped_before_it_was_recorded_is_reported_too(end):
    assert end("ABORTED", name="unknown")[0] == "The run was stopped."


def test_a_run_that_was_stopped_with_a_reason_has_not_failed(plan, end):
    plan()
    line = end("ABORTED", error="StoppedByCaller", cause="stopped from the command line")[0]
    assert line.startswith("The run was stopped") and "stopped from the command line" in line
    assert "fail" not in line


@pytest.mark.parametrize("status", ["FAILED", "TIMED_OUT", "ABORTED"])
def test_a_campaign_is_reported_as_a_whole(end, topic, status):
    lines = end(status, name="camp", machine=CAMPAIGNS, error="StepsLost", cause="steps 1 and 2")
    assert lines[0] == "steps 1 and 2"
    assert "campaign show camp --stack house" in lines[2]
    assert topic.sent[0]["Subject"].startswith("house: campaign camp ")


@pytest.fixture
def campaign(store):
    """A campaign of two draws, the second without a result."""
    campaigns = store.campaigns
    campaigns.start("camp", "running", "2026-11-21T08:00:00Z", kind="draws")
    for number, status, reason in ((1, "succeeded", None), (2, "lost", "no c5.large is left")):
        campaigns.put_step(
            "camp",
            CampaignStep(
                number=number,
                change="new nodes",
                value=None,
                run_id=f"camp-{number:02d}",
                status=status,
                started_at=None,
                change_seconds=None,
                run_seconds=None,
                dollars=None,
                nodes={},
                reason=reason,
            ),
        )
    return campaigns


def test_a_campaign_that_lost_a_step_reports_which_and_why(campaign, end):
    campaign.finish("camp", "degraded")
    assert end("SUCCEEDED", name="camp", machine=CAMPAIGNS)[:2] == [
        "The campaign ended well, but step 2 of this campaign has no result",
        "no c5.large is left",
    ]


def test_a_stopped_campaign_reports_its_steps_and_how_to_go_on(campaign, end):
    first, *_, last = end("ABORTED", name="camp", machine=CAMPAIGNS)
    assert "1 of 2 steps has a result" in first
    again = "rackrate campaign run --continue camp --stack house"
    assert last == f"`{again}` goes on with the steps that it has."


def test_a_subject_is_short_and_plain_enough_for_sns(end, topic):
    end("ABORTED", name="r" * 80, stack="s" * 70)
    assert len(topic.sent[0]["Subject"]) <= 100
    assert topic.sent[0]["Subject"].isascii()
