"""The handlers, called with the events of the state machine and of EventBridge."""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from functools import partial

import pytest
from botocore.exceptions import ClientError

from handlers import context
from rackrate.stack.patience import Patience
from rackrate.stages.campaign.change import Changed
from rackrate.stages.campaign.judge import Judged
from rackrate.stages.campaign.plan_campaign import CampaignPlanned
from rackrate.stages.campaign.report_campaign import CampaignReported
from rackrate.stages.campaign.restore import Restored
from rackrate.stages.execution.take_lease import Leased
from rackrate.stages.run.await_servers import Readiness
from rackrate.stages.run.collect import Collected
from rackrate.stages.run.finish import Finished
from rackrate.stages.run.launch import Launched
from rackrate.stages.run.look import Looked
from rackrate.stages.run.plan import Planned
from rackrate.stages.run.report import Reported
from rackrate.stages.run.teardown import TornDown
from rackrate.times import later
from rackrate_contract.executions import ComparisonOutput
from tests.statemachine.definition import CAMPAIGN, COMPARISON, DEFINITION, definition, states
from tests.unit.node_groups import FakeNodeGroups
from tests.unit.report.campaigns import capacity, launch
from tests.unit.report.samples import verdict
from tests.unit.samples import SETTINGS
from tests.unit.stages.runs import ARN, RUN, States

MODULES = (
    "wake_nodes",
    "rest_nodes",
    "plan",
    "take_lease",
    "deploy",
    "await_servers",
    "count",
    "launch",
    "collect",
    "check_links",
    "look",
    "analyze",
    "report",
    "teardown",
    "finish",
    "compare",
)
STACK = "measured"


class NoPrices:
    """A Price List API that lists nothing."""

    def get_paginator(self, operation):
        assert operation == "get_products"
        return self

    def paginate(self, **_):
        return [{"PriceList": []}]


class Context:
    """The part of Lambda's context that handlers and their logger use."""

    function_name, memory_limit_in_mb, aws_request_id = "function", 512, "request"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:function"

    def get_remaining_time_in_millis(self):
        return 120_000


IDLE = replace(SETTINGS, idle_scale_to_zero=True)
#: Run a test with the settings of a stack without nodes between runs.
idle = pytest.mark.parametrize("settings", [IDLE], ids=["idle"])


@pytest.fixture
def eks():
    return FakeNodeGroups(nodes=0)


@pytest.fixture
def executions():
    return States("ABORTED")


@pytest.fixture
def call(resources, eks, executions, monkeypatch):
    """Return a function that calls a handler by name. As in Lambda, all data passes as JSON."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "rackrate")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", STACK)
    context._metrics.cache_clear()
    monkeypatch.setenv("DASHBOARD_URL", "")
    given = resources.but(eks=eks, step_functions=executions, pricing=NoPrices())
    modules = {name: importlib.import_module(f"handlers.{name}") for name in MODULES}
    for module in modules.values():
        monkeypatch.setattr(module, "resources", given)

    def do(name, event):
        answer = modules[name].handler(json.loads(json.dumps(event)), Context())
        return json.loads(json.dumps(answer))

    return do


def metrics(output, *dimensions):
    """The metrics in a function's output, as CloudWatch reads them: name, unit and value.

    With `dimensions`, only the metrics that have these in addition to the stack. Each metric then
    begins with the dimensions' values.
    """
    written = []
    for line in output.splitlines():
        blob = json.loads(line) if line.startswith("{") else {}
        for entry in blob.get("_aws", {}).get("CloudWatchMetrics", []):
            assert entry["Namespace"] == "rackrate"
            assert blob["service"] == STACK
            (names,) = entry["Dimensions"]
            assert "service" in names, "alarms and dashboard ask for this one"
            if {*names} != {"service", *dimensions}:
                continue
            for metric in entry["Metrics"]:
                (value,) = blob[metric["Name"]]
                of = [blob[name] for name in dimensions]
                written.append((*of, metric["Name"], metric["Unit"], value))
    return written


OF_VERDICTS = ("test", "metric", "arm")


def payload_keys(state_name):
    machine = dict(states(definition()))
    return {key.removesuffix(".$") for key in machine[state_name]["Parameters"]["Payload"]}


def test_a_run_through_all_handlers(call, store, cluster, capsys, caplog, executions):
    tests = [{"name": "tcp-1", "seconds": 2}, {"name": "rtt", "count": 10}]
    plan = {"tests": tests, "blocks": {"least": 5, "most": 6}}
    telling = set()

    def step(name, state, /, **event):
        assert set(event) == payload_keys(state), f"{state} sends other keys"
        before = len(caplog.records)
        answer = call(name, event)
        if any(record.levelname == "INFO" for record in caplog.records[before:]):
            telling.add(name)
        return answer

    executions.status = "RUNNING"
    planned = step("plan", "Plan", run_id=RUN, execution_arn=ARN, plan=plan)
    assert planned["dry_run"] is False
    assert step("take_lease", "Take lease", run_id=RUN)["taken"] is True
    step("deploy", "Deploy", run_id=RUN)
    assert step("await_servers", "Await servers", run_id=RUN)["ready"] is True
    step("count", "Count before", run_id=RUN, when="before")

    def measure(item):
        launched = step("launch", "Launch", run_id=RUN, item=item)
        assert set(launched) == {
            *("ready", "access_lost", "pods", "repeated", "attempt"),
            *("wait_seconds", "deadline", "gave_up"),
        }
        if launched["pods"]:
            event = {key: launched[key] for key in ("repeated", "attempt", "deadline")}
            assert step("collect", "Collect", run_id=RUN, item=item, **event)["finished"] is True

    for item in store.runs.items(RUN, "warm_up.json"):
        measure(item.to_json())
    assert metrics(capsys.readouterr().out) == [], "a warm-up counts for nothing"
    assert step("check_links", "Check links", run_id=RUN) == {"links": 2, "down": 0}
    looked = {"items_key": planned["blocks_key"], "batch": 1, "enough": False}
    while not looked["enough"]:
        for item in store.runs.items(RUN, looked["items_key"].rpartition("/")[2]):
            measure(item.to_json())
        looked = step("look", "Look", run_id=RUN, batch=looked["batch"])
    assert looked["batch"] == planned["looks"] == 2
    step("count", "Count after", run_id=RUN, when="after")
    assert step("analyze", "Analyze", run_id=RUN, failure=None)["measured"] == 24
    reported = step("report", "Report", run_id=RUN, failure=None)
    assert step("teardown", "Teardown", run_id=RUN)["gone"] is True
    state = {"failure": None, "reported": reported}
    ended = step("finish", "Finish", run_id=RUN, execution_arn=ARN, redrives=0, state=state)
    assert ended["output"]["status"] == "succeeded"
    assert ended["output"]["dashboard"] is None, "an empty variable is no dashboard"
    assert ended["ended"]["status"] == store.runs.find(RUN).status == "succeeded"
    assert cluster.objects == {}

    output = capsys.readouterr().out
    assert {each[:4] for each in metrics(output, *OF_VERDICTS)} == {
        (*of, "treatment", name)
        for of in (("rtt", "rtt"), ("tcp-1", "throughput"))
        for name in ("Verdict", "VerdictRatio", "VerdictRatioLow", "VerdictRatioHigh")
    }
    written = metrics(output)
    measured = [value for name, _, value in written if name == "TrialsMeasured"]
    assert measured == [20.0, 4.0], "a series of five blocks, and the sixth"
    assert ("TrialsFailed", "Count", 0.0) in written
    assert ("RunsSucceeded", "Count", 1.0) in written
    assert ("RunSeconds", "Seconds", ended["ended"]["seconds"]) in written
    assert telling == set(MODULES) - {"wake_nodes", "rest_nodes", "compare"}, (
        "each function says what it did"
    )


class NewRole:
    """A service for a role that IAM has only just made: it refuses all until somebody waited."""

    def __init__(self, service, slept):
        self._service, self._slept = service, slept

    def __getattr__(self, operation):
        def call(**request):
            if not self._slept:
                raise ClientError({"Error": {"Code": "UnauthorizedOperation"}}, operation)
            return getattr(self._service, operation)(**request)

        return call


@pytest.mark.parametrize("first", ["plan", "wake_nodes"])
@pytest.mark.parametrize("run_id", ["stack-0123456789ab-1", RUN])
@idle
def test_only_the_run_of_a_stacks_creation_waits_for_the_functions_new_role(
    first, run_id, call, resources, eks, monkeypatch
):
    slept = []
    patient = partial(Patience, sleep=slept.append)
    monkeypatch.setattr("rackrate.stages.stack.run_on_create.Patience", patient)
    new = {"ec2": NewRole(resources.ec2, slept), "eks": NewRole(eks, slept)}
    given = resources.but(**new, pricing=NoPrices())
    monkeypatch.setattr(f"handlers.{first}.resources", given)
    event = {"run_id": run_id, "execution_arn": ARN, "plan": {}}
    if run_id == RUN:
        with pytest.raises(ClientError, match="UnauthorizedOperation"):
            call(first, event)
        assert slept == []
    else:
        assert call(first, event)
        assert len(slept) == 1


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        (
            {},
            {"Verdict": 1, "VerdictRatio": 1.9, "VerdictRatioLow": 1.8, "VerdictRatioHigh": 2.0},
        ),
        ({"verdict": "worse", "ci_simultaneous": None}, {"Verdict": -1, "VerdictRatio": 1.9}),
        (
            {"verdict": "no meaningful difference", "ci_simultaneous": None, "ratio": 1},
            {"Verdict": 0, "VerdictRatio": 1},
        ),
        (
            {"verdict": "inconclusive", "ci_simultaneous": (1e-130, 9.99e125)},
            {"VerdictRatio": 1.9, "VerdictRatioLow": 1e-130},
        ),
        ({"verdict": "inconclusive", "ci_simultaneous": None, "ratio": None}, {}),
    ],
    ids=lambda value: value.get("verdict", "") if isinstance(value, dict) else "",
)
def test_a_verdict_is_counted_as_far_as_it_is_known(changes, values, call, capsys):
    known = {"ratio": 1.9, "ci95": None, "ci_simultaneous": (1.8, 2.0)}
    context.put_verdicts([verdict(**{**known, **changes})])
    written = metrics(capsys.readouterr().out, *OF_VERDICTS)
    assert {each[3]: each[5] for each in written} == values
    context.put_metrics(Other=1)
    assert metrics(capsys.readouterr().out) == [("Other", "Count", 1.0)], "of no verdict any more"


def test_how_often_an_arm_was_filled_is_counted_with_its_interval_but_not_for_a_sweep(capsys):
    unknown = capacity("baseline", median_seconds=None)
    context.put_capacity([capacity(), unknown, capacity(value=15)])
    written = metrics(capsys.readouterr().out, "arm")
    filled = {"CampaignFill": 6 / 7, "CampaignFillLow": 0.42, "CampaignFillHigh": 0.996}
    assert {each[1]: each[3] for each in written if each[0] == "treatment"} == {
        **filled,
        "CampaignFillSeconds": 48.0,
    }
    assert {each[1]: each[3] for each in written if each[0] == "baseline"} == filled
    assert len(written) == 7


@pytest.mark.parametrize(
    "event",
    [{"failure": {"Error": "ServersNotReady", "Cause": "gone"}}, {"after_failure": True}],
    ids=["failed", "started by an older state machine"],
)
def test_verdicts_of_a_run_that_failed_are_not_counted(call, store, capsys, event):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    call("analyze", {"run_id": RUN, **event})
    assert store.trials.verdicts(RUN)
    assert metrics(capsys.readouterr().out, *OF_VERDICTS) == []


def test_finishing_again_counts_the_run_once(call, capsys):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    event = {"run_id": RUN, "execution_arn": ARN, "state": {"failure": {"Error": "TrialsLost"}}}
    call("finish", event)
    call("finish", event)
    assert [name for name, _, _ in metrics(capsys.readouterr().out)] == ["RunsFailed", "RunSeconds"]


@pytest.mark.parametrize("status", ["invalid", "aborted"])
def test_a_run_that_a_person_spoilt_or_stopped_is_no_failure(call, capsys, status):
    if status == "invalid":
        state = {"failure": {"Error": "InvalidPlan"}}
        call("finish", {"run_id": RUN, "execution_arn": ARN, "state": state})
    else:
        call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
        call("teardown", stopped("ABORTED"))
    names = {name for name, _, _ in metrics(capsys.readouterr().out)}
    assert not names & {"RunsFailed", "RunsSucceeded"}


def test_a_run_that_timed_out_counts_as_failed(call, capsys):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    call("teardown", stopped("TIMED_OUT"))
    assert ("RunsFailed", "Count", 1.0) in metrics(capsys.readouterr().out)


@idle
def test_nodes_are_woken_for_a_run_and_rest_after_it(call, eks):
    event = {"run_id": RUN, "execution_arn": ARN, "plan": {}}
    assert set(event) == payload_keys("Wake nodes")
    assert call("wake_nodes", event)["ready"] is False
    assert call("wake_nodes", event)["ready"] is True
    assert set(eks.desired()) == {2}
    assert payload_keys("Rest nodes") == {"run_id"}
    assert call("rest_nodes", {"run_id": RUN})["rested"] == ["ng-1", "ng-2"]
    assert set(eks.desired()) == {0}


@idle
def test_how_the_nodes_of_each_arm_came_is_counted_once_unless_they_came_with_the_stack(
    call, store, capsys
):
    started = {"run_id": RUN, "execution_arn": ARN}
    call("wake_nodes", {**started, "plan": {}})
    since = store.runs.find(RUN).waking["since"]
    launches = [
        launch(began_at=since),
        launch("baseline", began_at=since, got=1, outcome="refused"),
        launch("load", began_at=since),
        launch("earlier", began_at=later(since, -3600)),
    ]
    store.runs.update(RUN, launches=[each.to_json() for each in launches])
    for _ in range(2):
        call("finish", {**started, "state": {"failure": {"Error": "TrialsLost"}}})
    assert metrics(capsys.readouterr().out, "arm") == [
        ("treatment", "RunFill", "None", 1.0),
        ("treatment", "RunFillSeconds", "Seconds", 48.0),
        ("baseline", "RunFill", "None", 0.0),
    ]


def stopped(status):
    """EventBridge's event for a stopped execution."""
    return {
        "source": "aws.states",
        "detail-type": "Step Functions Execution Status Change",
        "detail": {
            "name": RUN,
            "status": status,
            "executionArn": ARN,
            "error": None,
            "cause": None,
        },
    }


ANSWERS = {
    "Wake nodes": Readiness,
    "Plan": Planned,
    "Take lease": Leased,
    "Await servers": Readiness,
    "Launch": Launched,
    "Collect": Collected,
    "Look": Looked,
    "Report": Reported,
    "Teardown": TornDown,
    "Finish": Finished,
}


ANSWERS_OF_CAMPAIGNS = {
    "Plan campaign": CampaignPlanned,
    "Take lease": Leased,
    "Judge": Judged,
    "Change": Changed,
    "Report campaign": CampaignReported,
    "Restore": Restored,
    "Finish campaign": Finished,
}


@pytest.mark.parametrize(
    ("path", "answers"),
    [
        (DEFINITION, ANSWERS),
        (CAMPAIGN, ANSWERS_OF_CAMPAIGNS),
        (COMPARISON, {"Compare": ComparisonOutput}),
    ],
)
def test_what_the_machine_takes_of_an_answer_is_in_it(path, answers):
    taken = {
        name: set(re.findall(r"\$\.Payload\.(\w+)", str(state["ResultSelector"])))
        for name, state in states(definition(path=path))
        if "ResultSelector" in state
    }
    assert taken.keys() == answers.keys()
    missing = {name: taken[name] - answers[name].model_fields.keys() for name in taken}
    assert not any(missing.values()), missing


def test_an_item_that_was_given_up_is_collected_as_lost(call, store):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {"blocks": 1}})
    item = store.runs.items(RUN)[0].to_json()
    failure = {"Error": "ServersNotReady", "Cause": "gone"}
    call("collect", {"run_id": RUN, "item": item, "failure": failure})
    assert {trial.status for trial in store.trials.of(RUN).values()} == {"failed"}


def test_an_aborted_execution_is_torn_down(call, store, cluster, executions):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    executions.status = "RUNNING"
    call("deploy", {"run_id": RUN})
    executions.status = "ABORTED"
    call("teardown", stopped("ABORTED"))
    assert cluster.objects == {}
    assert store.runs.find(RUN).status == "aborted"


SCHEDULED = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


def test_the_schedule_sweeps(call, cluster, executions, capsys):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    executions.status = "RUNNING"
    call("deploy", {"run_id": RUN})
    executions.status = "ABORTED"
    assert call("teardown", SCHEDULED)["runs"] == [RUN]
    assert cluster.objects == {}
    assert ("OverdueRuns", "Count", 0.0) in metrics(capsys.readouterr().out)


def test_the_schedule_counts_runs_that_hang(call, store, executions, capsys):
    call("plan", {"run_id": RUN, "execution_arn": ARN, "plan": {}})
    executions.status = "RUNNING"
    store.runs.update(RUN, started_at="2020-01-01T00:00:00Z")
    call("teardown", SCHEDULED)
    assert ("OverdueRuns", "Count", 1.0) in metrics(capsys.readouterr().out)


def test_an_event_from_elsewhere_is_refused(call):
    with pytest.raises(ValueError, match="neither a run"):
        call("teardown", {"something": "else"})
